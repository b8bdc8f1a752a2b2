"""PagePools: the pages of TensorRT-LLM's second cache manager (`KVCacheManagerV2`).

Source, read only: NVIDIA/TensorRT-LLM, tensorrt_llm/runtime/kv_cache_manager_v2/_storage_manager.py,
_storage/_core.py, _storage/_config.py and _life_cycle_registry.py. The class changes from release to release.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log2
from typing import Final

from service.engine_plans.engine_plan import EngineRefused
from service.tensorrt_llm.window_groups import WindowGroup
from service.units import GIB, MIB, ceil_div

SMALLEST_GRAIN: Final = 2 * MIB
MOST_DOUBLINGS: Final = 4
TYPICAL_HISTORY: Final = 2048
"""Tokens of the one request by which memory is divided where nothing else is given."""


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Windows whose pages have the same sizes, which share their pools."""

    windows: tuple[int | None, ...]
    page_bytes: tuple[int, ...]
    """Bytes of a page in each pool of the group."""


@dataclass(frozen=True, slots=True)
class PagePools:
    """The pages of every group on one rank."""

    groups: tuple[PageGroup, ...]
    pages: tuple[int, ...]
    tokens_per_page: int
    grain: int
    """Bytes by which pools are allocated."""

    @property
    def bytes(self) -> int:
        """Bytes of all grains."""
        counts = zip(self.groups, self.pages, strict=True)
        return sum(grains(group, pages, self.grain) for group, pages in counts) * self.grain

    def needed(self, capacity: int, history: int) -> tuple[int, ...]:
        """Return the pages of each group that one request holds."""
        return tuple(group_pages(group, capacity, history, self.tokens_per_page) for group in self.groups)


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """A request of a batch, by tokens."""

    capacity: int
    """Tokens that have room."""
    history: int
    """Tokens that are computed already."""


def page_groups(groups: Sequence[WindowGroup], tokens_per_page: int) -> tuple[PageGroup, ...]:
    """Return the groups of pages; windows with pages of the same sizes share one."""
    merged: dict[tuple[int, ...], list[int | None]] = {}
    for group in groups:
        merged.setdefault(group.page_bytes(tokens_per_page), []).append(group.window)
    return tuple(PageGroup(tuple(windows), sizes) for sizes, windows in merged.items())


def grain_bytes(quota: int) -> int:
    """Return the bytes by which pools are allocated: 2 MiB, doubled with each power of two of GiB."""
    doublings = int(log2(quota / GIB)) if quota > GIB else 0
    return SMALLEST_GRAIN << min(MOST_DOUBLINGS, max(0, doublings))


def live_pages(window: int | None, capacity: int, history: int, size: int) -> int:
    """Return the pages of a window that a request holds.

    A query at position `history` attends to itself and to the `window - 1` tokens before it.
    """
    stale = 0 if window is None else max(0, (history + 1 - window) // size)
    return max(0, ceil_div(capacity, size) - stale)


def group_pages(group: PageGroup, capacity: int, history: int, size: int) -> int:
    """Return the pages of a group that a request holds."""
    return sum(live_pages(window, capacity, history, size) for window in group.windows)


def grains(group: PageGroup, pages: int, grain: int) -> int:
    """Return the grains that some pages take in all pools of a group."""
    return sum(ceil_div(pages * size, grain) for size in group.page_bytes)


def typical_batch(max_num_tokens: int, max_batch_size: int, avg_seq_len: int) -> tuple[CachedRequest, ...]:
    """Return the batch by which memory is divided: one prompt, and requests of the average length."""
    prompt = CachedRequest(max_num_tokens, 0)
    return (prompt, *(CachedRequest(avg_seq_len, avg_seq_len - 1),) * (max_batch_size - 1))


def page_pools(
    groups: Sequence[PageGroup],
    quota: int,
    tokens_per_page: int,
    *,
    ratio: Sequence[float] = (),
    batch: Sequence[CachedRequest] = (),
) -> PagePools:
    """Return the pages that a quota of bytes on one rank holds.

    Args:
        groups: groups of pages.
        quota: bytes.
        tokens_per_page: tokens of a page (`tokens_per_block`).
        ratio: `pool_ratio`, a share for each group; empty: by the batch.
        batch: requests in whose proportion pages are divided; empty: one request of 2048 tokens.

    Raises:
        EngineRefused: the quota has no room for one window, or the ratio is not one share for each group.
    """
    grain = grain_bytes(quota)
    total = quota // grain
    floors = [_floor(group, tokens_per_page) for group in groups]
    if total < sum(grains(group, floor, grain) for group, floor in zip(groups, floors, strict=True)):
        raise EngineRefused("Insufficient quota to satisfy min_slots constraints")
    if ratio:
        pages = _by_ratio(groups, ratio, total, grain)
    else:
        pages = _by_batch(
            groups,
            batch or (CachedRequest(TYPICAL_HISTORY + 1, TYPICAL_HISTORY),),
            total,
            grain,
            tokens_per_page,
        )
    pages = _at_least(groups, pages, floors, total, grain)
    return PagePools(tuple(groups), tuple(pages), tokens_per_page, grain)


def _floor(group: PageGroup, size: int) -> int:
    """Return the pages that a group has at least: a window's and one more, or one page."""
    return sum(1 if window is None else (window + size - 2) // size + 1 for window in group.windows)


def _by_ratio(groups: Sequence[PageGroup], ratio: Sequence[float], total: int, grain: int) -> list[int]:
    """Divide grains by shares, the smallest share first."""
    if len(ratio) != len(groups) or min(ratio) <= 0:
        raise EngineRefused(f"pool_ratio must have one positive share for each of {len(groups)} pool groups")
    pages, left = [0] * len(groups), total
    order = sorted(range(len(groups)), key=lambda index: ratio[index])
    for place, index in enumerate(order):
        share = ratio[index] / sum(ratio[other] for other in order[place:])
        pages[index] = _pages_in(groups[index], round(left * share), grain)
        left -= grains(groups[index], pages[index], grain)
    return pages


def _by_batch(
    groups: Sequence[PageGroup], batch: Sequence[CachedRequest], total: int, grain: int, size: int
) -> list[int]:
    """Return the most pages in the proportion of a batch's pages that fit the grains."""
    needs = [sum(group_pages(group, each.capacity, each.history, size) for each in batch) for group in groups]

    def at(scale: Fraction) -> list[int]:
        return [int(need * scale) for need in needs]

    def fits(pages: Sequence[int]) -> bool:
        return sum(grains(group, count, grain) for group, count in zip(groups, pages, strict=True)) <= total

    # Pages change only at scales that give some group a whole page more, so the largest of these decides.
    scales = [Fraction(_most(_at_step(fits, at, need), total * grain), need) for need in needs if need]
    return at(max(scales))


def _at_step(
    fits: Callable[[Sequence[int]], bool], at: Callable[[Fraction], list[int]], need: int
) -> Callable[[int], bool]:
    """Return whether pages fit at the scale that gives a group of `need` pages a number of pages."""
    return lambda count: fits(at(Fraction(count, need)))


def _most(fits: Callable[[int], bool], limit: int) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _pages_in(group: PageGroup, budget: int, grain: int) -> int:
    """Return the most pages of a group that some grains hold."""
    limit = budget * grain // max(1, min(group.page_bytes)) + 1
    return _most(lambda pages: grains(group, pages, grain) <= budget, limit)


def _at_least(
    groups: Sequence[PageGroup], pages: Sequence[int], floors: Sequence[int], total: int, grain: int
) -> list[int]:
    """Give every group its floor, at the cost of the others."""
    if all(count >= floor for count, floor in zip(pages, floors, strict=True)):
        return list(pages)
    found = [max(count, floor) for count, floor in zip(pages, floors, strict=True)]
    used = sum(grains(group, count, grain) for group, count in zip(groups, found, strict=True))
    for index in sorted(range(len(groups)), key=lambda index: floors[index] - found[index]):
        if used <= total:
            break
        own = grains(groups[index], found[index], grain)
        kept = _pages_in(groups[index], own - (used - total), grain)
        found[index] = max(floors[index], kept)
        used += grains(groups[index], found[index], grain) - own
    return found


def longest_sequence(pools: PagePools, limit: int) -> int:
    """Return the tokens of the longest request whose live pages fit every group, up to `limit`; 0: none."""
    return _most(
        lambda tokens: all(
            need <= pages for need, pages in zip(pools.needed(tokens, tokens), pools.pages, strict=True)
        ),
        limit,
    )
