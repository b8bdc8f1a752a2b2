"""The memory of one rank as a bar: what is taken before the cache, the cache, what is outside the share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from service.memory.budget_types import Estimate, MemoryBudget
from service.units import gib_amount, gib_text
from service.web.drawings.svg import drawing, element, fits, text

WIDTH, HEIGHT, TOP, BAR, LEFT = 760, 134, 34, 40, 8
STRIP: Final = 8
LATE: Final = "CUDA graphs, later"
NARROWEST_NUMBER: Final = 12


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """One part of the bar."""

    number: int
    """Links the part to its row of the table."""
    name: str
    css: str
    start: int
    """Bytes before it on the bar."""
    estimate: Estimate

    @property
    def drawn(self) -> int:
        """Bytes that it takes on the bar."""
        return max(0, self.estimate.bytes)


@dataclass(frozen=True, slots=True)
class MemoryBar:
    """The terms of one rank's memory in the order in which the engine takes them."""

    terms: tuple[MemoryTerm, ...]
    requested: Estimate
    total: Estimate
    late_graphs: Estimate
    """Memory of CUDA graphs, captured after the cache is allocated."""
    reserved_graphs: int
    """Bytes set aside for them before."""

    @classmethod
    def of(cls, memory: MemoryBudget) -> "MemoryBar":
        """Return the bar of a budget."""
        named = (
            ("weights", "weights", memory.weights),
            ("activation", "activation", memory.activation),
            ("non-torch", "non-torch", memory.non_torch),
            ("CUDA graphs, reserved", "graphs", memory.cuda_graphs),
            ("KV cache", "kv", memory.available_kv),
        )
        return cls(
            tuple(_stacked(named)),
            memory.requested,
            memory.total,
            memory.captured_graphs,
            memory.cuda_graphs.bytes,
        )

    @property
    def end(self) -> int:
        """Bytes of all terms together."""
        return self.terms[-1].start + self.terms[-1].drawn

    @property
    def beyond(self) -> int:
        """Bytes of CUDA graphs beyond what was set aside for them: they come out of what is outside."""
        return max(0, self.late_graphs.bytes - self.reserved_graphs)

    @property
    def outside(self) -> int:
        """Bytes of the device that nothing takes; negative where the terms exceed the device."""
        return self.total.bytes - self.end - self.beyond


def _stacked(named: tuple[tuple[str, str, Estimate], ...]) -> Iterator[MemoryTerm]:
    start = 0
    for number, (name, css, estimate) in enumerate(named, start=1):
        term = MemoryTerm(number, name, css, start, estimate)
        yield term
        start += term.drawn


def memory_drawing(bar: MemoryBar) -> Markup:
    """Draw the bar: under each part the hatched strip of its 10th to 90th percentile."""
    furthest = max(bar.total.bytes, bar.end + bar.beyond, *(t.start + t.estimate.high for t in bar.terms))
    unit = (WIDTH - 2 * LEFT) / max(1, furthest)

    def place(size: int) -> float:
        return LEFT + max(0, size) * unit

    parts = [part for term in bar.terms for part in _term(term, place(term.start), unit)]
    if bar.beyond:
        parts += _block(place(bar.end), bar.beyond * unit, "late", "6", LATE)
    if bar.outside > 0:
        start = bar.end + bar.beyond
        name = f"unused {gib_text(bar.outside)} GiB"
        parts += _block(place(start), bar.outside * unit, "outside", "", name)
    parts += _tick(place(bar.requested.bytes), f"share {gib_text(bar.requested.bytes)} GiB", above=True)
    parts += _tick(place(bar.total.bytes), f"device {gib_text(bar.total.bytes)} GiB", above=False)
    parts.append(text(LEFT, HEIGHT - 6, _legend(bar, unit), class_="label"))
    described = "; ".join(f"{term.name} {gib_amount(term.estimate.bytes)} GiB" for term in bar.terms)
    return drawing(parts, WIDTH, HEIGHT, "Memory of one rank", described)


def _legend(bar: MemoryBar, unit: float) -> str:
    """Name the parts that are too narrow for their names."""
    named = [(str(term.number), _words(term), term.drawn) for term in bar.terms]
    if bar.beyond:
        named.append(("6", LATE, bar.beyond))
    return ", ".join(
        f"{number} {words}"
        for number, words, size in named
        if size and not fits(f"{number} {words}", size * unit)
    )


def _words(term: MemoryTerm) -> str:
    return f"{term.name} {gib_text(term.estimate.bytes)}"


def _term(term: MemoryTerm, x: float, unit: float) -> Iterator[Markup]:
    width = term.drawn * unit
    yield from _block(x, width, term.css, str(term.number), _words(term))
    low, high = max(0, term.estimate.low), max(0, term.estimate.high)
    if high > low:
        y, width = TOP + BAR + 3, (high - low) * unit
        yield element("rect", x=x + low * unit, y=y, width=width, height=STRIP, class_="uncertain")


def _block(x: float, width: float, css: str, number: str, words: str) -> Iterator[Markup]:
    if width <= 0:
        return
    title = element("title", words)
    yield element("rect", title, x=x, y=TOP, width=width, height=BAR, class_=f"part {css}")
    label = f"{number} {words}".strip()
    if fits(label, width):
        yield text(x + width / 2, TOP + BAR / 2 + 4, label, text_anchor="middle", class_=f"on {css}")
    elif number and width >= NARROWEST_NUMBER:
        yield text(x + width / 2, TOP + BAR / 2 + 4, number, text_anchor="middle", class_=f"on {css}")


def _tick(x: float, words: str, *, above: bool) -> Iterator[Markup]:
    yield element("line", x1=x, x2=x, y1=TOP - 8, y2=TOP + BAR + 14, class_="tick")
    anchor = "end" if x > WIDTH / 2 else "start"
    offset = -4 if anchor == "end" else 4
    y = TOP - 14 if above else TOP + BAR + 28
    yield text(x + offset if above else x, y, words, text_anchor=anchor, class_="label")
