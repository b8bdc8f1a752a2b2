"""The page in a real browser: every screen in light and dark, by keyboard, without scripts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.examples import EXAMPLES, NODE
from service.bootstrap import build_services
from service.settings import Settings
from service.store.database import Database
from service.store.token import Scope
from service.store.tokens import TokenStore
from tests.api.test_explain import GEMMA as LOG
from tests.api.test_probes import LEASE, MEASURED, PROBE
from tests.web.browser import PATIENCE_SECONDS, executable, served, violations
from tests.web.test_plan_page import BFLOAT16, INT8, TURBOQUANT

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
if executable() is None:
    pytest.skip("no chromium on this machine: apt-get install chromium", allow_module_level=True)

Visit = Callable[..., Any]
WORKLOAD = {"prompt_tokens": 8000, "output_tokens": 500, "concurrent_requests": 8}
SCREENS: dict[str, tuple[str, dict[str, Any]]] = {
    "start": ("", {}),
    "answer": ("plan", {**BFLOAT16, **WORKLOAD, "view": "answer"}),
    "refusal": ("plan", {**INT8, "view": "answer"}),
    "search": ("plan", {"model": "Qwen/Qwen3-32B", "gpu": "h100-sxm-80gb", **WORKLOAD}),
    "pages": ("plan", {**TURBOQUANT, "view": "pages"}),
    "pages-refused": ("plan", {**INT8, "view": "pages"}),
    "context": ("plan", {**BFLOAT16, **WORKLOAD, "view": "context"}),
    "speed": ("plan", {"model": "Qwen/Qwen3-32B", "gpu": "h100-sxm-80gb", **WORKLOAD, "view": "speed"}),
    "releases": ("plan", {**BFLOAT16, "view": "releases"}),
    "model": ("plan", {"model": "google/gemma-4-E4B-it", "gpu": "l40s-48gb", "view": "model"}),
    "gpus": ("plan", {"model": "Qwen/Qwen3-32B", "find": "h", **WORKLOAD}),
    "beside": (
        "plan",
        {"model": "Qwen/Qwen3-8B", "find": "l4", "beside": ["l4-24gb", "auto", "l40s-48gb", "fp8"]},
    ),
    "nowhere": ("plan", {"model": "deepseek-ai/DeepSeek-V3", "kv_cache_dtype": "int8_per_token_head"}),
    "problem": ("plan", {"model": "Qwen/Qwen3-8B", "gpu": "h1000"}),
    "log": ("log", {}),
}


@pytest.fixture(scope="module")
def base(client: TestClient) -> Iterator[str]:
    with served(client.app) as address:  # type: ignore[arg-type]
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, base: str) -> Iterator[Visit]:  # noqa: ANN401
    """Open pages; at the end nothing may have been asked of another host or written to the console."""
    faults: list[str] = []
    contexts = []

    def open_page(path: str = "", /, parameters: dict[str, Any] | None = None, **options: Any) -> Any:  # noqa: ANN401
        address = options.pop("address", base)
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: faults.extend(_foreign(request.url, address)))
        query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
        page.goto(f"{address}{path}{query}", wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()
    # A browser reports an answer of 4xx on the console, which a page about a wrong question is.
    assert [each for each in faults if "the server responded with a status of 4" not in each] == []


def _foreign(url: str, base: str) -> list[str]:
    return [] if url.startswith((base, "blob:", "data:")) else [url]


@pytest.mark.parametrize("screen", SCREENS)
def test_screens_are_accessible_in_light_and_dark_wide_and_narrow(visit: Visit, screen: str) -> None:
    path, parameters = SCREENS[screen]
    page = visit(path, parameters, color_scheme="light")
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    _check(page)


def test_an_explained_log_is_accessible(visit: Visit) -> None:
    page = visit("log", color_scheme="light")
    page.fill("#log", LOG)
    page.fill("#l-gpu", "rtx-3090-24gb")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("#found-h")
    assert "25,200" in page.inner_text("#result")
    _check(page)


def _check(page: Any) -> None:  # noqa: ANN401
    """Hold a page against axe in both schemes, and against a width of 320 pixels."""
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_question_is_asked_by_keyboard_alone(visit: Visit) -> None:
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(20):
        if page.evaluate("document.activeElement.name") == "model":
            break
        page.keyboard.press("Tab")
    page.keyboard.type("google/gemma-4-31B-it")
    page.keyboard.press("Escape")  # closes the list of models
    page.keyboard.press("Tab")
    page.keyboard.type("h100-sxm-80gb")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.wait_for_selector("#verdict-h")
    asked = dict(parse_qsl(urlsplit(page.url).query))
    assert asked == {"model": "google/gemma-4-31B-it", "gpu": "h100-sxm-80gb"}
    for _ in range(80):
        if page.evaluate("document.activeElement.textContent") == "Pages and groups":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#pages-h")
    assert dict(parse_qsl(urlsplit(page.url).query))["view"] == "pages"
    page.go_back()
    page.wait_for_selector("#verdict-h")


def test_the_address_is_the_whole_state(visit: Visit) -> None:
    page = visit("plan", {**BFLOAT16, "view": "pages"})
    page.get_by_label("vLLM").select_option("0.24.0")
    page.get_by_label("Context").fill("65536")
    page.get_by_role("button", name="Plan").click()
    page.wait_for_url("**65536**")
    page.wait_for_selector("#verdict-h")
    again = visit(page.url.rsplit("/", 1)[1])
    assert again.inner_text("#result") == page.inner_text("#result")
    values = "[...document.querySelectorAll('.question [name]')].map(each => each.name + '=' + each.value)"
    assert again.evaluate(values) == page.evaluate(values)


def test_a_cell_of_the_table_opens_its_start(visit: Visit) -> None:
    page = visit("plan", {"model": "Qwen/Qwen3-32B", "find": "h100-sxm"})
    cell = page.locator(".heat td[class^=q] a").first
    shown = cell.inner_text().split()[0].rstrip("?")
    cell.click()
    page.wait_for_selector("#verdict-h")
    assert shown in page.inner_text(".figures")


def test_pages_work_without_scripts(visit: Visit) -> None:
    page = visit("", java_script_enabled=False)
    page.fill("#f-model", "Qwen/Qwen3-8B")
    page.fill("#f-gpu", "l40s-48gb")
    page.get_by_role("button", name="Plan").click()
    page.wait_for_selector("#verdict-h")
    page.get_by_role("link", name="Context").click()
    page.wait_for_selector("#context-h")


def test_a_drawing_is_exported_as_a_picture(visit: Visit) -> None:
    page = visit("plan", {**BFLOAT16, "view": "pages"})
    with page.expect_download() as download:
        page.get_by_role("link", name="PNG").click()
    content = download.value.path().read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 5000


def test_hostile_names_run_nothing(visit: Visit) -> None:
    for name in ("<script>alert(1)</script>/x", 'x"><img src=x onerror=alert(1)>/y'):
        page = visit("plan", {"model": name, "gpu": name, "command": f"vllm serve '{name}'"})
        assert page.get_by_role("alert").count() == 1


def test_a_page_prints_without_its_form(visit: Visit) -> None:
    page = visit("plan", {**BFLOAT16, "view": "answer"})
    page.emulate_media(media="print")
    assert not page.locator(".question").is_visible()
    assert page.locator("#memory-h").is_visible()


@pytest.fixture
def probing(tmp_path: Path) -> Iterator[tuple[str, dict[Scope, str]]]:
    """Serve an application with a database; yield its address and a token of each scope."""
    url = f"sqlite:///{tmp_path}/probes.db"

    async def tokens() -> dict[Scope, str]:
        database = Database(url)
        made = {each: await TokenStore(database).create("pool", each) for each in Scope}
        await database.close()
        return made

    # Playwright runs an event loop in this thread.
    with ThreadPoolExecutor(1) as other:
        made = other.submit(lambda: asyncio.run(tokens())).result()
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    database = Database(url)
    services = build_services(Settings(HF_HUB_OFFLINE=True), nobody, database)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        yield
        await database.close()

    with served(create_app(services, AppOptions(open_reads=True), lifespan=lifespan)) as address:
        yield address, made


def test_a_probe_is_followed_while_it_runs(visit: Visit, probing: tuple[str, dict[Scope, str]]) -> None:
    address, tokens = probing

    def api(scope: Scope) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {tokens[scope]}"}
        return httpx2.Client(base_url=address, headers=headers, timeout=PATIENCE_SECONDS)

    with api(Scope.OPERATOR) as operator, api(Scope.WORKER) as worker:
        probe = operator.post("/probes", json=PROBE).json()
        page = visit("probes", address=address)
        state = page.locator("td.state")
        assert state.inner_text() == "queued"
        _check(page)
        lease = worker.post("/leases", json=LEASE).json()
        worker.post(f"/probes/{probe['id']}/heartbeat", json=EXAMPLES["heartbeat"].body)
        page.wait_for_selector("td.state:text-is('running')")
        body = {"node": NODE, "fence": lease["fence"], "result": MEASURED}
        assert worker.put(f"/probes/{probe['id']}/result", json=body).status_code == 200
        page.wait_for_selector("#diagonal-h")
        assert state.inner_text() == "succeeded"
        _check(page)
