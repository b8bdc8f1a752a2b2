"""Allocate for real what is planned, in the host's memory with torch for CPUs.

``make test-alloc`` installs torch below ``.oracle``; then for each shape of model a service is asked for an
``alloc`` probe, which a worker leases and runs. It exits with 1 where what was taken differs from what was
planned by more than 0.3 %.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from service.hub.bundled.snapshot import BundledSnapshot
from service.units import GIB
from service.worker.devices import HOST_NAME
from tests.engine.environment import prepare_torch
from tests.engine.way import Json, Way, opened
from tests.oracle.environment import InstallationFailed

AGREEMENT: Final = 0.003
HOST_BYTES: Final = 5 * GIB
"""What of the host is taken for a GPU: weights and cache together fill nine tenths of it."""
SHAPES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "plain": ("meta-llama/Llama-3.2-1B-Instruct", {}),
    "windows and full attention": ("google/gemma-3-1b-it", {}),
    "Gated DeltaNet": ("Qwen/Qwen3.5-0.8B", {}),
    "latent attention, experts": ("deepseek-ai/DeepSeek-V2-Lite", {"num_hidden_layers": 3}),
}
"""Models of the bundled snapshot, with what is changed of their configs to have them fit."""


async def allocated(way: Way, release: str) -> AsyncIterator[tuple[str, int, int]]:
    """Allocate each shape; yield what, the bytes planned and the bytes taken."""
    for title, (model, changes) in SHAPES.items():
        probe = await way.goes("alloc", question(model, changes, release))
        specified, predicted = probe["result"]["allocation"], probe["predicted"]
        cache, weights = predicted["kv_cache"], predicted["memory"]["weights"]["bytes"]
        planned = cache["num_blocks"] * cache["bytes_per_block"]
        yield f"{title}: weights", weights, specified["weights_taken_bytes"]
        yield f"{title}: cache", planned, specified["kv_tensors_taken_bytes"]


def question(model: str, changes: Mapping[str, Any], release: str) -> Json:
    """Return the plan of one shape."""
    fetched = BundledSnapshot().get(model)
    if fetched is None:
        raise LookupError(model)
    return {
        "model": model,
        "config": {**deepcopy(fetched.config), **changes},
        "engine": {"version": release},
        "gpus": [{"name": HOST_NAME, "memory_bytes": HOST_BYTES, "compute_capability": "9.0"}],
        "serve": {"max_model_len": 1024, "max_num_batched_tokens": 1024, "max_num_seqs": 8},
    }


async def run(python: Path, release: str, console: Console) -> int:
    """Allocate every shape; return how many differ."""
    table, faults = Table("", "planned", "taken", "error", box=None), 0
    async with opened(python) as way:
        async for what, planned, taken in allocated(way, release):
            error = taken / planned - 1
            faults += abs(error) > AGREEMENT
            table.add_row(what, f"{planned:,}", f"{taken:,}", f"{error:+.4%}")
    console.print(table)
    return faults


def main() -> None:
    """Install what is needed, and run."""
    parser = argparse.ArgumentParser(prog="tests.engine.allocation", description=__doc__)
    parser.add_argument("--release", default="0.32.0", help="release whose plans are allocated")
    parser.add_argument("--python", type=Path, help="of an environment that has torch already")
    options = parser.parse_args()
    console = Console(width=160)
    try:
        python = options.python or prepare_torch(console.print)
    except InstallationFailed as failure:
        sys.exit(str(failure))
    sys.exit(bool(asyncio.run(run(python, options.release, console))))


if __name__ == "__main__":
    main()
