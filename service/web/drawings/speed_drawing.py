"""Draws starts by tokens per second of a user and of a GPU, each with its interval, and bars of cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot

from markupsafe import Markup

from service.speed.serving_speed import Between
from service.web.drawings.svg import drawing, element, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 340, 64, 16, 24, 44
ROW, BAR, NAMES = 34, 16, 8
TICKS = 5
RADIUS = 9


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """One start."""

    number: int
    per_request: Between
    """Output tokens per second of one request."""
    per_gpu: Between
    """Output tokens per second of one GPU."""


@dataclass(frozen=True, slots=True)
class CostBar:
    """One start."""

    number: int
    name: str
    cost: Between
    """US dollars for a million output tokens."""


def speeds_drawing(points: Sequence[SpeedPoint], curve: Sequence[tuple[int, float, float]]) -> Markup:
    """Draw starts, and the first start's line over the number of requests."""
    widest = max(*(each.per_request.high for each in points), *(x for _, x, _ in curve), 1e-9)
    highest = max(*(each.per_gpu.high for each in points), *(y for _, _, y in curve), 1e-9)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / widest

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / highest

    line = [f"{x(user):.1f} {y(gpu):.1f}" for _, user, gpu in curve]
    parts = [*_axes(widest, highest)]
    if line:
        parts.append(element("path", d=f"M{' L'.join(line)}", class_="line"))
    for number, user, gpu in curve:
        title = element("title", f"{number:,} requests: {user:,.3g} of a user, {gpu:,.3g} of a GPU")
        parts.append(element("circle", title, cx=x(user), cy=y(gpu), r=3, class_="mark"))
    beside: dict[tuple[float, float], list[int]] = {}
    for each in points:
        cx, cy = x(each.per_request.middle), y(each.per_gpu.middle)
        near = (place for place in beside if hypot(place[0] - cx, place[1] - cy) < 2 * RADIUS)
        place = next(near, (cx, cy))
        beside.setdefault(place, []).append(each.number)
        across = {"y1": cy, "y2": cy, "x1": x(each.per_request.low), "x2": x(each.per_request.high)}
        up = {"x1": cx, "x2": cx, "y1": y(each.per_gpu.low), "y2": y(each.per_gpu.high)}
        parts += [element("line", class_="whisker", **across), element("line", class_="whisker", **up)]
    for (cx, cy), numbers in beside.items():
        parts += _marks(cx, cy, numbers)
    described = "; ".join(
        f"{each.number}: {each.per_request.middle:,.3g} of a user, {each.per_gpu.middle:,.3g} of a GPU"
        for each in points
    )
    return drawing(parts, WIDTH, HEIGHT, "Output tokens per second of a user and of a GPU", described)


def _marks(cx: float, cy: float, numbers: Sequence[int]) -> Iterator[Markup]:
    """Yield the mark of the first of some starts at one place; the numbers of the others stand beside it."""
    first, *others = map(str, numbers)
    yield element("circle", cx=cx, cy=cy, r=RADIUS, class_="change" if first == "1" else "mark")
    yield text(cx, cy + 4, first, text_anchor="middle", class_="number")
    if others:
        is_right = cx > WIDTH * 2 / 3
        place, anchor = (cx - RADIUS - 3, "end") if is_right else (cx + RADIUS + 3, "start")
        yield text(place, cy - 5, f"and {', '.join(others)}", text_anchor=anchor, class_="strong")


def _axes(widest: float, highest: float) -> Iterator[Markup]:
    for step in range(TICKS + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / TICKS
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * step / TICKS
        yield element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="grid")
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
        anchor = "end" if step == TICKS else "middle"
        yield text(
            x, HEIGHT - BOTTOM + 16, f"{widest * step / TICKS:,.3g}", text_anchor=anchor, class_="label"
        )
        yield text(LEFT - 6, y + 4, f"{highest * step / TICKS:,.3g}", text_anchor="end", class_="label")
    yield text(
        (LEFT + WIDTH) / 2, HEIGHT - 8, "tokens/s of one request", text_anchor="middle", class_="label"
    )
    yield text(8, TOP - 10, "tokens/s of one GPU", class_="label")


def costs_drawing(bars: Sequence[CostBar]) -> Markup:
    """Draw bars of cost with their intervals."""
    if not bars:
        return Markup()
    highest = max(each.cost.high for each in bars) or 1.0
    unit = (WIDTH - LEFT - 90) / highest
    parts: list[Markup] = []
    for place, each in enumerate(bars):
        top = NAMES + place * ROW
        middle = top + BAR / 2
        low, high = LEFT + each.cost.low * unit, LEFT + each.cost.high * unit
        parts += [
            text(LEFT - 8, middle + 4, str(each.number), text_anchor="end", class_="strong"),
            _bar(each, top, unit),
            element("line", x1=low, x2=high, y1=middle, y2=middle, class_="whisker"),
            element("line", x1=low, x2=low, y1=middle - 5, y2=middle + 5, class_="whisker"),
            element("line", x1=high, x2=high, y1=middle - 5, y2=middle + 5, class_="whisker"),
            text(high + 6, middle + 4, f"${each.cost.middle:,.2f}", class_="strong"),
        ]  # fmt: skip
    described = "; ".join(f"{each.number}: {each.cost.middle:,.2f} US dollars" for each in bars)
    height = NAMES + ROW * len(bars)
    return drawing(parts, WIDTH, height, "US dollars for a million output tokens", described)


def _bar(each: CostBar, top: float, unit: float) -> Markup:
    title = element("title", each.name)
    width = each.cost.middle * unit
    return element("rect", title, x=LEFT, y=top, width=width, height=BAR, class_="part kv")
