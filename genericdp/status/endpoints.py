"""From a path to its answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.host.workers import start
from genericdp.status import codec, metrics, page
from genericdp.status.looking import glance, not_ready
from genericdp.status.requests import Answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from genericdp.status.looking import Parts
    from genericdp.status.model import Status
    from genericdp.status.requests import HttpRequest
    from genericdp.tally import Tally

_REST = 10
"""An answer is given again for so many times as long as it took to make: whoever asks how often
takes a tenth of a processor at most, and some moments of memory."""
_MOST_REST_SECONDS = 5.0

ABOUT = {
    "/": "the state, for people",
    "/livez": "whether the daemon runs",
    "/metrics": "for Prometheus",
    "/readyz": "whether every resource is registered; if not, which is not, and why",
    "/status": "the state, as JSON",
}
_SHOWING = ("/", "/status")
"""What shows serial numbers, and can be switched off."""


@dataclass(frozen=True, slots=True)
class _Key:
    """What makes an answer another one."""

    path: str
    openmetrics: bool


class Endpoints:
    """Answers requests; what takes its time is made in a thread, once for all who ask for it."""

    def __init__(
        self,
        parts: Parts,
        *,
        tally: Tally,
        shows_status: bool = True,
        render: Callable[[Status], str] = page.render,
    ) -> None:
        self._parts = parts
        self._tally = tally
        self._shows_status = shows_status
        self._render = render
        self._kept: dict[_Key, asyncio.Future[Answer]] = {}
        self._answers: dict[str, Callable[[HttpRequest], Awaitable[Answer]]] = {
            "/livez": self._livez,
            "/metrics": self._metrics,
            "/readyz": self._readyz,
        }
        if shows_status:
            self._answers |= {"/": self._page, "/status": self._status}

    async def answer(self, request: HttpRequest) -> Answer:
        """Return the answer."""
        answering = self._answers.get(request.path)
        if answering is not None:
            return await answering(request)
        if request.path in _SHOWING:
            text = "it is switched off here (--no-status), since it shows serial numbers"
            return _text(404, text, *self._listed())
        return _text(404, "nothing is here; what there is:", *self._listed())

    def _listed(self) -> list[str]:
        return [f"  {path:9} {what}" for path, what in ABOUT.items() if path in self._answers]

    async def _livez(self, _: HttpRequest) -> Answer:
        return _text(200, "alive")

    async def _readyz(self, _: HttpRequest) -> Answer:
        lacking = not_ready(self._parts)
        return _text(503, *lacking) if lacking else _text(200, "ready")

    async def _metrics(self, request: HttpRequest) -> Answer:
        openmetrics = metrics.OPENMETRICS in request.accept

        def prepare() -> Callable[[Status], Answer]:
            return partial(self._exposed, self._tally.copy(), openmetrics=openmetrics)

        return await self._made(_Key(request.path, openmetrics), prepare)

    def _exposed(self, tally: Tally, status: Status, *, openmetrics: bool) -> Answer:
        body, kind = metrics.exposition(
            tally, status, openmetrics=openmetrics, each_device=self._shows_status
        )
        return Answer(status=200, body=body, content_type=kind)

    async def _status(self, request: HttpRequest) -> Answer:
        return await self._made(_Key(request.path, openmetrics=False), lambda: _json)

    async def _page(self, request: HttpRequest) -> Answer:
        make = partial(_html, self._render)
        return await self._made(_Key(request.path, openmetrics=False), lambda: make)

    async def _made(self, key: _Key, prepare: Callable[[], Callable[[Status], Answer]]) -> Answer:
        """Return the answer that is being made, or was a moment ago, or make one.

        ``prepare`` is called on the loop, what it gives is not.
        """
        making = self._kept.get(key)
        if making is None:
            make, look, loop = prepare(), glance(self._parts), asyncio.get_running_loop()
            making = self._kept[key] = start(lambda: make(look()))
            making.add_done_callback(partial(self._keep, key, loop.time()))
        # Not all who wait for it go when one of them does.
        return await asyncio.shield(making)

    def _keep(self, key: _Key, begun: float, made: asyncio.Future[Answer]) -> None:
        loop = made.get_loop()
        # What has failed, too: it would fail again.
        took = loop.time() - begun
        rest = min(took * _REST, _MOST_REST_SECONDS)
        loop.call_later(rest, self._kept.pop, key, None)


def _text(status: int, *lines: str) -> Answer:
    return Answer(status=status, body="".join(f"{line}\n" for line in lines).encode())


def _json(status: Status) -> Answer:
    return Answer(status=200, body=codec.encode(status), content_type="application/json")


def _html(render: Callable[[Status], str], status: Status) -> Answer:
    return Answer(
        status=200,
        body=render(status).encode(),
        content_type="text/html; charset=utf-8",
        headers={"content-security-policy": page.CONTENT_SECURITY_POLICY},
    )
