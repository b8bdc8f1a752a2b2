"""Answers about workers."""

from datetime import UTC, datetime
from typing import Self

from pydantic import Field

from service.application.schemas.base import Output
from service.application.workers_seen import SeenWorker
from service.probes.job_spec import ProbeKind


class WorkerAnswer(Output):
    """A worker, by its last request for a job."""

    name: str = Field(description="Name of its token and of its node, as jobs show it")
    active: bool = Field(description="Whether it was seen in the last 90 s")
    first_seen: datetime = Field(description="When this service saw it first, in UTC (RFC 3339)")
    last_seen: datetime = Field(description="When this service saw it last, in UTC (RFC 3339)")
    probe_id: str | None = Field(description="Id of the probe that it runs; null where it runs none")
    kinds: list[ProbeKind] = Field(description="Kinds of probes that it runs")
    gpu_names: list[str] = Field(description="Names of its GPUs, as the driver prints them")
    gpus: int = Field(description="GPUs that one probe may take")
    labels: list[str] = Field(description="Labels that it was started with")
    releases: list[str] = Field(description="Releases of the engine that are installed there")
    warnings: list[str] = Field(description="Why it can run less than it could; empty where nothing is amiss")

    @classmethod
    def of(cls, worker: SeenWorker, *, active: bool) -> Self:
        """Describe a worker."""
        offer = worker.offer
        return cls(
            name=offer.worker,
            active=active,
            first_seen=datetime.fromtimestamp(worker.first_seen, UTC),
            last_seen=datetime.fromtimestamp(worker.last_seen, UTC),
            probe_id=worker.job_id,
            kinds=list(offer.kinds),
            gpu_names=list(offer.gpu_names),
            gpus=offer.gpus,
            labels=list(offer.labels),
            releases=list(offer.releases),
            warnings=_warnings(worker),
        )


def _warnings(worker: SeenWorker) -> list[str]:
    offer = worker.offer
    found = [] if offer.gpus else ["it sees no GPU: it runs `inventory` only"]
    if offer.gpus and ProbeKind.ALLOC not in offer.kinds:
        found.append("its Python has no torch: it runs no `alloc` probes")
    if offer.gpus and ProbeKind.ENGINE not in offer.kinds:
        found.append("its Python has no vLLM: it runs no `engine` probes")
    return found


class WorkerList(Output):
    """The workers that this service has seen since it started."""

    since: datetime = Field(description="When this service started to look, in UTC (RFC 3339)")
    workers: list[WorkerAnswer] = Field(description="The workers, the one seen last first")
