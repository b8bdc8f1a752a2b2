"""What one caller can hold at once: bodies, streams, polls, results."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from service.api.caller_quota import CallerQuota
from service.api.errors import Overloaded
from service.api.examples import NODE
from service.api.middleware.body_budget import LARGE_TOGETHER, SMALL_BYTES, SMALL_TOGETHER
from service.api.middleware.body_limit import MAX_BODY_BYTES
from service.store.batches import BATCH_SIZE
from service.store.token import Scope
from service.store.tokens import TokenStore
from tests.api.test_probes import (
    LEASE,
    MEASUREMENT,
    STARTED,
    queued,
)

Bearer = Callable[..., Any]
PATIENCE = 30
Served = tuple[FastAPI, TokenStore]


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Stand in for both kinds of databases, as for all probes."""
    return f"sqlite:///{tmp_path}/probes.db"


def held_body(size: int, until: asyncio.Event) -> AsyncIterator[bytes]:
    async def parts() -> AsyncIterator[bytes]:
        yield b" " * (size - 1)
        await until.wait()
        yield b" "

    return parts()


async def resolved(tasks: list[asyncio.Task[Any]]) -> None:
    """Let requests read what they can."""
    for _ in range(50):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


@pytest.mark.parametrize(
    ("size", "together"), [(MAX_BODY_BYTES, LARGE_TOGETHER), (SMALL_BYTES, SMALL_TOGETHER)]
)
async def test_bodies_together_have_a_bound(bearer: Bearer, size: int, together: int) -> None:
    client, until = await bearer(None), asyncio.Event()
    headers = {"Content-Type": "application/json"}

    def requested(content: Any) -> asyncio.Task[Any]:  # noqa: ANN401 - bytes or parts of them
        return asyncio.create_task(client.post("/plan", content=content, headers=headers))

    held = [requested(held_body(size, until)) for _ in range(together // size)]
    await resolved(held)
    reply = await requested(b" " * size)
    assert (reply.status_code, reply.json()["type"]) == (503, "/problems/overloaded")
    assert reply.headers["retry-after"] == "5"
    # Bodies of the other size have a bound of their own.
    other = await requested(b" " * (SMALL_BYTES if size > SMALL_BYTES else MAX_BODY_BYTES))
    assert other.status_code == 400
    until.set()
    assert {reply.status_code for reply in await asyncio.gather(*held)} == {400}
    assert (await requested(b" " * size)).status_code == 400


def test_waiting_requests_are_counted_for_each_caller() -> None:
    quota = CallerQuota(1)
    with quota.hold("a"):
        with pytest.raises(Overloaded), quota.hold("a"):
            pass
        with quota.hold("b"):
            pass
    with quota.hold("a"):
        pass


async def test_streams_of_one_token_have_a_bound(bearer: Bearer, served: Served) -> None:
    quota = served[0].state.lanes.streams = CallerQuota(1)
    operator = await bearer(Scope.OPERATOR)
    probe = await queued(operator)
    path = f"/probes/{probe['id']}/events"
    following = asyncio.create_task(operator.get(path))
    async with asyncio.timeout(PATIENCE):
        while not quota._taken:  # noqa: ASYNC110, SLF001 - it tells of no event
            await asyncio.sleep(0.01)
        reply = await operator.get(path)
        assert (reply.status_code, reply.json()["type"]) == (503, "/problems/overloaded")
        await operator.delete(f"/probes/{probe['id']}")
        assert (await following).status_code == 200
        # Its place is free again.
        assert (await operator.get(path)).status_code == 200


@pytest.mark.slow
async def test_polls_of_one_token_have_a_bound(bearer: Bearer, served: Served) -> None:
    served[0].state.lanes.polls = CallerQuota(1)
    worker, other = await bearer(Scope.WORKER), await bearer(Scope.WORKER)
    waiting = asyncio.create_task(worker.post("/leases", json={**LEASE, "wait_seconds": 3}))
    async with asyncio.timeout(PATIENCE):
        while not served[0].state.lanes.polls._taken:  # noqa: ASYNC110, SLF001 - it tells of no event
            await asyncio.sleep(0.01)
    refused = await worker.post("/leases", json=LEASE)
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/overloaded")
    assert int(refused.headers["retry-after"]) > 0
    assert (await other.post("/leases", json=LEASE)).status_code == 204
    assert (await waiting).status_code == 204
    assert (await worker.post("/leases", json=LEASE)).status_code == 204


async def test_a_result_has_a_bound(bearer: Bearer) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator)
    await worker.post("/leases", json=LEASE)
    result = {"outcome": "failed", "inventory": [{"name": "x" * (1 << 20)}]}
    reply = await worker.put(
        f"/probes/{probe['id']}/result", json={"node": NODE, "fence": 1, "result": result}
    )
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/result")


async def test_more_measurements_than_are_read_at_once_are_exported_in_their_order(bearer: Bearer) -> None:
    operator = await bearer(Scope.OPERATOR)
    number = 2 * BATCH_SIZE + 1
    lines = [{**MEASUREMENT, **STARTED, "measured_at": float(each)} for each in range(number)]
    imported = await operator.post("/measurements", content="\n".join(map(json.dumps, reversed(lines))))
    assert imported.json() == {"measurements": number, "new": number}
    exported = (await operator.get("/measurements")).text.splitlines()
    assert [json.loads(line)["measured_at"] for line in exported] == [float(each) for each in range(number)]
