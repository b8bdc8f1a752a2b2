"""What `sglang.launch_server` does with a model on GPUs of one type."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from service.engine_plans.engine_plan import (
    SGLANG,
    BudgetTerm,
    CacheFigures,
    EnginePlan,
    EngineRefused,
    Unused,
    not_modelled,
)
from service.engine_plans.engine_question import EngineQuestion, constant
from service.engine_plans.server_plan import NamedServer, plan_server
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import difference, exact
from service.sglang.automatic_args import with_automatic_args
from service.sglang.log_lines import log_lines
from service.sglang.memory_fraction import automatic_fraction
from service.sglang.pool_bytes import PoolBytes, UnmodelledPools, pool_bytes
from service.sglang.pools import EVICTION_INTERVAL, PoolQuestion, TokenPools, pools_in
from service.sglang.releases import PoolRules
from service.sglang.server_args import TRTLLM, SglangArgs
from service.units import MIB, round_up

TOKENS_ARE: Final = "tokens of the pool that bounds a request (max_total_num_tokens)"
SPARE_TOKENS: Final = 5
"""SGLang 0.5.23, tp_worker.py: the longest prompt is shorter than the longest request by these."""
MOST_REQUESTS: Final = 4096
LEAST_REQUESTS: Final = 2048
REQUESTS_OF_CONTEXT: Final = 512
"""SGLang 0.5.23, KVCacheConfigurator.resolve_max_num_reqs."""
DEFAULTS: Final = SglangArgs()


@dataclass(frozen=True, slots=True)
class SglangQuestion:
    """What SGLang is asked: the common question and its own arguments."""

    asked: EngineQuestion
    args: SglangArgs
    rules: PoolRules
    version: str


def plan_sglang(question: SglangQuestion) -> EnginePlan:
    """Return what the server does."""
    asked = question.asked
    args = with_automatic_args(question.args, asked.model, asked.device.generation)
    command = shlex.join(("python", "-m", "sglang.launch_server", *server_words(question)))
    try:
        sizes = pool_bytes(asked.model, args, question.rules)
    except UnmodelledPools as reason:
        return not_modelled(SGLANG, question.version, args.tp_size, command, str(reason))
    server = _Server(replace(question, args=args), sizes)
    return plan_server(NamedServer(SGLANG, question.version, args.tp_size, command, server), asked)


@dataclass(frozen=True, slots=True)
class _Server:
    question: SglangQuestion
    sizes: PoolBytes

    def terms(self) -> Iterator[BudgetTerm]:
        """Yield the terms of a rank's memory; none where the caller gave the cache's bytes."""
        asked, args = self.question.asked, self.question.args
        if asked.cache_bytes is not None:
            return
        free = asked.device.free(several=args.tp_size > 1)
        yield BudgetTerm("available before loading", free)
        yield BudgetTerm("weights", asked.weights(args.tp_size))
        yield BudgetTerm("loading", constant("sglang_loading"))
        fraction = automatic_fraction(asked.model, asked.device.driver_mib, args, self.question.rules)
        yield BudgetTerm("outside mem_fraction_static", fraction.left_out_of(free))
        if asked.model.multimodal and self.question.rules.multimodal_mib:
            size = self.question.rules.multimodal_mib * MIB
            yield BudgetTerm("multimodal reserve", exact(size, Basis.COMPUTED, "SGLANG_VLM_CACHE_SIZE_MB"))

    def budget(self, terms: tuple[BudgetTerm, ...]) -> Estimate:
        """Return what is left of a rank's memory for its pools."""
        free, *taken = (term.estimate for term in terms)
        return difference(free, taken, "available_after - available_before x (1 - mem_fraction_static)")

    def at(self, budget: int) -> tuple[CacheFigures | None, str | None]:
        """Return the figures with a budget of bytes on each rank, or why the server does not start."""
        asked, args = self.question.asked, self.question.args
        page = args.page_size or 1
        chunk = args.chunked_prefill_size or self.question.rules.tier(asked.device.driver_mib).chunk
        pools_question = PoolQuestion(self.sizes, args, self.question.rules, page, chunk)
        try:
            pools = pools_in(pools_question, budget)
        except EngineRefused as refusal:
            return None, str(refusal)
        limit = args.context_length or asked.model.context.length or pools.total
        longest = max(0, min(limit - 1, pools.total - 1))
        tokens = asked.request_tokens
        return (
            CacheFigures(
                tokens=pools.total,
                tokens_are=TOKENS_ARE,
                longest_request=longest,
                longest_prompt=max(0, longest - SPARE_TOKENS),
                requests=None if tokens is None else self._at_once(pools, tokens, page, limit),
                cache_bytes=(self._allocated(pools, page),) * args.tp_size,
                bytes_per_token=(self.sizes.full or self.sizes.windows) * args.tp_size,
                unused=tuple(self._unused(pools, pools_question, longest, budget)),
                log_lines=log_lines(pools_question, pools),
            ),
            None,
        )

    def _allocated(self, pools: TokenPools, page: int) -> int:
        windows = 0 if pools.windows is None else (pools.windows + page) * self.sizes.windows
        spare = self.question.rules.spare_states
        states = 0 if pools.states is None else (pools.states + spare) * self.sizes.states
        return (pools.full + page) * self.sizes.full + windows + states

    def _window_of(self, tokens: int, page: int) -> int:
        """Return the tokens of windows that one request holds while it answers."""
        return round_up(min(tokens, self.sizes.window + EVICTION_INTERVAL + page), page)

    def _at_once(self, pools: TokenPools, tokens: int, page: int, limit: int) -> int:
        if tokens > min(limit - 1, pools.total - 1):
            return 0
        counts = [pools.total // round_up(tokens, page), self._running(pools, limit)]
        if pools.windows is not None and pools.full:
            counts.append(pools.windows // self._window_of(tokens, page))
        return min(counts)

    def _running(self, pools: TokenPools, limit: int) -> int:
        """Return `max_running_requests`."""
        args, total = self.question.args, pools.total
        automatic = max(min(int(total / limit * REQUESTS_OF_CONTEXT), MOST_REQUESTS), LEAST_REQUESTS)
        running = min(args.max_running_requests or automatic, total // 2)
        if pools.states is None:
            return running
        return min(running, pools.states // (1 if args.disable_radix_cache else 3))

    def _unused(
        self, pools: TokenPools, question: PoolQuestion, longest: int, budget: int
    ) -> Iterator[Unused]:
        ranks, sizes, page = question.args.tp_size, self.sizes, question.page
        if pools.windows is not None and pools.full:
            held = min(pools.windows, self._window_of(longest, page))
            size = (pools.windows - held) * sizes.windows * ranks
            yield Unused("the windows' pool beyond one request's window", size)
        short = pools.total - longest - 1
        if short > 0:
            yield Unused("tokens beyond the model's context", short * (sizes.full or sizes.windows) * ranks)
        if pools.states is not None and pools.states > 1:
            yield Unused("states of other requests", (pools.states - 1) * sizes.states * ranks)
        left = budget - self._allocated(pools, 0)
        if self.question.asked.cache_bytes is not None and left > 0:
            yield Unused("left over when tokens were rounded down", left * ranks)

    def notes(self) -> Iterator[str]:
        """Yield what to know about the figures."""
        if self.question.asked.cache_bytes is None and self.question.args.mem_fraction_static is None:
            yield "mem_fraction_static is chosen by SGLang from the GPU; its interval is in the terms"
        if self.sizes.is_mla and self.question.args.tp_size > 1:
            yield "every rank has a whole copy of MLA's cache"
        if self.question.args.dsa_backend == TRTLLM and self.question.args.kv_cache_dtype == "fp8_e4m3":
            yield "sparse attention has rows of 8 bits without scales on this GPU (trtllm)"
        if self.sizes.states:
            yield "pools of states were read in the source, not run"


def server_words(question: SglangQuestion) -> Iterator[str]:
    """Yield the words behind `python -m sglang.launch_server`."""
    args = question.args
    yield from ("--model-path", question.asked.model_id)
    for name in (
        "tp_size",
        "mem_fraction_static",
        "max_total_tokens",
        "max_running_requests",
        "chunked_prefill_size",
        "swa_full_tokens_ratio",
        "hybrid_kvcache_ratio",
        "page_size",
        "kv_cache_dtype",
        "context_length",
        "mamba_full_memory_ratio",
        "max_mamba_cache_size",
        "cuda_graph_max_bs",
    ):
        value = getattr(args, name)
        if value != getattr(DEFAULTS, name):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            yield from (f"--{name.replace('_', '-')}", text)
    for name in ("disable_radix_cache", "disable_overlap_schedule"):
        if getattr(args, name):
            yield f"--{name.replace('_', '-')}"
