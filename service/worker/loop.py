"""The worker's loop: lease one job, run it under heartbeats, and report its result until it is stored."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final

import structlog

from service.probes.job_spec import JobSpec
from service.worker.devices import Devices
from service.worker.node import Node
from service.worker.probe_run import CANCELLED, ProbeRun, installed
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
ONCE_SECONDS: Final = 15
"""How long a worker that is to take one job asks a service that does not answer."""
PHASE_SECONDS: Final = 0.5
"""How often the worker checks whether a job has entered another phase."""
FENCE_SECONDS: Final = 5.0
"""If a lease cannot be renewed, its job is stopped this long before the lease ends.

So a job no longer uses the GPU when another worker may get its lease.
"""

_log = structlog.stdlib.get_logger("dryserve.worker")
LONGEST_DETAIL: Final = 2000
RunOf = Callable[[Node, Devices, JobSpec], ProbeRun]


class Worker:
    """One worker of a node. `run_of` creates the run of a job."""

    def __init__(self, node: Node, devices: Devices, client: ServiceClient, run_of: RunOf = ProbeRun) -> None:
        self._node = node
        self._devices = devices
        self._client = client
        self._run_of = run_of
        self._spool = Spool(node.state_folder / "results")
        self._stopping = asyncio.Event()
        self._run: ProbeRun | None = None
        self._given_up_at = inf
        """Until when a service that does not answer is asked again, by the event loop's clock."""

    def stop(self) -> None:
        """Lease no more jobs, and stop the one that runs."""
        self._stopping.set()
        if self._run is not None:
            self._run.stop("the worker received a stop signal")

    async def work(self, *, once: bool = False) -> None:
        """Run jobs until `stop` is called; with ``once``, until one job is done or no job waits.

        Raises:
            Denied: the service does not accept the token.
            Unreachable: with ``once``, the service did not answer for `ONCE_SECONDS`.
        """
        offer = await self._offer()
        for reason in self._shortcomings(offer):
            _log.warning("this worker runs less than it could", node=self._node.name, reason=reason)
        clock = asyncio.get_running_loop().time
        self._given_up_at = clock() + ONCE_SECONDS if once else inf
        await self._report_spooled()
        _log.info("ready", node=self._node.name, **offer)
        pause = SHORTEST_PAUSE
        while not self._stopping.is_set():
            try:
                assignment = await self._lease(offer, 0 if once else WAIT_SECONDS)
            except Unreachable as error:
                if clock() >= self._given_up_at:
                    raise
                _log.warning("service not reached", reason=str(error), next_try_seconds=round(pause, 1))
                pause = await self._paused(pause)
                continue
            self._given_up_at = inf
            pause = SHORTEST_PAUSE
            if assignment is not None:
                await self._do(assignment)
            if once:
                return

    async def _lease(self, offer: Mapping[str, Any], wait: float) -> Assignment | None:
        """Request a job. If `stop` is called meanwhile, cancel the request and return None."""
        leasing = asyncio.create_task(self._client.lease(offer, wait))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({leasing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not leasing.done():
            leasing.cancel()
            with suppress(asyncio.CancelledError):
                await leasing
            return None
        return leasing.result()

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

    def _shortcomings(self, offer: Mapping[str, Any]) -> Iterator[str]:
        """Yield why the worker runs fewer kinds of probes than it could, for its log."""
        if not offer["gpus"]:
            yield f"{self._devices.absence or 'no GPU is visible'}: it can only take inventories"
        lacking = [
            name for name, kind in (("torch", "alloc"), ("vllm", "engine")) if kind not in offer["kinds"]
        ]
        if offer["gpus"] and lacking:
            yield f"{self._node.python} has no {' and no '.join(lacking)}: choose another with --python"

    async def _do(self, assignment: Assignment) -> None:
        run = self._run = self._run_of(self._node, self._devices, assignment.spec)
        _log.info("job taken", probe=assignment.probe_id, kind=assignment.spec.work.kind.value)
        heartbeats = asyncio.create_task(self._keep_alive(assignment, run))
        try:
            result = await _result(run)
            if self._stopping.is_set() and run.stopped:
                return  # only the worker stops: another worker gets the job when the lease ends
            spooled = Spooled(assignment.probe_id, assignment.fence, result)
            self._spool.put(spooled)
            if await self._report(spooled):
                _log.info("job done", probe=assignment.probe_id, outcome=result["outcome"])
        finally:
            self._run = None
            heartbeats.cancel()
            with suppress(asyncio.CancelledError):
                await heartbeats

    async def _keep_alive(self, assignment: Assignment, run: ProbeRun) -> None:
        """Renew the lease by heartbeats; stop the job if it is cancelled or its lease may be lost."""
        clock = asyncio.get_running_loop().time
        good_until = clock() + assignment.ttl_seconds - min(FENCE_SECONDS, assignment.ttl_seconds / 2)
        while True:
            phase = run.phase
            try:
                active = await self._client.heartbeat(assignment.probe_id, assignment.fence, phase)
            except Unreachable:
                if clock() >= good_until:
                    run.stop("the service could not be reached before the lease ended")
                await asyncio.sleep(min(1.0, assignment.heartbeat_seconds))
                continue
            except (Rejected, Denied) as error:
                run.stop(f"the lease is lost: {error}")
                return
            good_until = clock() + assignment.ttl_seconds - min(FENCE_SECONDS, assignment.ttl_seconds / 2)
            if not active:
                run.stop(CANCELLED)
            due = clock() + assignment.heartbeat_seconds
            # A new phase is reported at once.
            while clock() < due and run.phase == phase:  # noqa: ASYNC110 - the child writes it into a file
                await asyncio.sleep(min(PHASE_SECONDS, max(0, due - clock())))

    async def _report(self, spooled: Spooled) -> bool:
        """Report a result, with retries until the service answers; return whether the service stored it.

        A result that the service rejects is deleted from the spool.

        Raises:
            Unreachable: the service did not answer until `work` gives up.
        """
        pause = SHORTEST_PAUSE
        while True:
            try:
                await self._client.report(spooled.probe_id, spooled.fence, spooled.result)
            except Unreachable as error:
                _log.warning("result not reported yet", probe=spooled.probe_id, reason=str(error))
                if self._stopping.is_set():
                    return False
                if asyncio.get_running_loop().time() >= self._given_up_at:
                    raise
                pause = await self._paused(pause)
                continue
            except Rejected as error:
                _log.warning("result rejected", probe=spooled.probe_id, reason=str(error))
                self._spool.drop(spooled)
                return False
            self._spool.drop(spooled)
            return True

    async def _report_spooled(self) -> None:
        for spooled in tuple(self._spool):
            await self._report(spooled)

    async def _paused(self, seconds: float) -> float:
        """Wait for about `seconds`, or until `stop` is called; return how long to wait the next time."""
        with suppress(TimeoutError):
            wait = seconds * random.uniform(0.5, 1.5)  # noqa: S311 - spreads the load, no secret
            await asyncio.wait_for(self._stopping.wait(), wait)
        return min(2 * seconds, LONGEST_PAUSE)


async def _result(run: ProbeRun) -> dict[str, Any]:
    """Run a job. An exception becomes a failed result, so that the worker goes on with the next job."""
    try:
        result = await run.result()
    except Exception as error:  # noqa: BLE001 - the next job may succeed
        _log.exception("job failed")
        result = {"outcome": "failed", "detail": f"{type(error).__name__}: {error}"}
    return {**result, "detail": result.get("detail", "")[:LONGEST_DETAIL]}
