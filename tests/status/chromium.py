"""A headless Chromium, driven by the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
WHY_NOT = "" if PROGRAM else "there is no chromium on this machine (apt-get install chromium)"
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--no-default-browser-check", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio"),
    *("--no-proxy-server", "--hide-scrollbars", "--remote-debugging-pipe"),
)
PATIENCE_SECONDS = 120
_READ_BYTES = 1 << 16


class Browser:
    """A browser; each tab has a profile of its own. At most one event loop uses it at a time."""

    def __init__(self, reader: int, writer: int) -> None:
        os.set_blocking(reader, False)
        self._reader = reader
        self._writer = writer
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        """By session."""
        self._received = bytearray()
        """The beginning of a message; it may come in the time of two tests."""

    async def do(self, method: str, *, session: str = "", **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._number += 1
        call: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        os.write(
            self._writer,
            json.dumps(call | ({"sessionId": session} if session else {})).encode() + b"\0",
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = await answer
        assert "error" not in said, (method, said)
        result: dict[str, Any] = said["result"]
        return result

    @asynccontextmanager
    async def tab(self) -> AsyncIterator[Page]:
        """Open a tab, and listen to all that it says."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._reader, self._read)
        try:
            profile = (await self.do("Target.createBrowserContext"))["browserContextId"]
            made = await self.do("Target.createTarget", url="about:blank", browserContextId=profile)
            attached = await self.do(
                "Target.attachToTarget", targetId=made["targetId"], flatten=True
            )
            page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"])
            for domain in ("Page", "Runtime", "Network", "Log"):
                await page.do(f"{domain}.enable")
            yield page
            del self._pages[attached["sessionId"]]
            await self.do("Target.disposeBrowserContext", browserContextId=profile)
        finally:
            loop.remove_reader(self._reader)

    def _read(self) -> None:
        data = os.read(self._reader, _READ_BYTES)
        if not data:  # it has ended
            asyncio.get_running_loop().remove_reader(self._reader)
        *messages, rest = data.split(b"\0")
        for message in messages:
            self._take(json.loads(bytes(self._received) + message))
            self._received.clear()
        self._received += rest

    def _take(self, message: dict[str, Any]) -> None:
        if answer := self._answers.pop(message.get("id", 0), None):
            if not answer.done():
                answer.set_result(message)
        elif page := self._pages.get(message.get("sessionId", "")):
            page.take(message["method"], message["params"])


class Page:
    """A tab, with what it has said and requested since it was opened."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.said: list[str] = []
        """Console messages, exceptions, violations: none is wanted."""
        self.requested: list[str] = []
        """URLs."""

    async def do(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol for this tab."""
        return await self._browser.do(method, session=self._session, **parameters)

    async def visit(self, url: str) -> None:
        """Open a URL and wait until it is complete."""
        await self.do("Page.navigate", url=url)
        await self.until(f"location.href.startsWith({url!r}) && document.readyState == 'complete'")

    async def ask(self, expression: str) -> Any:
        """Evaluate JavaScript and give its value."""
        said = await self.do(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, (expression, said)
        return said["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not await self.ask(expression):
            shown = "document.body.innerText"
            over = asyncio.get_running_loop().time() > end
            assert not over, f"never: {expression}\n{await self.ask(shown)}\n{self.said}"
            await asyncio.sleep(0.02)  # noqa: TID251 -- polls what has no event

    async def refresh(self) -> None:
        """Have the page request the status now, as when a person comes back to its tab."""
        await self.ask("document.dispatchEvent(new Event('visibilitychange')); 1")

    async def look(self, *, width: int, dark: bool) -> None:
        """Be a screen of a width, in light or dark."""
        phone = width < 600
        await self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844 if phone else 900,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.do("Emulation.setEmulatedMedia", features=[scheme])

    async def shoot(self, to: Path, *, most: int = 4000) -> None:
        """Keep a picture of the page from its top."""
        size = (await self.do("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most)}
        shot = await self.do(
            "Page.captureScreenshot", clip={**clip, "scale": 1}, captureBeyondViewport=True
        )
        to.write_bytes(base64.b64decode(shot["data"]))

    def take(self, event: str, about: dict[str, Any]) -> None:
        """Note what an event shows."""
        if event == "Runtime.consoleAPICalled":
            self.said.append(json.dumps(about["args"]))
        elif event == "Runtime.exceptionThrown":
            self.said.append(json.dumps(about["exceptionDetails"]))
        elif event == "Log.entryAdded":
            self.said.append(about["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requested.append(about["request"]["url"])


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser; whatever it started has ended afterwards."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True) as directory:
        process = subprocess.Popen(
            [
                *("bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash"),
                *(PROGRAM, *_FLAGS, f"--user-data-dir={directory}", "about:blank"),
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            env={**os.environ, "HOME": directory},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(ours_in, ours_out)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(ours_in)
            os.close(ours_out)
