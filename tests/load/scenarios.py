"""Loads that a service must bear, each with the figures that came of it."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, cycle
from typing import Any

from service.application.catalogs.model_reading import read_model
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.errors import NotATextModel
from tests.load.acceptance import Acceptance, Outcome, at_least, at_most
from tests.load.http_client import HOST, Connection, Tally, ask_into, request
from tests.load.served import Served, served

PERIOD_SECONDS = 0.02
"""Time between two requests whose duration is watched."""
LIGHT = {"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"]}
PATIENCE_SECONDS = 20
"""`DRYSERVE_PLAN_SECONDS` of the services that are asked dear questions."""
GROWTH_MEBIBYTES = 50 * 10**6 / 2**20
"""50 MB."""
RECOVERY_SECONDS = 5
CHEAP_MILLISECONDS = 200
"""Within which 99 of 100 cheap questions are answered beside dear ones."""
REFUSAL_MILLISECONDS = 100
PEAK_MEBIBYTES = 512
GAIN_OF_TWO = 1.7
"""Requests that two processes answer, as a multiple of those of one."""
CORES_FOR_TWO = 3
"""Two for the processes that serve, one for the load."""


@cache
def planned_models() -> tuple[str, ...]:
    """Return the bundled models that are planned; a few are refused, since their class is not modelled."""
    return tuple(model for model in BundledSnapshot().ids() if _is_planned(model))


def _is_planned(model: str) -> bool:
    fetched = BundledSnapshot().get(model)
    try:
        return fetched is not None and bool(read_model(fetched).architecture.layers)
    except (InvalidConfig, UnknownArchitecture, NotATextModel):
        return False


@dataclass(frozen=True, slots=True)
class Watched:
    """Durations of `/livez` and of a light plan while something else went on."""

    livez: Tally
    light: Tally
    late: list[float] = field(default_factory=list)
    """By how many seconds the load itself came too late to what it wanted to do, again and again."""

    @property
    def line(self) -> str:
        parts = [
            f"{name} p50 {tally.percentile(200, 50) * 1e3:.0f} p99 {tally.percentile(200, 99) * 1e3:.0f} "
            f"max {tally.percentile(200, 100) * 1e3:.0f} ms of {tally.count(200)}"
            + "".join(f", {each}" for each in tally.unexpected(200))
            for name, tally in (("/livez", self.livez), ("light plan", self.light))
        ]
        late = Tally({0: self.late}).percentile(0, 99) * 1e3
        return "; ".join((*parts, f"the load itself was late by p99 {late:.0f} ms"))

    @property
    def accepted(self) -> list[Acceptance]:
        """The durations of cheap questions beside their limit."""
        tallies = (("/livez", self.livez), ("light plan", self.light))
        slowest = [(name, tally.percentile(200, 99) * 1e3) for name, tally in tallies]
        faults = self.livez.faults() + self.light.faults()
        return [
            *(at_most(f"{name}, p99", value, CHEAP_MILLISECONDS, " ms") for name, value in slowest),
            at_most("errors of /livez and light plans", faults, 0),
        ]


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

    async def measure_lateness() -> None:
        while not ended.is_set():
            due = time.perf_counter() + PERIOD_SECONDS
            await asyncio.sleep(PERIOD_SECONDS)
            watched.late.append(time.perf_counter() - due)

    tasks = [
        asyncio.create_task(measure_lateness()),
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


@dataclass(frozen=True, slots=True)
class Dear:
    """What came of dear questions."""

    callers: int
    tally: Tally
    watched: Watched
    peak: int
    """Most bytes of memory that the service ever had."""
    processor_seconds: float

    @property
    def line(self) -> str:
        return (
            f"{self.callers} callers: {self.tally.count(200)} x 200, {self.tally.count(503)} x 503 (p99 "
            f"{self.tally.percentile(503, 99) * 1e3:.0f} ms){_others(self.tally)}; {self.watched.line}; peak "
            f"memory {self.peak >> 20} MiB; processor {self.processor_seconds:.1f} s"
        )


async def catalogs(served: Served, callers: int, seconds: float) -> Outcome:
    """Ask for whole catalogs: cheap questions are answered meanwhile."""
    came = await _dear(served, callers, {}, seconds)
    answered = at_least("catalogs answered", came.tally.count(200), 1)
    errors = at_most("errors but 503", came.tally.faults(), 0)
    return Outcome(came.line, [answered, errors, *came.watched.accepted])


async def full(served: Served, callers: int, body: dict[str, Any], seconds: float) -> Outcome:
    """Ask for the largest answers: memory stays bounded."""
    came = await _dear(served, callers, body, seconds)
    errors = at_most("errors but 503", came.tally.faults(), 0)
    return Outcome(came.line, [errors, at_most("peak memory", came.peak / 2**20, PEAK_MEBIBYTES, " MiB")])


async def overload(served: Served, callers: int, body: dict[str, Any], seconds: float) -> Outcome:
    """Ask for far more than can be answered: the rest is refused at once, with a Retry-After."""
    came = await _dear(served, callers, body, seconds)
    # Others were accepted, and refused when they had waited for as long as a request may.
    at_once = [each for each in came.tally.seconds.get(503, ()) if each < PATIENCE_SECONDS / 2]
    slowest = Tally({503: at_once}).percentile(503, 99) * 1e3
    return Outcome(
        came.line,
        [
            at_most("errors but 503, and 503 without Retry-After", came.tally.faults(), 0),
            at_least("requests refused at once with 503", len(at_once), 1),
            at_most("refused at once, p99", slowest, REFUSAL_MILLISECONDS, " ms"),
            at_most("peak memory", came.peak / 2**20, PEAK_MEBIBYTES, " MiB"),
        ],
    )


async def _dear(served: Served, callers: int, body: dict[str, Any], seconds: float) -> Dear:
    """Ask dear questions by many callers at once, and watch what cheap ones take meanwhile."""
    tally, processor = Tally(), served.processor_seconds()
    models = cycle(planned_models())
    end = time.perf_counter() + seconds

    async def ask() -> None:
        connection = Connection(served.port)
        while time.perf_counter() < end:
            reply = await ask_into(tally, connection, "/plan", {**body, "model": next(models)})
            if reply is None or reply.status == 503:
                await asyncio.sleep(0.2)
        connection.close()

    await asyncio.gather(*(ask_into(Tally(), Connection(served.port), "/plan", LIGHT) for _ in range(3)))
    async with watching(served.port) as watched:
        await asyncio.gather(*(ask() for _ in range(callers)))
    return Dear(callers, tally, watched, served.memory("VmHWM"), served.processor_seconds() - processor)


async def saturation(served: Served, connections: int, seconds: float) -> Outcome:
    """Ask light questions over so many connections as fast as they are answered."""
    before = await _warmed_up(served)
    tally = await _saturated(served, connections, seconds)
    ended, livez = time.perf_counter(), Tally()
    while livez.percentile(200, 100) > 0.05 or not livez.seconds:
        livez = Tally()
        await ask_into(livez, Connection(served.port), "/livez")
    recovery, grown = time.perf_counter() - ended, (served.memory() - before) / 2**20
    line = (
        f"{connections} connections: {tally.count(200) / seconds:.0f}/s, p99 "
        f"{tally.percentile(200, 99) * 1e3:.0f} ms, {tally.count(503)} x 503"
        f"{_others(tally)}; memory {grown:+.0f} MiB; recovered after {recovery:.2f} s"
    )
    return Outcome(
        line,
        [
            at_most("errors but 503", tally.faults(), 0),
            at_most("growth of memory", grown, round(GROWTH_MEBIBYTES, 1), " MiB"),
            at_most("until /livez takes 50 ms again", recovery, RECOVERY_SECONDS, " s"),
        ],
    )


async def _warmed_up(served: Served) -> int:
    """Ask some questions, and return the memory after them."""
    for _ in range(50):
        await ask_into(Tally(), Connection(served.port), "/plan", LIGHT)
    return served.memory()


async def _saturated(served: Served, connections: int, seconds: float) -> Tally:
    tally, lengths, end = Tally(), count(1024), time.perf_counter() + seconds

    async def ask() -> None:
        connection = Connection(served.port)
        while time.perf_counter() < end:
            question = {**LIGHT, "serve": {"max_model_len": 1024 + next(lengths) % 30_000}}
            await ask_into(tally, connection, "/plan", question)
        connection.close()

    await asyncio.gather(*(ask() for _ in range(connections)))
    return tally


@dataclass(frozen=True, slots=True)
class Saturated:
    """What a saturated service answered, and the processor time of it."""

    answered: int
    of_each: list[float]
    """Seconds of each process of the service."""
    of_load: float
    """Seconds of the load itself."""

    @property
    def milliseconds(self) -> float:
        """Processor time of the service for one request."""
        return sum(self.of_each) / self.answered * 1e3

    @property
    def largest_share(self) -> float:
        """Share of the processor time that the busiest process had."""
        return max(self.of_each) / sum(self.of_each)

    def line(self, seconds: float) -> str:
        """Return the figures, for people."""
        return (
            f"{self.answered / seconds:.0f}/s at {self.milliseconds:.2f} ms of processor a request, "
            f"{self.largest_share:.0%} of it by the busiest process; the load took "
            f"{self.of_load / self.answered * 1e3:.2f} ms"
        )


async def _measured(served: Served, connections: int, seconds: float) -> Saturated:
    await _warmed_up(served)
    before, of_load = served.processor_seconds_of_each(), time.process_time()
    answered = (await _saturated(served, connections, seconds)).count(200)
    after = served.processor_seconds_of_each()
    of_each = [now - then for then, now in zip(before, after, strict=True)]
    return Saturated(answered, of_each, time.process_time() - of_load)


async def two_workers(one: Served, connections: int, seconds: float) -> Outcome:
    """Saturate one process, then two, and compare what they answer.

    Two processes on two free cores answer as many times what one does as the processor time of a request and
    its shares say. That is known on any machine; what they answer beside the load needs a core for each.
    """
    of_one = await _measured(one, connections, seconds)
    with served("--workers", "2") as two:
        two.wait_until_idle()
        of_two = await _measured(two, connections, seconds)
    by_time = of_one.milliseconds / of_two.milliseconds / of_two.largest_share
    cores, gain = (
        len(os.sched_getaffinity(0)),
        at_least("times one", of_two.answered / of_one.answered, GAIN_OF_TWO),
    )
    if cores < CORES_FOR_TWO:
        gain = replace(gain, is_met=None, what=f"times one; {cores} cores for them and the load")
    line = f"one: {of_one.line(seconds)}; two: {of_two.line(seconds)}"
    return Outcome(line, [gain, at_least("times one, by processor time", by_time, GAIN_OF_TWO)])


async def idle(served: Served, silent: int, slow: int, seconds: float) -> Outcome:
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
    line = f"{silent} idle and {slow} slow: {watched.line}; {closed} closed by the service"
    return Outcome(line, watched.accepted)


async def hung_up(served: Served, callers: int, body: dict[str, Any], patience: float) -> Outcome:
    """Let callers ask and hang up, and measure what is calculated for them afterwards."""
    writers = []
    for _, model in zip(range(callers), planned_models(), strict=False):
        _, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(request("/plan", {**body, "model": model}))
        writers.append(writer)
    await asyncio.sleep(patience)
    for writer in writers:
        writer.close()
    await asyncio.sleep(0.1)
    left, processor, light = time.perf_counter(), served.processor_seconds(), Tally()
    await ask_into(light, Connection(served.port), "/plan", {**LIGHT, "serve": {"max_model_len": 1000}})
    await asyncio.sleep(3 - (time.perf_counter() - left))
    seconds, wait = served.processor_seconds() - processor, light.percentile(200, 100)
    line = (
        f"{callers} callers who left after {patience} s: {seconds:.2f} s of processor time in the 3 s after; "
        f"a light plan {wait * 1e3:.0f} ms"
    )
    return Outcome(line, [at_most("a light plan after they left", wait * 1e3, CHEAP_MILLISECONDS, " ms")])
