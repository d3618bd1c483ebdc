"""The page of any state, served to a browser."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from genericdp.status.endpoints import Endpoints
from genericdp.status.http import Server
from genericdp.status.page import CONTENT_SECURITY_POLICY, render
from genericdp.status.requests import Answer
from genericdp.tally import Tally
from tests.status.chromium import Page, chromium

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genericdp.status.looking import Parts
    from genericdp.status.model import Status
    from genericdp.status.requests import HttpRequest


@dataclass
class Shown:
    """A server of the page, with what it shows."""

    status: Status
    port: int = 0
    fails: bool = False
    is_switched_off: bool = False
    """Whether it is as with ``--no-status``."""

    async def answer(self, request: HttpRequest) -> Answer:
        if self.is_switched_off:
            parts = cast("Parts", None)
            return await Endpoints(parts, tally=Tally(), shows_status=False).answer(request)
        if self.fails or request.path != "/":
            return Answer(status=500 if self.fails else 404, body=b"no\n")
        return Answer(
            status=200,
            body=render(self.status).encode(),
            content_type="text/html; charset=utf-8",
            headers={"content-security-policy": CONTENT_SECURITY_POLICY},
        )


@asynccontextmanager
async def served(status: Status) -> AsyncIterator[tuple[Shown, Page]]:
    """Serve the page and have it open in a browser."""
    shown, listener = Shown(status), socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    async with chromium() as page, asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(Server(shown.answer).run([listener]))
        shown.port = listener.getsockname()[1]
        await page.visit(f"http://127.0.0.1:{shown.port}/")
        yield shown, page
        serving.cancel()
