"""Measure on a GPU everything that plans compute: one command, one folder of results.

``make test-gpu PYTHONS="/opt/vllm-0.32/bin/python /opt/vllm-0.33/bin/python"`` runs, with the Python of each
environment: an inventory, the experiments of ``device_experiments``, and for three models (attention, a
hybrid with Gated DeltaNet, multi-head latent attention) an ``alloc`` probe, and an ``engine`` probe where the
engine is installed; then a second tenant takes 60 % of the GPU, and a probe beside it must be refused, and
the memory must come back. Models have random weights, so no checkpoint is needed. Results are written as
they come: ``probes.ndjson``, ``experiments.ndjson``, and ``measurements.ndjson``, which
``dryserve measurements import`` takes.

It exits with 1 where a term lies outside its interval or the guard fails. With ``--host`` the host's memory
is taken for a GPU, to try the way without one; experiments and the second tenant are left out then.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from packaging.version import Version
from rich.console import Console
from rich.table import Table

from service.engines.releases import find_release
from service.units import GIB, MIB
from service.worker.devices import HOST_NAME, Devices, DeviceState, HostMemory, Nvml
from service.worker.probe_run import installed
from tests.engine.allocation import question as small_question
from tests.engine.way import Json, Way, opened

HERE: Final = Path(__file__).parent
MODELS: Final = ("Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "deepseek-ai/DeepSeek-V2-Lite")
HOST_MODELS: Final = ("meta-llama/Llama-3.2-1B-Instruct", "Qwen/Qwen3.5-0.8B")
TERMS: Final = ("weights", "activation", "non_torch", "graphs", "available_kv")
TENANT_SHARE: Final = "0.6"
COMES_BACK: Final = 32 * MIB
"""Bytes by which the used memory may differ once the tenant has gone."""
LOOKS: Final = 120
LOOK_SECONDS: Final = 0.5
DEFAULT_RELEASE: Final = "0.33.0"


@dataclass
class Campaign:
    """One run: where its results go, and what was found wrong."""

    devices: Devices
    on_host: bool
    folder: Path
    console: Console
    faults: int = 0

    def keep(self, name: str, row: Json) -> None:
        """Append a row to a file of the results."""
        with (self.folder / f"{name}.ndjson").open("a", encoding="utf-8") as file:
            _write(file, row)

    def check(self, what: str, *, holds: bool) -> None:
        """Print a finding, and count it where it does not hold."""
        self.console.print(f"{'ok   ' if holds else 'FAULT'}  {what}", markup=False, highlight=False)
        self.faults += not holds

    @property
    def gpu(self) -> DeviceState:
        """The first GPU, as it is now."""
        return self.devices.states()[0]


async def run(campaign: Campaign, python: Path) -> None:
    """Run everything with one environment."""
    found = await installed(python)
    release = find_release(found.get("vllm", DEFAULT_RELEASE))
    campaign.console.rule(f"{python}: {', '.join(f'{name} {found[name]}' for name in sorted(found))}")
    if not campaign.on_host:
        _experiments(campaign, python)
    async with opened(python, None if campaign.on_host else campaign.devices) as way:
        campaign.keep("probes", await way.ends("inventory", None))
        for kind in ("alloc", *(["engine"] if "vllm" in found and not campaign.on_host else [])):
            for model in HOST_MODELS if campaign.on_host else MODELS:
                await _probe(campaign, way, kind, _question(campaign, model, release))
        if not campaign.on_host:
            await _guarded(campaign, way, python, _question(campaign, MODELS[0], release))
        measured = await way.http.get("/measurements", headers={"Accept": "application/x-ndjson"})
        for line in measured.text.splitlines():
            campaign.keep("measurements", json.loads(line))


def _question(campaign: Campaign, model: str, release: Version) -> Json:
    if campaign.on_host:
        return small_question(model, {}, str(release))
    serve = {"max_model_len": 8192, "max_num_batched_tokens": 8192, "max_num_seqs": 64}
    return {
        "model": model,
        "engine": {"version": str(release)},
        "gpus": [campaign.gpu.name],
        "serve": {**serve, "tensor_parallel_size": 1},
    }


async def _probe(campaign: Campaign, way: Way, kind: str, plan: Json) -> None:
    """Run one probe, and hold what it measured against its plan."""
    before = campaign.gpu.used
    probe = await way.ends(kind, plan)
    campaign.keep("probes", probe)
    title = f"{kind} {plan['model']}"
    campaign.check(f"{title}: {probe['state']} {probe['reason'] or ''}", holds=probe["state"] == "succeeded")
    if probe["state"] == "succeeded":
        campaign.console.print(_table(campaign, title, probe))
    if not campaign.on_host:
        await _comes_back(campaign, title, before)


def _table(campaign: Campaign, title: str, probe: Json) -> Table:
    table = Table("GiB", "planned", "least", "most", "measured", box=None)
    for name, planned, low, high, measured in _terms(probe):
        inside = low <= measured <= high
        campaign.check(f"{title}: {name} inside its interval", holds=inside)
        table.add_row(name, *(f"{size / GIB:.3f}" for size in (planned, low, high, measured)))
    return table


def _terms(probe: Json) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield name, planned bytes, bounds and measured bytes of what a probe measured."""
    memory, result = probe["predicted"]["memory"], probe["result"]
    allocation = result.get("allocation")
    if allocation:
        weights = memory["weights"]
        yield "weights", *_bounds(weights), allocation["weights_taken_bytes"]
        cache = probe["predicted"]["kv_cache"]
        size = cache["num_blocks"] * cache["bytes_per_block"]
        yield "cache", size, int(size * 0.997), int(size * 1.003), allocation["kv_tensors_taken_bytes"]
    for rank in (result.get("measurement") or {}).get("ranks", []):
        for name in TERMS:
            if rank.get(name) is not None and memory.get(name) is not None:
                yield name, *_bounds(memory[name]), rank[name]["bytes"]


def _bounds(term: Mapping[str, Any]) -> tuple[int, int, int]:
    return term["bytes"], term["low"], term["high"]


def _experiments(campaign: Campaign, python: Path) -> None:
    command = (str(python), str(HERE / "device_experiments.py"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    for line in done.stdout.splitlines():
        campaign.keep("experiments", {"python": str(python), **json.loads(line)})
    campaign.check(f"experiments {done.stderr[-500:]}", holds=done.returncode == 0)


async def _guarded(campaign: Campaign, way: Way, python: Path, plan: Json) -> None:
    """Ask for a probe beside a second tenant, which must be refused and leave the tenant alone."""
    before = campaign.gpu.used
    command = (str(python), str(HERE / "second_tenant.py"), TENANT_SHARE)
    tenant = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert tenant.stdout is not None
    taken = int(await tenant.stdout.readline())
    probe = await way.ends("alloc", plan)
    campaign.keep("probes", probe)
    what = f"beside a tenant of {taken / GIB:.1f} GiB: {probe['state']}"
    campaign.check(what, holds=probe["state"] != "succeeded")
    campaign.check("the tenant still runs", holds=tenant.returncode is None)
    tenant.kill()
    await tenant.wait()
    await _comes_back(campaign, "the tenant", before)


async def _comes_back(campaign: Campaign, what: str, before: int) -> None:
    """Check that the memory is as it was before, once the driver has taken it back."""
    for _ in range(LOOKS):
        if campaign.gpu.used - before <= COMES_BACK:
            break
        await asyncio.sleep(LOOK_SECONDS)
    left = campaign.gpu.used - before
    campaign.check(f"{what}: memory comes back ({left / MIB:+.0f} MiB)", holds=left <= COMES_BACK)


def _write(file: TextIO, row: Json) -> None:
    file.write(json.dumps(row, sort_keys=True) + "\n")


def main() -> None:
    """Run with each environment."""
    parser = argparse.ArgumentParser(prog="tests.engine.on_gpu", description=__doc__)
    parser.add_argument("pythons", nargs="+", type=Path, help="Python of each environment with torch or vLLM")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="folder of the results")
    parser.add_argument("--host", action="store_true", help=f"use the host's memory ({HOST_NAME}) for a GPU")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    devices: Devices = HostMemory() if options.host else Nvml()
    campaign = Campaign(devices, options.host, options.out, Console(width=120))
    if devices.absence:
        sys.exit(devices.absence)
    for python in options.pythons:
        asyncio.run(run(campaign, python))
    campaign.console.print(f"{campaign.faults} faults; results in {options.out}")
    sys.exit(bool(campaign.faults))


if __name__ == "__main__":
    main()
