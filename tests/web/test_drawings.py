"""Drawings are to scale, whole, and inside their frame, whatever the figures."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.advisor.dry_runs.concurrency_curve import CurvePoint
from service.memory.budget_types import Basis, Estimate
from service.speed.serving_speed import Between
from service.web.drawings.context_drawing import Mark, context_drawing
from service.web.drawings.memory_bar import MemoryBar, MemoryTerm, memory_drawing
from service.web.drawings.model_drawing import LayerCell, layers_drawing
from service.web.drawings.pages_drawing import BlockRow, RequestRow, blocks_drawing, request_drawing
from service.web.drawings.releases_drawing import ReleaseColumn, releases_drawing
from service.web.drawings.speed_drawing import CostBar, SpeedPoint, costs_drawing, speeds_drawing
from service.web.drawings.svg import element, text
from service.web.standalone import standalone
from service.web.unbroken_flags import unbroken_flags

SVG = "{http://www.w3.org/2000/svg}"
SIZES = st.integers(1, 1 << 45)


def exact(size: int) -> Estimate:
    return Estimate(size, size, size, Basis.GIVEN, "a test")


def rects(drawing: str, css: str) -> list[dict[str, float]]:
    """Return the rectangles of a class."""
    found = ET.fromstring(drawing).iter(f"{SVG}rect")  # noqa: S314 - written by ourselves
    return [
        {name: float(each.attrib[name]) for name in ("x", "y", "width", "height")}
        for each in found
        if css in each.attrib.get("class", "").split()
    ]


def is_inside(drawing: str) -> None:
    """Hold every rectangle, circle and line against the frame."""
    root = ET.fromstring(drawing)  # noqa: S314
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert "nan" not in drawing
    assert "inf" not in drawing
    for each in root.iter():
        for name in ("x", "cx", "x1", "x2"):
            assert -0.01 <= float(each.attrib.get(name, 0)) <= width + 0.01
        for name in ("y", "cy", "y1", "y2"):
            assert -0.01 <= float(each.attrib.get(name, 0)) <= height + 0.01
        if each.tag == f"{SVG}rect" and "x" in each.attrib:
            assert float(each.attrib["x"]) + float(each.attrib["width"]) <= width + 0.5


def test_a_bar_of_744_bytes_is_744_wide() -> None:
    # The bar has 760 units, 8 on each side are free: one byte is one unit, so each number can be checked.
    names = ("weights", "activation", "non-torch", "graphs", "kv")
    sizes, starts = (300, 40, 20, 10, 200), (0, 300, 340, 360, 370)
    terms = tuple(
        MemoryTerm(number, name, name, start, exact(size))
        for number, (name, size, start) in enumerate(zip(names, sizes, starts, strict=True), start=1)
    )
    drawn = memory_drawing(MemoryBar(terms, exact(570), exact(744), exact(10), 10))
    for name, size, start in zip(names, sizes, starts, strict=True):
        assert rects(drawn, name) == [{"x": 8 + start, "y": 34, "width": size, "height": 40}]
    assert rects(drawn, "outside") == [{"x": 578, "y": 34, "width": 174, "height": 40}]
    assert 'x1="578"' in drawn  # the share of the engine
    assert rects(drawn, "uncertain") == []


def test_an_interval_is_a_strip() -> None:
    wide = Estimate(100, 60, 160, Basis.CALIBRATED, "a test")
    drawn = memory_drawing(
        MemoryBar((MemoryTerm(1, "kv", "kv", 0, wide),), exact(744), exact(744), exact(0), 0)
    )
    assert rects(drawn, "uncertain") == [{"x": 68, "y": 77, "width": 100, "height": 8}]


@given(st.lists(SIZES, min_size=5, max_size=5), SIZES, SIZES)
def test_bars_are_to_scale(sizes: list[int], requested: int, total: int) -> None:
    starts = [sum(sizes[:place]) for place in range(5)]
    terms = tuple(
        MemoryTerm(place + 1, "x", f"t{place}", starts[place], exact(size))
        for place, size in enumerate(sizes)
    )
    drawn = memory_drawing(MemoryBar(terms, exact(min(requested, total)), exact(total), exact(0), 0))
    is_inside(drawn)
    whole = max(total, sum(sizes))
    for place, size in enumerate(sizes):
        assert rects(drawn, f"t{place}")[0]["width"] == pytest.approx(744 * size / whole, abs=0.01)


@given(SIZES, SIZES, st.integers(1, 200), st.integers(0, 3))
def test_padding_has_its_share_of_a_page(used: int, padding: int, pages: int, idle: int) -> None:
    page = used + padding
    row = BlockRow("a group", 0, pages, page, used, (pages + idle) * page)
    drawn = blocks_drawing([row], row.size)
    is_inside(drawn)
    filled = sum(each["width"] for each in rects(drawn, "kind-0"))
    hatched = sum(each["width"] for each in rects(drawn, "padding"))
    free = sum(each["width"] for each in rects(drawn, "none"))
    assert filled + hatched + free == pytest.approx(744, abs=1.5)
    assert filled / (filled + hatched) == pytest.approx(used / page, abs=0.02)


@given(st.integers(1, 10_000), st.integers(1, 4096), st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_strips_end_at_the_last_token(blocks: int, block: int, held: int, window: int) -> None:
    length = 1 << 20
    drawn = request_drawing([RequestRow("a group", 1, blocks, block, held, window)], length)
    is_inside(drawn)
    strip = rects(drawn, "kind-1")[0]
    assert strip["x"] + strip["width"] == pytest.approx(752, abs=0.02)
    assert strip["width"] == pytest.approx(max(1.5, 744 * min(held, window) / length), abs=3)


@given(
    st.lists(st.tuples(SIZES, st.integers(0, 4096)), min_size=1, max_size=30, unique_by=lambda pair: pair[0]),
    st.integers(1, 1 << 20),
    st.integers(0, 1 << 20),
)
def test_curves_stay_in_their_frame(points: list[tuple[int, int]], tokens: int, requests: int) -> None:
    curve = [CurvePoint(length, number, number // 2, number * 2) for length, number in sorted(points)]
    is_inside(context_drawing(curve, [Mark("asked", tokens, requests), Mark("context", curve[-1].tokens, 0)]))


@given(st.lists(st.tuples(st.none() | SIZES, st.booleans(), st.integers(0, 9)), min_size=1, max_size=40))
def test_releases_stay_in_their_frame(found: list[tuple[int | None, bool, int]]) -> None:
    columns = [
        ReleaseColumn(f"0.{place}.0", tokens, tokens, starts, mark, is_planned=False)
        for place, (tokens, starts, mark) in enumerate(found)
    ]
    is_inside(releases_drawing(columns))


FIGURES = st.floats(1e-3, 1e6)


@given(
    st.lists(st.tuples(FIGURES, FIGURES), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(1, 99), FIGURES, FIGURES), max_size=8),
)
def test_speeds_stay_in_their_frame(
    found: list[tuple[float, float]], curve: list[tuple[int, float, float]]
) -> None:
    points = [
        SpeedPoint(number, Between(user / 2, user, user * 2), Between(gpu / 2, gpu, gpu * 2))
        for number, (user, gpu) in enumerate(found, start=1)
    ]
    is_inside(speeds_drawing(points, curve))
    bars = [CostBar(each.number, "a start", each.per_gpu) for each in points]
    drawn = costs_drawing(bars)
    is_inside(drawn)
    widths = [each["width"] for each in rects(drawn, "kv")]
    dearest = max(bars, key=lambda bar: bar.cost.middle)
    for bar, width in zip(bars, widths, strict=True):
        expected = max(widths) * bar.cost.middle / dearest.cost.middle
        assert width == pytest.approx(expected, abs=0.02)


@given(st.integers(1, 200))
def test_every_layer_has_a_cell(layers: int) -> None:
    cells = [LayerCell(number, "A", 0, 0, shares=False, words="full attention") for number in range(layers)]
    drawn = layers_drawing(cells)
    is_inside(drawn)
    assert len(rects(drawn, "kind-0")) == layers


def test_words_are_escaped() -> None:
    assert element("title", "<script>&") == "<title>&lt;script&gt;&amp;</title>"
    assert '"&lt;"' in text(0, 0, "x", class_="<")


def test_a_file_has_its_size_and_style() -> None:
    drawn = standalone(layers_drawing([LayerCell(0, "A", 0, 0, shares=False, words="x")]))
    assert re.match(r'<svg width="760" height="\d+" xmlns=', drawn)
    assert "<style>" in drawn
    ET.fromstring(drawn)  # noqa: S314


def test_starts_at_one_place_have_one_mark_and_all_numbers() -> None:
    def point(number: int, speed: float) -> SpeedPoint:
        figure = Between(speed * 0.8, speed, speed * 1.2)
        return SpeedPoint(number, figure, figure)

    drawn = speeds_drawing([point(1, 100.0), point(2, 101.0), point(3, 400.0), point(4, 100.5)], [])
    assert drawn.count('r="9"') == 2
    assert ">and 2, 4</text>" in drawn


def test_a_flag_stays_on_one_line_and_text_stays_escaped() -> None:
    shown = unbroken_flags("lower --max-model-len & <b> a-b")
    assert shown == 'lower <span class="flag">--max-model-len</span> &amp; &lt;b&gt; a-b'
