"""Things by the folder they are about: those below one are found without a look at the others."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")

_FEW = 4
"""So many things of one folder may be copied whenever another one comes."""


class FolderMap(Generic[T]):
    """Lists of things by an absolute path."""

    def __init__(self) -> None:
        self._things: dict[str, tuple[T, ...] | list[T]] = {}
        """Mostly one or two of each folder, as a tuple: a list takes twice as much."""
        self._folders: list[str] = []
        self._in_order = True

    def add(self, folder: str, thing: T) -> None:
        """Add one thing to those of a folder."""
        things = self._things.get(folder)
        if things is None:
            self._things[folder] = (thing,)
            self._folders.append(folder)
            self._in_order = False
        elif isinstance(things, list):
            things.append(thing)
        else:
            few = (*things, thing)
            self._things[folder] = few if len(few) <= _FEW else list(few)

    def of(self, folder: str) -> Sequence[T]:
        """Give the things of a folder itself."""
        return self._things.get(folder, ())

    def take(self, folder: str) -> Iterator[T]:
        """Give and remove the things of a folder and of all that lie in it, however deep."""
        if not self._in_order:
            self._folders.sort()  # nearly free where only a few have been added
            self._in_order = True
        # The character after a slash is a zero: what begins with the folder lies in between.
        first = bisect_left(self._folders, f"{folder}/")
        last = bisect_left(self._folders, f"{folder}0", lo=first)
        taken = self._folders[first:last]
        del self._folders[first:last]
        if folder in self._things:
            del self._folders[bisect_left(self._folders, folder)]
            taken.append(folder)
        for one in taken:
            yield from self._things.pop(one)
