"""Extended headers (pax) of tar archives: names and sizes of any length."""

from __future__ import annotations

import re

MOST_BYTES = 16_384
"""Of one header: two of the longest paths, times, owners."""
_MOST_RECORDS = 32
_LENGTH = re.compile(rb"([1-9][0-9]{0,4}) ")
_SIZE = re.compile(r"[0-9]{0,15}")
_MEANT = {"path", "linkpath", "size"}


def records(content: bytes) -> dict[str, str]:
    """Give what replaces an entry's own path, link and size, of lines ``LENGTH KEY=TEXT``.

    An empty text replaces nothing; other keys (times, owners) are ignored. Raises ValueError
    if it is damaged, too long, or changes what the file's content means.
    """
    found: dict[str, str] = {}
    at = count = 0
    while at < len(content):
        count += 1
        key, text, at = _record(content, at)
        if key.startswith("GNU.sparse."):
            raise ValueError("a file is sparse (pack without --sparse)")
        if count > _MOST_RECORDS:
            raise ValueError(f"one has more than {_MOST_RECORDS} records")
        if key in _MEANT:
            found[key] = text
    if not _SIZE.fullmatch(found.get("size", "")):
        raise ValueError(f"the size {found['size']!r:.40} is no number")
    if any("\0" in text for text in found.values()):
        raise ValueError("a path holds a zero byte")
    return found


def _record(content: bytes, at: int) -> tuple[str, str, int]:
    """Give the key, the text, and where the next record begins."""
    length = _LENGTH.match(content, at)
    end = at + int(length[1]) if length else 0
    if length is None or not length.end() < end <= len(content) or content[end - 1] != 0x0A:
        raise ValueError("one is damaged")
    key, equals, text = content[length.end() : end - 1].partition(b"=")
    if not key or not equals:
        raise ValueError("one is damaged")
    return key.decode("utf-8", "replace"), text.decode("utf-8", "surrogateescape"), end
