"""A headless Chromium, driven by the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import tempfile
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
WHY_NOT = "" if PROGRAM else "there is no chromium on this machine (apt-get install chromium)"
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--no-default-browser-check", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio"),
    *("--no-proxy-server", "--hide-scrollbars", "--remote-debugging-pipe"),
)
PATIENCE_SECONDS = 120
_MOST_BYTES = 64 * 1024 * 1024


class Page:
    """A tab, with what it has said and asked for since it was opened."""

    def __init__(self, reader: asyncio.StreamReader, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        self._session = ""
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.said: list[str] = []
        """Console messages, exceptions, violations: none is wanted."""
        self.requested: list[str] = []
        """URLs."""

    async def listen(self) -> None:
        """Take what comes, forever."""
        while True:
            try:
                message = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            except asyncio.IncompleteReadError:
                return
            if answer := self._answers.pop(message.get("id", 0), None):
                if not answer.done():
                    answer.set_result(message)
            elif handle := getattr(self, f"_on_{message['method'].replace('.', '_')}", None):
                handle(message["params"])

    async def do(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._number += 1
        call: dict[str, object] = {
            "id": self._number,
            "method": method,
            "params": parameters,
            **({"sessionId": self._session} if self._session else {}),
        }
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        os.write(self._writer, json.dumps(call).encode() + b"\0")
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = await answer
        assert "error" not in said, (method, said)
        result: dict[str, Any] = said["result"]
        return result

    async def open_tab(self) -> None:
        """Attach to a new tab and listen to all that it says."""
        made = await self.do("Target.createTarget", url="about:blank")
        attached = await self.do("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.do(f"{domain}.enable")

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
            await asyncio.sleep(0.1)

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

    def _on_Runtime_consoleAPICalled(self, message: dict[str, Any]) -> None:
        self.said.append(json.dumps(message["args"]))

    def _on_Runtime_exceptionThrown(self, message: dict[str, Any]) -> None:
        self.said.append(json.dumps(message["exceptionDetails"]))

    def _on_Log_entryAdded(self, message: dict[str, Any]) -> None:
        self.said.append(message["entry"]["text"])

    def _on_Network_requestWillBeSent(self, message: dict[str, Any]) -> None:
        self.requested.append(message["request"]["url"])


@asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """Run a browser with one tab; whatever it started has ended afterwards."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash"),
            *(PROGRAM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"),
            pass_fds=(theirs_in, theirs_out),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            process_group=0,
            env={**os.environ, "HOME": folder},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        reader = asyncio.StreamReader(limit=_MOST_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb", buffering=0)
        )
        page = Page(reader, ours_out)
        try:
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(page.listen())
                await page.open_tab()
                yield page
                listening.cancel()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            transport.close()
            os.close(ours_out)
            await asyncio.sleep(0)
