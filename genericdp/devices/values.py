"""Values that a resource declares: from a text, a file or a link, then through an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.model import ValueKind
from genericdp.printing import shortened
from genericdp.regex import TextTooLongError, extract
from genericdp.template import (
    MOST_TEXT,
    TOO_LONG,
    AmbiguousValueError,
    LackingValueError,
    UnusableValueError,
    byte_length,
    expand,
    is_utf8,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.sysdevice import Host, Way
    from genericdp.model import ValueSource
    from genericdp.template import Lookup


def value_of(
    name: str,
    source: ValueSource,
    lookup: Lookup,
    host: Host,
    *,
    lead: Callable[[str], Way],
) -> str | None:
    """Give a declared value for one candidate, or None if it has none.

    ``lead`` says where a path leads, and why it must not be read. Raises LackingValueError with
    the reason where there is more to say than that, and UnusableValueError where it cannot be
    known whether it has one.
    """
    text = _source_text(name, source, lookup, host, lead)
    if text is not None and byte_length(text) > MOST_TEXT:
        raise UnusableValueError(f"the value {name!r} gives {TOO_LONG}")
    return text


def _source_text(
    name: str, source: ValueSource, lookup: Lookup, host: Host, lead: Callable[[str], Way]
) -> str | None:
    match source.kind:
        case ValueKind.TEXT:
            return _extracted(name, source.regex, expand(source.source, lookup))
        case ValueKind.FILE:
            path = expand(source.source, lookup, path=True)
            target = _allowed(name, lead(path))
            return _of_file(name, source.regex, path, target, host)
        case ValueKind.LINK:
            pattern = expand(source.source, lookup, path=True, quote=glob.escape)
            paths = host.paths(pattern)
            if why := host.trouble(pattern):
                raise UnusableValueError(f"the value {name!r}: {why}")
            dangling = host.dangling(pattern)
            if (count := len(paths) + len(dangling)) != 1:
                error = AmbiguousValueError if count else LackingValueError
                found = f"{count} paths" if count else "nothing"
                raise error(
                    f"the value {name!r}: {glob.unescape(pattern)} finds {found}, wanted one"
                )
            if dangling:
                raise AmbiguousValueError(
                    f"the value {name!r}: {dangling[0]} is a link that leads nowhere"
                )
            target = _allowed(name, lead(paths[0]))
            text = host.link(target)
            if text is None and (why := host.trouble(target)):
                raise UnusableValueError(f"the value {name!r}: {paths[0]}: {why}")
            return _extracted(name, source.regex, text)


def _of_file(name: str, regex: str | None, path: str, target: str, host: Host) -> str:
    if regex is None:
        text = host.text(target)
    elif (hit := host.extract(target, regex)) is not None:
        if not hit.found:
            raise _without_hit(name, regex, hit.text)
        text = hit.text
    else:
        text = None
    if text is not None:
        return text
    if why := host.trouble(target):
        raise UnusableValueError(f"the value {name!r}: {path}: {why}")
    raise LackingValueError(f"the value {name!r}: {path}: it does not exist")


def _extracted(name: str, regex: str | None, text: str | None) -> str | None:
    if text is not None and not is_utf8(text):
        raise UnusableValueError(
            f"the value {name!r} is {shortened(text)!r}, which is not valid UTF-8"
        )
    if text is None or regex is None:
        return text
    try:
        found = extract(regex, text)
    except TextTooLongError as error:
        raise UnusableValueError(f"the value {name!r}: {error}") from error
    if found is None:
        raise _without_hit(name, regex, text)
    return found


def _without_hit(name: str, regex: str, text: str) -> LackingValueError:
    start = shortened(text, 61)
    return LackingValueError(f"the value {name!r}: {regex!r} is not found in {start!r}")


def _allowed(name: str, way: Way) -> str:
    if way.trouble:
        raise UnusableValueError(f"the value {name!r}: {way.trouble}")
    return way.target
