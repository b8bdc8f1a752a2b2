"""Draws planned against measured memory: a point on the diagonal was planned exactly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2

from markupsafe import Markup

from service.units import GIB
from service.web.drawings.context_drawing import Scale
from service.web.drawings.svg import drawing, element, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 420, 64, 16, 24, 46


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One term of one probe, in bytes."""

    probe: int
    """Its row in the table, counted from 1."""
    term: str
    css: str
    planned: int
    low: int
    high: int
    measured: int
    words: str

    @property
    def is_inside(self) -> bool:
        """Whether the measurement is inside the planned interval."""
        return self.low <= self.measured <= self.high


def probes_drawing(points: Sequence[MeasuredPoint]) -> Markup:
    """Draw all points; nothing where there are none."""
    if not points:
        return Markup()
    sizes = [size for each in points for size in (each.planned, each.measured, max(1, each.low), each.high)]
    low, high = floor(log2(min(sizes))), ceil(log2(max(sizes) + 1))

    def share(size: float) -> float:
        return (log2(max(1.0, size)) - low) / max(1, high - low)

    def x(size: float) -> float:
        return LEFT + min(1.0, max(0.0, share(size))) * (WIDTH - LEFT - RIGHT)

    def y(size: float) -> float:
        return HEIGHT - BOTTOM - min(1.0, max(0.0, share(size))) * (HEIGHT - TOP - BOTTOM)

    parts = [*_grid(low, high, x, y)]
    parts.append(element("line", x1=x(2**low), y1=y(2**low), x2=x(2**high), y2=y(2**high), class_="tick"))
    for each in points:
        title = element("title", f"{each.probe}, {each.term}: {each.words}")
        at = y(each.measured)
        parts.append(element("line", x1=x(each.low), x2=x(each.high), y1=at, y2=at, class_="whisker"))
        parts.append(element("circle", title, cx=x(each.planned), cy=at, r=7, class_=f"part {each.css}"))
        name = str(each.probe)
        parts.append(text(x(each.planned), at + 4, name, text_anchor="middle", class_="on"))
    described = "; ".join(f"{each.probe}, {each.term}: {each.words}" for each in points)
    return drawing(parts, WIDTH, HEIGHT, "Planned against measured memory", described)


def _grid(low: int, high: int, x: Scale, y: Scale) -> Iterator[Markup]:
    for power in range(low, high + 1, max(1, (high - low) // 8)):
        words = f"{2**power / GIB:g}"
        yield element("line", x1=x(2**power), x2=x(2**power), y1=TOP, y2=HEIGHT - BOTTOM, class_="grid")
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(2**power), y2=y(2**power), class_="grid")
        yield text(x(2**power), HEIGHT - BOTTOM + 16, words, text_anchor="middle", class_="label")
        yield text(LEFT - 6, y(2**power) + 4, words, text_anchor="end", class_="label")
    yield text((LEFT + WIDTH) / 2, HEIGHT - 8, "planned, GiB", text_anchor="middle", class_="label")
    yield text(8, TOP - 10, "measured, GiB", class_="label")
