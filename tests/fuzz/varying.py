"""Inputs that are made of seeds: each as it is, what once failed, and variations of both.

THOROUGH=1 in the environment tries ten times as many; hypothesis makes what it finds short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.budget import examples

_CORPUS = Path(__file__).parent / "corpus"
_SECONDS = 30
"""For one input; far more than any takes, since the machine may be busy."""


def words(text: str) -> list[bytes]:
    r"""Split a string into words for ``attempt``; escapes as in Python, with ``\s`` for a space."""
    spaced = text.replace(r"\s", r"\x20")
    return [word.encode().decode("unicode_escape").encode("latin-1") for word in spaced.split()]


def attempt(
    run: Callable[[bytes], object],
    seeds: Iterable[bytes],
    likely: Sequence[bytes],
    *,
    corpus: str = "",
) -> None:
    """Give inputs to what must raise for none; ``likely`` are words to insert."""
    found = _CORPUS.glob(f"{corpus}/*") if corpus else ()
    begin = [*seeds, *(file.read_bytes() for file in sorted(found))]
    for data in begin:
        run(data)

    @settings(
        max_examples=examples(20),
        deadline=_SECONDS * 1000,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(_variations(begin, likely))
    def vary(data: bytes) -> None:
        run(data)

    vary()


def _variations(seeds: Sequence[bytes], likely: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Return a strategy that changes seeds in a few places."""
    piece = st.sampled_from([b"", *likely]) | st.binary(max_size=8)
    start = st.sampled_from([b"", *seeds]) | st.binary(max_size=64)

    @st.composite
    def changed(draw: DrawFn) -> bytes:
        data = draw(start)
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, len(data)))
            length = draw(st.sampled_from([0, 0, 1, 2, 8, 64]))
            if draw(st.integers(0, 4)):
                between = draw(piece) * draw(st.sampled_from([1, 1, 1, 2, 40]))
            else:
                other = draw(start)
                begin = draw(st.integers(0, len(other)))
                between = other[begin : begin + draw(st.integers(0, 200))]
            data = data[:at] + between + data[at + length :]
        return data

    return changed()
