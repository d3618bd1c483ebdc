"""The page as a file: what a browser may do with it, and whether it can be read."""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import product

import pytest

from tests.status.page_server import static


@pytest.fixture
async def page() -> tuple[str, str]:
    """The text of the page and its Content-Security-Policy."""
    response = await static().respond("/")
    return response.body.decode(), response.headers["content-security-policy"]


def content(text: str, tag: str) -> str:
    (found,) = re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", text, re.DOTALL)
    return str(found)


async def test_the_policy_allows_this_script_and_style_and_nothing_else(
    page: tuple[str, str],
) -> None:
    text, policy = page
    for tag in ("script", "style"):
        digest = hashlib.sha256(content(text, tag).encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    for rule in (
        *("default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        *("connect-src 'self'", "require-trusted-types-for 'script'"),
    ):
        assert rule in policy
    assert "unsafe" not in policy
    assert not re.search(r"\s(style|on\w+)=", text.replace(content(text, "script"), ""))


async def test_it_asks_nobody_else_and_parses_no_text_as_html(page: tuple[str, str]) -> None:
    text, _ = page
    assert set(re.findall(r"https?://[^\"'\s>]*", text)) == {"http://www.w3.org/2000/svg"}
    script = content(text, "script")
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMP"):
        assert sink not in script
    assert "genericdp status" in content(text, "noscript")


PAIRS = [
    *product(("text", "muted", "link"), ("ground", "card", "faint")),
    *((name, f"{name}-ground") for name in ("good", "bad", "odd", "plain")),
    ("bad", "card"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_can_be_read_on_its_ground(scheme: str, page: tuple[str, str]) -> None:
    """WCAG 2 AA: a contrast of 4.5."""
    style = content(page[0], "style")
    rules = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme == "dark"]
    colors = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", rules))
    poor = {
        pair: ratio
        for pair in PAIRS
        if (ratio := _contrast(*(colors[name] for name in pair))) < 4.5
    }
    assert poor == {}


def _contrast(first: str, other: str) -> float:
    low, high = sorted(_luminance(each) for each in (first, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
