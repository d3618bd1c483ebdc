"""A plot is well-formed, whatever is drawn, and nothing lies outside of it."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plot import Series, plot

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(1e-6, 1e9)
TEXTS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=30)
SERIES = st.builds(
    Series,
    name=TEXTS,
    points=st.dictionaries(st.integers(1, 10**9), NUMBERS, min_size=1, max_size=4),
)


@given(TEXTS, TEXTS, TEXTS, st.lists(SERIES, min_size=1, max_size=12))
def test_any_numbers_and_names_give_a_drawing_within_its_frame(
    title: str, x: str, y: str, series: list[Series]
) -> None:
    root = ElementTree.fromstring(plot(title, x=x, y=y, series=series))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.findtext(f"{SVG}title") == title
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == len(series)
    for line in lines:
        for point in line.attrib["points"].split():
            across, down = map(float, point.split(","))
            assert 0 <= across <= width
            assert 0 <= down <= height
    texts = [one.text or "" for one in root.findall(f"{SVG}text")]
    assert {one.name for one in series} <= set(texts)
    assert all(0 < float(one.attrib["y"]) < height for one in root.findall(f"{SVG}text"))


def test_names_of_lines_that_end_at_the_same_place_stand_apart() -> None:
    names = [f"n{number}" for number in range(5)]
    series = [Series(name=name, points={1: 1, 10: 5}) for name in names]
    root = ElementTree.fromstring(plot("t", x="x", y="y", series=series))
    texts = [one for one in root.findall(f"{SVG}text") if one.text in names]
    places = sorted(float(one.attrib["y"]) for one in texts)
    assert min(after - before for before, after in pairwise(places)) >= 13


def test_nothing_is_no_plot() -> None:
    with pytest.raises(ValueError, match="nothing"):
        plot("t", x="x", y="y", series=[])
