"""Pictures of the status page, to be read: ``python -m tests.status.screenshots DIRECTORY``.

Samples of the tests, one of them of a daemon that no longer answers, in light and dark, on a screen
and on a phone. It needs Chromium.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import product
from pathlib import Path

from tests.status.chromium import WHY_NOT, chromium
from tests.status.page_server import served
from tests.status.samples import EMPTY, LOOPS, RICH, SERIAL, expected, fleet, many, status

DOCS = {
    **RICH,
    "node": "edge-7",
    "ready": True,
    "notReady": [],
    "resources": [
        {
            **SERIAL,
            "devices": SERIAL["devices"][:4],
            "capacity": 4,
            "allocatable": 2,
            "expected": expected(
                4, "too_few", "2 devices Healthy, expected 4; not Healthy: ttyUSB1, ttyUSB2"
            ),
        },
        LOOPS,
    ],
    "config": {**RICH["config"], "warnings": [], "pinned": []},
}
"""Of it, ``docs/status.png``: the first 840 pixels on a light screen."""
SAMPLES = {
    "docs": DOCS,
    "one": status(SERIAL),
    "rich": RICH,
    "empty": EMPTY,
    "43": fleet(43),
    "200": fleet(200),
    "devices": many(1, 1000),
    "dead": RICH,
}
WIDTHS = {"screen": 1280, "phone": 390}
SCHEMES = {"light": False, "dark": True}
OPEN = (
    "document.querySelector('[data-toggle=\"example.com/serial\"][aria-expanded=false]')?.click()"
)


async def main(directory: Path) -> None:
    """Take all of them."""
    with chromium() as browser:
        for name, sample in SAMPLES.items():
            async with served(sample, browser) as (shown, page):
                if name in {"rich", "dead"}:
                    await page.ask(f"{OPEN}; 1")
                if name == "dead":
                    shown.fails = True
                    await page.until("document.getElementById('gone').textContent")
                for (width, pixels), (scheme, dark) in product(WIDTHS.items(), SCHEMES.items()):
                    await page.look(width=pixels, dark=dark)
                    picture = directory / f"{name}-{width}-{scheme}.png"
                    await page.shoot(picture, most=840 if name == "docs" else 4000)
                    print(picture)


if __name__ == "__main__":
    if len(sys.argv) != 2 or WHY_NOT:
        sys.exit(WHY_NOT or __doc__)
    asyncio.run(main(Path(sys.argv[1])))
