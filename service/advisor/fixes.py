"""Single changes that get past a refusal, each tried before it is named."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from service.advisor.start import dry_start
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import PATCHES, RELEASES, rules_for
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType
from service.kv_cache.formats import UnmodelledCacheDtype
from service.launch.speculation import UnmodelledSpeculation

MOST: Final = 4
"""Fixes named at most."""
NEAREST_DTYPES: Final = ("int8_per_token_head", "fp8_per_token_head", "fp8", "fp8_e4m3", "bfloat16", "auto")
"""Cache dtypes worth trying instead, the smallest first."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A single change: what to say, and the start that it describes."""

    words: str
    flags: ServeFlags
    rules: EngineRules


def fixes_for(
    architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType
) -> tuple[str, ...]:
    """Return single changes with which the engine gets as far as asking for memory."""
    working = (
        attempt.words
        for attempt in attempts(flags, rules)
        if _starts(architecture, attempt.flags, attempt.rules, gpu)
    )
    return tuple(islice(working, MOST))


def attempts(flags: ServeFlags, rules: EngineRules) -> Iterator[Attempt]:
    """Yield single changes that can get past a refusal before memory is known, none of them tried."""
    for source in (_patched, _other_dtypes, _other_releases):
        yield from source(flags, rules)


def memory_fixes(flags: ServeFlags) -> tuple[str, ...]:
    """Return what leaves more room for the cache, or asks less of it."""
    fixes = ["lower --max-model-len, or pass --max-model-len -1 to let the engine fit it"]
    if flags.kv_cache_memory_bytes is None:
        fixes.append("raise --gpu-memory-utilization")
    return (*fixes, "raise --tensor-parallel-size", "choose a smaller --kv-cache-dtype")


def _patched(flags: ServeFlags, rules: EngineRules) -> Iterator[Attempt]:
    for patch in PATCHES.values():
        yield Attempt(f"patch {patch.id} ({patch.status})", flags, replace(rules, **patch.rules))


def _other_dtypes(flags: ServeFlags, rules: EngineRules) -> Iterator[Attempt]:
    for dtype in NEAREST_DTYPES:
        if dtype in rules.kv_cache_dtypes and dtype != flags.kv_cache_dtype:
            yield Attempt(f"--kv-cache-dtype {dtype}", replace(flags, kv_cache_dtype=dtype), rules)


def _other_releases(flags: ServeFlags, rules: EngineRules) -> Iterator[Attempt]:
    for release in RELEASES:
        if release > rules.release:
            yield Attempt(f"vLLM {release}", flags, rules_for(release))


def _starts(architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType) -> bool:
    try:
        start = dry_start(architecture, flags, rules, gpu)
    except (EngineRefusal, UnmodelledCacheDtype, UnmodelledSpeculation):
        return False
    return start.layout.refusal is None and not start.fails_when_run
