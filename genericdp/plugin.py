"""The life of one resource: serve, register, and again whenever the kubelet is gone or new."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import KubeletError
from genericdp.kubelet.registration import RegistrationError, check, register
from genericdp.kubelet.server import Streams, listening
from genericdp.logs import resource_name
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from genericdp.kubelet.folder import KubeletFolder, SocketIdentity
    from genericdp.kubelet.sockets import SocketNames
    from genericdp.service import Service

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """How long a plugin waits, in seconds."""

    register: float = 75.0
    """Much longer than the 10 s that a kubelet takes to dial back: one that is stopped or stuck
    completes the call when it goes on. Giving up earlier would leave a ghost registration with
    older kubelets (REG-3) and end it with those from 1.36 on, without anybody telling us."""
    self_check: float = 5.0
    stream: float = 5.0
    """After a registration the stream comes within one second (REG-12)."""
    first_retry: float = 0.2
    last_retry: float = 5.0
    permanent_retry: float = 60.0
    steady: float = 60.0
    """A registration that lasted so long starts the waits anew."""


class Ended(KubeletError):  # noqa: N818  # it is no failure of ours
    """A registration has come to an end, with the reason."""


class Plugin:
    """Keeps one resource registered. It survives whatever the kubelet does; cancel it to end it."""

    def __init__(
        self,
        resource: str,
        *,
        kubelet: KubeletFolder,
        service: Service,
        names: SocketNames,
        timing: Timing | None = None,
        now: Callable[[], float] = time.monotonic,
        call: Callable[..., Awaitable[None]] = register,
    ) -> None:
        self.resource = resource
        self.active = Observed(value=False)
        """Whether the kubelet has registered us and its stream is open."""
        self._kubelet = kubelet
        self._service = service
        self._names = names
        self._timing = timing or Timing()
        self._now = now
        self._call = call

    async def run(self) -> None:
        """Serve and register for ever."""
        resource_name.set(self.resource)
        retries = 0
        while True:
            kubelet = await self._present_kubelet()
            begun = self._now()
            permanent = False
            try:
                await self._serve(kubelet)
            except (KubeletError, OSError) as error:
                permanent = isinstance(error, RegistrationError) and error.permanent
                reason = str(error)
            except Exception as error:
                # A mistake of ours in one resource must not stop the others (K6).
                log.exception("unexpected failure")
                reason = f"unexpected failure: {error}"
            else:
                reason = "ended"
            retries = 0 if self._now() - begun > self._timing.steady else retries + 1
            await self._wait(kubelet, reason, retries, permanent=permanent)

    async def _present_kubelet(self) -> SocketIdentity:
        socket = self._kubelet.socket
        while (identity := socket.value) is None:
            await until(lambda: socket.value is not None, socket)
        return identity

    async def _serve(self, kubelet: SocketIdentity) -> None:
        """Go through one registration; always ends with an exception that says why it is over."""
        name = self._names.next_name(self.resource)
        path = self._kubelet.path / name
        async with listening(path, self._service) as streams:
            async with self._kubelet.turns.turn():
                await check(path, timeout_seconds=self._timing.self_check)
                await self._register(name, kubelet)
            await self._stream_opened(streams, kubelet)
            log.info("registered")
            self.active.value = True
            try:
                await self._until_over(streams, kubelet)
            finally:
                self.active.value = False

    async def _register(self, endpoint: str, kubelet: SocketIdentity) -> None:
        """Register; a kubelet that does not answer is given up when another one is there."""
        loop = asyncio.get_running_loop()
        try:
            # Not a task group: up to Python 3.12 it loses a cancellation if a child fails in that
            # very moment, and the plugin would live on for ever.
            async with asyncio.timeout(None) as limit:

                def give_up() -> None:
                    if self._is_replaced(kubelet):
                        limit.reschedule(loop.time())

                with self._kubelet.socket.calling(give_up):
                    await self._call(
                        self._kubelet.path,
                        endpoint=endpoint,
                        resource=self.resource,
                        options=self._service.options(),
                        timeout_seconds=self._timing.register,
                    )
        except TimeoutError as error:
            raise Ended("new kubelet") from error

    def _is_replaced(self, kubelet: SocketIdentity) -> bool:
        return self._kubelet.socket.value not in {None, kubelet}

    async def _stream_opened(self, streams: Observed[Streams], kubelet: SocketIdentity) -> None:
        await until(
            lambda: streams.value.opened > 0 or self._is_replaced(kubelet),
            streams,
            self._kubelet.socket,
            timeout_seconds=self._timing.stream,
        )
        if not streams.value.opened:
            raise Ended("the kubelet did not open its stream")

    async def _until_over(self, streams: Observed[Streams], kubelet: SocketIdentity) -> None:
        """Wait for the end of a stream or another kubelet.sock (KST-3).

        Each stream counts: a kubelet up to 1.36 drops the current connection when an older one
        ends (REG-9b). A queued event of the socket we registered with changes nothing (K5).
        """
        await until(
            lambda: streams.value.ended > 0 or self._is_replaced(kubelet),
            streams,
            self._kubelet.socket,
        )
        raise Ended("the kubelet has ended the stream" if streams.value.ended else "new kubelet")

    async def _wait(
        self, kubelet: SocketIdentity, reason: str, retries: int, *, permanent: bool
    ) -> None:
        """Wait before the next attempt; a new kubelet.sock ends any wait."""
        seconds = self._timing.permanent_retry if permanent else self._pause(retries)
        if self._is_replaced(kubelet):
            log.info("%s: registering again", reason)
            return
        level = logging.ERROR if permanent else logging.WARNING
        log.log(level, "%s: registering again in %.1f s", reason, seconds)
        await until(
            lambda: self._is_replaced(kubelet), self._kubelet.socket, timeout_seconds=seconds
        )

    def _pause(self, retries: int) -> float:
        doubled: float = self._timing.first_retry * 2 ** min(retries - 1, 16)
        # Not all resources of all nodes at the same moment.
        return min(self._timing.last_retry, doubled) * random.uniform(0.5, 1.0)  # noqa: S311
