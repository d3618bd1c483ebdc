"""Values that a resource declares: from a text, a file or a link, then through an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.model import ValueKind
from genericdp.regex import extract
from genericdp.template import LackingValueError, UnusableValueError, expand, is_utf8

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.sysdevice import Facts
    from genericdp.model import ValueSource
    from genericdp.template import Lookup


def value_of(
    name: str,
    source: ValueSource,
    lookup: Lookup,
    facts: Facts,
    *,
    refusal: Callable[[str], str] = lambda _: "",
) -> str | None:
    """Give a declared value for one candidate, or None if it has none.

    ``refusal`` says why a path must not be looked at. Raises LackingValueError with the reason
    where there is more to say than that, and UnusableValueError where it cannot be known whether
    it has one.
    """
    text = _source_text(name, source, lookup, facts, refusal)
    if text is not None and not is_utf8(text):
        raise UnusableValueError(f"the value {name!r} is {text!r}, which is not valid UTF-8")
    if text is None or source.regex is None:
        return text
    found = extract(source.regex, text)
    if found is None:
        raise LackingValueError(
            f"the value {name!r}: {source.regex!r} is not found in {_start(text)!r}"
        )
    return found


def _source_text(
    name: str, source: ValueSource, lookup: Lookup, facts: Facts, refusal: Callable[[str], str]
) -> str | None:
    match source.kind:
        case ValueKind.TEXT:
            return expand(source.source, lookup)
        case ValueKind.FILE:
            path = expand(source.source, lookup, path=True)
            _insist(name, refusal(path))
            text = facts.text(path)
            if text is None:
                if why := facts.trouble(path):
                    raise UnusableValueError(f"the value {name!r}: {path}: {why}")
                raise LackingValueError(f"the value {name!r}: {path}: it does not exist")
            return text
        case ValueKind.LINK:
            pattern = expand(source.source, lookup, path=True, quote=glob.escape)
            paths = facts.paths(pattern)
            if len(paths) != 1:
                count = "nothing" if not paths else f"{len(paths)} paths"
                raise LackingValueError(
                    f"the value {name!r}: {glob.unescape(pattern)} finds {count}, wanted one"
                )
            _insist(name, refusal(paths[0]))
            return facts.link(paths[0])


def _insist(name: str, why_not: str) -> None:
    if why_not:
        raise UnusableValueError(f"the value {name!r}: {why_not}")


def _start(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"
