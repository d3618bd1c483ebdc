from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.foldermap import FolderMap

THINGS = [("/a", 1), ("/a/b", 2), ("/a/b/c", 3), ("/a/b", 4), ("/ab", 5), ("/a!/b", 6), ("/a0", 7)]


@pytest.mark.parametrize(
    ("folder", "taken"),
    [
        ("/a", {1, 2, 3, 4}),
        ("/a/b", {2, 3, 4}),
        ("/a/b/c", {3}),
        ("/ab", {5}),
        ("/a!", {6}),
        ("/a/c", set()),
        ("/nothing", set()),
    ],
)
def test_what_lies_in_a_folder_is_taken_and_nothing_beside_it(folder: str, taken: set[int]) -> None:
    things: FolderMap[int] = FolderMap()
    for path, number in THINGS:
        things.add(path, number)
    assert set(things.take(folder)) == taken
    assert set(things.take(folder)) == set(), "it is gone"
    assert set(things.take("/a")) | taken >= {1, 2, 3, 4}


def test_things_can_be_added_between_takes() -> None:
    things: FolderMap[int] = FolderMap()
    things.add("/b", 1)
    assert list(things.take("/b")) == [1]
    things.add("/b/c", 2)
    things.add("/a", 3)
    assert list(things.of("/a")) == [3]
    assert list(things.of("/b")) == []
    assert list(things.take("/b")) == [2]


PATHS = st.lists(st.sampled_from(["a", "b", "a0", "a-", "é"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(st.lists(PATHS), PATHS)
def test_it_takes_what_a_look_at_each_would_take(paths: list[str], folder: str) -> None:
    things: FolderMap[str] = FolderMap()
    for path in paths:
        things.add(path, path)
    wanted = [one for one in paths if f"{one}/".startswith(f"{folder}/")]
    assert sorted(things.take(folder)) == sorted(wanted)


@given(st.lists(st.integers(), max_size=12))
def test_very_many_things_of_one_folder_keep_their_order(numbers: list[int]) -> None:
    """Bites if what comes after the few that are a tuple is lost."""
    things: FolderMap[int] = FolderMap()
    for number in numbers:
        things.add("/a", number)
    assert list(things.of("/a")) == numbers
    assert list(things.take("/a")) == numbers
