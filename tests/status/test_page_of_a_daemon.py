"""The real daemon's page in a real browser, and the same in a terminal."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import pytest
from genericdp.simulator.kubelet import Kubelet

from tests.status.chromium import Browser, Page
from tests.test_daemon import Place

PROBED = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match: [{path: "/dev/ttyUSB*"}]
    health:
      - file: {path: /etc/modem, equals: awake}
        periodSeconds: 1
        failureThreshold: 1
"""
REFUSED = PROBED.replace("match:", "matches:")

pytestmark = pytest.mark.slow


async def shows(page: Page, *texts: str) -> None:
    """Wait until the page says so; it is not reloaded for that."""
    for text in texts:
        await page.until(f"document.getElementById('page').innerText.includes({text!r})")


async def in_terminal(address: str, *more: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "genericdp", "status", f"--address={address}", *more),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_what_becomes_of_a_daemon_shows_by_itself(
    browser: Browser, short_directory: Path
) -> None:
    place = Place(short_directory)
    modem = place.host.directory / "etc/modem"
    modem.parent.mkdir()
    modem.write_text("awake\n")
    place.config.write_text(PROBED)
    async with (
        Kubelet(place.kubelet_directory),
        place.daemon("--listen=127.0.0.1:0", "--node-name=edge-1") as daemon,
        browser.tab() as page,
    ):
        address = re.findall(r"127\.0\.0\.1:\d+", await daemon.says("endpoints at"))[0]
        await daemon.says("registered")
        await page.visit(f"http://{address}/")
        await shows(page, "edge-1", "1 resource registered, 1 device Healthy.")
        await page.ask("window.never_reloaded = 1")

        modem.write_text("asleep\n")
        place.config.write_text(REFUSED)
        await shows(page, "1 Unhealthy", "/etc/modem", "asleep")
        await shows(page, "The config on disk is refused", "unknown key 'matches'")
        assert "The config on disk has been REFUSED since" in await in_terminal(address)
        (device,) = json.loads(await in_terminal(address, "-o", "json"))["resources"][0]["devices"]
        assert (device["id"], device["state"]) == ("ttyUSB0", "Unhealthy")
        assert device["reason"] in await page.ask("document.body.innerText")

        modem.write_text("awake\n")
        place.config.write_text(PROBED)
        await shows(page, "1 resource registered, 1 device Healthy.")
        await page.until("!document.getElementById('page').innerText.includes('is refused')")

        daemon.process.send_signal(signal.SIGTERM)
        await page.until("document.getElementById('gone').innerText.startsWith('No answer since')")
        assert await daemon.ends() == 0
        assert await page.ask("window.never_reloaded") == 1
        assert {entry.split("/")[2] for entry in page.requested if "data:" not in entry} == {
            address
        }
        # That the daemon is missing Chromium itself notes at each attempt.
        assert [line for line in page.said if "ERR_CONNECTION_REFUSED" not in line] == []
    assert "Traceback" not in "".join(daemon.lines)
