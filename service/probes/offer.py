"""Offer: what a worker can run."""

from dataclasses import dataclass

from service.probes.job_spec import ProbeKind


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker can run."""

    worker: str
    kinds: tuple[ProbeKind, ...]
    gpu_names: tuple[str, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    """Releases of the engine that are installed on the node."""
    gpus: int = 0
    """Number of GPUs that the worker can use at once."""
