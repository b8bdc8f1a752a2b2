"""`dryserve probe --wait` over a service that is started anew meanwhile, and what it prints in the end."""

import json
from typing import Any

import httpx2
import pytest
import typer

from service.cli import probe_client
from service.cli.probe import summary
from service.cli.probe_client import StillRunning, followed
from service.units import GIB

ASKED = {"id": "0" * 32, "state": "queued", "phase": ""}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_client, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(probe_client, "PATIENCE_SECONDS", 0.2)


def events(*states: str) -> httpx2.Response:
    lines = [f"event: probe\ndata: {json.dumps({**ASKED, 'state': state})}\n\n" for state in states]
    return httpx2.Response(200, text="".join(lines), headers={"Content-Type": "text/event-stream"})


def following(*replies: httpx2.Response | Exception, timeout: float | None = None) -> Any:  # noqa: ANN401 - a probe
    left = list(replies)

    def answer(_: httpx2.Request) -> httpx2.Response:
        reply = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    http = httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://service")
    return followed(http, ASKED, timeout)


def test_a_service_that_is_started_anew_is_followed_on() -> None:
    gone, not_yet = httpx2.ConnectError("refused"), httpx2.Response(503)
    end = following(events("queued", "running"), gone, not_yet, events("running"), events("succeeded"))
    assert end["state"] == "succeeded"


@pytest.mark.parametrize("gone", [httpx2.ConnectError("refused"), httpx2.Response(502)])
def test_one_that_stays_away_is_given_up(gone: httpx2.Response | Exception) -> None:
    with pytest.raises(httpx2.TransportError):
        following(gone)


def test_each_change_is_a_line_with_the_id_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    following(events("queued", "queued", "running"), events("running", "succeeded"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{'0' * 32} {state}" for state in ("queued", "running", "succeeded")]


def test_a_probe_that_does_not_end_in_time_is_left_alone() -> None:
    with pytest.raises(StillRunning) as caught:
        following(events("queued"), timeout=0.1)
    assert caught.value.current["state"] == "queued"


def test_a_refusal_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        following(httpx2.Response(404, json={"title": "No such probe", "detail": "gone"}))
    assert capsys.readouterr().err.splitlines()[-1] == "No such probe: gone"


def test_the_summary_of_an_allocation_holds_taken_against_planned() -> None:
    specified = {
        "id": "abc",
        "state": "succeeded",
        "predicted": {
            "memory": {"weights": {"bytes": 2 * GIB}},
            "kv_cache": {"num_blocks": 1024, "bytes_per_block": 1 << 20},
        },
        "result": {
            "detail": "",
            "measurement": None,
            "allocation": {
                "weights_taken_bytes": 2 * GIB + 2 * GIB // 1000,
                "kv_tensors_taken_bytes": GIB,
                "context_bytes": GIB // 2,
                "nccl_bytes": None,
                "torch": "2.13.0",
            },
        },
    }
    lines = [line.split() for line in summary(specified).splitlines()]
    assert ["weights", "2.00", "2.00", "+0.100%"] in lines
    assert ["kv_tensors", "1.00", "1.00", "+0.000%"] in lines
    assert ["context", "0.5000"] in lines
    assert not any("nccl" in line for line in lines)
