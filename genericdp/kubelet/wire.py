"""The wire format of Protocol Buffers, as far as the kubelet's messages need it.

They are few and small, and will stay as they are: v1beta1 is frozen. protobuf itself takes 2.5 MB
and 10 ms of the start. Tests hold both side by side, of what is right and of any bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Fields = dict[int, list[bytes | int]]

_VARINT, _I64, _LENGTH, _I32 = 0, 1, 2, 5
"""The kinds of field; groups (3 and 4) are of another age, and nobody sends them."""
_FIXED = {_I64: 8, _I32: 4}
_LONGEST_VARINT = 10
_LARGEST_TAG = 2**32 - 1


class WireError(ValueError):
    """Bytes that are no message."""


_SHORT = tuple(bytes((one,)) for one in range(0x80))
"""The encoded numbers that take one byte: nearly all are such."""


def varint(number: int) -> bytes:
    """Encode a number; a negative one as its complement to 2^64."""
    if 0 <= number < 0x80:
        return _SHORT[number]
    number &= 2**64 - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def message(field: int, content: bytes) -> bytes:
    """Encode a message within another one, which is told apart from none when it is empty."""
    return _SHORT[field << 3 | _LENGTH] + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """Encode a text; raises UnicodeEncodeError. That of none is nothing, as of all that follow."""
    return message(field, value.encode()) if value else b""


def texts(field: int, values: Iterable[str]) -> bytes:
    """Encode a list of texts, where one that is empty counts."""
    return b"".join(message(field, value.encode()) for value in values)


def number(field: int, value: int) -> bytes:
    """Encode a number, or true and false."""
    return _SHORT[field << 3 | _VARINT] + varint(value) if value else b""


def fields(encoded: bytes) -> Fields:
    """Take a message apart: what there is of each field, by its number, in their order.

    What has a fixed width is passed over: none of these messages has any. Raises WireError at what
    is no message.
    """
    found: Fields = {}
    at, end = 0, len(encoded)
    while at < end:
        tag, at = _number_at(encoded, at)
        field, kind = tag >> 3, tag & 7
        if not field or tag > _LARGEST_TAG:
            raise WireError(f"there is no field {field}")
        if kind == _VARINT:
            value, at = _number_at(encoded, at)
            found.setdefault(field, []).append(value)
        elif kind == _LENGTH:
            at = _take_all(encoded, at, tag, found.setdefault(field, []))
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise WireError(f"there is no kind of field {kind}")
    if at > end:
        raise WireError("it ends within a field")
    return found


def _take_all(encoded: bytes, at: int, tag: int, found: list[bytes | int]) -> int:
    """Take the content that begins there, and all that follow with the same tag; give the end.

    A request can name ten thousand devices, while the loop waits.
    """
    while True:
        size, at = _number_at(encoded, at)
        found.append(encoded[at : at + size])
        at += size
        if at >= len(encoded) or encoded[at] != tag:
            return at
        at += 1


def _number_at(encoded: bytes, at: int) -> tuple[int, int]:
    """Give the number that begins there, and where it has ended."""
    try:
        if (value := encoded[at]) < 0x80:  # nearly all
            return value, at + 1
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = encoded[at + place]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value & 2**64 - 1, at + place + 1
    except IndexError as error:
        raise WireError("it ends within a number") from error
    raise WireError("a number has no end")


def texts_of(found: Fields, field: int) -> tuple[str, ...]:
    """Give the texts of a field; raises WireError for what is no UTF-8."""
    try:
        return tuple([one.decode() for one in messages_of(found, field)])
    except UnicodeDecodeError as error:
        raise WireError("a text is no UTF-8") from error


def messages_of(found: Fields, field: int) -> list[bytes]:
    """Give the messages of a field, encoded."""
    return [one for one in found.get(field, ()) if isinstance(one, bytes)]


def number_of(found: Fields, field: int) -> int:
    """Give the last number of a field, of 32 bits with sign; 0 without one."""
    numbers = [one for one in found.get(field, ()) if isinstance(one, int)]
    last = numbers[-1] & 2**32 - 1 if numbers else 0
    return last - 2**32 if last >= 2**31 else last
