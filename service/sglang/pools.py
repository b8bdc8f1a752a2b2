"""TokenPools: the tokens that SGLang's pools hold in a budget.

Source: SGLang 0.4.9, 0.5.0rc2, 0.5.1 (read) and 0.5.10, 0.5.20, 0.5.23 (their own configurators were run).
"""

from dataclasses import dataclass
from typing import Final

from service.engine_plans.engine_plan import EngineRefused
from service.sglang.pool_bytes import PoolBytes
from service.sglang.releases import PoolRules, PoolSplit
from service.sglang.server_args import SglangArgs
from service.units import GIB, round_up

EVICTION_INTERVAL: Final = 128
"""`SGLANG_SWA_EVICTION_INTERVAL`: tokens between two evictions of what left the window."""
TOO_LITTLE: Final = "Not enough memory. Please try to increase --mem-fraction-static."


@dataclass(frozen=True, slots=True)
class TokenPools:
    """Tokens of each pool."""

    full: int
    """Tokens of the layers without a window, which bound a request; or of all layers."""
    windows: int | None
    """Tokens of the pool of layers with a window; ``None`` without one."""
    states: int | None
    """Requests whose states fit; ``None`` without recurrent layers."""

    @property
    def total(self) -> int:
        """`max_total_num_tokens`: the full pool, or the windows' where all layers have one."""
        return self.full or self.windows or 0


@dataclass(frozen=True, slots=True)
class PoolQuestion:
    """What pools are sized from, beside the budget."""

    sizes: PoolBytes
    args: SglangArgs
    rules: PoolRules
    page: int
    """Tokens of a page."""
    chunk: int
    """Tokens of a prefill chunk; 0 or less without chunks."""


def pools_in(question: PoolQuestion, budget: int) -> TokenPools:
    """Return the pools that a budget of bytes on one rank holds.

    Raises:
        EngineRefused: they hold no token, or no request's window.
    """
    sizes, args = question.sizes, question.args
    states, rest = _states(question, budget)
    if rest <= 0:
        raise EngineRefused(question.rules.empty_budget)
    if not sizes.windows:
        tokens = rest // sizes.full if sizes.full else args.max_total_tokens or 1 << 31
        pools = TokenPools(_pages(_capped(tokens, args), question.page), None, states)
    elif not sizes.full:
        tokens = _pages(_capped(rest // sizes.windows, args), question.page)
        pools = TokenPools(0, tokens, states)
    elif _is_capped(question):
        pools = _capped_windows(question, rest, states)
    else:
        pools = _shared(question, rest, states)
    if pools.total <= 0:
        raise EngineRefused(TOO_LITTLE)
    return pools


def window_cap(question: PoolQuestion) -> int:
    """Return the tokens of windows that `--max-running-requests` requests need at most."""
    args, page = question.args, question.page
    chunks = 1 if args.disable_overlap_schedule else 2
    request = question.sizes.window + EVICTION_INTERVAL + 2 * page
    requests = max(1, args.max_running_requests or 1)
    return round_up(requests * request + chunks * question.chunk + page, page)


def _is_capped(question: PoolQuestion) -> bool:
    args = question.args
    asked = args.disable_radix_cache and args.max_running_requests is not None and question.chunk > 0
    return question.rules.caps_windows and asked


def _capped_windows(question: PoolQuestion, budget: int, states: int | None) -> TokenPools:
    sizes, page, windows = question.sizes, question.page, window_cap(question)
    fixed = windows * sizes.windows
    full = _pages((budget - fixed) // sizes.full, page)
    if full <= 0:
        raise EngineRefused(
            f"SWA pool cap ({windows} tokens, {fixed / GIB:.2f} GiB) leaves no room for the full KV pool "
            f"within the available {budget / GIB:.2f} GiB. Reduce --max-running-requests, lower "
            "SGLANG_SWA_EVICTION_INTERVAL, or increase --mem-fraction-static."
        )
    most = question.args.max_total_tokens
    if most is not None and most < full:
        return TokenPools(_pages(most, page), min(windows, most), states)
    return TokenPools(full, windows, states)


def _shared(question: PoolQuestion, budget: int, states: int | None) -> TokenPools:
    args, page, sizes = question.args, question.page, question.sizes
    ratio = args.swa_full_tokens_ratio
    if question.rules.split is PoolSplit.BY_SHARE:
        return _by_share(question, budget, states)
    if question.rules.split is PoolSplit.BY_LAYERS:
        tokens = _capped(budget // sizes.whole, args)
        layers = sizes.full_layers + sizes.window_layers
        full = int(tokens * layers / (ratio * sizes.window_layers + sizes.full_layers))
        return TokenPools(full, int(full * ratio), states)
    if question.rules.split is PoolSplit.BY_COUNT:
        tokens = _capped(_pages(budget // sizes.whole, page), args)
        full = _pages(int(tokens * sizes.whole / (sizes.full + ratio * sizes.windows)), page)
    else:
        full = _pages(_capped(int(budget // (sizes.full + ratio * sizes.windows)), args), page)
    windows = _pages(int(full * ratio), page)
    if question.rules.refuses_small_windows and sizes.window + page >= windows:
        raise EngineRefused(
            f"SWA pool ({windows} tokens) cannot hold even one request: the prefill admission floor is "
            f"sliding_window_size ({sizes.window}) + page_size ({page}). Increase --swa-full-tokens-ratio or "
            "the total KV budget."
        )
    return TokenPools(full, windows, states)


def _by_share(question: PoolQuestion, budget: int, states: int | None) -> TokenPools:
    """Return the pools of Llama 4 up to 0.4.9, whose layers with chunks are three of four."""
    tokens = _capped(budget // question.sizes.whole, question.args)
    share = question.args.hybrid_kvcache_ratio or 0.0
    windows = int(4 * tokens * share / (3 * share + 1))
    return TokenPools(int(4 * tokens - 12 * tokens * share / (3 * share + 1)), windows, states)


def _states(question: PoolQuestion, budget: int) -> tuple[int | None, int]:
    """Return the requests whose states fit, and what is left for tokens."""
    size, args, spare = question.sizes.states, question.args, question.rules.spare_states
    if not size:
        return None, budget
    if args.max_mamba_cache_size is not None:
        slots = args.max_mamba_cache_size
    elif args.disable_radix_cache and args.max_running_requests is not None:
        slots = args.max_running_requests
    else:
        ratio = args.mamba_full_memory_ratio
        slots = int((budget * ratio / (1 + ratio) - spare * size) // size)
    if slots <= 0:
        raise EngineRefused(
            "Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
            f"max_mamba_cache_size={slots} (total_rest_memory={budget / GIB:.2f} GB, "
            f"mamba_cache_per_req={size / (1 << 20):.2f} MB)."
        )
    return slots, budget - (slots + spare) * size


def _capped(tokens: int, args: SglangArgs) -> int:
    return tokens if args.max_total_tokens is None else min(tokens, args.max_total_tokens)


def _pages(tokens: int, page: int) -> int:
    return tokens // page * page
