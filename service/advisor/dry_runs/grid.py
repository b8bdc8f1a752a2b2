"""The flags that a search tries first: each cache dtype at each tensor parallel size."""

from dataclasses import dataclass
from functools import lru_cache

from service.changed import changed
from service.engines.flags import ServeFlags

RECENT_GRIDS = 32
"""The last grids that are stored."""
RECENT_LENGTHS = 16
"""The last of them with a length."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Flags that are planned together, without a length: one object for all GPU types, so it can be a key."""

    flags: tuple[ServeFlags, ...]
    searches_dtypes: bool
    """Whether the cache dtypes are the search's own, not the one that was specified."""


@dataclass(frozen=True, slots=True, eq=False)
class GridOfLength:
    """The flags of a grid with a length; one object for all GPU types."""

    grid: Grid
    max_model_len: int | None
    flags: tuple[ServeFlags, ...]


@lru_cache(maxsize=RECENT_LENGTHS)
def grid_of(specified: ServeFlags, cache_dtypes: tuple[str, ...], sizes: tuple[int, ...]) -> GridOfLength:
    """Return each cache dtype at each tensor parallel size; a dtype that is specified takes their place."""
    length = specified.max_model_len
    grid = _of_any_length(specified.but_length, cache_dtypes, sizes)
    return GridOfLength(grid, length, tuple(flags.of_length(length) for flags in grid.flags))


@lru_cache(maxsize=RECENT_GRIDS)
def _of_any_length(specified: ServeFlags, cache_dtypes: tuple[str, ...], sizes: tuple[int, ...]) -> Grid:
    searched = specified.kv_cache_dtype is None
    return Grid(
        tuple(
            changed(specified, kv_cache_dtype=dtype, tensor_parallel_size=size)
            for dtype in (cache_dtypes if searched else (specified.kv_cache_dtype,))
            for size in sizes
        ),
        searches_dtypes=searched,
    )
