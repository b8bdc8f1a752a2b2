"""Single changes that get past a refusal, each tried before it is named."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from service.advisor.start import dry_start
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import PATCHES, RELEASES, rules_for
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType
from service.kv_cache.formats import UnmodelledCacheDtype
from service.launch.speculation import UnmodelledSpeculation

Attempt: TypeAlias = tuple[str, ServeFlags, EngineRules]
"""What to say, and the start that it describes."""

MOST: Final = 4
"""Fixes named at most."""
NEAREST_DTYPES: Final = ("int8_per_token_head", "fp8_per_token_head", "fp8", "fp8_e4m3", "bfloat16", "auto")
"""Cache dtypes worth trying instead, the smallest first."""


def fixes_for(
    architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType
) -> tuple[str, ...]:
    """Return single changes with which the engine gets as far as asking for memory."""
    sources = (_patched, _other_dtypes, _other_releases)
    attempts = (attempt for source in sources for attempt in source(flags, rules))
    working = (
        words
        for words, changed, changed_rules in attempts
        if _starts(architecture, changed, changed_rules, gpu)
    )
    return tuple(islice(working, MOST))


def memory_fixes(flags: ServeFlags) -> tuple[str, ...]:
    """Return what leaves more room for the cache, or asks less of it."""
    fixes = ["lower --max-model-len, or pass --max-model-len -1 to let the engine fit it"]
    if flags.kv_cache_memory_bytes is None:
        fixes.append("raise --gpu-memory-utilization")
    return (*fixes, "raise --tensor-parallel-size", "choose a smaller --kv-cache-dtype")


def _patched(flags: ServeFlags, rules: EngineRules) -> Iterator[Attempt]:
    for patch in PATCHES.values():
        yield f"patch {patch.id} ({patch.status})", flags, replace(rules, **patch.rules)


def _other_dtypes(flags: ServeFlags, rules: EngineRules) -> Iterator[Attempt]:
    for dtype in NEAREST_DTYPES:
        if dtype in rules.kv_cache_dtypes and dtype != flags.kv_cache_dtype:
            yield f"--kv-cache-dtype {dtype}", replace(flags, kv_cache_dtype=dtype), rules


def _other_releases(flags: ServeFlags, rules: EngineRules) -> Iterator[Attempt]:
    for release in RELEASES:
        if release > rules.release:
            yield f"vLLM {release}", flags, rules_for(release)


def _starts(architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType) -> bool:
    try:
        start = dry_start(architecture, flags, rules, gpu)
    except (EngineRefusal, UnmodelledCacheDtype, UnmodelledSpeculation):
        return False
    return start.layout.refusal is None and not start.fails_when_run
