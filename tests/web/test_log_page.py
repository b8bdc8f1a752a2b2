"""The page of a log: the explanation of the API beside the lines of the log."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from tests.api.test_explain import GEMMA
from tests.web.conftest import BROWSER, links, words

FAILED = (
    "(APIServer pid=1) INFO 04-22 [utils.py:233] non-default args: {'model': 'google/gemma-4-31B-it', "
    "'max_model_len': 131072, 'tensor_parallel_size': 2, 'kv_cache_dtype': 'int8_per_token_head'}\n"
    "(EngineCore pid=2) INFO 04-22 [core.py:105] Initializing a V1 LLM engine (v0.20.2) with config: "
    "model='google/gemma-4-31B-it', dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=2\n"
    "(EngineCore pid=2) ERROR 04-22 [core.py:1] NotImplementedError: The page size of the layer is not "
    "divisible by the maximum page size. Cannot unify by adjusting block_size.\n"
)


def explained(client: TestClient, log: str, **beside: str) -> str:
    answer = client.post("/log", data={"log": log, **beside}, headers={"Accept": BROWSER})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    return answer.text


def test_the_form_is_empty(client: TestClient) -> None:
    html = client.get("/log", headers={"Accept": BROWSER}).text
    assert re.search(r'<textarea id="log"[^>]*></textarea>', html)


def test_figures_are_those_of_the_api(client: TestClient) -> None:
    answer = client.post("/explain", json={"log": GEMMA, "gpu": "rtx-3090-24gb"}).json()
    html = explained(client, GEMMA, gpu="rtx-3090-24gb")
    rows = re.findall(r'<tr><td><a href="#L(\d+)">\d+</a></td><th scope="row">([^<]+)</th>', html)
    assert rows == [(str(each["line"]), each["name"].replace("_", " ")) for each in answer["findings"]]
    assert answer["start"]["command"] in words(html)
    assert "25,200" in words(html)
    plan = next(link for link in links(html) if link.startswith("plan?"))
    again = client.get("/plan", params=dict(parse_qsl(urlsplit(plan).query))).json()
    assert again["engine"]["version"] == "0.19.0"


def test_a_failure_has_its_cause_and_fixes(client: TestClient) -> None:
    answer = client.post("/explain", json={"log": FAILED, "gpu": "h100-sxm-80gb"}).json()
    html = explained(client, FAILED, gpu="h100-sxm-80gb")
    shown = words(html)
    assert "Cannot unify by adjusting block_size" in shown
    assert answer["ending"]["means"] in shown
    assert answer["ending"]["fixes"]
    for fix in answer["ending"]["fixes"]:
        assert fix["change"] in shown
    assert "<mark>(EngineCore pid=2) ERROR" in html


def test_hostile_logs_are_text(client: TestClient) -> None:
    log = (
        "</textarea><script>alert(1)</script>\n"
        "ValueError: \x1b[31mFree memory on device\x07 (1.00/2.00 GiB)\x9b2J \u202eevil\u2066 {{ 7 * 7 }}\n"
        "<img src=x onerror=alert(1)>\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\n"
    )
    html = explained(client, log)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "{{ 7 * 7 }}" in html
    shown = re.sub(r"<textarea.*?</textarea>", "", html, flags=re.DOTALL)
    for character in ("\x1b", "\x07", "\x9b", "\u202e", "\u2066"):
        assert character not in html
    assert "hf_abcdefghijklmnopqrstuvwxyz" not in shown


@pytest.mark.parametrize("log", ["", "nothing of an engine", "\n" * 5000, "x" * 5_000_000])
def test_odd_logs_are_answered(client: TestClient, log: str) -> None:
    answer = client.post("/log", data={"log": log}, headers={"Accept": BROWSER})
    assert answer.status_code in {200, 422}
    assert "<h1>" in answer.text


def test_what_is_wrong_beside_a_log_is_said(client: TestClient) -> None:
    beside = {"log": GEMMA, "gpu": "h1000"}
    answer = client.post("/log", data=beside, headers={"Accept": BROWSER})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert "25,200 tokens" in answer.text  # the text is still in the form
    unknown = client.post("/log", data={**beside, "colour": "red"}, headers={"Accept": BROWSER})
    assert unknown.status_code == 422
