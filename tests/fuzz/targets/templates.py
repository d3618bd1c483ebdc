"""Any text as a template, with any texts of the hardware in it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from genericdp.config.texts import SCOPES, Context, complaints
from genericdp.template import (
    Template,
    TemplateSyntaxError,
    UnusableValueError,
    bind,
    expand,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 5.0
SEPARATOR = "\x01"
"""Between the template and the texts that its references get in turn; empty: it is lacking."""
WORDS = tuple(
    word.encode()
    for word in (
        *("$(", "$$(", "$$$(", ")", ":-", ".", "/", "..", "/../", "\n", "\0", SEPARATOR, "$"),
        *(f"$({scope}.name)" for scope in SCOPES),
        "$(device.path)",
        "$(property.A:-$$(x))",
        "$(value.a:-b)",
    )
)


def seeds() -> Iterator[bytes]:
    yield b"/dev/$(device.name)\x01ttyUSB0"
    yield b"$(usb.serial:-none)-$(attribute.device/vendor)\x01\x01x"
    yield b"$$(a) $(property.ID_PATH:-$$(b))\x01/a/../b"
    yield b"$(device.path)/$(value.a)\x01/dev/a\x01b"
    yield b"$(allocation.index)$(node.name)"


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    yield _run


def _run(data: bytes) -> None:
    first, _, rest = data.partition(SEPARATOR.encode())
    # No config holds half of a surrogate pair, but names on the host may be any bytes.
    text = first.decode("utf-8", "replace")
    texts = rest.decode("utf-8", "surrogateescape").split(SEPARATOR)
    try:
        template = parse(text)
    except TemplateSyntaxError as error:
        assert 0 <= error.offset <= len(text)
        return
    context = Context(values=frozenset({"a"}))
    for reference, _, _ in complaints(template, context):
        assert text[reference.offset : reference.offset + 2] == "$("
    str(template)
    for path in (False, True):
        _expand(template, texts, path=path)


def _expand(template: Template, texts: list[str], *, path: bool) -> None:
    known: dict[tuple[str, str], str | None] = {}

    def lookup(scope: str, name: str) -> str | None:
        if (scope, name) not in known:
            at = len(known)
            known[scope, name] = (texts[at] or None) if at < len(texts) else None
        return known[scope, name]

    try:
        whole = expand(template, lookup, path=path)
    except UnusableValueError:
        return
    assert not path or ".." not in whole.split("/")
    whole.encode()  # it goes into messages to the kubelet
    # In two steps, as resources do it: first the device's, then the allocation's.
    half = bind(template, lookup, path=path, later={"allocation"})
    assert expand(half, lookup, path=path) == whole
