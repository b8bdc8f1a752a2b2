"""Draws pages and groups: a rectangle for each page, filled where it is used, hatched where it is padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from service.web.drawings.svg import drawing, element, text
from service.web.figures import percent

WIDTH, LEFT, RIGHT, TOP = 760, 8, 8, 8
ROW, BAR = 52, 22
KINDS: Final = 6
"""Colours of groups."""
LEAST_WIDTH: Final = 3.0
"""Least width of what is drawn at all."""
MOST_CUTS: Final = 64
"""Pages or blocks that are drawn one by one; more are drawn as one."""


@dataclass(frozen=True, slots=True)
class BlockRow:
    """One block id in one group."""

    name: str
    place: int
    pages: int
    """Pages of equal size, one for each layer."""
    page: int
    """Bytes of a page, padding included."""
    used: int
    """Bytes of a page without padding."""
    size: int
    """Bytes of the block id, room for more layers included; or of the largest page, for one page alone."""
    misfits: bool = False
    """Whether a whole number of such pages should be as large as ``size``, and is not."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """The blocks of one request in one group."""

    name: str
    place: int
    blocks: int
    block_size: int
    """Tokens; 0 where a block holds a state."""
    held: int
    """Tokens that are stored at the end of the request; 0 for states."""
    window: int | None
    """Tokens that the layers see; ``None`` for all."""


def blocks_drawing(rows: Sequence[BlockRow], size: int) -> Markup:
    """Draw what one block id is in each group, or one page of each kind of layer."""
    if not rows or not size:
        return Markup()
    unit = (WIDTH - LEFT - RIGHT) / max(size, *(row.size for row in rows))
    parts = [part for number, row in enumerate(rows) for part in _block(row, TOP + number * ROW, unit)]
    described = "; ".join(
        f"{row.name}: page {row.page:,} B, {row.page - row.used:,} B of it padding" for row in rows
    )
    return drawing(parts, WIDTH, TOP + ROW * len(rows), "Pages of one block", described)


def _block(row: BlockRow, y: float, unit: float) -> Iterator[Markup]:
    padding = row.page - row.used
    yield text(LEFT, y + 12, f"{row.name}: page {row.page:,} B{_misfit_words(row, padding)}", class_="strong")
    top, css = y + 18, f"part kind-{row.place % KINDS}"
    cuts = row.pages if row.pages <= MOST_CUTS else 1
    width = row.pages * row.page * unit / cuts
    for number in range(cuts):
        x = LEFT + number * width
        filled = width * row.used / row.page
        yield element("rect", x=x, y=top, width=filled, height=BAR, class_=css)
        if padding:
            yield element("rect", x=x + filled, y=top, width=width - filled, height=BAR, class_="padding")
    idle = row.size - row.pages * row.page
    if row.misfits:
        yield from _copies(row, top, unit)
    elif idle > 0:
        x = LEFT + row.pages * row.page * unit
        title = element("title", f"{idle:,} B for no layer")
        yield element("rect", title, x=x, y=top, width=idle * unit, height=BAR, class_="none")


def _misfit_words(row: BlockRow, padding: int) -> str:
    if row.misfits:
        times = row.size // row.page
        return f"; {times} x this leaves {row.size - times * row.page:,} B over"
    return f", padding {padding:,} B ({percent(padding, row.page)})" if padding else ", no padding"


def _copies(row: BlockRow, top: float, unit: float) -> Iterator[Markup]:
    """Yield the page as often as it goes into the largest one, and what is left over."""
    times = row.size // row.page
    for number in range(1, times):
        x = LEFT + number * row.page * unit
        yield element("rect", x=x, y=top, width=row.page * unit, height=BAR, class_="none")
    x = LEFT + times * row.page * unit
    yield element(
        "rect", x=x, y=top, width=(row.size - times * row.page) * unit, height=BAR, class_="padding"
    )


def request_drawing(rows: Sequence[RequestRow], length: int) -> Markup:
    """Draw the blocks of one request along its tokens; windows keep those at the end."""
    if not rows:
        return Markup()
    unit = (WIDTH - LEFT - RIGHT) / max(1, length)
    parts = [
        part for number, row in enumerate(rows) for part in _strip(row, TOP + number * ROW, unit, length)
    ]
    bottom = TOP + ROW * len(rows)
    parts += [
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="axis"),
        text(LEFT, bottom + 14, "token 1", class_="label"),
        text(WIDTH - RIGHT, bottom + 14, f"token {length:,}", text_anchor="end", class_="label"),
    ]
    described = "; ".join(row.name for row in rows)
    return drawing(parts, WIDTH, bottom + 22, "Blocks of one request of the maximum length", described)


def _strip(row: RequestRow, y: float, unit: float, length: int) -> Iterator[Markup]:
    yield text(LEFT, y + 12, _strip_words(row), class_="strong")
    top, css = y + 18, f"part kind-{row.place % KINDS}"
    whole = WIDTH - LEFT - RIGHT
    if not row.block_size:
        for number in range(min(row.blocks, MOST_CUTS)):
            width = min(14.0, whole / min(row.blocks, MOST_CUTS))
            x = WIDTH - RIGHT - (number + 1) * width
            yield element("rect", x=x, y=top, width=width, height=BAR, class_=css)
        return
    yield element("rect", x=LEFT, y=top, width=whole, height=BAR, class_="none")
    held = max(LEAST_WIDTH, min(row.held, length) * unit)
    left = WIDTH - RIGHT - held
    seen = held if row.window is None else max(LEAST_WIDTH / 2, min(row.window, row.held) * unit)
    if seen < held:
        yield element("rect", x=left, y=top, width=held - seen, height=BAR, class_="padding")
    yield element("rect", x=WIDTH - RIGHT - seen, y=top, width=seen, height=BAR, class_=css)
    yield from _cuts(row, left, held, top)


def _strip_words(row: RequestRow) -> str:
    tokens = f" of {row.block_size:,} tokens" if row.block_size else ""
    window = "" if row.window is None else f", window {row.window:,} tokens"
    return f"{row.name}: {row.blocks:,} block{'s' if row.blocks > 1 else ''}{tokens}{window}"


def _cuts(row: RequestRow, left: float, held: float, top: float) -> Iterator[Markup]:
    """Yield the borders of blocks, where they are far enough apart."""
    if row.blocks > MOST_CUTS:
        return
    step = held / max(1, row.blocks)
    for number in range(1, row.blocks):
        x = left + number * step
        yield element("line", x1=x, x2=x, y1=top, y2=top + BAR, class_="axis")
