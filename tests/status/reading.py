"""What a page holds, read as a browser would: by its tags."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    texts: list[str] = field(default_factory=list)
    """Its own, and those of all in it."""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def classes(self) -> set[str]:
        return {*self.attributes.get("class", "").split()}


class Reader(HTMLParser):
    """Takes a page apart; a tag that is not closed where it must be fails an assertion."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len({*names}), names
        one = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(one)
        if tag not in VOID:
            self._open.append(one)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for one in self._open:
            one.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def all(self, tag: str, class_: str = "") -> list[Element]:
        return [
            one for one in self.elements if one.tag == tag and (not class_ or class_ in one.classes)
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        (found,) = (
            one
            for one in self.elements
            if one.tag == tag and attributes.items() <= one.attributes.items()
        )
        return found
