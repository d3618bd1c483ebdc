"""Check a site that was built.

Every link must lead to a file, and to a place in it if it says which; and no page or style sheet
may load anything from another host.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
"""What a browser loads without being asked, and the attribute that says from where."""
LEADING = {"canonical", "prev", "next"}
"""Values of a link's rel that a browser does not load."""


class Page(HTMLParser):
    """A page of the site: what it loads, where its links lead, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.leads.append(found["href"])
        elif (where := LOADING.get(tag)) in found and found.get("rel") not in LEADING:
            self.loads.append(found[where or ""])


def faults(site: Path) -> list[str]:
    """Give what is wrong with a site that was built."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        if path.name != "404.html":  # its links are from the server's root
            name = path.relative_to(site)
            found += [f"{name} loads {url}" for url in page.loads if is_elsewhere(url)]
            wrong = [(url, misled(url, path, pages)) for url in [*page.leads, *page.loads]]
            found += [f"{name} leads to {url}: {why}" for url, why in wrong if why]
    for path in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import )[\"']?(https?:)?//", path.read_text())
        found += [f"{path.relative_to(site)} loads {url}" for url in urls]
    return found


def is_elsewhere(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.netloc) or parts.scheme not in {"", "data"}


def misled(url: str, path: Path, pages: dict[Path, Page]) -> str:
    """Say what is wrong with a link of a page, if anything; those to other hosts are not tried."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return ""
    to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    to = to / "index.html" if to.is_dir() else to
    if not to.exists():
        return "no such file"
    if parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].ids:
        return "no such place"
    return ""
