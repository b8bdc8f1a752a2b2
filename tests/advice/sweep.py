"""Whether a 16-bit cache that is not the model's own type is ever recommended: it must not be.

On a model that computes in bfloat16, a float16 cache is read as other numbers than were written, or the start
fails (vllm-project/vllm#54338).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.application.errors import InputFault
from service.architecture.config import InvalidConfig
from service.engines.engine_rules import EngineRules
from service.engines.releases import RELEASES, rules_for
from service.gpus.catalog import gpu_catalog
from service.gpus.gpu_type import GpuType
from service.hub.bundled.snapshot import BundledSnapshot
from tests.advice.asked import Service
from tests.advice.judging import NOT_MODELLED_FAULTS

SIXTEEN_BITS: Final = frozenset({"float16", "bfloat16", "half"})
QUICK_GPUS: Final = ("h100-sxm-80gb", "b200-180gb")
QUICK_RELEASES: Final = ("0.20.2", "0.28.0")
"""Beside the newest. From 0.18 to 0.32 the engine takes such a cache without a word."""


@dataclass(frozen=True, slots=True)
class Mistaken:
    """A recommendation that must not be."""

    model: str
    gpu: str
    release: str
    dtype: str
    """Of the cache that is recommended."""
    model_dtype: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was asked, and what was wrong."""

    models: int
    gpus: int
    releases: tuple[str, ...]
    recommendations: int
    mistaken: tuple[Mistaken, ...]


def distinct_releases() -> tuple[str, ...]:
    """Return one release of each set of rules, the newest of those that share one."""
    newest: dict[EngineRules, str] = {}
    for release in RELEASES:
        newest[replace(rules_for(release), release=RELEASES[0])] = str(release)
    return tuple(newest.values())


def distinct_gpus() -> tuple[GpuType, ...]:
    """Return one of the GPU types that have the same capability and memory, by which alone plans differ."""
    found: dict[object, GpuType] = {}
    for gpu in gpu_catalog():
        if gpu.modelled:
            bounds = (gpu.memory_bytes, gpu.memory_low_bytes, gpu.memory_high_bytes)
            found.setdefault((gpu.compute_capability, *bounds, gpu.unified_memory), gpu)
    return tuple(found.values())


def sweep(service: Service, *, full: bool) -> Sweep:
    """Ask what is recommended for every bundled model; on all GPU types and releases if ``full``.

    Otherwise each model is asked on one release, in turn.
    """
    models = BundledSnapshot().ids()
    gpus = tuple(gpu.id for gpu in distinct_gpus()) if full else QUICK_GPUS
    releases = distinct_releases() if full else (*QUICK_RELEASES, str(RELEASES[-1]))
    recommendations = 0
    mistaken: list[Mistaken] = []
    for at, model in enumerate(models):
        for release in releases if full else (releases[at % len(releases)],):
            for found in _recommended(service, model, gpus, release):
                recommendations += 1
                if found.dtype in SIXTEEN_BITS and found.dtype != found.model_dtype:
                    mistaken.append(found)
    return Sweep(len(models), len(gpus), releases, recommendations, tuple(mistaken))


def _recommended(service: Service, model: str, gpus: Sequence[str], release: str) -> Iterator[Mistaken]:
    body = {"model": model, "gpus": list(gpus), "engine": {"version": release}}
    try:
        plans = service.plan(body).plans
    except (InputFault, InvalidConfig, *NOT_MODELLED_FAULTS):
        return
    for plan in plans:
        best = plan.recommended
        if best is not None and best.start is not None:
            yield Mistaken(model, plan.gpu.id, release, best.kv_cache_dtype, best.start.engine_config.dtype)


def by_release(found: Iterable[Mistaken]) -> dict[str, int]:
    """Count by release."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.release] = counts.get(each.release, 0) + 1
    return counts
