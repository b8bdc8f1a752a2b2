"""Secrets of a pasted log in no answer, in no line that the service logs, and in no metric."""

import logging

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from tests.test_redaction import SECRET, SHAPES

ANSWERS = ("application/json", "text/plain", "text/markdown")
PLACES = (
    # The failure itself, with the words of a known cause and without.
    "ValueError: {}",
    "(EngineCore_DP0 pid=1) ERROR 01-01 10:00:00 [core.py:1] RuntimeError: CUDA out of memory. {}",
    # Beside the failure: a command, its arguments, a program and a person's words.
    "vllm serve Qwen/Qwen3-4B {}\nKeyError: 'layers.0.mlp.w1'",
    "INFO 01-01 10:00:00 [utils.py:1] non-default args: {{'model': 'Qwen/Qwen3-4B', {}}}\nKilled",
    "I started it with {} and then\n`vllm: error: unrecognized arguments: --x {}`",
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, {}",
)
KEY = f"""\
ValueError: cannot read -----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEA{SECRET}
{SECRET}
-----END RSA PRIVATE KEY-----
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_is_in_nothing_that_the_service_says(
    client: TestClient, caplog: pytest.LogCaptureFixture, shape: str
) -> None:
    said = []
    with capture_logs() as lines, caplog.at_level(logging.DEBUG):
        for place in PLACES:
            log = place.replace("{}", shape).replace("{{", "{").replace("}}", "}")
            assert SECRET in log
            for accept in ANSWERS:
                answer = client.post("/explain", json={"log": log}, headers={"Accept": accept})
                assert answer.status_code == 200
                said.append(answer.text)
            raw = client.post("/explain", content=log.encode(), headers={"Content-Type": "text/plain"})
            said.append(raw.text)
    said += [client.get("/metrics").text, repr(lines), caplog.text]

    assert not any(SECRET in text for text in said)


def test_a_private_key_on_several_lines_is_not_repeated(client: TestClient) -> None:
    for accept in ANSWERS:
        answer = client.post("/explain", json={"log": KEY}, headers={"Accept": accept})
        assert SECRET not in answer.text
        assert "cannot read" in answer.text


def test_a_secret_that_a_request_names_wrongly_is_not_repeated(client: TestClient) -> None:
    for body in (
        {"log": "x", "api_key": SECRET},
        {"log": "x", "serve": {"api_key": SECRET}},
        {"log": [SECRET]},
    ):
        answer = client.post("/explain", json=body)
        assert answer.status_code == 422
        assert SECRET not in answer.text
