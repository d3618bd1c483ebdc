"""The site of ``docs/``, built strictly and read in a browser.

``make docs`` and ``make deploy-test`` bring what makes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.status.chromium import WHY_NOT, chromium

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.status.chromium import Page

ROOT = Path(__file__).parents[2]
ZENSICAL = Path(os.environ.get("DOCS_VENV", ROOT / "build/docs-venv")) / "bin/zensical"
pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(not ZENSICAL.exists(), reason="no zensical: make docs brings it"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It; the tool finds links that lead nowhere, and what is loaded from elsewhere."""
    directory = tmp_path_factory.mktemp("docs")
    tool = ROOT / "tools/build_site"
    ended = subprocess.run(
        [sys.executable, tool, "--into", directory, ZENSICAL], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return directory / "site"


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """An empty tab."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    with chromium() as browser:
        async with browser.tab() as opened:
            yield opened


async def test_it_is_read_from_a_disk_and_asks_nobody_else(site: Path, page: Page) -> None:
    await page.look(width=390, dark=True)
    pages = (
        "index",
        "reference/config",
        "hardware/index",
        "hardware/fuse",
        "explanation/comparison",
    )
    for name in pages:
        await page.visit(f"file://{site}/{name}.html")
        wide = await page.ask("document.documentElement.scrollWidth <= innerWidth")
        assert wide, f"{name} is wider than a phone"
    elsewhere = [url for url in page.requested if not url.startswith(("file:", "data:"))]
    assert (elsewhere, page.said) == ([], [])


async def test_its_search_works_from_a_disk(site: Path, page: Page) -> None:
    await page.look(width=1280, dark=False)
    await page.visit(f"file://{site}/index.html")
    await page.ask("document.querySelector('.md-search__button').click()")
    text = "document.activeElement.shadowRoot?.textContent ?? ''"
    await page.until(f"!({text}).includes('Loading')")
    await page.do("Input.insertText", text="groupneeds")
    await page.until(f"/[1-9]\\d* results?/.test({text})")
