"""Inputs for hypothesis: one to begin with, changed in a few places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy


def inputs(seeds: Sequence[bytes], words: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Give a strategy that changes seeds; words are what it likes to insert."""
    piece = st.sampled_from([b"", *words]) | st.binary(max_size=8)
    start = st.sampled_from([b"", *seeds]) | st.binary(max_size=64)

    @st.composite
    def changed(draw: DrawFn) -> bytes:
        data = draw(start)
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, len(data)))
            length = draw(st.sampled_from([0, 0, 1, 2, 8, 64]))
            if draw(st.integers(0, 4)):
                between = draw(piece) * draw(st.sampled_from([1, 1, 1, 2, 40]))
            else:  # of another one
                other = draw(start)
                begin = draw(st.integers(0, len(other)))
                between = other[begin : begin + draw(st.integers(0, 200))]
            data = data[:at] + between + data[at + length :]
        return data

    return changed()
