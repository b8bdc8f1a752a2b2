"""The page of a plan: what it shows, where its links lead, what it shares its address with."""

import csv
import hashlib
import io
import re
import tomllib
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from service.web.assets import MEDIA_TYPES
from tests.web.conftest import BROWSER, Page, links, words

GEMMA: dict[str, Any] = {
    "model": "google/gemma-4-31B-it",
    "gpu": "rtx-3090-24gb",
    "tensor_parallel_size": 2,
    "max_model_len": 131072,
    "max_num_batched_tokens": 2048,
    "kv_cache_memory_bytes": 12390980648,
}
BFLOAT16 = {**GEMMA, "engine_version": "0.19.0", "kv_cache_dtype": "auto"}
INT8 = {**GEMMA, "engine_version": "0.20.2", "kv_cache_dtype": "int8_per_token_head"}
TURBOQUANT = {
    "model": "Qwen/Qwen3.6-35B-A3B",
    "gpu": "h200-sxm-141gb",
    "engine_version": "0.33.0",
    "tensor_parallel_size": 1,
    "kv_cache_dtype": "turboquant_k8v4",
}
WORKLOAD = {"prompt_tokens": 8000, "output_tokens": 500, "concurrent_requests": 8}


def question(link: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(link).query))


@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "application/json, text/html;q=0.5"])
def test_everybody_else_still_gets_json(client: TestClient, accept: str) -> None:
    answer = client.get("/plan", params=BFLOAT16, headers={"Accept": accept})
    assert answer.headers["content-type"] == "application/json"
    assert "Accept" in answer.headers["vary"]
    assert answer.json()["plans"][0]["gpu"]["id"] == "rtx-3090-24gb"


def test_a_format_wins_over_what_a_browser_accepts(client: TestClient) -> None:
    answer = client.get("/plan", params={**BFLOAT16, "format": "json"}, headers={"Accept": BROWSER})
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/plan", "/v1/plan"])
def test_a_browser_gets_the_page(client: TestClient, path: str) -> None:
    answer = client.get(path, params=BFLOAT16, headers={"Accept": BROWSER})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "Accept" in answer.headers["vary"]
    again = {"Accept": BROWSER, "If-None-Match": answer.headers["etag"]}
    assert client.get(path, params=BFLOAT16, headers=again).status_code == 304


def test_a_page_with_everything_that_it_loads_is_light(client: TestClient) -> None:
    zipped = {"Accept": BROWSER, "Accept-Encoding": "gzip"}
    first = client.get("/plan", params=BFLOAT16, headers=zipped)
    loaded = re.findall(r'(?:src|href)="(static/[^"]+)"', first.text)
    answers = [first, *(client.get(f"/{each}", headers=zipped) for each in loaded)]
    assert len(answers) > 4
    assert sum(int(each.headers["content-length"]) for each in answers) < 100_000
    assert all("immutable" in each.headers["cache-control"] for each in answers[1:])


def test_vendored_files_are_those_of_their_packages(client: TestClient) -> None:
    folder = files("service.web")
    packages = tomllib.loads(folder.joinpath("vendored.toml").read_text("utf-8"))["package"]
    listed = {name: digest for each in packages for name, digest in each["sha256"].items()}
    ours = {"page.css", "drawing.css", "page.js", "favicon.svg"}
    assert {each.name for each in folder.joinpath("static").iterdir()} == {*listed, *ours} == set(MEDIA_TYPES)
    for name, digest in listed.items():
        assert hashlib.sha256(client.get(f"/static/{name}").content).hexdigest() == digest
    assert client.get("/static/vendored.toml").status_code == 404


def test_gemma_on_two_cards_is_a_sum(page: Page) -> None:
    # Figures of the engine's own log: 25,200 tokens, 1.87x; 9,453 blocks; 193 and 4,096 blocks of a request.
    shown = words(page(**BFLOAT16, view="pages"))
    assert "9,453 / (4,096 + 5 x 193) = 1.87 requests of the maximum length" in shown
    assert "9,453 // 6 x 16" in shown


def test_int8_pages_that_do_not_divide(page: Page) -> None:
    # 2 x 256 + 8 = 520 and 2 x 512 + 8 = 1,032 bytes; 1,040 = 2 x 520 (vLLM pull request 40391).
    html = page(**INT8, view="pages")
    shown = words(html)
    assert "520 B for each token and head x 8 heads x 16 tokens" in shown
    assert "1,032 B for each token and head x 2 heads x 16 tokens" in shown
    assert "66,560 / 33,024 = 2.016 is not a whole number" in shown
    assert "A page of 33,280 B (+0.78 %) would go into it 2 times: 1,040 B" in shown
    patched = next(link for link in links(html) if "40391" in link)
    assert question(patched)["patch"] == "vllm#40391"


def test_a_fix_is_a_link_to_a_start(page: Page) -> None:
    html = page(**INT8, view="answer")
    newer = next(link for link in links(html) if question(link).get("engine_version") == "0.24.0")
    assert "Does not start" not in words(page(**question(newer)))
    patched = next(link for link in links(html) if "40391" in link)
    after = words(page(**{**question(patched), "view": "pages"}))
    # The page of the global layers has 1,040 B for each slot, of which the rest is padding.
    assert "66,560" in after
    assert "is not a whole number" not in after


def test_turboquant_beside_recurrent_states(page: Page) -> None:
    # 388 B a slot x 2 heads x 2,816 tokens = 2,185,216 B; the state has 2,146,304 B.
    shown = words(page(**TURBOQUANT, view="pages"))
    assert "388 B for each token and head x 2 heads x 2,816 tokens" in shown
    assert "one state of 2,146,304 B" in shown
    assert f"padding {388 * 2 * 2816 - 2146304:,} B (1.8 %)" in shown


def test_the_answer_says_what_the_json_says(client: TestClient, page: Page) -> None:
    asked = {**GEMMA, **WORKLOAD, "engine_version": "0.19.0", "kv_cache_dtype": "auto"}
    shown = words(page(**asked, view="answer"))
    parts = {**asked, "include": ["details", "levers"]}
    plan = client.get("/plan", params=parts).json()["plans"][0]
    best = plan["recommended"]
    assert f"{best['kv_cache']['tokens']:,}" in shown
    assert f"{best['kv_cache']['max_concurrency']:,.2f}" in shown
    assert best["command"] in shown
    for line in best["kv_cache"]["log_lines"]:
        assert line in shown
    for name in ("weights", "activation", "non_torch", "cuda_graphs", "available_kv", "requested", "total"):
        assert f"{best['memory'][name]['bytes'] / 2**30:.2f}" in shown
    for lever in plan["levers"]:
        assert lever["change"] in shown
        assert f"{lever['tokens']:+,}" in shown


def test_levers_are_links_that_apply_them(client: TestClient, page: Page) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "l40s-48gb", "engine_version": "0.24.0"}
    plan = client.get("/plan", params={**asked, "include": "levers"}).json()["plans"][0]
    html = page(**asked, view="answer")
    for lever in [each for each in plan["levers"] if each["flag"]][:4]:
        value = str(lever["value"]).lower() if isinstance(lever["value"], bool) else str(lever["value"])
        link = next(each for each in links(html) if question(each).get(lever["flag"]) == value)
        after = client.get("/plan", params=question(link)).json()["plans"][0]["recommended"]["kv_cache"]
        assert after["tokens"] == plan["recommended"]["kv_cache"]["tokens"] + lever["tokens"]


def test_the_question_comes_back_in_the_form(page: Page) -> None:
    html = page(**BFLOAT16, **WORKLOAD, view="pages")
    for name, value in {**BFLOAT16, **WORKLOAD}.items():
        if name not in {"engine_version", "kv_cache_dtype"}:
            assert re.search(rf'name="{name}"[^>]*value="{re.escape(str(value))}"', html), name
    assert "<option selected>0.19.0</option>" in html
    assert "<option selected>auto</option>" in html


def test_choices_that_are_not_listed_come_back_too(page: Page) -> None:
    html = page(**{**BFLOAT16, "engine_version": "0.19", "kv_cache_dtype": "bfloat16"})
    assert "<option selected>0.19</option>" in html
    wrong = page(status=422, **{**BFLOAT16, "kv_cache_dtype": "fp9"})
    assert "<option selected>fp9</option>" in wrong


def test_blank_fields_are_left_out(page: Page) -> None:
    assert "1.87" in page(**BFLOAT16, prompt_tokens="", output_tokens="", objective="", command="")


@pytest.mark.parametrize(
    ("wrong", "status", "expected"),
    [
        ({"gpu": "h1000"}, 422, "h100"),
        ({"model": "google/gemma-4-32B-it"}, 404, "google/gemma-4-31B-it"),
        ({"engine_version": "99.x"}, 422, "engine_version"),
        ({"max_model_len": "many"}, 422, "max_model_len"),
        ({"gpu_memory_utilisation": "1"}, 422, "gpu_memory_utilization"),
    ],
)
def test_what_is_wrong_is_said_on_the_page(
    page: Page, wrong: dict[str, str], status: int, expected: str
) -> None:
    html = page(status=status, **{**BFLOAT16, **wrong})
    assert expected in words(html)
    assert 'role="alert"' in html


HOSTILE = [
    "<script>alert(1)</script>/x",
    'x"><img src=x onerror=alert(1)>/y',
    "a/\x1b[31mred\x1b[0m",
    "a/\u202egnp.exe",
    "{{ 7 * 7 }}/x",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(client: TestClient, name: str) -> None:
    command = f"vllm serve '{name}' --served-model-name '{name}'"
    for asked in ({"model": name}, {"model": "Qwen/Qwen3-8B", "gpu": name}, {"command": command}):
        html = client.get("/plan", params=asked, headers={"Accept": BROWSER}).text
        assert "<script>alert" not in html
        assert "<img" not in html
        assert "49/x" not in html
        # The field repeats what was sent; the rest of the page has no character that a terminal obeys.
        shown = re.sub(r'(value="[^"]*"|<textarea.*?</textarea>)', "", html, flags=re.DOTALL)
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_exports(client: TestClient, page: Page) -> None:
    for view in ("answer", "pages"):
        html = page(**BFLOAT16, view=view)
        drawn = client.get(f"/{next(each for each in links(html) if each.startswith('plan.svg'))}")
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert drawn.text.startswith("<svg width=")
        assert "<style>" in drawn.text
        table = client.get(f"/{next(each for each in links(html) if each.startswith('plan.csv'))}")
        rows = list(csv.reader(io.StringIO(table.text)))
        assert len(rows) > 2
        assert len({len(row) for row in rows}) == 1
        document = next(each for each in links(html) if "format=json" in each)
        assert client.get(f"/{document}").json()["plans"][0]["recommended"]["kv_cache"]["num_blocks"] == 9453
        command = next(each for each in links(html) if "format=command" in each)
        assert client.get(f"/{command}").text.startswith("vllm serve google/gemma-4-31B-it")
