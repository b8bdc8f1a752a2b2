"""Measures what the Hub costs the service, before a fake Hub on loopback: `python -m tests.bench.hub`.

Three processes: the Hub, the service with an empty cache, and this one, which asks.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from service.hub.bundled.snapshot import BundledSnapshot
from tests.bench.server import running_server
from tests.hub.fake_hub import FakeHub, Repository
from tests.hub.hub_server import (
    FAULTS,
    index_of,
    serving,
    shard_name,
)

LARGE = "deepseek-ai/DeepSeek-V3.2"
SHARDS = 163
MODELS = 400
COLD = 20
AT_ONCE = 16


def large_hub() -> FakeHub:
    """Return a Hub of many models of many shards."""
    bundled = BundledSnapshot().get(LARGE)
    if bundled is None:
        raise LookupError(LARGE)
    files = {
        "config.json": json.dumps(bundled.config).encode(),
        "model.safetensors.index.json": index_of(SHARDS),
    }
    files |= {shard_name(number + 1, SHARDS): b"" for number in range(SHARDS)}
    return FakeHub({f"acme/large-{number}": Repository(files) for number in range(MODELS)})


def _serve(seconds: float, specified: Connection) -> None:
    with serving(large_hub(), seconds=seconds) as server:
        specified.send(server.endpoint)
        while (fault := specified.recv()) is not None:
            server.fault = FAULTS[fault] if fault else None
            specified.send(len(server.hub.requests))


@contextmanager
def hub_process(seconds: float) -> Iterator[tuple[str, Connection]]:
    """Serve the Hub from a process of its own; yield its endpoint, and where faults are named."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(seconds, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        ours.send(None)
        process.join(5)
        process.kill()


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> tuple[float, int, bytes]:
    """Ask once; return the seconds it took, the status and the answer."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        before = time.perf_counter()
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = reply.read()
        return time.perf_counter() - before, reply.status, answer


def resident_mebibytes(port: int) -> float:
    """Return the memory that the service says it holds."""
    lines = ask(port, "/metrics")[2].decode().splitlines()
    line = next(line for line in lines if line.startswith("process_resident_memory_bytes "))
    return float(line.split()[1]) / (1 << 20)


def cold_and_warm(port: int) -> Iterator[tuple[str, str]]:
    """Measure plans of models never asked for, and of the same again."""
    question = {"gpus": ["h100-sxm-80gb"], "serve": {"tensor_parallel_size": 8, "kv_cache_dtype": "auto"}}
    ask(port, "/plan", {"model": "acme/large-0", **question})
    bodies = [{"model": f"acme/large-{number}", **question} for number in range(1, 1 + COLD)]
    cold = [ask(port, "/plan", body)[0] for body in bodies]
    warm = [ask(port, "/plan", body)[0] for body in bodies]
    yield "plan, cold: p50", f"{median(cold) * 1e3:.0f} ms"
    yield "plan, warm: p50", f"{median(warm) * 1e3:.0f} ms"
    yield "waiting for the Hub", f"{(median(cold) - median(warm)) * 1e3:.0f} ms"


def _fetch_many(port: int, specified: Connection) -> None:
    paths = [f"/models/acme/large-{number}" for number in range(100, 100 + 10 * AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        specified.send(0)
        specified.send(sum(status == HTTPStatus.OK for _, status, _ in pool.map(partial(ask, port), paths)))


def probes_meanwhile(port: int) -> Iterator[tuple[str, str]]:
    """Measure /livez while a process of its own has cold models fetched, many at once."""
    taken: list[float] = []
    ours, theirs = multiprocessing.Pipe()
    load = multiprocessing.get_context("spawn").Process(target=_fetch_many, args=(port, theirs), daemon=True)
    load.start()
    ours.recv()
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        while not ours.poll():
            before = time.perf_counter()
            connection.request("GET", "/livez")
            connection.getresponse().read()
            taken.append(time.perf_counter() - before)
            time.sleep(0.005)
    cuts = quantiles(taken, n=100)
    yield f"/livez while {ours.recv()} cold models are fetched: p50", f"{cuts[49] * 1e3:.1f} ms"
    yield "p99", f"{cuts[98] * 1e3:.1f} ms"


def one_fault(port: int, hub: Connection, fault: str) -> tuple[str, str]:
    """Measure the answer before a fault and the growth of memory, with the service's own limits."""
    ask(port, "/models/acme/large-0")
    before = resident_mebibytes(port)
    hub.send(fault)
    hub.recv()
    seconds, status, answer = ask(port, "/models/acme/large-1")
    hub.send("")
    hub.recv()
    kind = json.loads(answer).get("type", "").rpartition("/")[2]
    growth = resident_mebibytes(port) - before
    return fault, f"{seconds:.2f} s, {status} {kind}, {growth:+.1f} MiB"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="tests.bench.hub", description=__doc__)
    parser.add_argument("--milliseconds", type=float, default=60.0, help="that the Hub takes to answer")
    given = parser.parse_args()
    table = Table(title=f"The Hub at {given.milliseconds:.0f} ms a request, models of {SHARDS} shards")
    table.add_column("what")
    table.add_column("measured", justify="right")
    with TemporaryDirectory() as folder, hub_process(given.milliseconds / 1e3) as (endpoint, hub):
        online = {
            "HF_ENDPOINT": endpoint,
            "HF_HUB_OFFLINE": "0",
            "DRYSERVE_CACHE": str(Path(folder) / "hub.sqlite3"),
        }
        with running_server(online) as port:
            for row in (*cold_and_warm(port), *probes_meanwhile(port)):
                table.add_row(*row)
        for fault in FAULTS:
            with running_server(online | {"DRYSERVE_CACHE": ":memory:"}) as port:
                table.add_row(*one_fault(port, hub, fault))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
