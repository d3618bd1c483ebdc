"""Answers of the HTTP endpoints."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from genericdp.host.cache import HostCache
from genericdp.host.calls import HangsError
from genericdp.host.workers import start
from genericdp.printing import printable
from genericdp.status import metrics, view
from genericdp.status.server import Response
from genericdp.status.state import as_json, collect_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.status.state import DaemonState, HardwareOf, Sources

_KEPT_FACTOR = 10
"""A response is reused for ten times as long as it took to make, so that clients use at most a
tenth of a core, however often they ask.
"""
_MAX_KEPT_SECONDS = 5.0
_HARDWARE_SECONDS = 1.0
"""How long ``/status`` waits for names of hardware; late names are in the next response."""

ABOUT = {
    "/": "the state, human-readable",
    "/livez": "whether the daemon runs",
    "/metrics": "for Prometheus",
    "/readyz": "whether every resource is registered; if not, which is not, and why",
    "/status": "the state, as JSON",
}
_WITH_DEVICES = ("/", "/status")
"""Paths that show serial numbers, and can be switched off."""


def _page() -> Response:
    """Return the page; a browser may use only its one style and one script."""
    text = Path(__file__).with_name("status.html").read_text("utf-8")

    def source(tag: str) -> str:
        content = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        return f"{tag}-src 'sha256-{digest}'"

    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " connect-src 'self'; img-src data:; require-trusted-types-for 'script';"
        f" {source('style')}; {source('script')}"
    )
    return Response(
        status=200,
        body=text.encode(),
        content_type="text/html; charset=utf-8",
        headers={"content-security-policy": policy},
    )


class Endpoints:
    """Answers requests; slow answers are made in a thread, once for all clients."""

    def __init__(self, sources: Sources, *, shows_status: bool = True) -> None:
        self._sources = sources
        self._shows_status = shows_status
        self._page = _page()
        self._hardware: HardwareOf = {}
        """Names of hardware, by identity of the listed devices, which changes with a replug."""
        self._reading: asyncio.Future[HardwareOf] | None = None
        self._responses: dict[str, asyncio.Future[Response]] = {}

    async def respond(self, path: str) -> Response:
        """Return the response to a request for a path."""
        match path:
            case "/livez":
                return _text(200, "alive")
            case "/readyz":
                lacking = collect_state(self._sources).not_ready
                return _text(503, *lacking) if lacking else _text(200, "ready")
            case "/metrics":
                return await self._cached("/metrics", self._metrics)
            case "/" if self._shows_status:
                return self._page
            case "/status" if self._shows_status:
                if "/status" not in self._responses:
                    await self._read_hardware()
                make = partial(_status, self._hardware)
                return await self._cached("/status", make, with_results=True)
        shown = [
            endpoint for endpoint in ABOUT if self._shows_status or endpoint not in _WITH_DEVICES
        ]
        why = "nothing is here; what there is:"
        if path in _WITH_DEVICES:
            why = "it is switched off here (--no-status), since it shows serial numbers"
        return _text(404, why, *(f"  {endpoint:9} {ABOUT[endpoint]}" for endpoint in shown))

    async def _cached(
        self, key: str, make: Callable[[DaemonState], Response], *, with_results: bool = False
    ) -> Response:
        """Return the response that is being made or was just made, or make one."""
        made = self._responses.get(key)
        if made is None:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            made = self._responses[key] = start(
                partial(make, collect_state(self._sources, with_results=with_results))
            )

            def expire_later(_: asyncio.Future[Response]) -> None:
                # A failure is cached, too, because it would recur.
                seconds = min((loop.time() - begun) * _KEPT_FACTOR, _MAX_KEPT_SECONDS)
                loop.call_later(seconds, self._responses.pop, key, None)

            made.add_done_callback(expire_later)
        # If a client disconnects, the others still wait.
        return await asyncio.shield(made)

    def _metrics(self, state: DaemonState) -> Response:
        tally = self._sources.supervisor.reconciler.tally
        body = metrics.exposition(state, tally, each_device=self._shows_status)
        return Response(status=200, body=body, content_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def _read_hardware(self) -> None:
        """Read names of hardware in a thread; if that takes long, continue without missing ones."""
        lists = tuple(self._sources.supervisor.lists.value.values())
        host = HostCache(self._sources.supervisor.root)
        read = partial(view.hardware_of_all, lists, host, self._hardware)
        reading = self._reading = self._reading or start(read)
        await asyncio.wait([reading], timeout=_HARDWARE_SECONDS)
        if reading.done():
            self._reading = None
            with suppress(HangsError):
                self._hardware = reading.result()


def _status(hardware: HardwareOf, state: DaemonState) -> Response:
    body = json.dumps(as_json(state, hardware)).encode() + b"\n"
    return Response(status=200, body=body, content_type="application/json")


def _text(status: int, *lines: str) -> Response:
    """Return lines that a terminal can show, because reasons quote the kubelet and others."""
    return Response(status=status, body="".join(f"{printable(line)}\n" for line in lines).encode())
