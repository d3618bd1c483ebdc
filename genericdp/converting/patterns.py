"""Regular expressions of names below /dev as globs: those that are equal, or hold what matches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from genericdp.glob import escape, path_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_GLOBS = 32
MAX_NAMES = 10
"""So many names are written one by one: ttyUSB[0-9] has as many."""
DEPTH = 4
"""How many parts a name below /dev may have: /dev/bus/usb/001/002 has four, no other has more."""
_STAR, _RUN = "\0", "\1"
"""Stand for anything, folders too: as it was asked for, and more than was asked for."""
_PART_RUN = "\2"
"""Stands for more than was asked for, but within one folder."""
_MAX_STARS = 4
_MAX_LENGTH = 128
_MAX_NESTED = 16
_ALL = tuple("/".join("*" * count) for count in range(1, DEPTH + 1))
_SHORT = {"d": "[0-9]", "w": "[A-Za-z0-9_]"}
_CLASS = re.compile(r"\[(\^?)((?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_.])+)\]")
_QUANTIFIER = re.compile(r"\*\??|\+\??|\?\??|\{(\d{1,3})(,(\d{0,3}))?\}")
_SPECIAL = set("\\^$.|?*+()[]{}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Globs:
    """Globs of names that together match what an expression finds, and maybe more."""

    globs: tuple[str, ...]
    equal: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The only names that they match, if these are few."""
        found: list[str] = []
        for glob in self.globs if self.equal else ():
            found += (made := _names(glob))
            if not made or len(found) > MAX_NAMES:
                return ()
        return tuple(dict.fromkeys(found))


def _names(glob: str) -> list[str]:
    """Give the names that a glob without stars matches; none if there are too many."""
    made = [""]
    for part in re.findall(r"\[[^\]]+\]|.", glob):
        if part in "*?" or part.startswith("[!"):
            return []
        members = _members(part[1:-1]) if len(part) > 1 else [part]
        made = [name + member for name in made for member in members]
        if len(made) > MAX_NAMES:
            return []
    return made


def _members(inner: str) -> list[str]:
    found = []
    for first, last in re.findall(r"(.)(?:-(.))?", inner):
        found += [chr(code) for code in range(ord(first), ord(last or first) + 1)]
    return found


class _UnknownError(Exception):
    """Something in an expression that this module knows nothing of."""


@lru_cache(maxsize=16)
def globs_of(regex: str) -> Globs:
    """Give globs of names, without /dev/, for an expression that is searched in them."""
    try:
        words = _Parser(regex).whole()
    except _UnknownError:
        return Globs(globs=_ALL, equal=False)
    usable: dict[str, None] = {}
    for glob in (glob for word in words for glob in _spread(word)):
        if path_problem(f"/dev/{glob}") is None:
            usable[glob] = None
        if len(usable) > MAX_GLOBS:
            break
    equal = not any(mark in word for word in words for mark in (_RUN, _PART_RUN))
    if not usable or len(usable) > MAX_GLOBS:
        return Globs(globs=_ALL, equal=False)
    return Globs(globs=tuple(usable), equal=equal)


def _spread(word: str) -> Iterator[str]:
    """Write one word's stars out for each number of folders that they can stand for."""
    pieces = re.split(f"[{_STAR}{_RUN}]+", word.replace(_PART_RUN, "*"))
    folders = range(DEPTH)
    for counts in product(folders, repeat=len(pieces) - 1):
        spread = pieces[0]
        for count, piece in zip(counts, pieces[1:], strict=True):
            spread += "/".join("*" * (count + 1)) + piece
        if spread.count("/") < DEPTH:
            yield re.sub(r"\*{2,}", "*", spread)


class _Parser:
    """Takes apart the expressions that people write for names; everything else is unknown."""

    def __init__(self, regex: str) -> None:
        self._text = regex
        self._at = 0
        self._nested = 0

    def whole(self) -> list[str]:
        words = []
        for branch in self._branches():
            start, end = branch.startswith("^"), branch.endswith("$")
            inner = branch.removeprefix("^").removesuffix("$")
            if "^" in inner or "$" in inner:
                raise _UnknownError
            words.append(f"{'' if start else _STAR}{inner}{'' if end else _STAR}")
            if len(re.findall(f"[{_STAR}{_RUN}]+", words[-1])) > _MAX_STARS:
                raise _UnknownError
        if self._at < len(self._text) or len(words) > MAX_GLOBS:
            raise _UnknownError
        return words

    def _branches(self) -> list[str]:
        words = self._sequence()
        while self._text[self._at : self._at + 1] == "|":
            self._at += 1
            words += self._sequence()
        return words

    def _sequence(self) -> list[str]:
        words = [""]
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            choices = self._quantified(self._item())
            words = [word + choice for word in words for choice in choices]
            if len(words) > MAX_GLOBS or any(len(word) > _MAX_LENGTH for word in words):
                raise _UnknownError
        return words

    def _item(self) -> list[str]:
        character = self._text[self._at]
        self._at += 1
        if character in "^$":
            return [character]
        if character == ".":
            return ["?", "/"]
        if character == "(":
            return self._group()
        if character == "\\":
            return [self._escape()]
        if character == "[":
            return [self._class()]
        if character in _SPECIAL or not character.isprintable():
            raise _UnknownError
        return [character]

    def _group(self) -> list[str]:
        if self._text[self._at : self._at + 2] == "?:":
            self._at += 2
        elif self._text[self._at : self._at + 1] == "?":
            raise _UnknownError
        self._nested += 1
        if self._nested > _MAX_NESTED:
            raise _UnknownError
        words = self._branches()
        self._nested -= 1
        if self._text[self._at : self._at + 1] != ")":
            raise _UnknownError
        if any(mark in word for word in words for mark in "^$"):
            raise _UnknownError
        self._at += 1
        return words

    def _escape(self) -> str:
        character = self._text[self._at : self._at + 1]
        self._at += 1
        if character in _SHORT:
            return _SHORT[character]
        # Anchors are told from texts by these two characters, and names hardly ever hold them.
        if character and character.isascii() and not character.isalnum() and character not in "^$":
            return escape(character)
        raise _UnknownError

    def _class(self) -> str:
        found = _CLASS.match(self._text, self._at - 1)
        if found is None:
            raise _UnknownError
        self._at = found.end()
        # A folder's slash, which such a class also matches, is hardly ever meant.
        return f"[!{found[2]}]" if found[1] else f"[{found[2]}]"

    def _quantified(self, words: list[str]) -> list[str]:
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            if self._text[self._at : self._at + 1] == "{":
                raise _UnknownError
            return words
        self._at = found.end()
        if any(mark in word for word in words for mark in "^$"):
            raise _UnknownError
        kind = found[0][0]
        if kind == "?":
            return ["", *words]
        if kind == "{" and (times := _times(found)) is not None:
            return ["".join(one) for count in times for one in _bounded(words, count)]
        if words == ["?", "/"]:
            return [_STAR if kind == "*" else _RUN]
        crosses = any(mark in word for word in words for mark in (_STAR, _RUN, "/"))
        return [_RUN if crosses else _PART_RUN]


def _times(found: re.Match[str]) -> range | None:
    least = int(found[1])
    most = least if found[2] is None else int(found[3]) if found[3] else None
    return None if most is None or most > 8 or most < least else range(least, most + 1)


def _bounded(words: list[str], count: int) -> list[tuple[str, ...]]:
    if len(words) ** count > MAX_GLOBS:
        raise _UnknownError
    return list(product(words, repeat=count))
