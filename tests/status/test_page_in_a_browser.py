"""The page in a real browser, Chromium: it follows the daemon without a reload by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.status.chromium import Browser, Page
from tests.status.page_server import served
from tests.status.samples import (
    EMPTY,
    NET,
    NOW,
    RICH,
    SERIAL,
    at,
    device,
    expected,
    fleet,
    held,
    many,
    probe,
    resource,
    status,
)

pytestmark = pytest.mark.slow

ICON = "document.querySelector('link[rel=icon]').href"
NAMES = "[...document.querySelectorAll('#page .list > tbody > tr:not(.details) > .name')]"
GONE = "document.getElementById('gone').textContent"


async def filter_by(page: Page, text: str) -> None:
    await page.ask(
        f"{{ const field = document.getElementById('filter'); field.value = {text!r};"
        " field.dispatchEvent(new Event('input', {bubbles: true})); } 1"
    )


async def text_of(page: Page, selector: str) -> str:
    return str(await page.ask(f"document.querySelector({selector!r}).innerText"))


async def test_it_follows_what_changes_and_keeps_what_was_opened(browser: Browser) -> None:
    async with served(many(5, 100), browser) as (shown, page):
        await page.look(width=1280, dark=False)
        assert await page.ask("document.querySelectorAll('.devices').length") == 0
        await page.ask(
            "const all = document.querySelectorAll('[data-toggle]'); all[3].click();"
            "window.marked = document.querySelectorAll('[data-toggle]')[3];"
            "marked.focus(); scrollTo(0, 600); 1"
        )
        assert await page.ask("document.querySelectorAll('.devices td.state .bad').length") == 2
        changed = many(5, 100)
        changed["resources"][3]["devices"][0]["reason"] = "its fuse has blown"
        shown.status = changed
        await page.until("document.body.textContent.includes('its fuse has blown')")
        assert await page.ask("scrollY") == 600
        changed = many(5, 100)
        for each_resource in changed["resources"][:3]:
            each_resource["devices"] = each_resource["devices"][1:50]
        shown.status = {**changed, "notReady": ["it burns"], "ready": False}
        await page.refresh()
        await page.until("document.body.textContent.includes('it burns')")
        assert (await page.ask("document.title")).startswith("Not ready, 4 Unhealthy")
        # Its row moved to the top with its details, and still has the focus.
        assert (await page.ask(f"{NAMES}[0].innerText")).endswith("kind-3")
        assert await page.ask("document.activeElement === marked && marked.isConnected")
        assert await page.ask("document.querySelectorAll('.devices').length") == 1
        assert page.said == []
        mine = {f"http://127.0.0.1:{shown.port}/", f"http://127.0.0.1:{shown.port}/status"}
        assert {entry for entry in page.requested if not entry.startswith("data:")} == mine


async def test_it_says_when_nobody_answers_any_more_and_when_somebody_does(
    browser: Browser,
) -> None:
    async with served(EMPTY, browser) as (shown, page):
        assert await page.ask(GONE) == ""
        shown.fails = True
        await page.refresh()
        await page.until(GONE)
        assert await page.ask(GONE) == (
            "No answer since 2026-11-21 19:00:00 UTC: what you see is how it was then."
        )
        assert await page.ask("!document.getElementById('gone').hidden")
        assert await page.ask("document.title") == "No answer · edge-1 · genericdp"
        shown.fails, shown.is_switched_off = False, True
        await page.refresh()
        await page.until(f"{GONE}.includes('--no-status')")
        assert await page.ask("document.title") == "Not shown · edge-1 · genericdp"
        shown.is_switched_off, shown.status = False, {"version": "0.1.0", "time": "soon"}
        await page.ask("performance.clearResourceTimings()")
        for answers in (1, 2):  # once it asks again, it has done what it does with the first one
            await page.refresh()
            await page.until(f"performance.getEntriesByType('resource').length >= {answers}")
        assert (await page.ask(GONE)).startswith("No answer since 2026")
        shown.status = RICH
        await page.refresh()
        await page.until(f"{NAMES}.length == 5")
        assert await page.ask(GONE) == ""
        assert (await page.ask("document.title")).startswith("Not ready, ")
        await page.ask("window.marked = 1")
        shown.status = {**EMPTY, "version": "0.2.0"}  # which brings its own page
        await page.refresh()
        await page.until("typeof window.marked == 'undefined'")


async def test_after_a_late_failure_it_asks_as_soon_as_after_any_other(browser: Browser) -> None:
    """It waited ten times as long as it had waited for the answer: 80 s after one of 8 s."""
    async with served(EMPTY, browser) as (shown, page):
        await page.ask(
            "waits = [], real = setTimeout,"
            " window.setTimeout = (call, wait) => (waits.push(wait), real(call, wait))"
        )
        shown.fails = True
        shown.answers.clear()
        await page.ask("begun = performance.now()")
        await page.refresh()
        await page.until("performance.now() - begun > 1000")
        shown.answers.set()
        await page.until("waits.length > 0")
        assert await page.ask("waits[0]") == 3000


async def test_any_text_in_any_field_is_shown_as_text(browser: Browser) -> None:
    text = '<script> </style> " onload="x &amp; <!-- \0 \x1b[2J \u202e \ud800 é 漢'
    fixed = {"time", "started", "since", "differsSince", "version", "state"}

    def replaced(value: Any) -> Any:
        match value:
            case dict():
                return {
                    key: each_part if key in fixed else replaced(each_part)
                    for key, each_part in value.items()
                }
            case list():
                return [replaced(part) for part in value]
            case str() if value:
                return f"{text} {value}"
            case _:
                return value

    before = status(SERIAL, NET)
    async with served(before, browser) as (shown, page):
        count = await page.ask("document.querySelectorAll('*').length")
        shown.status = replaced(before)
        await page.refresh()
        escaped = "".join(
            entry if entry.isprintable() else entry.encode("unicode_escape").decode()
            for entry in f"{text} edge-1"
        )
        await page.until(f"document.querySelector('h1').textContent == {escaped!r}")
        assert await page.ask("document.querySelectorAll('*').length") == count
        assert page.said == []
        for smuggled in (
            "document.body.innerHTML = '<img src=x onerror=\"window.ran = 1\">'",
            "document.body.append(document.createElement('script'));"
            " document.body.lastChild.textContent = 'window.ran = 1'",
        ):
            await page.ask(f"try {{ {smuggled} }} catch {{}} 1")
        assert await page.ask("typeof window.ran") == "undefined", "as its policy demands"


async def test_with_many_resources_the_table_comes_first_and_the_empty_ones_are_folded(
    browser: Browser,
) -> None:
    async with served(fleet(43), browser) as (_, page):
        names = await page.ask(f"{NAMES}.map((one) => one.innerText)")
        assert len(names) == 43
        ends = [name.rpartition("/")[2] for name in names[:5]]
        assert ends == [
            "infiniband-with-a-rather-long-name", "serial", "fuse", "loop", "gpu",
        ]  # fmt: skip
        assert await text_of(page, "#empty > summary") == "13 resources without devices"
        row = await text_of(page, ".list tr[data-key='example.com/serial']")
        for text in ("Registered", "3 of 6", "ttyUSB1: exec", "2 matched, but not offered"):
            assert text in row
        await page.ask("document.getElementById('empty').open = true")
        empty = await text_of(page, "#empty")
        assert "nothing on this node matches match[0] {path: /dev/example.com/kind-0}" in empty


async def test_a_filter_finds_resources_and_devices(browser: Browser) -> None:
    async with served(fleet(43), browser) as (shown, page):
        await filter_by(page, "a50285")
        assert await page.ask(f"{NAMES}.map((one) => one.innerText)") == ["example.com/serial"]
        assert await text_of(page, "#resources") == "1 of 43 resources"
        ids = "[...document.querySelectorAll('.devices .id')].slice(1)"
        assert await page.ask(f"{ids}.map((one) => one.firstChild.data)") == ["ttyUSB1", "ttyUSB0"]
        reported = await text_of(page, ".devices .id .hardware")
        assert reported == "FT232R USB UART · serial A50285BJ · ftdi_sio"
        shown.status = {**fleet(43), "notReady": ["it burns"], "ready": False}
        await page.refresh()
        await page.until("document.body.textContent.includes('it burns')")
        assert await page.ask(f"{NAMES}.length") == 1
        await filter_by(page, "matches match[0] {path: /dev/example.com/kind-0}")
        assert await page.ask(f"{NAMES}.map((one) => one.innerText)") == ["example.com/kind-0"]
        await filter_by(page, "no such thing")
        assert "Nothing matches the filter." in await page.ask("document.body.innerText")
        await filter_by(page, "")
        assert await page.ask(f"{NAMES}.length") == 43


async def test_probes_and_holders_stand_beside_a_device(browser: Browser) -> None:
    shares = [held(f"pod home/p{n}", f"ttyUSB0::{n}") for n in range(1, 9)]
    probes = [probe("exec-0", "failure", "exited with 3"), probe("open-1", "")]
    claim = held("claim home/stick", "ttyUSB1", at(NOW - 7200)) | {"pods": ["home/a", "home/b"]}
    named = {"devices": ["ttyusb1-c0ffee00"], "attributes": {}, "notes": {}}
    devices = (
        device(0, shares=9, holders=shares, probes=probes),
        device(1, dra=named, holders=[claim]),
        device(2),
    )
    dra = {"driver": "genericdp.io", "pool": "edge-1/example.com/a"}
    async with served(status(resource("example.com/a", *devices, dra=dra)), browser) as (_, page):
        cells = "[...document.querySelectorAll('{}')].map((one) => one.innerText)"
        first, second, third = await page.ask(cells.format("td.holders"))
        five = [f"pod home/p{n} (ttyUSB0::{n})" for n in range(1, 6)]
        assert first.splitlines() == [*five, "and 3 more"]
        assert (second, third) == ("claim home/stick of pod home/a, home/b (for 2 h)", "-")
        shown = await page.ask(cells.format(".probe"))
        assert [" ".join(text.split()) for text in shown] == [
            "exec-0 failure exited with 3",
            "open-1 no result yet",
        ]
        text = await page.ask("document.body.innerText")
        assert "DRA driver genericdp.io, pool edge-1/example.com/a" in text
        assert "in ResourceSlices ttyusb1-c0ffee00" in text


async def test_a_resource_that_can_give_nothing_or_lacks_devices_does_not_look_fine(
    browser: Browser,
) -> None:
    sick = resource("example.com/a", device(0, reason="broken"), device(1, reason="broken"))
    lost = resource(
        "example.com/b",
        expected=expected(8, "too_few", "0 devices Healthy, expected 8; forgotten: ttyUSB0"),
    )
    fine = resource("example.com/c", device(2), expected=expected(1))
    async with served(status(fine, sick, lost), browser) as (_, page):
        cells = "[...document.querySelectorAll('.list > tbody > tr > .state')]"
        states = await page.ask(f"{cells}.map((cell) => cell.innerText)")
        assert [text.split() for text in states] == [
            ["Registered", "None", "allocatable"],
            ["Registered", "Too", "few"],
            ["Registered"],
        ]
        assert "forgotten: ttyUSB0" in await text_of(page, ".list")
        assert "1 resource not as expected" in await text_of(page, ".node")


async def test_no_more_is_shown_than_fits(browser: Browser) -> None:
    loud = device(0, reason="x" * 1_000_000)
    aside = [{"path": f"/dev/x{n}", "reason": "odd"} for n in range(700)]
    spec = resource("example.com/a", loud, *(device(n) for n in range(1, 5000)), notOffered=aside)
    async with served(status(spec), browser) as (_, page):
        text = await page.ask("document.body.innerText")
        assert "… (998,000 more characters)" in text
        assert await page.ask("document.querySelectorAll('.devices tbody tr').length") == 500
        more = await page.ask("[...document.querySelectorAll('.more')].map((x) => x.innerText)")
        assert more == ["4,500 more devices: /status", "200 more paths: /status"]


async def test_time_alone_changes_nothing_that_a_screen_reader_says(browser: Browser) -> None:
    async with served(RICH, browser) as (shown, page):
        said = await text_of(page, "#summary")
        assert said == (
            "4 of 5 resources registered, 71 of 75 devices Healthy. 1 resource without devices."
            " The config on disk is refused."
        )
        assert "First refused 1 min ago" in await page.ask("document.body.innerText")
        shown.status = {**RICH, "time": "2026-11-22T19:00:00.000+00:00"}
        await page.refresh()
        await page.until("document.body.innerText.includes('First refused 1 d ago')")
        assert await text_of(page, "#summary") == said


async def test_it_fits_its_screen_and_is_a_table_there_to_a_screen_reader(browser: Browser) -> None:
    async with served(RICH, browser) as (_, page):
        await page.ask("document.querySelector('[data-toggle=\"example.com/serial\"]').click()")
        for width in (320, 1280):
            await page.look(width=width, dark=True)
            assert await page.ask("document.documentElement.scrollWidth") == width
            tree = (await page.do("Accessibility.getFullAXTree"))["nodes"]
            roles = [entry.get("role", {}).get("value") for entry in tree if not entry["ignored"]]
            assert {"banner", "main", "contentinfo", "navigation", "status", "searchbox"} <= {
                *roles
            }
            named = [
                item["name"]["value"]
                for item in tree
                if item.get("role", {}).get("value") == "table" and not item["ignored"]
            ]
            assert {"Resources", "Devices of example.com/serial"} <= {*named}
            assert roles.count("rowheader") > 10
            assert roles.count("columnheader") > 10
        assert page.said == []
