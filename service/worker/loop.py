"""The worker: one job at a time, alive by heartbeats, and never forgetful of a result."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog

from service.probes.job_spec import JobSpec
from service.worker.devices import Devices
from service.worker.node import Node
from service.worker.running import CANCELLED, ProbeRun, installed
from service.worker.service_client import (
    WAIT_SECONDS,
    Assignment,
    Denied,
    Rejected,
    ServiceClient,
    Unreachable,
)
from service.worker.spool import Spool, Spooled

SHORTEST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
PHASE_SECONDS: Final = 0.5
"""How often it is looked whether a job does something else by now."""
FENCE_SECONDS: Final = 5.0
"""So long before its lease ends a job is stopped that could not be prolonged: the GPU is fenced, too."""

_log = structlog.stdlib.get_logger("dryserve.worker")
LONGEST_DETAIL: Final = 2000
RunOf = Callable[[Node, Devices, JobSpec], ProbeRun]


class Worker:
    """One worker of a node."""

    def __init__(self, node: Node, devices: Devices, client: ServiceClient, run_of: RunOf = ProbeRun) -> None:
        self._node = node
        self._devices = devices
        self._client = client
        self._run_of = run_of
        self._spool = Spool(node.state_folder / "results")
        self._stopping = asyncio.Event()
        self._run: ProbeRun | None = None

    def stop(self) -> None:
        """Take no more jobs, and end the one that runs."""
        self._stopping.set()
        if self._run is not None:
            self._run.stop("the worker was told to end")

    async def work(self, *, once: bool = False) -> None:
        """Work until told to stop; with ``once``, until one job is done or none is there.

        Raises:
            Denied: the service does not know the token.
        """
        await self._hand_in_what_is_left()
        offer = await self._offer()
        _log.info("ready", node=self._node.name, **offer)
        pause = SHORTEST_PAUSE
        while not self._stopping.is_set():
            try:
                assignment = await self._lease(offer, 0 if once else WAIT_SECONDS)
            except Unreachable as error:
                _log.warning("service not reached", reason=str(error))
                pause = await self._paused(pause)
                continue
            pause = SHORTEST_PAUSE
            if assignment is not None:
                await self._do(assignment)
            if once:
                return

    async def _lease(self, offer: Mapping[str, Any], wait: float) -> Assignment | None:
        """Ask for a job; a worker that is told to stop meanwhile takes none."""
        asking = asyncio.create_task(self._client.lease(offer, wait))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not asking.done():
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
            return None
        return asking.result()

    async def _offer(self) -> dict[str, Any]:
        found = await installed(self._node.python)
        states = self._devices.states()
        kinds = ["inventory"]
        kinds += ["alloc"] if "torch" in found and states else []
        kinds += ["engine"] if "vllm" in found and states else []
        return {
            "kinds": kinds,
            "gpu_names": sorted({state.name for state in states}),
            "gpu_uuids": [state.uuid for state in states],
            "labels": list(self._node.labels),
            "releases": [found["vllm"]] if "vllm" in found else [],
            "gpus": 8 if self._node.on_host else len(states),
        }

    async def _do(self, assignment: Assignment) -> None:
        run = self._run = self._run_of(self._node, self._devices, assignment.spec)
        _log.info("job taken", probe=assignment.probe_id, kind=assignment.spec.work.kind.value)
        beating = asyncio.create_task(self._keep_alive(assignment, run))
        try:
            result = await _result(run)
            if self._stopping.is_set() and run.stopped:
                return  # nobody cancelled it: another worker may run it once the lease ends
            spooled = Spooled(assignment.probe_id, assignment.fence, result)
            self._spool.put(spooled)
            if await self._hand_in(spooled):
                _log.info("job done", probe=assignment.probe_id, outcome=result["outcome"])
        finally:
            self._run = None
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _keep_alive(self, assignment: Assignment, run: ProbeRun) -> None:
        """Prolong the lease; stop the job when that is cancelled, lost, or can no longer be known."""
        clock = asyncio.get_running_loop().time
        good_until = clock() + assignment.ttl_seconds - min(FENCE_SECONDS, assignment.ttl_seconds / 2)
        while True:
            specified = run.phase
            try:
                wanted = await self._client.heartbeat(assignment.probe_id, assignment.fence, specified)
            except Unreachable:
                if clock() >= good_until:
                    run.stop("the service could not be reached before the lease ended")
                await asyncio.sleep(min(1.0, assignment.heartbeat_seconds))
                continue
            except (Rejected, Denied) as error:
                run.stop(f"the lease is lost: {error}")
                return
            good_until = clock() + assignment.ttl_seconds - min(FENCE_SECONDS, assignment.ttl_seconds / 2)
            if not wanted:
                run.stop(CANCELLED)
            due = clock() + assignment.heartbeat_seconds
            # What it does next is told at once.
            while clock() < due and run.phase == specified:  # noqa: ASYNC110 - a file of the child says so
                await asyncio.sleep(min(PHASE_SECONDS, max(0, due - clock())))

    async def _hand_in(self, spooled: Spooled) -> bool:
        """Hand a result in, however long that takes; return whether the service keeps it.

        What it refuses for good is forgotten.
        """
        pause = SHORTEST_PAUSE
        while True:
            try:
                await self._client.hand_in(spooled.probe_id, spooled.fence, spooled.result)
            except Unreachable as error:
                _log.warning("result not handed in yet", probe=spooled.probe_id, reason=str(error))
                if self._stopping.is_set():
                    return False
                pause = await self._paused(pause)
                continue
            except Rejected as error:
                _log.warning("result refused", probe=spooled.probe_id, reason=str(error))
                self._spool.drop(spooled)
                return False
            self._spool.drop(spooled)
            return True

    async def _hand_in_what_is_left(self) -> None:
        for spooled in tuple(self._spool):
            await self._hand_in(spooled)

    async def _paused(self, seconds: float) -> float:
        """Wait for about so long, unless told to stop; return how long to wait the next time."""
        with suppress(TimeoutError):
            wait = seconds * random.uniform(0.5, 1.5)  # noqa: S311 - spreads workers, keeps no secret
            await asyncio.wait_for(self._stopping.wait(), wait)
        return min(2 * seconds, LONGEST_PAUSE)


async def _result(run: ProbeRun) -> dict[str, Any]:
    """Run a job; whatever goes wrong with it is its result, and no end of the worker."""
    try:
        result = await run.result()
    except Exception as error:  # noqa: BLE001 - the next job may be a better one
        _log.exception("job failed")
        result = {"outcome": "failed", "detail": f"{type(error).__name__}: {error}"}
    return {**result, "detail": result.get("detail", "")[:LONGEST_DETAIL]}
