"""Draws the layers of a model in order: the letter of a mixer above the number of its network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from service.units import ceil_div
from service.web.drawings.svg import drawing, element, text

WIDTH, LEFT, TOP, CELL, NETWORK, ROW = 760, 40, 8, 26, 16, 56
MOST_IN_A_ROW = 32
KINDS = 6


@dataclass(frozen=True, slots=True)
class LayerCell:
    """One layer."""

    number: int
    letter: str
    """Of its kind of mixer."""
    place: int
    """Position of this kind, which decides the colour."""
    network: int
    """Position of its kind of network."""
    shares: bool
    """Whether it reads the cache of an earlier layer."""
    words: str


def layers_drawing(cells: Sequence[LayerCell]) -> Markup:
    """Draw all layers; hatched cells read the cache of an earlier layer."""
    in_a_row = ceil_div(len(cells), ceil_div(len(cells), MOST_IN_A_ROW)) if cells else 1
    width = (WIDTH - LEFT - 8) / max(in_a_row, 16)
    parts = [part for cell in cells for part in _cell(cell, in_a_row, width)]
    rows = ceil_div(len(cells), in_a_row)
    parts += [
        text(LEFT - 6, TOP + row * ROW + 17, str(row * in_a_row), text_anchor="end", class_="label")
        for row in range(rows)
    ]
    described = f"{len(cells)} layers: {''.join(cell.letter for cell in cells)}"
    return drawing(parts, WIDTH, TOP + rows * ROW, "Layers in order", described)


def _cell(cell: LayerCell, in_a_row: int, width: float) -> Iterator[Markup]:
    row, column = divmod(cell.number, in_a_row)
    x, y = LEFT + column * width, TOP + row * ROW
    title = element("title", f"layer {cell.number}: {cell.words}")
    css = f"part kind-{cell.place % KINDS}"
    yield element("rect", title, x=x, y=y, width=width, height=CELL, class_=css)
    if cell.shares:
        yield element("rect", x=x, y=y, width=width, height=6, class_="padding")
    yield text(x + width / 2, y + 18, cell.letter, text_anchor="middle", class_="on")
    yield element("rect", x=x, y=y + CELL, width=width, height=NETWORK, class_="part outside")
    yield text(x + width / 2, y + CELL + 12, str(cell.network + 1), text_anchor="middle", class_="label")
