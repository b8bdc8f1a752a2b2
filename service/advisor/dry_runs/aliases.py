"""Names of cache dtypes that lead to the same start: one candidate for all of them."""

from collections.abc import Hashable, Sequence
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.grid import GridOfLength
from service.advisor.dry_runs.steps_of_advice import is_fp8
from service.engine_config.cache_dtype import canonical

COMMON: Final = ("auto", "fp8")
"""Names that published commands use, for a cache of the model's own type and for one of 8-bit floats."""


def places_offered(asked: GridOfLength, candidates: Sequence[Candidate]) -> Sequence[int]:
    """Return the places of the candidates of a grid that are listed.

    Of those that store the same cache, a search for the cache dtype lists one, under the commonest name.

    A checkpoint that asks for an fp8 cache gets one with ``auto`` too, in releases that read its request. The
    name ``fp8`` means the same cache in all releases, and is what published commands say.
    """
    if not asked.grid.searches_dtypes:
        return range(len(candidates))
    chosen: dict[Hashable, int] = {}
    for place, candidate in enumerate(candidates):
        if stores_other_floats(candidate):
            continue
        key = _stored(candidate)
        kept = chosen.get(key)
        if kept is None or _place(candidate) < _place(candidates[kept]):
            chosen[key] = place
    return tuple(chosen.values())


def stores_other_floats(candidate: Candidate) -> bool:
    """Whether a start has a cache of 16-bit floats in which the model does not compute."""
    if candidate.error is not None or candidate.fails:
        return False
    return candidate.start is not None and candidate.start.names_other_floats


def _stored(candidate: Candidate) -> Hashable:
    """Return what two candidates have in common if they differ in name alone."""
    flags, cache, start = candidate.flags, candidate.kv_cache, candidate.start
    dtype = candidate.resolved_kv_cache_dtype
    if start is None or dtype is None:
        return candidate.kv_cache_dtype, _layout(candidate)
    return (
        canonical(dtype),
        start.names_other_floats,
        _layout(candidate),
        flags.block_size,
        candidate.verdict,
        candidate.fails,
        candidate.attention_backends,
        candidate.block_size,
        None if cache is None else (cache.num_blocks, cache.bytes_per_block),
        None if candidate.memory is None else candidate.memory.available_kv.bytes,
    )


def _layout(candidate: Candidate) -> Hashable:
    flags = candidate.flags
    return (
        flags.tensor_parallel_size,
        flags.pipeline_parallel_size,
        flags.data_parallel_size,
        flags.enable_expert_parallel,
        flags.max_model_len,
        flags.max_num_seqs,
        flags.quantization,
    )


def _place(candidate: Candidate) -> int:
    """Return the place of a name among those for one cache."""
    wanted = COMMON[1] if is_fp8(candidate) else COMMON[0]
    others = (wanted, *COMMON)
    name = candidate.kv_cache_dtype
    return others.index(name) if name in others else len(others)
