"""The page over any status, served to a browser."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from genericdp.status.endpoints import Endpoints
from genericdp.status.server import Response, Server
from genericdp.status.state import Sources

from tests.status.chromium import Browser, Page
from tests.status.samples import Document


def static(*, shows_status: bool = True) -> Endpoints:
    """Return endpoints of which only the page, and what is not there, can be requested."""
    return Endpoints(cast("Sources", None), shows_status=shows_status)


@dataclass
class Shown:
    """A server of the page, with the status that it shows."""

    status: Document
    port: int = 0
    fails: bool = False
    is_switched_off: bool = False
    """Whether it is as with ``--no-status``."""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared: each answer waits until it is set."""

    def __post_init__(self) -> None:
        self.answers.set()

    async def respond(self, path: str) -> Response:
        await self.answers.wait()
        if self.fails:
            return Response(status=500, body=b"no\n")
        if path == "/status" and not self.is_switched_off:
            body = json.dumps(self.status).encode()
            return Response(status=200, body=body, content_type="application/json")
        return await static(shows_status=not self.is_switched_off).respond(path)


@asynccontextmanager
async def served(status: Document, browser: Browser) -> AsyncIterator[tuple[Shown, Page]]:
    """Serve the page and have it open in a tab, with the status shown."""
    shown, listener = Shown(status), socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    async with browser.tab() as page, asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(Server(shown.respond).run([listener]))
        shown.port = listener.getsockname()[1]
        await page.visit(f"http://127.0.0.1:{shown.port}/")
        await page.until("document.querySelector('h1') !== null")
        yield shown, page
        serving.cancel()
