"""HTML that cannot be forgotten to be escaped: a plain text becomes markup only here."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal

from genericdp.status.wording import absolute, moment, span, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

_VOID = frozenset({"meta", "link", "br"})


class Markup(str):
    """HTML as it stands; any other text is escaped when it becomes part of some."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Make any text one that shows itself: nothing in it is taken for HTML, nothing is hidden."""
    return text if isinstance(text, Markup) else Markup(escape(visible(text)))


def joined(parts: Iterable[str]) -> Markup:
    """Put parts together; each text among them is escaped."""
    return Markup("".join(map(escaped, parts)))


def element(tag: str, *children: str, **attributes: str | Literal[True]) -> Markup:
    """Return an element; ``class_`` is class, ``aria_label`` aria-label, True: without a value."""
    said = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for name, value in attributes.items()
        if value
    )
    if tag in _VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined(children)}</{tag}>")


def pill(text: str, kind: str) -> Markup:
    """Return a word with a colour that stresses what it says: good, bad, odd or plain."""
    return element("span", text, class_=f"pill {kind}")


def time_of(seconds: float, text: str) -> Markup:
    """Return a time in short, with the whole of it for machines and for who points at it."""
    when = moment(seconds)
    if when is None:
        return escaped("at an unknown time")
    stamp = f"{when:%Y-%m-%dT%H:%M:%S}Z"
    return Markup(f'<time datetime="{stamp}" title="{absolute(seconds)}">{escaped(text)}</time>')


def ago(seconds: float, now: float) -> Markup:
    """Return how long ago a time was."""
    return time_of(seconds, f"{span(now - seconds)} ago")


def table(
    caption: str, columns: Iterable[tuple[str, str]], rows: Iterable[str], class_: str
) -> Markup:
    """Return a table; ``columns`` are class and heading, ``rows`` what ``row`` gives.

    Where the page is narrow its rows become blocks, and some browsers then forget that it is a
    table: so it is said once more, with roles.
    """
    headings = joined(
        element("th", heading, class_=name, scope="col", role="columnheader")
        for name, heading in columns
    )
    return element(
        "table",
        element("caption", caption),
        element("thead", element("tr", headings, role="row"), role="rowgroup"),
        element("tbody", joined(rows), role="rowgroup"),
        role="table",
        class_=class_,
    )


def row(cells: Iterable[tuple[str, str]]) -> Markup:
    """Return a row; each cell is class and content, the first is what the row is about."""
    parts = [f'<td role="cell" class="{name}">{escaped(text)}</td>' for name, text in cells]
    first = parts[0].removeprefix('<td role="cell"').removesuffix("</td>")
    parts[0] = f'<th scope="row" role="rowheader"{first}</th>'
    return Markup(f'<tr role="row">{"".join(parts)}</tr>')
