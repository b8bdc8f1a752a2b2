"""Draws releases in their order: tokens and requests as steps, a number where a rule changes something."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from service.web.drawings.svg import drawing, element, text

WIDTH, LEFT, RIGHT, TOP, LANE, GAP, LABELS = 760, 84, 12, 40, 96, 34, 58


@dataclass(frozen=True, slots=True)
class ReleaseColumn:
    """What one release does."""

    release: str
    tokens: int | None
    requests: float | None
    starts: bool
    mark: int
    """Number of the step that leads here; 0 where nothing changes."""
    is_planned: bool


def releases_drawing(columns: Sequence[ReleaseColumn]) -> Markup:
    """Draw two lanes above one axis of releases."""
    width = (WIDTH - LEFT - RIGHT) / max(1, len(columns))
    second = TOP + LANE + GAP
    bottom = second + LANE
    tokens = ReleaseLane("tokens, as logged", TOP, lambda each: each.tokens, "{:,.0f}")
    requests = ReleaseLane("requests of the maximum length", second, lambda each: each.requests, "{:,.2f}")
    parts = [part for lane in (tokens, requests) for part in _lane(columns, width, lane)]
    parts += _axis(columns, width, bottom)
    changes = [each for each in columns if each.mark]
    described = "; ".join(f"{each.mark}: {each.release}" for each in changes) or "no release changes anything"
    return drawing(parts, WIDTH, bottom + LABELS, "Tokens and requests by release", described)


@dataclass(frozen=True, slots=True)
class ReleaseLane:
    """One row of the drawing."""

    name: str
    top: float
    value: Callable[[ReleaseColumn], float | None]
    form: str
    """How its numbers are written."""


def _lane(columns: Sequence[ReleaseColumn], width: float, lane: ReleaseLane) -> Iterator[Markup]:
    most = max((lane.value(each) or 0 for each in columns), default=0) or 1
    bottom = lane.top + LANE
    yield text(LEFT, lane.top - 8, lane.name, class_="strong")
    yield from _refused(columns, width, lane.top)
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * LANE
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
        yield text(LEFT - 6, y + 4, lane.form.format(share * most), text_anchor="end", class_="label")
    path, joined = [], False
    for place, each in enumerate(columns):
        found = lane.value(each)
        if found is None:
            joined = False
            continue
        y, x = bottom - found / most * LANE, LEFT + place * width
        path.append(f"{'L' if joined else 'M'}{x:.1f} {y:.1f} H{x + width:.1f}")
        joined = True
    if path:
        yield element("path", d=" ".join(path), class_="line")


def _refused(columns: Sequence[ReleaseColumn], width: float, top: float) -> Iterator[Markup]:
    """Yield a hatched rectangle for each run of releases that do not start."""
    for starts, run in groupby(enumerate(columns), key=lambda pair: pair[1].starts):
        held = list(run)
        if not starts:
            title = element("title", f"{held[0][1].release} to {held[-1][1].release}: does not start")
            x = LEFT + held[0][0] * width
            yield element("rect", title, x=x, y=top, width=len(held) * width, height=LANE, class_="padding")


def _axis(columns: Sequence[ReleaseColumn], width: float, bottom: float) -> Iterator[Markup]:
    for place, each in enumerate(columns):
        middle = LEFT + (place + 0.5) * width
        css = "strong" if each.is_planned else "label"
        turned = f"rotate(-60 {middle:.1f} {bottom + 14:.1f})"
        yield text(middle, bottom + 14, each.release, text_anchor="end", class_=css, transform=turned)
        if each.mark:
            x = LEFT + place * width
            yield element("line", x1=x, x2=x, y1=TOP - 12, y2=bottom, class_="tick")
            yield element("circle", cx=x, cy=TOP - 22, r=9, class_="mark")
            yield text(x, TOP - 18, str(each.mark), text_anchor="middle", class_="number")
