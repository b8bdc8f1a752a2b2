"""What is counted of a body, however it is cut into pieces."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.api.middleware.body_limit import (
    MAX_CONTAINERS,
    MAX_TARGET_BYTES,
    MAX_VALUES,
    JsonCount,
)
from tests.api.plan_bodies import LLAMA_CONFIG

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='"\\,{}[]a\n'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='",{\\'), inner, max_size=4),
    max_leaves=20,
)


def counted(value: Any) -> tuple[int, int]:  # noqa: ANN401 - any JSON
    """Return the containers of a value and the commas between what they hold."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return 0, 0
    below = [counted(each) for each in inner]
    return 1 + sum(one for one, _ in below), max(0, len(inner) - 1) + sum(two for _, two in below)


@given(VALUES, st.integers(1, 7), st.booleans())
def test_strings_are_not_counted(value: Any, size: int, ascii_only: bool) -> None:  # noqa: ANN401 - any JSON
    text, count = json.dumps(value, ensure_ascii=ascii_only).encode(), JsonCount()
    for at in range(0, len(text), size):
        assert not count.add(text[at : at + size])
    assert (count.containers, count.values) == counted(value)


@pytest.mark.parametrize(
    "config", [b"[" + b"[]," * MAX_CONTAINERS + b"1]", b"[" + b"1," * (MAX_VALUES + 1) + b"1]"]
)
def test_a_body_of_more_values_than_any_config_is_not_parsed(config: bytes, client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    started = time.process_time()
    reply = client.post("/plan", content=b'{"config": {"a": ' + config + b"}}", headers=headers)
    assert (reply.status_code, reply.json()["type"]) == (413, "/problems/body-too-large")
    assert time.process_time() - started < 5


def test_a_log_of_brackets_is_read(client: TestClient) -> None:
    log = "[a.py:1] {'a': [1, 2]}, " * 80_000
    reply = client.post("/explain", json={"log": log, "config": LLAMA_CONFIG})
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "text", [b'"' * 4_000_000, b'\\"' * 2_000_000, b'"\\' * 2_000_000, b"\\" * 4_000_000]
)
def test_hostile_quotes_cost_no_more_than_their_length(text: bytes) -> None:
    started, count = time.process_time(), JsonCount()
    count.add(text)
    for at in range(0, len(text), 1 << 16):
        count.add(text[at : at + (1 << 16)])
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("path", "headers", "status", "slug"),
    [
        (f"/problems/{'x' * MAX_TARGET_BYTES}", {}, 414, "address-too-long"),
        (f"/plan?{'a&' * 3000}", {}, 414, "address-too-long"),
        ("/models", {"X-Long": "x" * (65 << 10)}, 431, "headers-too-large"),
        ("/models", {"Content-Length": "9" * 5000}, 200, None),
    ],
)
def test_addresses_and_headers_are_bounded(
    path: str, headers: dict[str, str], status: int, slug: str | None, client: TestClient
) -> None:
    reply = client.get(path, headers=headers)
    assert reply.status_code == status
    if slug is not None:
        assert reply.json()["type"] == f"/problems/{slug}"
        assert reply.headers["content-type"] == "application/problem+json"
        assert len(reply.content) < 1000
