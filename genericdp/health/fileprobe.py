"""Probes ``file``: the content of a file must be as expected."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.bounding import readable_way
from genericdp.health.looks import FileLook, look_at_all
from genericdp.printing import printable
from genericdp.regex import TextTooLongError, search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.devices.device import FileRead
    from genericdp.host.root import Root
    from genericdp.process.outcome import Outcome

MOST_BYTES = 1024 * 1024
MOST_SHOWN = 60
"""Limit on the characters of a content that are quoted."""

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


async def probe_many(
    checks: Sequence[FileRead], *, resource: str, root: Root, timeout_seconds: float
) -> list[Outcome]:
    """Read the files and compare: a batch costs a quarter of single reads, and none waits."""
    looks = [FileLook(f"reading {printable(one.path)}", partial(look, one, root)) for one in checks]
    return await look_at_all(looks, resource=resource, timeout_seconds=timeout_seconds)


def look(check: FileRead, root: Root) -> str:
    """Read the file and return what is not as expected; empty: nothing. It may hang."""
    path = printable(check.path)
    try:
        way = readable_way(check.policy, check.path, root.target_of)
        if way.trouble:
            return printable(way.trouble)
        data = root.read_bytes(way.target, limit=MOST_BYTES + 1, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return f"{path} does not exist"
    except BlockingIOError:
        return f"{path} has nothing to read"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    except ValueError as error:  # a NUL in the path
        return f"{path} cannot be read: {error}"
    if len(data) > MOST_BYTES:
        return f"{path} has more than 1 MiB"
    try:
        return judged(check, data.decode(errors="backslashreplace"))
    except TextTooLongError as error:
        return f"{path}: {error}"


def judged(check: FileRead, content: str) -> str:
    """Return what is not as expected; empty: nothing. All that is given must hold."""
    content = content.strip()
    wrong = ""
    if check.equals is not None and content != check.equals:
        wrong = f"not {shown(check.equals)}"
    elif check.regex is not None and search(check.regex, content) is None:
        wrong = f"not matching {shown(check.regex)}"
    elif check.min is not None or check.max is not None:
        wrong = _out_of_range(check, content)
    return f"{printable(check.path)} is {shown(content)}, {wrong}" if wrong else ""


def _out_of_range(check: FileRead, content: str) -> str:
    value = number(content)
    if value is None:
        return "which is no number"
    if check.min is not None and value < check.min:
        return f"less than {_plain(check.min)}"
    if check.max is not None and value > check.max:
        return f"more than {_plain(check.max)}"
    return ""


def number(text: str) -> float | None:
    """Parse a decimal or, after ``0x``, hexadecimal number; None: not a number, or not finite."""
    if _NUMBER.fullmatch(text) is None:
        return None
    if "x" in text or "X" in text:
        return int(text, 16)
    value = float(text)
    return value if math.isfinite(value) else None


def shown(text: str) -> str:
    """Quote a text for people: what cannot be printed is escaped, what is long is cut."""
    quoted = printable(text[: MOST_SHOWN + 1])
    return f"'{quoted}'" if len(quoted) <= MOST_SHOWN else f"'{quoted[:MOST_SHOWN]}…'"


def _plain(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)
