"""What the other layout of ranks would hold and give on the same GPUs, in words with numbers."""

from collections.abc import Iterable, Iterator
from math import floor
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.words.speed_words import compared

FEW_REQUESTS: Final = 10
"""Numbers of requests below this are specified with decimals."""


def requests_held(of_each: float, caches: int = 1) -> str:
    """Return as text how many requests of one length caches hold, rounded down.

    Where there are several caches, of data parallel ranks or of replicas, each holds whole requests.
    """
    if caches > 1:
        return f"{floor(of_each) * caches:,}"
    return f"{floor(of_each * 10) / 10:.1f}" if of_each < FEW_REQUESTS else f"{floor(of_each):,}"


def other_ranks(candidates: Iterable[Candidate], best: Candidate) -> Iterator[str]:
    """Say what attention on data parallel ranks with whole experts on each would do against tensor parallel.

    Of the two, the one that is not recommended: on as many GPUs, with the same cache dtype and length.
    """
    other = next((each for each in candidates if _is_other_layout(each, best)), None)
    if other is None or best.kv_cache is None or other.kv_cache is None:
        return
    flags = other.flags
    if flags.data_parallel_size > 1:
        way = (
            "Data parallel attention with expert parallelism "
            f"(--data-parallel-size {flags.data_parallel_size} --enable-expert-parallel)"
        )
    else:
        way = f"Tensor parallelism (--tensor-parallel-size {flags.tensor_parallel_size or 1})"
    held = requests_held(other.kv_cache.max_concurrency, flags.data_parallel_size)
    instead = requests_held(best.kv_cache.max_concurrency, best.flags.data_parallel_size)
    faster = ""
    if other.speed is not None and best.speed is not None:
        faster = f" and give {compared(other.speed, best.speed)}"
    doubt = "; whether it starts is uncertain" if other.verdict is Verdict.UNCERTAIN else ""
    yield (
        f"{way} on the same {best.gpus} GPUs would hold {held} requests of {best.kv_cache.max_model_len:,} "
        f"tokens instead of {instead}{faster}{doubt}."
    )


def _is_other_layout(other: Candidate, best: Candidate) -> bool:
    one, two = best.flags, other.flags
    cache, same = best.kv_cache, other.kv_cache
    return (
        other.may_serve
        and other.gpus == best.gpus > 1
        and cache is not None
        and same is not None
        and same.max_model_len == cache.max_model_len
        and other.resolved_kv_cache_dtype == best.resolved_kv_cache_dtype
        and two.quantization == one.quantization
        and two.pipeline_parallel_size == one.pipeline_parallel_size
        and (two.data_parallel_size > 1) != (one.data_parallel_size > 1)
        and (two.enable_expert_parallel or one.enable_expert_parallel)
    )
