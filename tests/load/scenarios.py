"""Loads that a service must bear, each with the figures that came of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from service.hub.snapshot import BundledSnapshot
from tests.load.http_client import HOST, Connection, Tally, ask_into, request
from tests.load.served import Served

PERIOD_SECONDS = 0.02
"""Time between two requests whose duration is watched."""
LIGHT = {"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"]}
MODELS = BundledSnapshot().ids()


@dataclass(frozen=True, slots=True)
class Watched:
    """Durations of `/livez` and of a light plan while something else went on."""

    livez: Tally
    light: Tally

    @property
    def line(self) -> str:
        parts = [
            f"{name} p50 {tally.percentile(200, 50) * 1e3:.0f} p99 {tally.percentile(200, 99) * 1e3:.0f} "
            f"max {tally.percentile(200, 100) * 1e3:.0f} ms of {tally.count(200)}"
            + "".join(f", {each}" for each in tally.unexpected(200))
            for name, tally in (("/livez", self.livez), ("light plan", self.light))
        ]
        return "; ".join(parts)


@asynccontextmanager
async def watching(port: int) -> AsyncIterator[Watched]:
    """Ask for `/livez` and a light plan, another one each time, again and again."""
    watched, ended, lengths = Watched(Tally(), Tally()), asyncio.Event(), count(2048)

    async def repeat(tally: Tally, question: Callable[[], tuple[str, Any]]) -> None:
        connection = Connection(port)
        while not ended.is_set():
            await ask_into(tally, connection, *question())
            await asyncio.sleep(PERIOD_SECONDS)
        connection.close()

    def light() -> tuple[str, Any]:
        return "/plan", {**LIGHT, "serve": {"max_model_len": next(lengths)}}

    tasks = [
        asyncio.create_task(repeat(watched.livez, lambda: ("/livez", None))),
        asyncio.create_task(repeat(watched.light, light)),
    ]
    try:
        yield watched
    finally:
        ended.set()
        await asyncio.gather(*tasks)


def _others(tally: Tally) -> str:
    """Return answers that no load explains."""
    return "".join(f", {each}" for each in tally.unexpected(200, 503))


async def dear(served: Served, callers: int, body: dict[str, Any], seconds: float) -> str:
    """Ask dear questions by many callers at once, and watch what cheap ones take meanwhile."""
    tally, before, processor = Tally(), served.memory(), served.processor_seconds()
    end, models = time.perf_counter() + seconds, count()

    async def ask() -> None:
        connection = Connection(served.port)
        while time.perf_counter() < end:
            reply = await ask_into(
                tally, connection, "/plan", {**body, "model": MODELS[next(models) % len(MODELS)]}
            )
            if reply is None or reply.status == 503:
                await asyncio.sleep(0.2)
        connection.close()

    await asyncio.gather(*(ask_into(Tally(), Connection(served.port), "/plan", LIGHT) for _ in range(3)))
    async with watching(served.port) as watched:
        await asyncio.gather(*(ask() for _ in range(callers)))
    return (
        f"{callers} callers: {tally.count(200)} x 200, {tally.count(503)} x 503 (p99 "
        f"{tally.percentile(503, 99) * 1e3:.0f} ms){_others(tally)}; "
        f"{watched.line}; peak memory {served.memory('VmHWM') >> 20} MiB (before {before >> 20}); "
        f"processor {served.processor_seconds() - processor:.1f} s"
    )


async def saturation(served: Served, connections: int, seconds: float) -> str:
    """Ask light questions over so many connections as fast as they are answered."""
    tally, lengths = Tally(), count(1024)
    for _ in range(50):
        await ask_into(Tally(), Connection(served.port), "/plan", LIGHT)
    before, end = served.memory(), time.perf_counter() + seconds

    async def ask() -> None:
        connection = Connection(served.port)
        while time.perf_counter() < end:
            question = {**LIGHT, "serve": {"max_model_len": 1024 + next(lengths) % 30_000}}
            await ask_into(tally, connection, "/plan", question)
        connection.close()

    await asyncio.gather(*(ask() for _ in range(connections)))
    ended, livez = time.perf_counter(), Tally()
    while livez.percentile(200, 100) > 0.05 or not livez.seconds:
        livez = Tally()
        await ask_into(livez, Connection(served.port), "/livez")
    grown = served.memory() - before
    return (
        f"{connections} connections: {tally.count(200) / seconds:.0f}/s, p99 "
        f"{tally.percentile(200, 99) * 1e3:.0f} ms, {tally.count(503)} x 503"
        f"{_others(tally)}; memory {grown / 2**20:+.0f} MiB; "
        f"recovered after {time.perf_counter() - ended:.2f} s"
    )


async def idle(served: Served, silent: int, slow: int, seconds: float) -> str:
    """Hold connections that say nothing, and some that send a request byte by byte."""
    opened = [await asyncio.open_connection(HOST, served.port) for _ in range(silent)]
    slowly = [await asyncio.open_connection(HOST, served.port) for _ in range(slow)]

    async def trickle(writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            for byte in request("/plan", LIGHT):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.5)

    trickling = [asyncio.create_task(trickle(writer)) for _, writer in slowly]
    async with watching(served.port) as watched:
        await asyncio.sleep(seconds)
    for task in trickling:
        task.cancel()
    closed = sum(reader.at_eof() for reader, _ in opened + slowly)
    for _, writer in opened + slowly:
        writer.close()
    return f"{silent} idle and {slow} slow: {watched.line}; {closed} closed by the service"


async def hung_up(served: Served, callers: int, body: dict[str, Any], patience: float) -> str:
    """Let callers ask and hang up, and measure what is calculated for them afterwards."""
    writers = []
    for number in range(callers):
        _, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(request("/plan", {**body, "model": MODELS[number % len(MODELS)]}))
        writers.append(writer)
    await asyncio.sleep(patience)
    for writer in writers:
        writer.close()
    await asyncio.sleep(0.1)
    left, processor, light = time.perf_counter(), served.processor_seconds(), Tally()
    await ask_into(light, Connection(served.port), "/plan", {**LIGHT, "serve": {"max_model_len": 1000}})
    await asyncio.sleep(3 - (time.perf_counter() - left))
    return (
        f"{callers} callers who left after {patience} s: {served.processor_seconds() - processor:.2f} s of "
        f"processor time in the 3 s after; a light plan {light.percentile(200, 100) * 1e3:.0f} ms"
    )
