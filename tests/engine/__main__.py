"""Run the probes for real: a release of vLLM on the CPU, torch in the host's memory.

``make test-engine RELEASE=0.32.0`` installs the release below ``.oracle``, starts it on tiny models of random
weights by the very child that workers run, and holds its blocks and groups against our plan, which must
agree exactly. An ``engine`` probe goes all the way through a service and a worker, and so do the allocations
of ``make test-alloc``. It exits with 1 where anything differs.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

import httpx2
from packaging.version import Version
from rich.console import Console

from service.engines.releases import find_release
from service.units import GIB
from service.worker.child import CHILDREN, Child
from service.worker.devices import HOST_NAME, HostMemory
from service.worker.engine_terms import cache_bytes
from service.worker.probe_run import environment_of
from tests.engine import allocation
from tests.engine.environment import prepare_engine
from tests.engine.models import BLOCK, BLOCKS, MODELS
from tests.engine.way import Json, opened
from tests.oracle.environment import InstallationFailed

CACHE_BYTES: Final = GIB
"""What the worker's own environment gives an engine on the host."""
FLAGS: Final = {"max_model_len": 1024, "enforce_eager": True}
WALL_SECONDS: Final = 1200


async def started(python: Path, config: Json, block_size: int) -> Json:
    """Return what the engine says of one model, without any override."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = {**FLAGS, "block_size": block_size}
        job = {"config": config, "flags": flags, "blocks": None, "max_utilization": 0.5}
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


async def planned(http: httpx2.AsyncClient, release: Version, config: Json, block_size: int) -> Json:
    """Return our plan for the same start, given the same memory for the cache."""
    flags = {"block_size": block_size, "kv_cache_memory_bytes": CACHE_BYTES}
    reply = await http.post("/plan", json={**question(release, config, **flags), "include": ["details"]})
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


async def run(release: Version, python: Path, console: Console) -> int:
    """Run everything; return the number of differences."""
    faults = 0
    async with opened(python) as way:
        await way.goes("engine", question(release, MODELS["one group"], block_size=BLOCK))
        console.print("engine probe: asked for, leased, run, handed in")
        timed = await way.goes("speed", question(release, MODELS["one group"], block_size=BLOCK))
        console.print(f"speed probe: {len(timed['result']['steps'])} points timed")
        for title, config in MODELS.items():
            block_size = BLOCKS.get(title, BLOCK)
            engine = await started(python, config, block_size)
            plan = await planned(way.http, release, config, block_size)
            faults += _specified(console, title, differences(plan, engine))
    return faults + await allocation.run(python, str(release), console)


def _specified(console: Console, title: str, found: list[str]) -> int:
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
