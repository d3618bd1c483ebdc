"""Parts of a JSON document, read strictly: what is not as it must be is named by its place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from genericdp.errors import GenericdpError


class UnreadableStatusError(GenericdpError):
    """What was read is no state of a daemon."""


class Part:
    """An object of the document; each method raises UnreadableStatusError."""

    def __init__(self, value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise UnreadableStatusError(f"{place or 'the document'} is not an object")
        self._value: dict[str, Any] = value
        self._place = place

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; the default, if there is one and the key is missing."""
        if default is not None and key not in self._value:
            return default
        return str(self._of(key, str, "a string"))

    def flag(self, key: str) -> bool:
        """Return true or false."""
        return bool(self._of(key, bool, "true or false"))

    def count(self, key: str) -> int:
        """Return a whole number from 0 on."""
        return self._counted(self._found(key), f"{self._place}.{key}")

    def counts(self, key: str) -> tuple[int, ...]:
        """Return a list of such."""
        return tuple(
            self._counted(one, f"{self._place}.{key}[{at}]")
            for at, one in enumerate(self._listed(key))
        )

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        listed = self._listed(key)
        for at, one in enumerate(listed):
            if not isinstance(one, str):
                raise UnreadableStatusError(f"{self._place}.{key}[{at}] is not a string")
        return tuple(listed)

    def one_of(self, key: str, *words: str) -> str:
        """Return one of these words."""
        text = self.text(key)
        if text not in words:
            raise UnreadableStatusError(f"{self._place}.{key} is none of: {', '.join(words)}")
        return text

    def time(self, key: str) -> float:
        """Return a time in seconds since 1970."""
        try:
            time = datetime.fromisoformat(self.text(key))
            if time.tzinfo is not None:
                return time.timestamp()
        except (ValueError, OverflowError):
            pass
        raise UnreadableStatusError(f"{self._place}.{key} is not a time with its zone")

    def time_or_none(self, key: str) -> float | None:
        """Return such a time, or None."""
        return None if self.is_null(key) else self.time(key)

    def is_null(self, key: str) -> bool:
        """Return whether it is there and says nothing."""
        return self._found(key) is None

    def part(self, key: str) -> Part:
        """Return an object in it."""
        return Part(self._found(key), f"{self._place}.{key}")

    def parts(self, key: str) -> tuple[Part, ...]:
        """Return a list of objects."""
        place = f"{self._place}.{key}"
        return tuple(Part(one, f"{place}[{at}]") for at, one in enumerate(self._listed(key)))

    def _found(self, key: str) -> object:
        if key not in self._value:
            raise UnreadableStatusError(f"{self._place}.{key} is missing")
        return self._value[key]

    def _of(self, key: str, kind: type, what: str) -> object:
        found = self._found(key)
        if not isinstance(found, kind):
            raise UnreadableStatusError(f"{self._place}.{key} is not {what}")
        return found

    def _listed(self, key: str) -> list[Any]:
        found = self._found(key)
        if not isinstance(found, list):
            raise UnreadableStatusError(f"{self._place}.{key} is not a list")
        return found

    @staticmethod
    def _counted(value: object, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UnreadableStatusError(f"{place} is not a whole number from 0 on")
        return value
