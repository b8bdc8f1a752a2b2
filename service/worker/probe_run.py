"""ProbeRun: runs one job. It checks the GPUs, refuses or starts a child, watches it, and reads its result."""

import asyncio
import fcntl
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from service.application.schemas.flags.serve import ServeInput
from service.probes.job_spec import (
    CONTEXT_BYTES,
    MAX_WALL_SECONDS,
    NOT_PROBED,
    Alloc,
    Engine,
    Inventory,
    JobSpec,
    ProbeLimits,
)
from service.units import GIB
from service.worker import engine_terms
from service.worker.child import (
    CHILDREN,
    TIMED_OUT,
    Child,
    ChildEnd,
)
from service.worker.devices import (
    HOST_NAME,
    Devices,
    DeviceState,
    host_memory,
)
from service.worker.excerpt import excerpt, last_error
from service.worker.guard import (
    HIDDEN_BYTES,
    ProbeDemand,
    disturbed,
    endangered,
    guard_refusal,
    reserve_of,
)
from service.worker.node import Node
from service.worker.process_tree import descendants

SAMPLES: Final = 3
SAMPLE_SECONDS: Final = 0.5
"""Time between two samples of a device, and between two rounds of the watchdog."""
WATCHED_BYTES: Final = GIB // 4
"""The search for the largest tensor leaves this much above the reserve, else the watchdog could stop it."""
Result = dict[str, Any]


class ProbeRefused(Exception):
    """The probe must not run on this node now. The message says why."""


class ProbeRun:
    """One job on this node; ``stop`` may be called while it runs."""

    def __init__(self, node: Node, devices: Devices, spec: JobSpec) -> None:
        self._node = node
        self._devices = devices
        self._spec = spec
        self._stopped = ""
        self.phase = ""

    def stop(self, why: str) -> None:
        """Ask the job to stop soon; `why` becomes part of its result."""
        self._stopped = self._stopped or why

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self._stopped)

    async def result(self) -> Result:
        """Run the job and return its result in the form of the API's `ResultInput`."""
        try:
            match self._spec.work:
                case Inventory():
                    return _inventory(self._devices)
                case Alloc() as work:
                    return await self._alloc(work)
                case Engine() as work:
                    return await self._engine(work)
        except ProbeRefused as refused:
            return {"outcome": "refused", "detail": str(refused)}

    async def _alloc(self, work: Alloc) -> Result:
        needed = work.bytes + CONTEXT_BYTES
        with ExitStack() as held:
            (device,), reserve = await self._claim(1, needed, held)
            largest = self._largest_tensor(device, reserve)
            budget = max(needed, largest + CONTEXT_BYTES)
            fraction = None if device.name == HOST_NAME else min(1.0, budget / device.total)
            job = {
                "weights": work.weights,
                "kv_tensors": work.kv_tensors,
                "fraction": fraction,
                "free": device.free,
                "largest": largest,
            }
            end, bad = await self._run_child("alloc.py", job, [device], reserve)
        if bad is not None:
            return bad
        report = dict(end.result or {})
        outcome, detail = report.pop("outcome"), report.pop("detail", "")
        return {"outcome": outcome, "detail": detail, "allocation": report}

    def _largest_tensor(self, device: DeviceState, reserve: int) -> int:
        """Return up to how many bytes the largest tensor is searched for.

        Nothing is searched for on the host, or if other processes use the GPU.
        """
        if device.name == HOST_NAME or device.pids or device.used > HIDDEN_BYTES:
            return 0
        room = device.free - reserve - CONTEXT_BYTES - WATCHED_BYTES
        most = self._spec.limits.max_bytes
        return max(0, room if most is None else min(room, most - CONTEXT_BYTES))

    async def _engine(self, work: Engine) -> Result:
        # The worker validates the flags again, so that no flag outside the closed list reaches the engine.
        flags = ServeInput.model_validate(dict(work.flags)).model_dump(exclude_none=True)
        if unfit := sorted(NOT_PROBED & flags.keys()):
            raise ProbeRefused(f"a probe cannot use {', '.join(unfit)}")
        with ExitStack() as held:
            devices, reserve = await self._claim(work.ranks, work.bytes, held)
            job = {
                "config": work.model.config,
                "flags": flags,
                "blocks": work.blocks,
                "max_utilization": _largest_share(devices, reserve),
                "points": [asdict(point) for point in work.points],
            }
            before = {device.uuid: device for device in devices}
            end, bad = await self._run_child("engine.py", job, devices, reserve)
            after = {state.uuid: state for state in self._devices.states()}
        if bad is not None:
            return bad
        contaminated = any(
            disturbed(state, after[uuid], self._seen.get(uuid, frozenset()), frozenset(self._own))
            for uuid, state in before.items()
        )
        return _measured(end, devices[0], self._devices.driver, contaminated=contaminated)

    async def _claim(self, number: int, needed: int, held: ExitStack) -> tuple[Sequence[DeviceState], int]:
        """Lock `number` devices against other workers of the node; return them and the reserve in bytes.

        Raises:
            ProbeRefused: fewer devices may be used; the message says why.
        """
        limits = self._spec.limits
        demand = _demand(limits, needed, self._node)
        found: list[DeviceState] = []
        reasons: list[str] = []
        reserve = 0
        samples = await self._samples()
        for states in samples.values():
            if len(found) >= number:
                break
            if not self._matches(states[-1]):
                continue
            reserve = reserve_of(states[-1], self._node.reserve_bytes, demand)
            # On the host all ranks of an engine share the one memory.
            share = number if states[-1].name == HOST_NAME else 1
            reason = guard_refusal(states, demand, reserve) or self._lock(states[-1], held)
            if reason is None:
                found += [states[-1]] * share
            else:
                reasons.append(reason)
        if len(found) < number:
            absent = self._devices.absence or "the node has no GPU that the job asks for"
            raise ProbeRefused("; ".join(dict.fromkeys(reasons)) or absent)
        return found[:number], reserve

    async def _samples(self) -> Mapping[str, Sequence[DeviceState]]:
        samples: dict[str, list[DeviceState]] = {}
        for sample in range(SAMPLES):
            for state in self._devices.states():
                samples.setdefault(state.uuid, []).append(state)
            if sample < SAMPLES - 1:
                await asyncio.sleep(SAMPLE_SECONDS)
        return samples

    def _matches(self, state: DeviceState) -> bool:
        target = self._spec.target
        named = target.gpu_name in {None, state.name}
        return named and target.gpu_uuid in {None, state.uuid}

    def _lock(self, state: DeviceState, held: ExitStack) -> str | None:
        """Lock a device against this node's other workers; return why that is not possible, else None."""
        path = self._node.state_folder / f"{state.uuid}.lock"
        file = held.enter_context(path.open("w"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "busy: another probe uses the GPU"
        return None

    async def _run_child(
        self, script: str, job: Mapping[str, Any], devices: Sequence[DeviceState], reserve: int
    ) -> tuple[ChildEnd, Result | None]:
        """Run a child to its end; return how it ended, and a result if it did not succeed (else None)."""
        self._seen: dict[str, frozenset[int]] = {}
        self._own: set[int] = set()
        with tempfile.TemporaryDirectory(prefix="probe-") as name:
            folder = Path(name)
            child = await Child.start(
                folder,
                (str(self._node.python), str(CHILDREN / script)),
                job,
                wall_seconds=min(self._spec.limits.wall_seconds, MAX_WALL_SECONDS),
                environment=environment_of(folder, devices),
            )
            try:
                await self._watch(child, devices, reserve)
            finally:
                await child.stop()
            end = child.end()
            return end, self._bad(end, folder)

    async def _watch(self, child: Child, devices: Sequence[DeviceState], reserve: int) -> None:
        """Watch memory and processes; return when the child has ended or must be stopped."""
        watched = {device.uuid for device in devices}
        while not await child.ended(SAMPLE_SECONDS):
            self.phase = child.phase
            self._own |= descendants(child.pid)
            states = [state for state in self._devices.states() if state.uuid in watched]
            for state in states:
                self._seen[state.uuid] = self._seen.get(state.uuid, frozenset()) | set(state.pids)
            if any(endangered(state, reserve) for state in states):
                self.stop("the device ran low on memory")
            if host_memory()[1] < self._node.host_reserve_bytes:
                self.stop("the host ran low on memory")
            if self._stopped:
                return

    def _bad(self, end: ChildEnd, folder: Path) -> Result | None:
        shown = excerpt(end.log, folder)
        if self._stopped:
            outcome = "cancelled" if self._stopped == CANCELLED else "failed"
            return {"outcome": outcome, "detail": f"stopped: {self._stopped}", "log_excerpt": shown}
        if end.code == TIMED_OUT:
            detail = f"it took longer than {self._spec.limits.wall_seconds} s"
            return {"outcome": "failed", "detail": detail, "log_excerpt": shown}
        if end.result is None:
            memory = "out of memory" in end.log.lower()
            outcome = "out_of_memory" if memory else "failed"
            return {"outcome": outcome, "detail": last_error(end.log), "log_excerpt": shown}
        return None


CANCELLED: Final = "cancelled"


def _inventory(devices: Devices) -> Result:
    if devices.absence:
        raise ProbeRefused(devices.absence)
    found = [{**state.document(), "driver": devices.driver} for state in devices.states()]
    return {"outcome": "measured", "inventory": found}


def _demand(limits: ProbeLimits, needed: int, node: Node) -> ProbeDemand:
    return ProbeDemand(
        needed, limits.reserve_bytes, limits.max_bytes, force=limits.force and node.allows_force
    )


def _largest_share(devices: Sequence[DeviceState], reserve: int) -> float:
    """Return the largest utilization that fits into the free memory, rounded down to hundredths."""
    share = min((device.free - reserve) / device.total for device in devices)
    return max(0.01, int(share * 100) / 100)


def environment_of(folder: Path, devices: Sequence[DeviceState]) -> dict[str, str]:
    """Return a child's environment variables, apart from those that its keeper passes on."""
    settings = {
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "PYTHONPATH": str(CHILDREN),
    }
    if devices[0].name == HOST_NAME:
        return {**settings, "VLLM_CPU_KVCACHE_SPACE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {**settings, "CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices)}


def _measured(end: ChildEnd, device: DeviceState, driver: str | None, *, contaminated: bool) -> Result:
    report = end.result or {}
    seen = report["device"] or {
        "name": device.name,
        "compute_capability": device.compute_capability,
        "total_bytes": device.total,
    }
    measurement = {
        "measured_at": time.time(),
        "device": {**seen, "uuid": device.uuid},
        "utilization": report["utilization"],
        "ranks": engine_terms.ranks(report["ranks"], end.log),
        "stack": {"driver": driver, **{name: report[name] for name in ("cuda", "torch", "nccl")}},
        "cache": engine_terms.cache(report["ranks"]),
        "contaminated": contaminated,
        "timings": report["timings"],
    }
    # A service without speed probes takes no member of this name.
    steps = {"steps": report["steps"]} if report.get("steps") else {}
    return {"outcome": "measured", "measurement": measurement, **steps}


async def installed(python: Path) -> Mapping[str, str]:
    """Return the versions of torch and vllm in a Python environment, without packages it does not have."""
    process = await asyncio.create_subprocess_exec(
        str(python), "-I", str(CHILDREN / "inspection.py"), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    with suppress(ValueError):
        found = json.loads(output)
        return {name: version.partition("+")[0] for name, version in found.items()}
    return {}
