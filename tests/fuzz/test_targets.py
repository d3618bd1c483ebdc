"""Bytes of others raise nothing but what is declared: seeds, what was once found, and variations.

THOROUGH=1 in the environment tries ten times as many; hypothesis makes what it finds short.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.fuzz.targets import NAMES, target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 30
"""For one input; far more than any takes, since the machine may be busy."""


def variations(seeds: Sequence[bytes], words: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Return a strategy that changes seeds in a few places; words are what it likes to insert."""
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


@pytest.mark.parametrize("name", NAMES)
def test_no_input_raises_what_is_not_declared(name: str) -> None:
    chosen = target(name)
    found = [file.read_bytes() for file in sorted(CORPUS.glob(f"{name}/*"))]
    seeds = [*chosen.seeds(), *found]
    with chosen.opened() as run:
        for data in seeds:
            run(data)

        @settings(
            max_examples=examples(20),
            deadline=SECONDS * 1000,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(variations(seeds, chosen.WORDS))
        def attempt(data: bytes) -> None:
            run(data)

        attempt()
