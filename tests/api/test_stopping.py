"""A request whose answer the stop of the service cuts short."""

import asyncio
import json
from typing import Any

from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from service.api.metrics import Metrics
from service.api.middleware.request_log import RequestLog
from service.api.tracing import Tracing

REQUEST: dict[str, Any] = {"type": "http", "method": "POST", "path": "/plan"}
SCOPE: dict[str, Any] = {**REQUEST, "headers": [], "query_string": b""}


async def _cancelled(*, started: bool) -> list[Message]:
    """Return what is sent for a request that the server cancels while it is answered."""
    sent: list[Message] = []
    reached = asyncio.Event()

    async def slow(_: Scope, __: Receive, send: Send) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        reached.set()
        await asyncio.sleep(60)

    async def keep(message: Message) -> None:
        sent.append(message)

    async def nothing() -> Message:
        return {"type": "http.request"}

    app = FastAPI()
    app.state.root_path = ""
    middleware = RequestLog(slow, Metrics(), Tracing())
    task = asyncio.create_task(middleware({**SCOPE, "app": app, "state": {}}, nothing, keep))
    await reached.wait()
    task.cancel("Task cancelled, timeout graceful shutdown exceeded")
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert ended is None or isinstance(ended, asyncio.CancelledError), repr(ended)
    return sent


def test_what_is_not_answered_when_the_service_stops_may_be_asked_again() -> None:
    head, body = asyncio.run(_cancelled(started=False))
    headers = {name.decode().lower(): value.decode() for name, value in head["headers"]}
    assert head["status"] == 503
    assert headers["content-type"] == "application/problem+json"
    assert int(headers["retry-after"]) > 0
    assert json.loads(body["body"])["type"].endswith("/problems/service-stops")


def test_an_answer_that_has_begun_is_cut_off_and_not_mixed_with_another() -> None:
    assert [message["type"] for message in asyncio.run(_cancelled(started=True))] == ["http.response.start"]
