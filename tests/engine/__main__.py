"""Run the probes for real: a release of vLLM on the CPU, torch in the host's memory.

``make test-engine RELEASE=0.32.0`` installs the release below ``.oracle``, starts it on tiny models of random
weights by the very child that workers run, and holds its blocks and groups against our plan, which must
agree exactly. Then a service and a worker are started, and an ``alloc`` and an ``engine`` probe go all the
way. It exits with 1 where anything differs.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from packaging.version import Version
from rich.console import Console

from service.api.app import create_app
from service.bootstrap import build_services
from service.engines.releases import find_release
from service.probe.jobs import Kind
from service.settings import Settings
from service.store.database import Database
from service.store.tokens import Scope
from service.units import GIB
from service.worker.child import CHILDREN, Child
from service.worker.client import ServiceClient
from service.worker.devices import HOST_NAME, HostMemory
from service.worker.engine_terms import cache_bytes
from service.worker.loop import Worker
from service.worker.node import Node
from service.worker.running import environment_of
from tests.engine.environment import prepare_engine
from tests.engine.models import MODELS
from tests.oracle.environment import InstallationFailed

CACHE_BYTES: Final = GIB
"""What the worker's own environment gives an engine on the host."""
BLOCK: Final = 128
"""Tokens of the CPU's blocks."""
FLAGS: Final = {"max_model_len": 1024, "enforce_eager": True, "block_size": BLOCK}
WALL_SECONDS: Final = 1200
AGREEMENT: Final = 0.003
Json = Mapping[str, Any]


async def started(python: Path, config: Json) -> Json:
    """Return what the engine says of one model, without any override."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = {"config": config, "flags": FLAGS, "blocks": None, "max_utilization": 0.5}
        child = await Child.start(
            folder,
            (str(python), str(CHILDREN / "engine.py")),
            job,
            wall_seconds=WALL_SECONDS,
            environment=environment_of(folder, HostMemory().states()),
        )
        await child.ended(WALL_SECONDS)
        await child.stop()
        end = child.end()
        if end.result is None:
            raise SystemExit(f"the engine did not start:\n{end.log[-4000:]}")
        return end.result


async def planned(http: httpx2.AsyncClient, release: Version, config: Json) -> Json:
    """Return our plan for the same start, given the same memory for the cache."""
    reply = await http.post("/plan", json=question(release, config, kv_cache_memory_bytes=CACHE_BYTES))
    (candidate,) = reply.json()["plans"][0]["candidates"]
    plan: Json = candidate
    return plan


def question(release: Version, config: Json, **flags: object) -> Json:
    """Return a plan's body."""
    return {
        "model": "tiny",
        "config": config,
        "engine": {"version": str(release)},
        "gpus": [{"name": HOST_NAME, "memory_bytes": 4 * GIB, "compute_capability": "9.0"}],
        "serve": {**FLAGS, "tensor_parallel_size": 1, "kv_cache_dtype": "auto", **flags},
    }


def differences(plan: Json, engine: Json) -> list[str]:
    """Return in what a plan and the engine's cache differ."""
    ours, theirs = plan["kv_cache"], engine["ranks"][0]["cache"]
    if ours is None:
        return [f"the plan does not start: {plan['error']}"]
    fields = ("layers", "block_size", "page_size_bytes")
    compared = {
        "num_blocks": (ours["num_blocks"], theirs["num_blocks"]),
        "groups": tuple(
            sorted(tuple(group[name] for name in fields) for group in cache["groups"])
            for cache in (ours, theirs)
        ),
        "bytes": (ours["num_blocks"] * ours["bytes_per_block"], cache_bytes(theirs)),
    }
    return [f"{name}: planned {a}, the engine has {b}" for name, (a, b) in compared.items() if a != b]


async def whole_way(http: httpx2.AsyncClient, worker: Worker, kind: Kind, release: Version) -> Json:
    """Return the result of a probe that is asked for, leased, run and handed in."""
    body = {"kind": kind.value, "plan": question(release, MODELS["one group"])}
    asked = await http.post("/probes", json=body)
    assert asked.status_code == 202, asked.text
    await worker.work(once=True)
    probe: Json = (await http.get(f"/probes/{asked.json()['id']}")).json()
    assert probe["state"] == "succeeded", probe
    return probe


def misallocated(probe: Json) -> list[str]:
    """Return where what was taken is not what was planned."""
    told, predicted = probe["result"]["allocation"], probe["predicted"]
    cache = predicted["kv_cache"]
    expected = {
        "weights": predicted["memory"]["weights"]["bytes"],
        "kv_tensors": cache["num_blocks"] * cache["bytes_per_block"],
    }
    taken = {name: told[f"{name}_taken_bytes"] for name in expected}
    return [
        f"{name}: planned {size}, taken {taken[name]}"
        for name, size in expected.items()
        if abs(taken[name] - size) > max(AGREEMENT * size, 4 << 20)
    ]


async def run(release: Version, python: Path, console: Console) -> int:
    """Run everything; return the number of differences."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = Database(f"sqlite:///{folder}/probes.db")
        services = build_services(Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient(), database)
        transport = httpx2.ASGITransport(app=create_app(services))
        tokens = services.probes.tokens
        operator, pool = await tokens.create("op", Scope.OPERATOR), await tokens.create("pool", Scope.WORKER)
        http, inward = (
            httpx2.AsyncClient(
                transport=transport, base_url="http://dryserve", headers={"Authorization": f"Bearer {token}"}
            )
            for token in (operator, pool)
        )
        node = Node("node-1", folder / "state", python, on_host=True)
        worker = Worker(node, HostMemory(), ServiceClient(inward, node.name))
        faults = 0
        for kind in (Kind.ALLOC, Kind.ENGINE):
            probe = await whole_way(http, worker, kind, release)
            console.print(f"{kind} probe: asked for, leased, run, handed in")
            if kind is Kind.ALLOC:
                faults += _told(console, "bytes taken", misallocated(probe))
        for title, config in MODELS.items():
            engine = await started(python, config)
            faults += _told(console, title, differences(await planned(http, release, config), engine))
        await database.close()
        return faults


def _told(console: Console, title: str, found: list[str]) -> int:
    console.print(f"{title}: {'; '.join(found) or 'agrees'}", markup=False, highlight=False)
    return len(found)


def main() -> None:
    """Install what is needed, and run."""
    parser = argparse.ArgumentParser(prog="tests.engine", description=__doc__)
    parser.add_argument("release", type=find_release, help="a release that is modelled")
    parser.add_argument("--python", type=Path, help="of an environment that has the engine already")
    options = parser.parse_args()
    console = Console(width=160)
    try:
        python = options.python or prepare_engine(options.release, console.print)
    except InstallationFailed as failure:
        sys.exit(str(failure))
    sys.exit(bool(asyncio.run(run(options.release, python, console))))


if __name__ == "__main__":
    main()
