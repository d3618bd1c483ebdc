"""The life of one plugin: serve, register, and start over when the kubelet is missing or new."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import KubeletError
from genericdp.host.descriptors import count
from genericdp.kubelet.directory import MAX_NAMES, ResourcePeers
from genericdp.kubelet.server import RegistrationError, Streams, check, listening, register
from genericdp.logs import resource_name
from genericdp.observed import Observed, next_change, until
from genericdp.printing import first_few
from genericdp.repeat import Latch, delay_after, explained, jittered

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Never

    from genericdp.kubelet.directory import KubeletDirectory, SocketIdentity
    from genericdp.kubelet.servicer import Servicer

log = logging.getLogger(__name__)

_SUSPICIOUS_ENDS = 3
"""If this many streams in a row end early, that is not an accident."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistrationTiming:
    """The delays before registering, and registering again, in seconds."""

    self_check: float = 5.0
    """Time limit for its own socket to answer before it registers."""
    register: float = 75.0
    """Much longer than the 10 s that a kubelet takes to dial back: one that is stopped or stuck
    completes the call when it continues. Giving up earlier would leave a ghost registration with
    older kubelets (REG-3) and end it with those from 1.36 on, without a message to us."""
    stream: float = 5.0
    """After a registration the stream comes within one second (REG-12)."""
    first_retry: float = 0.2
    last_retry: float = 5.0
    conflict_retry: float = 30.0
    """The longest delay while another plugin seems to replace us: the node must not flap."""
    permanent_retry: float = 60.0
    stable: float = 60.0
    """A registration that has lasted this long resets the delays."""

    same_age: float = 2.0
    """If the sockets of two instances are this close in age, either may have registered later."""
    peer_return: float = 0.3
    """A peer that registers again is back within this time; after it, the peer has left."""
    resend: float = 0.2
    """For this time a kubelet may be processing the last list of a peer that has left."""

    def retry_delay(self, attempts: int, *, conflict: bool) -> float:
        """Return the delay before jitter after this many attempts in a row (at least 1)."""
        longest = self.conflict_retry if conflict else self.last_retry
        return delay_after(attempts, self.first_retry, longest)

    def doubtful_stream(self, attempts: int) -> float:
        """Return how long to wait for a stream that may never come, at the n-th attempt in a row.

        The stream of a busy kubelet may only be late, and abandoning a socket makes the kubelet
        drop the next one, too.
        """
        return delay_after(attempts, self.peer_return, self.stream)


class PeerLeftError(KubeletError):
    """Another instance has left, and a kubelet up to 1.36 has dropped us with it (REG-9b)."""


class RegistrationState:
    """The registration of a resource with the kubelet: since when, or why not."""

    def __init__(self) -> None:
        self.active = Observed(value=False)
        """Whether the kubelet has accepted the registration and opened its stream."""
        self.reason = "it is starting"
        """Why it is not registered; empty if it is."""
        self.since = _wall_clock()
        """When it was registered, or lost its registration; in seconds since 1970."""
        self.conflict = ""
        """Another plugin known to serve the resource on this node, or an empty string."""

    def registered(self) -> None:
        """Record that the stream is open."""
        self.reason, self.since = "", _wall_clock()
        self.active.value = True

    def not_registered(self, reason: str) -> None:
        """Record why it is not registered now."""
        if self.active.value:
            self.since = _wall_clock()
        self.reason = reason
        self.active.value = False


class Plugin:
    """Keeps one resource registered, whatever the kubelet does. Cancel ``run`` to end it."""

    def __init__(
        self, servicer: Servicer, *, kubelet: KubeletDirectory, timing: RegistrationTiming | None
    ) -> None:
        self.resource = servicer.gate.resource
        self.registration = RegistrationState()
        self._kubelet = kubelet
        self._servicer = servicer
        self._timing = timing or RegistrationTiming()
        self._tally = servicer.gate.tally
        self._peers = ResourcePeers(kubelet.peers, self.resource)
        self._failures = 0
        """Attempts in a row without a stream."""
        self._early_ends = 0
        """Streams in a row that this kubelet has ended soon after they had begun (REG-9b)."""
        self._suspicion = Latch(log)
        """Why another plugin seems to serve the resource."""
        self._trouble = Latch(log)
        """Why the last attempt failed or ended, until a stream is open."""

    async def run(self) -> None:
        """Serve and register, forever."""
        resource_name.set(self.resource)
        with self._kubelet.peers.calling(self._update_peers):
            last: SocketIdentity | None = None
            while True:
                kubelet = await self._wait_for_kubelet()
                if kubelet != last:
                    # The delays were about the last kubelet; this one may not listen yet (K2).
                    # No other plugin made the last one end its stream.
                    last, self._failures, self._early_ends = kubelet, 0, 0
                failure = await self._attempt(kubelet)
                if (task := asyncio.current_task()) and task.cancelling():
                    # gRPC can lose a cancellation that comes at the moment when a call ends.
                    raise asyncio.CancelledError
                self._report_suspicion()
                await self._wait_to_retry(kubelet, *failure)

    async def _wait_for_kubelet(self) -> SocketIdentity:
        socket, absence = self._kubelet.socket, self._kubelet.absence
        while (identity := socket.value) is None:
            self.registration.not_registered(absence.value)
            await next_change(socket, absence)
        return identity

    async def _attempt(self, kubelet: SocketIdentity) -> tuple[str, float, int]:
        """Serve and register until that ends, or the kubelet is replaced (KST-3).

        Return why it ended, after how many seconds to try again, and the log level for that. The
        exception itself is not returned, because it would keep the server alive.
        """
        self._failures += 1
        self._not_registered_yet("registering")
        # Not a task group: up to Python 3.12 it loses a cancellation if a child fails at that very
        # moment, and the plugin would live on forever.
        limit = asyncio.timeout(None)

        def give_up() -> None:
            # Yet another kubelet may come before the attempt has ended.
            if self._is_replaced(kubelet) and not limit.expired():
                limit.reschedule(_now())

        try:
            async with limit:
                with self._kubelet.socket.calling(give_up):
                    await self._serve(kubelet)
        except Exception as error:  # noqa: BLE001
            # A bug that affects one resource must not stop the others (K6).
            return self._failure(KubeletError("new kubelet") if limit.expired() else error)

    def _not_registered_yet(self, step: str) -> None:
        before = f"; the last time: {self._trouble.reason}" if self._trouble.reason else ""
        self.registration.not_registered(f"{step}{before}")

    def _failure(self, error: Exception) -> tuple[str, float, int]:
        timing, reason = self._timing, explained(error, self._kubelet.path)
        is_permanent = isinstance(error, RegistrationError) and error.permanent
        if self._failures:  # no stream has opened
            self._tally.registrations["refused" if is_permanent else "failure"] += 1
        if is_permanent:
            return reason, timing.permanent_retry, logging.ERROR
        if isinstance(error, PeerLeftError):  # the kubelet has had enough time already
            longest = timing.first_retry / 2
        else:
            attempts = self._failures or self._early_ends or 1
            conflict = self._early_ends >= _SUSPICIOUS_ENDS
            longest = timing.retry_delay(attempts, conflict=conflict)
        return reason, jittered(longest), logging.WARNING

    async def _serve(self, kubelet: SocketIdentity) -> Never:
        """Serve and register once; raise KubeletError or OSError with the reason when that ends."""
        path = self._kubelet.path / self._kubelet.next_name(self.resource)
        async with AsyncExitStack() as registering:
            await registering.enter_async_context(self._kubelet.registrations)
            # The remaining descriptors are for scans, probes and the child that reads a config.
            if count().is_short:
                raise KubeletError("there are too few file descriptors")
            began = _now()
            async with listening(path, self._servicer) as streams:
                bound_ns = path.lstat().st_ctime_ns
                await self._register(path, kubelet)
                await registering.aclose()
                await self._wait_for_stream(streams, began)
                await self._stay_registered(streams, bound_ns)

    async def _register(self, path: Path, kubelet: SocketIdentity) -> None:
        await check(path, timeout_seconds=self._timing.self_check)
        self._not_registered_yet("the kubelet has not answered Register yet")

        def look() -> None:
            # The next kubelet may listen before an event reports it, and get two registrations.
            # Each plugin reads the directory on the event loop, which takes a few stat calls.
            self._kubelet.look()
            if self._is_replaced(kubelet):
                raise KubeletError("new kubelet")

        options, seconds = self._servicer.options, self._timing.register
        await register(path, self.resource, options, timeout_seconds=seconds, connected=look)
        self._not_registered_yet("the kubelet has taken it, but has not opened its stream yet")

    async def _stay_registered(self, streams: Observed[Streams], bound_ns: int) -> Never:
        log.info("registered")
        self._trouble.update("")
        self._failures = 0
        self.registration.registered()
        self._tally.registrations["success"] += 1
        self._peers.set_own_socket(bound_ns=bound_ns, same_age_seconds=self._timing.same_age)
        began = _now()
        try:
            await self._wait_for_end(streams)
        finally:
            if streams.value.ended:  # by the kubelet itself, or because of another plugin
                is_early = _now() - began <= self._timing.stable
                self._early_ends = self._early_ends + 1 if is_early else 0
            self.registration.not_registered("the stream is over")

    def _is_replaced(self, kubelet: SocketIdentity) -> bool:
        # An event of the socket that we have registered with changes nothing (K5).
        return self._kubelet.socket.value not in {None, kubelet}

    async def _wait_for_stream(self, streams: Observed[Streams], began: float) -> None:
        """Wait for the stream, but not for long if another instance leaves meanwhile.

        A kubelet up to 1.36 that notices this between its answer and the stream closes the new
        connection without a message (REG-9b). It may notice later than we do.
        """
        timing, since = self._timing, began - self._timing.stream

        def is_open() -> bool:
            return streams.value.opened > 0

        def is_doubtful() -> bool:
            return self._peers.left_at >= since

        values = streams, self._kubelet.peers
        await until(lambda: is_open() or is_doubtful(), *values, timeout_seconds=timing.stream)
        if not is_open() and is_doubtful():
            patience = timing.doubtful_stream(self._failures)
            if not await until(is_open, streams, timeout_seconds=patience):
                raise PeerLeftError("another instance of genericdp left while we registered")
        if not is_open():
            raise KubeletError("the kubelet did not open its stream")

    async def _wait_for_end(self, streams: Observed[Streams]) -> Never:
        """Wait until a stream ends, or a later peer has left.

        Each stream counts: a kubelet up to 1.36 drops the current connection when an older one
        ends (REG-9b).
        """

        def is_over() -> bool:
            return streams.value.ended > 0

        def has_peer_left() -> bool:
            # If kubelet.sock is missing, too, all sockets are removed, and no peer has left.
            return self._peers.later_left and self._kubelet.socket.value is not None

        values = streams, self._kubelet.socket, self._kubelet.peers
        limit: float | None = self._timing.stable
        while not is_over():
            if has_peer_left():
                # Up to 1.36 a kubelet has no endpoint then, and says nothing to us.
                is_back = await until(
                    lambda: is_over() or not has_peer_left(),
                    *values,
                    timeout_seconds=self._timing.peer_return,
                )
                if not is_back:
                    raise PeerLeftError(
                        "another instance of genericdp, which came after us, has gone"
                    )
            elif not await until(
                lambda: is_over() or has_peer_left(), *values, timeout_seconds=limit
            ):
                limit, self._early_ends = None, 0
                ended = "the ListAndWatch stream is stable: no other plugin serves this resource"
                if self._suspicion.update("", ended=ended):
                    self._update_peers()
        raise KubeletError("the kubelet has ended the stream")

    async def _wait_to_retry(
        self, kubelet: SocketIdentity, reason: str, seconds: float, level: int
    ) -> None:
        """Wait before the next attempt; a new kubelet.sock ends any delay."""
        self.registration.not_registered(reason)
        if self._is_replaced(kubelet):
            log.info("%s: registering again", reason)
            return
        about = "%s: registering again in %.1f s", reason, seconds
        if not self._trouble.update(reason, *about, level=level):
            log.debug(*about)  # perhaps for hours
        had_peers = bool(self._peers.current)
        await until(
            lambda: self._is_replaced(kubelet) or (had_peers and not self._peers.current),
            self._kubelet.socket,
            self._kubelet.peers,
            timeout_seconds=seconds,
        )

    def _update_peers(self) -> None:
        has_left = self._peers.update()
        if has_left and self.registration.active.value and not self._peers.later_left:
            # The last list counts, even one of a peer that has left; from 1.37 our stream lasts.
            loop = asyncio.get_running_loop()
            loop.call_later(self._timing.resend, self._servicer.resend)
        names = first_few([peer.name for peer in self._peers.current], MAX_NAMES)
        self.registration.conflict = (
            f"another instance of genericdp serves it on this node, too (at {names})"
            if names
            else self._suspicion.reason
        )

    def _report_suspicion(self) -> None:
        """Log once that another plugin seems to replace us."""
        if self._early_ends < _SUSPICIOUS_ENDS or self._suspicion.reason:
            return
        why = (
            f"the kubelet has ended our stream {self._early_ends} times in a row, each time soon"
            f" after it had begun: another device plugin may serve {self.resource} on this node"
        )
        # If it is known which plugin serves it, that has been logged.
        level = logging.DEBUG if self._peers.current else logging.WARNING
        self._suspicion.update(why, "%s; let only one of them serve it", why, level=level)
        self._update_peers()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _wall_clock() -> float:
    return time.time()  # noqa: TID251  # shown to people
