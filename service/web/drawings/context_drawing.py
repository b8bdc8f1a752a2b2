"""Draws requests over their length, both in logarithms: dots, with the band of the memory's interval."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2
from typing import Final, TypeAlias

from markupsafe import Markup

from service.advisor.dry_runs.concurrency_curve import CurvePoint
from service.web.drawings.svg import CHARACTER_WIDTH, drawing, element, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 58, 14, 24, 46
MOST_TICKS: Final = 10

Scale: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the chart with its name."""

    name: str
    tokens: int
    requests: int
    """0 for a line across."""


def context_drawing(curve: Sequence[CurvePoint], marks: Sequence[Mark]) -> Markup:
    """Draw the curve: each dot is a length that was planned."""
    least, most = log2(curve[0].tokens), log2(max(curve[-1].tokens, *(mark.tokens for mark in marks), 2))
    highest = max(log2(max(*(each.high for each in curve), *(mark.requests for mark in marks), 2)), 1.0)
    x = _scale(min(least, most - 1), most, LEFT, WIDTH - RIGHT)
    y = _scale(0, highest, HEIGHT - BOTTOM, TOP)
    parts = [
        *_grid(x, y, least, most, highest),
        element("path", d=_band(curve, x, y), class_="band"),
        element("path", d=_path([(each.tokens, each.requests) for each in curve], x, y), class_="line"),
        *(_dot(each, x, y) for each in curve if each.requests),
        *(part for mark in marks for part in _mark(mark, x, y)),
        text(
            (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 8,
            "tokens of a request",
            text_anchor="middle",
            class_="label",
        ),
        text(LEFT - 46, TOP - 10, "requests at once", class_="label"),
    ]
    first, last = curve[0], curve[-1]
    described = (
        f"{first.requests:,} requests of {first.tokens:,} tokens, {last.requests:,} of {last.tokens:,}"
    )
    return drawing(parts, WIDTH, HEIGHT, "Requests that run at once, by their length", described)


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    def place(value: float) -> float:
        share = (log2(max(1.0, value)) - low) / (high - low)
        return start + min(1.0, max(0.0, share)) * (end - start)

    return place


def _grid(x: Scale, y: Scale, least: float, most: float, highest: float) -> Iterator[Markup]:
    every = max(1, ceil((most - least) / MOST_TICKS))
    for power in range(ceil(least), floor(most) + 1, every):
        place = x(2**power)
        yield element("line", x1=place, x2=place, y1=TOP, y2=HEIGHT - BOTTOM, class_="grid")
        yield text(place, HEIGHT - BOTTOM + 16, _short(2**power), text_anchor="middle", class_="label")
    for power in range(0, floor(highest) + 1, max(1, ceil(highest / MOST_TICKS))):
        place = y(2**power)
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place, class_="grid")
        yield text(LEFT - 6, place + 4, f"{2**power:,}", text_anchor="end", class_="label")


def _short(tokens: int) -> str:
    return f"{tokens // 1024}K" if tokens >= 1024 else str(tokens)  # noqa: PLR2004 - binary thousands


def _path(points: Sequence[tuple[int, int]], x: Scale, y: Scale) -> str:
    placed = [f"{x(tokens):.1f} {y(requests):.1f}" for tokens, requests in points if requests]
    return f"M{' L'.join(placed)}" if placed else "M0 0"


def _band(curve: Sequence[CurvePoint], x: Scale, y: Scale) -> str:
    there = [(each.tokens, each.high) for each in curve]
    back = [(each.tokens, max(1, each.low)) for each in reversed(curve)]
    return f"{_path((*there, *back), x, y)} Z"


def _dot(point: CurvePoint, x: Scale, y: Scale) -> Markup:
    title = element("title", f"{point.requests:,} of {point.tokens:,} tokens")
    return element("circle", title, cx=x(point.tokens), cy=y(point.requests), r=2.5, class_="mark")


def _mark(mark: Mark, x: Scale, y: Scale) -> Iterator[Markup]:
    place = x(mark.tokens)
    width = len(mark.name) * CHARACTER_WIDTH
    left = place - width - 8 < LEFT
    anchor, offset = ("start", 8) if left else ("end", -8)
    if mark.requests:
        height = y(mark.requests)
        yield element("circle", element("title", mark.name), cx=place, cy=height, r=5, class_="change")
        yield text(place + offset, height - 8, mark.name, text_anchor=anchor, class_="strong")
        return
    yield element("line", x1=place, x2=place, y1=TOP, y2=HEIGHT - BOTTOM, class_="tick")
    yield text(place + offset, TOP + 12, mark.name, text_anchor=anchor, class_="strong")
