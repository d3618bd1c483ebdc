"""The page in a real browser, Chromium: it follows the daemon without a reload by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.status.chromium import WHY_NOT
from tests.status.samples import EMPTY, RICH, many
from tests.status.serving import served

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


async def test_it_follows_what_changes_and_keeps_what_was_opened() -> None:
    async with served(many(2, 100)) as (shown, page):
        await page.look(width=1280, dark=False)
        assert await page.ask("document.querySelectorAll('td.state .bad').length") == 4
        await page.ask(
            "const opened = document.querySelectorAll('details')[1]; opened.open = true;"
            "opened.querySelector('summary').focus(); scrollTo(0, 600); window.marked = opened; 1"
        )
        first, second = shown.status.resources
        other = replace(second.devices[0], reason="its fuse has blown")
        second = replace(second, devices=(other, *second.devices[1:]))
        shown.status = replace(shown.status, resources=(first, second))
        await page.until("document.body.textContent.includes('its fuse has blown')")
        assert await page.ask("scrollY") == 600
        assert await page.ask("marked.open && marked.isConnected")
        sick = replace(second.devices[7], healthy=False, reason="modem is on fire")
        devices = (*second.devices[:7], sick, *second.devices[8:])
        changed = (replace(second, devices=devices), replace(first, devices=()))
        shown.status = replace(shown.status, resources=changed, not_ready=("it burns",))
        await page.until("document.body.textContent.includes('modem is on fire')")
        assert "Not ready" in await page.ask("document.querySelector('h1').parentNode.textContent")
        assert (await page.ask("document.title")).startswith("Not ready, 3 Unhealthy")
        # The card moved to the top with its open details, which still have the focus.
        assert await page.ask(
            "document.querySelectorAll('article')[0].contains(marked) && marked.open"
            " && document.activeElement === marked.querySelector('summary')"
        )
        assert await page.ask("document.querySelectorAll('details').length") == 1
        assert page.said == []
        mine = f"http://127.0.0.1:{shown.port}/"
        assert {one for one in page.requested if not one.startswith("data:")} == {mine}


async def test_it_says_when_nobody_answers_any_more_and_when_somebody_does() -> None:
    async with served(EMPTY) as (shown, page):
        assert await page.ask("document.getElementById('gone').textContent") == ""
        shown.fails = True
        await page.until("document.getElementById('gone').textContent")
        assert await page.ask("document.getElementById('gone').textContent") == (
            "No answer since 2026-11-21 19:00:00 UTC: what you see is how it was then."
        )
        assert await page.ask("!document.getElementById('gone').hidden")
        assert await page.ask("document.title") == "No answer · edge-1 · genericdp"
        assert "%236e7781" in await page.ask(ICON)
        shown.fails, shown.status = False, RICH
        await page.until("document.querySelectorAll('article').length == 5")
        assert await page.ask("document.getElementById('gone').textContent") == ""
        assert (await page.ask("document.title")).startswith("Not ready, ")
        assert "%23cf222e" in await page.ask(ICON)


ICON = "document.querySelector('link[rel=icon]').href"


async def test_a_daemon_that_comes_back_without_a_status_is_not_taken_for_one_that_is_gone() -> (
    None
):
    async with served(EMPTY) as (shown, page):
        shown.is_switched_off = True
        await page.until("document.getElementById('gone').textContent.includes('--no-status')")
        assert await page.ask("document.title") == "Not shown · edge-1 · genericdp"


async def test_it_asks_again_whatever_went_wrong_while_it_asked() -> None:
    async with served(EMPTY) as (shown, page):
        shown.fails = True
        await page.ask(
            "document.querySelector('footer').remove();performance.clearResourceTimings()"
        )
        await page.until("performance.getEntriesByType('resource').length >= 2")
        shown.fails, shown.status = False, RICH
        await page.until("document.querySelectorAll('article').length == 5")


async def test_what_a_text_smuggles_in_does_not_run() -> None:
    async with served(RICH) as (_, page):
        assert await page.ask("document.querySelectorAll('script').length") == 1
        assert "<script>alert(1)</script>" in await page.ask("document.body.innerText")
        await page.ask(
            "const one = document.createElement('script'); one.textContent = 'window.ran = 1';"
            "document.body.append(one); 1"
        )
        assert await page.ask("typeof window.ran") == "undefined"
        assert any("Content Security Policy" in one for one in page.said)


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
async def test_it_fits_its_screen_and_is_a_table_there_to_a_screen_reader(width: int) -> None:
    async with served(RICH) as (_, page):
        await page.look(width=width, dark=True)
        assert await page.ask("document.documentElement.scrollWidth") == width
        tree = (await page.do("Accessibility.getFullAXTree"))["nodes"]
        roles = [one.get("role", {}).get("value") for one in tree if not one["ignored"]]
        assert {"banner", "main", "contentinfo", "navigation", "status"} <= {*roles}
        named = [
            one["name"]["value"]
            for one in tree
            if one.get("role", {}).get("value") == "table" and not one["ignored"]
        ]
        assert "Devices of example.com/serial" in named
        assert roles.count("rowheader") > 10
        assert roles.count("columnheader") > 10
        assert page.said == []
