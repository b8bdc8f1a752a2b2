"""What `trtllm-serve` does with a model on GPUs of one type."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from math import floor
from typing import Final

from service.engine_plans.engine_plan import (
    TENSORRT_LLM,
    BudgetTerm,
    CacheFigures,
    EnginePlan,
    EngineRefused,
    Unused,
    not_modelled,
)
from service.engine_plans.engine_question import EngineQuestion, constant
from service.engine_plans.server_plan import NamedServer, plan_server
from service.memory.budget_types import Estimate
from service.memory.interval import difference
from service.tensorrt_llm.first_manager import (
    Beams,
    BlockPool,
    block_pools,
    blocks_to_completion,
    longest_request,
)
from service.tensorrt_llm.llm_args import TensorrtArgs
from service.tensorrt_llm.releases import ManagerRules
from service.tensorrt_llm.second_manager import (
    PagePools,
    longest_sequence,
    page_groups,
    page_pools,
    typical_batch,
)
from service.tensorrt_llm.window_groups import (
    UnmodelledBlocks,
    WindowGroup,
    mixes_head_sizes,
    window_groups,
)
from service.units import GIB

BLOCKS_ARE: Final = "tokens of the pool with the fewest requests' worth of blocks"
PAGES_ARE: Final = "tokens of the pages of layers without a window"
UNLIMITED: Final = 1 << 20
READ_ONLY: Final = "computed from the source alone: nothing of TensorRT-LLM was run"
DEFAULTS: Final = TensorrtArgs()


@dataclass(frozen=True, slots=True)
class TensorrtQuestion:
    """What TensorRT-LLM is asked: the common question and its own arguments."""

    asked: EngineQuestion
    args: TensorrtArgs
    rules: ManagerRules
    version: str


def plan_tensorrt_llm(question: TensorrtQuestion) -> EnginePlan:
    """Return what the server does."""
    asked, args = question.asked, question.args
    command = shlex.join(("trtllm-serve", *server_words(question)))
    try:
        groups = window_groups(asked.model, args)
    except UnmodelledBlocks as reason:
        return not_modelled(TENSORRT_LLM, question.version, args.tp_size, command, str(reason))
    server = _Server(question, groups)
    return plan_server(NamedServer(TENSORRT_LLM, question.version, args.tp_size, command, server), asked)


@dataclass(frozen=True, slots=True)
class _Server:
    question: TensorrtQuestion
    groups: tuple[WindowGroup, ...]

    @property
    def _block(self) -> int:
        return self.question.args.tokens_per_block or self.question.rules.tokens_per_block

    @property
    def _limit(self) -> int:
        return self.question.args.max_seq_len or self.question.asked.model.context.length or UNLIMITED

    @property
    def is_second(self) -> bool:
        """Whether the second manager is used: asked for, or needed for heads of several sizes."""
        asked = self.question.args.use_kv_cache_manager_v2
        wanted = mixes_head_sizes(self.question.asked.model) if asked is None else asked
        return wanted and self.question.rules.second_manager

    def terms(self) -> Iterator[BudgetTerm]:
        """Yield the terms of a rank's memory; none where the caller gave the cache's bytes."""
        asked, args = self.question.asked, self.question.args
        if asked.cache_bytes is not None:
            return
        free = asked.device.free(several=args.tp_size > 1)
        yield BudgetTerm("free before loading", free)
        yield BudgetTerm("weights", asked.weights(args.tp_size))
        yield BudgetTerm("peak of the profile run", constant("tensorrt_peak"))

    def budget(self, terms: tuple[BudgetTerm, ...]) -> Estimate:
        """Return the fraction of what is left of a rank's memory."""
        free, *taken = (term.estimate for term in terms)
        left = difference(free, taken, "free_gpu_memory_fraction of what is left after the profile run")
        share, most = self.question.args.free_gpu_memory_fraction, self.question.args.max_gpu_total_bytes

        def part(size: int) -> int:
            return floor(size * share) if most is None else min(most, floor(size * share))

        return Estimate(part(left.bytes), part(left.low), part(left.high), left.basis, left.source)

    def at(self, budget: int) -> tuple[CacheFigures | None, str | None]:
        """Return the figures with a budget of bytes on each rank, or why the server does not start."""
        try:
            return (self._pages(budget) if self.is_second else self._blocks(budget)), None
        except EngineRefused as refusal:
            return None, str(refusal)

    def _blocks(self, budget: int) -> CacheFigures:
        args, asked = self.question.args, self.question.asked
        pools = block_pools(self.groups, budget, self._block, self._limit, args.max_tokens)
        longest = longest_request(pools, self._limit, args.max_beam_width, args.sink_token_length)
        if longest <= 0:
            raise EngineRefused("no request fits the blocks of the cache")
        ranks = args.tp_size
        needed = Beams(max(1, longest - 1), 1, args.max_beam_width, args.sink_token_length)
        unused = sum(
            max(0, pool.blocks - blocks_to_completion(pool, needed)) * self._block * pool.token_bytes
            for pool in pools
        )
        return CacheFigures(
            tokens=min(pool.blocks for pool in pools) * self._block,
            tokens_are=BLOCKS_ARE,
            longest_request=longest,
            longest_prompt=longest - 1,
            requests=None
            if asked.request_tokens is None
            else self._requests_of_blocks(pools, asked.request_tokens),
            cache_bytes=(sum(pool.bytes for pool in pools),) * ranks,
            bytes_per_token=sum(group.token_bytes for group in self.groups if group.window is None) * ranks,
            unused=(Unused("blocks beyond those of the longest request", unused * ranks),) if unused else (),
            log_lines=tuple(self._block_lines(pools)),
        )

    def _requests_of_blocks(self, pools: tuple[BlockPool, ...], tokens: int) -> int:
        if tokens > self._limit:
            return 0
        args = self.question.args
        request = Beams(max(1, tokens - 1), 1, args.max_beam_width, args.sink_token_length)
        counts = (pool.blocks // max(1, blocks_to_completion(pool, request)) for pool in pools)
        return min(*counts, args.max_batch_size)

    def _block_lines(self, pools: tuple[BlockPool, ...]) -> Iterator[str]:
        for pool in pools:
            yield f"Number of blocks in KV cache primary pool for windowSize {pool.window}: {pool.blocks}"
        for pool in pools:
            per_sequence = -(-pool.window // self._block)
            yield (
                f"Max KV cache blocks per sequence: {per_sequence} [window size={pool.window}], tokens per "
                f"block={self._block}, primary blocks={pool.blocks}, secondary blocks=0"
            )
        size = sum(pool.bytes for pool in pools) / GIB
        tokens = min(pool.blocks for pool in pools) * self._block
        yield f"[MemUsageChange] Allocated {size:.2f} GiB for max tokens in paged KV cache ({tokens})."

    def _pages(self, budget: int) -> CacheFigures:
        args, asked = self.question.args, self.question.asked
        batch = (
            typical_batch(args.max_num_tokens, args.max_batch_size, args.avg_seq_len)
            if args.avg_seq_len
            else ()
        )
        groups = page_groups(self.groups, self._block)
        pools = page_pools(groups, budget, self._block, ratio=args.pool_ratio, batch=batch)
        longest = longest_sequence(pools, self._limit)
        if longest <= 0:
            raise EngineRefused("no request fits the pages of the cache")
        ranks = args.tp_size
        full = [pages for group, pages in zip(groups, pools.pages, strict=True) if None in group.windows]
        return CacheFigures(
            tokens=(min(full) if full else min(pools.pages)) * self._block,
            tokens_are=PAGES_ARE,
            longest_request=longest,
            longest_prompt=longest - 1,
            requests=None
            if asked.request_tokens is None
            else self._requests_of_pages(pools, asked.request_tokens),
            cache_bytes=(pools.bytes,) * ranks,
            bytes_per_token=sum(group.token_bytes for group in self.groups if group.window is None) * ranks,
            unused=self._unused_pages(pools, longest),
            log_lines=tuple(self._page_lines(budget, longest)),
        )

    def _requests_of_pages(self, pools: PagePools, tokens: int) -> int:
        if tokens > self._limit:
            return 0
        needs = zip(pools.pages, pools.needed(tokens, tokens), strict=True)
        return min(*(pages // max(1, need) for pages, need in needs), self.question.args.max_batch_size)

    def _unused_pages(self, pools: PagePools, longest: int) -> tuple[Unused, ...]:
        needs = pools.needed(longest, longest)
        size = sum(
            max(0, pages - need) * sum(group.page_bytes)
            for group, pages, need in zip(pools.groups, pools.pages, needs, strict=True)
        )
        return (
            (Unused("pages beyond those of the longest request", size * self.question.args.tp_size),)
            if size
            else ()
        )

    def _page_lines(self, budget: int, longest: int) -> Iterator[str]:
        yield f"KV cache manager v2 device quota set to {budget / GIB} GiB"
        if longest < self._limit:
            yield (
                f"max_seq_len {self._limit} is greater than max_num_tokens {longest} that can be allocated "
                f"in kv cache manager, setting max_seq_len to {longest}"
            )

    def notes(self) -> Iterator[str]:
        """Yield what to know about the figures."""
        yield READ_ONLY
        if mixes_head_sizes(self.question.asked.model) and not self.is_second:
            yield "the first manager stores every layer at the largest head size, which is not counted"
        if self.is_second:
            order = ", ".join("none" if group.window is None else str(group.window) for group in self.groups)
            yield f"pool_ratio has a share for each of the windows {order}, in this order"


def server_words(question: TensorrtQuestion) -> Iterator[str]:
    """Yield the words behind `trtllm-serve`; other arguments go to a file, `--extra_llm_api_options`."""
    args = question.args
    yield question.asked.model_id
    for name, option in (
        ("tp_size", "--tp_size"),
        ("free_gpu_memory_fraction", "--kv_cache_free_gpu_memory_fraction"),
        ("max_batch_size", "--max_batch_size"),
        ("max_num_tokens", "--max_num_tokens"),
        ("max_seq_len", "--max_seq_len"),
    ):
        value = getattr(args, name)
        if value != getattr(DEFAULTS, name):
            yield from (option, f"{value:g}" if isinstance(value, float) else str(value))
    if extra_options(args):
        yield from ("--extra_llm_api_options", "kv_cache.yaml")


def extra_options(args: TensorrtArgs) -> dict[str, object]:
    """Return the `kv_cache_config` of the file of further arguments; empty: none is needed."""
    names = ("tokens_per_block", "max_tokens", "max_gpu_total_bytes", "dtype", "pool_ratio", "avg_seq_len")
    config = {
        name: getattr(args, name) for name in (*names, "max_attention_window", "use_kv_cache_manager_v2")
    }
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in config.items()
        if value != getattr(DEFAULTS, name)
    }
