"""Messages of Protocol Buffers, read field by field from their bytes.

Protobuf's own parser first makes an object of every message: 8 MiB of empty ones become 250 MB.
Here a message takes no memory until it is read, and the number of fields is limited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_STRING_BYTES = 64 * 1024
_MAX_VARINT_BITS = 64
_SIZED = 2
"""The wire type of messages and strings."""


class WireReader:
    """Reads the messages of an answer; each method raises ValueError if it is malformed."""

    def __init__(self, *, max_fields: int, max_strings: int) -> None:
        """Limit the fields, each of which takes about a microsecond, and what is kept of them."""
        self._max_fields = self._fields_left = max_fields
        self._max_strings = self._strings_left = max_strings

    def messages(self, message: memoryview, number: int) -> Iterator[memoryview]:
        """Yield the messages, or strings, of a field."""
        at, wanted = 0, number << 3 | _SIZED
        while at < len(message):
            self._fields_left -= 1
            if self._fields_left < 0:
                raise ValueError(f"it has more than {self._max_fields:,} fields")
            key, at = _varint(message, at)
            begin, at = _content(message, at, key & 7)
            if key == wanted:
                yield message[begin:at]

    def strings(self, message: memoryview, number: int) -> Iterator[str]:
        """Yield the strings of a field."""
        for content in self.messages(message, number):
            self._strings_left -= 1
            if self._strings_left < 0:
                raise ValueError(f"it has more than {self._max_strings:,} strings")
            if len(content) > _MAX_STRING_BYTES:
                raise ValueError(f"a string has more than {_MAX_STRING_BYTES >> 10} KiB")
            yield str(content, "utf-8")

    def string(self, message: memoryview, number: int) -> str:
        """Return the string of a field, or an empty string."""
        value = ""
        for value in self.strings(message, number):  # noqa: B007 -- the last one counts
            pass
        return value


def _content(message: memoryview, at: int, wire_type: int) -> tuple[int, int]:
    """Return where the content of a field begins and ends; raise ValueError."""
    match wire_type:
        case 0:  # a number
            begin, end = at, _varint(message, at)[1]
        case 1:
            begin, end = at, at + 8
        case 2:  # _SIZED
            size, begin = _varint(message, at)
            end = begin + size
        case 5:
            begin, end = at, at + 4
        case _:  # groups were abandoned long ago
            raise ValueError(f"a field has the wire type {wire_type}")
    if end > len(message):
        raise ValueError("a field is cut off")
    return begin, end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the number at an index, and the index behind it; raise ValueError."""
    value = shift = 0
    try:
        while (byte := message[at]) > 127:
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if shift >= _MAX_VARINT_BITS:
                raise ValueError("a number is too long")
    except IndexError:
        raise ValueError("a number is cut off") from None
    return value | byte << shift, at + 1
