"""The other screens: their figures are those of the JSON, their links ask for what they show."""

import csv
import io
import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from service.web.figures import DASH
from tests.web.conftest import BROWSER, Page, links, words

CATALOG: dict[str, Any] = {"model": "Qwen/Qwen3-32B", "engine_version": "0.32.0"}
WORKLOAD: dict[str, Any] = {"prompt_tokens": 8000, "output_tokens": 500, "concurrent_requests": 16}


def question(link: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(link).query))


def cells(html: str) -> list[tuple[str, str, str]]:
    """Return class, link and text of every cell of the heat map."""
    found = re.findall(r'<td class="([^"]+)"><a href="([^"]+)" title="[^"]*">(.*?)</a></td>', html)
    return [(css, link.replace("&amp;", "&"), words(text)) for css, link, text in found]


def test_every_gpu_type_has_a_row(client: TestClient, page: Page) -> None:
    html = page(**CATALOG)
    plans = client.get("/plan", params=CATALOG).json()["plans"]
    rows = re.findall(r'<th scope="row"><a [^>]*>([^<]+)</a></th><td class="gib">', html)
    assert rows == [plan["gpu"]["id"] for plan in plans]


def test_cells_say_what_the_candidates_say(client: TestClient, page: Page) -> None:
    asked = {**CATALOG, "gpu": "h100-sxm-80gb,rtx-4090-24gb,l40s-48gb"}
    plans = client.get("/plan", params={**asked, "include": "candidates"}).json()["plans"]
    found = cells(page(**asked, metric="tokens"))
    assert len(found) % 3 == 0
    for css, link, text in found:
        named = question(link)
        plan = next(plan for plan in plans if plan["gpu"]["id"] == named["gpu"])
        best = next(each for each in plan["candidates"] if each["kv_cache_dtype"] == named["kv_cache_dtype"])
        assert (css == "no") == (best["verdict"] == "does_not_start")
        assert ("may" in css) == (best["verdict"] == "uncertain") == ("?" in text)
        if css != "no":
            assert text.startswith(f"{best['kv_cache']['tokens']:,}")


def test_a_cell_leads_to_its_start(client: TestClient, page: Page) -> None:
    html = page(**CATALOG, **WORKLOAD, metric="tokens", gpu="h100-sxm-80gb,rtx-4090-24gb,l40s-48gb")
    for css, link, text in cells(html)[::3]:
        plan = client.get("/plan", params=question(link)).json()["plans"][0]
        if css == "no":
            assert plan["recommended"] is None
        else:
            assert f"{plan['recommended']['kv_cache']['tokens']:,}" == text.split()[0].rstrip("?")


def test_rows_are_sorted_and_left_out(page: Page) -> None:
    html = page(**CATALOG, find="rtx", sort="memory")
    rows = re.findall(r'<th scope="row"><a [^>]*>([^<]+)</a></th><td class="gib">([^<]+)</td>', html)
    assert rows
    assert all("rtx" in name for name, _ in rows)
    sizes = [float(size) for _, size in rows]
    assert sizes == sorted(sizes)
    assert "are left out by the filter" in words(html)
    by_tokens = page(**CATALOG, sort="fp8", metric="tokens")
    assert 'aria-sort="descending"' in by_tokens


def test_two_cells_side_by_side(client: TestClient, page: Page) -> None:
    html = page(**CATALOG, beside=["l40s-48gb", "auto", "h100-sxm-80gb", "fp8"])
    shown = words(html[html.index("beside-h") :])
    params = {**CATALOG, "include": "candidates"}
    for gpu, dtype in (("l40s-48gb", "auto"), ("h100-sxm-80gb", "fp8")):
        plan = client.get("/plan", params={**params, "gpu": gpu}).json()["plans"][0]
        best = next(each for each in plan["candidates"] if each["kv_cache_dtype"] == dtype)
        assert f"{best['kv_cache']['tokens']:,}" in shown


def test_the_curve_is_that_of_the_json(client: TestClient, page: Page) -> None:
    asked: dict[str, Any] = {
        "model": "google/gemma-4-31B-it",
        "gpu": "h100-sxm-80gb",
        "engine_version": "0.32.0",
        **WORKLOAD,
    }
    best = client.get("/plan", params={**asked, "include": "curve"}).json()["plans"][0]["recommended"]
    assert "curve" not in client.get("/plan", params=asked).json()["plans"][0]["recommended"]
    html = page(**asked, view="context")
    drawn = re.findall(r"<title>([0-9,]+) of ([0-9,]+) tokens</title>", html)
    known = {(f"{each['requests']:,}", f"{each['tokens']:,}") for each in best["curve"]}
    asked_length = f"{WORKLOAD['prompt_tokens'] + WORKLOAD['output_tokens']:,}"
    assert known == {each for each in drawn if each[1] != asked_length}
    completed = best["admission"]["completed_without_preemption"]
    assert (f"{completed:,}", asked_length) in drawn
    table = next(each for each in links(html) if each.startswith("plan.csv"))
    rows = list(csv.reader(io.StringIO(client.get(f"/{table}").text)))[1:]
    assert {(f"{int(row[1]):,}", f"{int(row[0]):,}") for row in rows} == set(drawn)


def test_without_a_cache_there_is_an_empty_state(page: Page) -> None:
    shown = words(page(model="Qwen/Qwen3-32B", gpu="rtx-3070-8gb", tensor_parallel_size=1, view="context"))
    assert "There is no cache, so no request fits." in shown


@pytest.mark.parametrize("view", ["pages", "context"])
def test_an_encoder_needs_no_cache_and_the_screens_say_what_limits_it(page: Page, view: str) -> None:
    shown = words(page(model="BAAI/bge-m3", gpu="l4-24gb", view=view))
    assert "a prompt has at most 8,192 tokens" in shown
    assert "no request fits" not in shown


def test_a_screen_for_one_gpu_type_falls_back(page: Page) -> None:
    assert 'class="heat"' in page(**CATALOG, view="pages", gpu="h100-sxm-80gb,l40s-48gb")


@pytest.mark.parametrize("view", ["gpus", "no-such-view", ""])
def test_unknown_screens_show_the_first(client: TestClient, view: str) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "l40s-48gb", "view": view}
    assert "verdict-h" in client.get("/plan", params=asked, headers={"Accept": BROWSER}).text


def test_releases_are_those_of_the_upgrades(client: TestClient, page: Page) -> None:
    start: dict[str, Any] = {
        "model": "google/gemma-4-31B-it",
        "gpu": "rtx-3090-24gb",
        "tensor_parallel_size": 2,
        "max_model_len": 131072,
        "max_num_batched_tokens": 2048,
        "kv_cache_dtype": "auto",
        "kv_cache_memory_bytes": 12390980648,
    }
    html = page(**start, engine_version="0.19.0", view="releases")
    shown = words(html)
    steps = [("0.20.0", "0.20.1"), ("0.25.1", "0.26.0")]
    for before, after in steps:
        answer = client.get("/plan", params={**start, "compare": [before, after]}).json()["upgrades"][0]
        assert answer["changed"]
        assert f"{before} to {after}" in shown
        assert f"tokens: {answer['before']['tokens']:,} became {answer['after']['tokens']:,}" in shown
        for cause in answer["causes"]:
            assert cause["rule"] in shown
            assert cause["source"] in shown


def test_the_model_is_that_of_the_json(client: TestClient, page: Page) -> None:
    for model in ("google/gemma-4-E4B-it", "Qwen/Qwen3.6-35B-A3B", "openai/gpt-oss-20b"):
        known = client.get(f"/models/{model}").json()["architecture"]
        html = page(model=model, gpu="l40s-48gb", view="model")
        cells = re.findall(r"<title>layer (\d+): ([^<]+)</title>", html)
        assert [int(number) for number, _ in cells] == list(range(known["num_layers"]))
        for run in known["layers"]:
            kind = known["attention"][run["attention"]]["kind"].replace("_", " ")
            assert all(cells[number][1].startswith(kind) for number in range(run["first"], run["last"] + 1))
        for dtype, each in known["cache_per_token"].items():
            assert re.search(rf'<th scope="row">{dtype}</th><td class="num">{each["bytes"]:,}</td>', html)


def test_the_model_is_shown_for_many_gpu_types_too(page: Page) -> None:
    assert "Layers in order" in words(page(**CATALOG, view="model"))


def test_speed_and_cost_are_those_of_the_json(client: TestClient, page: Page) -> None:
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "h100-sxm-80gb", "engine_version": "0.24.0", **WORKLOAD}
    plan = client.get("/plan", params={**asked, "include": "candidates"}).json()["plans"][0]
    html = page(**asked, view="speed")
    shown = words(html)
    starts = [each for each in plan["candidates"] if "speed" in each]
    assert starts[0] == plan["recommended"]
    rows = re.findall(r'<th scope="row">(\d+)\. <a', html)
    assert rows == [str(number) for number in range(1, min(10, len(starts)) + 1)]
    speed, cost = starts[0]["speed"], starts[0]["cost"]
    for figure in (speed["per_request"], speed["output_tokens_per_second"], speed["tpot_ms"]):
        assert any(f"{figure['middle']:.{digits}g} (" in shown for digits in (3, 2))
    assert f"{cost['price']['usd_per_gpu_hour']:,.2f} US dollars for an hour of a GPU" in shown
    assert cost["price"]["as_of"] in shown
    drawn = re.findall(r"<title>([0-9,]+) requests: ", html)
    assert drawn == ["1", "2", "4", "8", "16"]
    cells = page(**{**asked, "gpu": "h100-sxm-80gb,h200-sxm-141gb"}, metric="cost")
    assert f"{cost['usd_per_million_output_tokens']['middle']:,.2f}" in cells


def test_without_a_workload_there_is_no_speed(page: Page) -> None:
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "h100-sxm-80gb", "view": "speed"}
    assert "A speed needs a workload" in words(page(**asked))
    assert "A speed needs answers" in words(page(**asked, prompt_tokens=1000))


def test_where_nothing_starts_the_reasons_are_said(client: TestClient, page: Page) -> None:
    asked = {"model": "deepseek-ai/DeepSeek-V3", "kv_cache_dtype": "int8_per_token_head"}
    # With all candidates, words that many GPU types share are not shortened.
    plans = client.get("/plan", params={**asked, "include": "candidates"}).json()["plans"]
    html = page(**asked)
    shown = words(html)
    assert "It starts on no GPU type." in shown
    for plan in plans:
        error = plan["nearest_refused"]["error"]
        assert " ".join((error["detail"] or error["message"]).split()) in shown
        assert any(question(link).get("gpu") == plan["gpu"]["id"] for link in links(html))


def test_a_cell_of_a_shorter_context_is_marked_and_not_ranked(client: TestClient, page: Page) -> None:
    asked = {**CATALOG, "gpu": "h100-sxm-80gb:1,rtx-4090-24gb:8,rtx-5070-12gb:8"}
    plans = client.get("/plan", params={**asked, "include": "candidates"}).json()["plans"]
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for plan in plans:
        for each in plan["candidates"]:
            best.setdefault((plan["gpu"]["id"], each["kv_cache_dtype"]), each)
    alive = {key: each for key, each in best.items() if each["verdict"] != "does_not_start"}
    lengths = {
        key: each["kv_cache"]["max_model_len"] if each["kv_cache"] else 0 for key, each in alive.items()
    }
    html = page(**asked)
    shortened = []
    for css, link, text in cells(html):
        named = question(link)
        key = (named["gpu"].partition(":")[0], named["kv_cache_dtype"])
        if css == "no":
            continue
        is_shorter = 0 < lengths[key] < max(lengths.values())
        assert ("short" in css.split()) == is_shorter == (f"at {lengths[key]:,}" in text)
        assert is_shorter != ("q" in css)
        shortened.append(is_shorter)
    assert set(shortened) == {True, False}
    assert "it is not compared with the others" in words(html)


def test_shorter_contexts_are_ordered_last(page: Page) -> None:
    html = page(**CATALOG, sort="auto", metric="requests")
    column = [(css, text) for css, link, text in cells(html) if question(link)["kv_cache_dtype"] == "auto"]
    # A start that may get no cache at all has no number of requests.
    absent = [css == "no" or text.startswith(DASH) for css, text in column]
    kinds = [2 if none else 1 if "short" in css else 0 for none, (css, _) in zip(absent, column, strict=True)]
    assert kinds == sorted(kinds)
    assert 1 in kinds


def test_the_form_says_what_is_planned_for_blanks(page: Page) -> None:
    asked = {**CATALOG, "gpu": "h100-sxm-80gb"}
    assert 'placeholder="try 1\N{EN DASH}8"' in page(**asked)
    alone = page(**asked, search="false")
    assert 'placeholder="1"' in alone
    assert '<option value="">auto</option>' in alone
    assert "try all" not in alone


def test_only_a_refusal_of_pages_leads_to_the_pages(page: Page) -> None:
    memory = page(**CATALOG, gpu="rtx-4090-24gb", search="false")
    assert "OutOfMemoryError" in memory
    assert "See the pages that do not fit together" not in memory
