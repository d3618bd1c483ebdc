"""The life of one plugin: serve, register, and start over when the kubelet is gone or new."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.errors import KubeletError
from genericdp.host.workers import in_worker
from genericdp.kubelet.peers import ResourcePeers, first_few, sockets_of_others
from genericdp.kubelet.registration import RegistrationError, check, register
from genericdp.kubelet.server import Streams, listening
from genericdp.logs import resource_name
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from genericdp.kubelet.folder import KubeletFolder, SocketIdentity, SocketNames
    from genericdp.kubelet.servicer import Servicer
    from genericdp.kubelet.timing import PluginTiming
    from genericdp.tally import ResourceTally

log = logging.getLogger(__name__)

_SUSPICIOUS_ENDS = 3
"""So many streams in a row that end early are no accident."""


class RegistrationEndedError(KubeletError):
    """A registration is over, through no failure of ours."""


class PeerLeftError(RegistrationEndedError):
    """Another instance has left, and a kubelet up to 1.36 has dropped us with it (REG-9b)."""


class RegistrationState:
    """Whether a resource is registered with the kubelet, since when, and if not, why."""

    def __init__(self) -> None:
        self.active = Observed(value=False)
        """Whether the kubelet has accepted the registration and opened its stream."""
        self.reason = "it has only just been started"
        """Why it is not registered; empty: it is."""
        self.since = _wall_clock()
        """When it was registered, or was no longer; in seconds since 1970."""
        self.conflict = ""
        """Who else serves the resource on this node, as far as is known; empty: nobody."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Retry:
    """The next attempt. It does not contain the exception, which would keep the server alive."""

    reason: str
    delay_seconds: float
    level: int = logging.WARNING


class Plugin:
    """Keeps one resource registered, whatever the kubelet does. Cancel ``run`` to end it."""

    def __init__(
        self,
        resource: str,
        *,
        kubelet: KubeletFolder,
        servicer: Servicer,
        names: SocketNames,
        timing: PluginTiming,
        tally: ResourceTally,
    ) -> None:
        self.resource = resource
        self.registration = RegistrationState()
        self._kubelet = kubelet
        self._servicer = servicer
        self._names = names
        self._timing = timing
        self._tally = tally
        self._peers = ResourcePeers(kubelet.peers, resource)
        self._failures = 0
        """Attempts in a row without a stream."""
        self._early_ends = 0
        """Streams in a row that this kubelet has ended soon after they had begun (REG-9b)."""
        self._first_early_began = 0.0
        """When the first of them began, on the loop's clock."""
        self._suspicion = ""
        """What has been logged about another plugin that seems to serve the resource."""
        self._last_reason = ""
        """Why the last attempt failed or ended; empty: there was none, or a stream is open."""

    async def run(self) -> None:
        """Serve and register, forever."""
        resource_name.set(self.resource)
        with self._kubelet.peers.calling(self._update_peers):
            last: SocketIdentity | None = None
            while True:
                kubelet = await self._wait_for_kubelet()
                if kubelet != last:
                    # The delays were about the last kubelet; this one may not listen yet (K2).
                    # That the last one has ended its stream was nobody else's doing.
                    last, self._failures, self._early_ends = kubelet, 0, 0
                retry = await self._attempt(kubelet)
                if (task := asyncio.current_task()) and task.cancelling():
                    # gRPC can lose a cancellation that comes at the moment when a call ends.
                    raise asyncio.CancelledError
                await self._report_suspicion()
                await self._wait_to_retry(kubelet, retry)

    async def _wait_for_kubelet(self) -> SocketIdentity:
        socket, absence = self._kubelet.socket, self._kubelet.absence
        while (identity := socket.value) is None:
            with absence.calling(lambda: self.registration.not_registered(absence.value)):
                await until(lambda: socket.value is not None, socket)
        return identity

    async def _attempt(self, kubelet: SocketIdentity) -> _Retry:
        """Serve and register until that is over; return when to try again."""
        self._failures += 1
        self._not_registered_yet("registering")
        try:
            await self._serve(kubelet)
        except (KubeletError, OSError) as error:
            return self._retry_after(error)
        except Exception as error:
            # A bug that shows in one resource must not stop the others (K6).
            log.exception("unexpected failure")
            return self._retry_after(KubeletError(f"unexpected failure: {error}"))
        return self._retry_after(RegistrationEndedError("ended"))

    def _not_registered_yet(self, step: str) -> None:
        before = f"; the last time: {self._last_reason}" if self._last_reason else ""
        self.registration.not_registered(f"{step}{before}")

    def _retry_after(self, error: Exception) -> _Retry:
        timing = self._timing
        is_permanent = isinstance(error, RegistrationError) and error.permanent
        if self._failures:  # no stream has opened
            self._tally.registrations["refused" if is_permanent else "failure"] += 1
        if is_permanent:
            return _Retry(
                reason=str(error), delay_seconds=timing.permanent_retry, level=logging.ERROR
            )
        if isinstance(error, PeerLeftError):  # the kubelet has had its time already
            longest = timing.first_retry / 2
        else:
            attempts = self._failures or self._early_ends or 1
            longest = timing.retry_delay(attempts, conflict=self._is_suspicious)
        # Not all resources of all nodes at the same moment.
        jitter = random.uniform(0.5, 1.0)  # noqa: S311
        return _Retry(reason=str(error), delay_seconds=longest * jitter)

    async def _serve(self, kubelet: SocketIdentity) -> None:
        """Serve and register once; always end with an exception that says why it is over."""
        name = self._names.next_name(self.resource)
        path = self._kubelet.path / name
        began = _now()
        async with listening(path, self._servicer) as streams:
            bound_ns = path.lstat().st_ctime_ns
            async with self._kubelet.registrations:
                await check(path, timeout_seconds=self._timing.self_check)
                self._not_registered_yet("the kubelet has not answered Register yet")
                await self._register(name, kubelet)
            self._not_registered_yet("the kubelet has taken it, but has not opened its stream yet")
            await self._wait_for_stream(streams, kubelet, began)
            log.info("registered")
            self._last_reason = ""
            self._failures = 0
            self.registration.registered()
            self._tally.registrations["success"] += 1
            self._peers.follow(bound_ns=bound_ns, same_age_seconds=self._timing.same_age)
            began = _now()
            try:
                await self._wait_for_end(streams, kubelet)
            finally:
                if streams.value.ended:  # by the kubelet itself, or because of another plugin
                    self._count_early_end(began)
                self.registration.not_registered("the stream is over")

    async def _register(self, endpoint: str, kubelet: SocketIdentity) -> None:
        """Call Register; give up a kubelet that does not answer once there is another one."""
        loop = asyncio.get_running_loop()
        # The next kubelet may listen before an event reports it, and get two registrations. Each
        # plugin looks on the event loop, which takes a few stat calls in the kubelet's folder.
        self._kubelet.look()
        if self._is_replaced(kubelet):
            raise RegistrationEndedError("new kubelet")
        try:
            # Not a task group: up to Python 3.12 it loses a cancellation if a child fails at that
            # very moment, and the plugin would live on forever.
            async with asyncio.timeout(None) as limit:

                def give_up() -> None:
                    # Yet another kubelet may come before the call has ended.
                    if self._is_replaced(kubelet) and not limit.expired():
                        limit.reschedule(loop.time())

                with self._kubelet.socket.calling(give_up):
                    await register(
                        self._kubelet.path,
                        endpoint=endpoint,
                        resource=self.resource,
                        options=self._servicer.options,
                        timeout_seconds=self._timing.register,
                    )
        except TimeoutError as error:
            raise RegistrationEndedError("new kubelet") from error

    def _is_replaced(self, kubelet: SocketIdentity) -> bool:
        return self._kubelet.socket.value not in {None, kubelet}

    async def _wait_for_stream(
        self, streams: Observed[Streams], kubelet: SocketIdentity, began: float
    ) -> None:
        """Wait for the stream, but not for long if another instance leaves meanwhile.

        A kubelet up to 1.36 that notices this between its answer and the stream closes the new
        connection without telling anybody (REG-9b). It may notice later than we do.
        """
        timing, since = self._timing, began - self._timing.stream

        def is_over() -> bool:
            return streams.value.opened > 0 or self._is_replaced(kubelet)

        def is_doubtful() -> bool:
            return self._peers.left_since(since)

        values = streams, self._kubelet.socket, self._kubelet.peers
        await until(lambda: is_over() or is_doubtful(), *values, timeout_seconds=timing.stream)
        if not is_over() and is_doubtful():
            patience = timing.doubtful_stream(self._failures)
            if not await until(is_over, *values, timeout_seconds=patience):
                raise PeerLeftError("another instance of genericdp left while we registered")
        if not streams.value.opened:
            raise RegistrationEndedError("the kubelet did not open its stream")

    async def _wait_for_end(self, streams: Observed[Streams], kubelet: SocketIdentity) -> None:
        """Wait until a stream ends, kubelet.sock is a new one (KST-3), or a later peer has left.

        Each stream counts: a kubelet up to 1.36 drops the current connection when an older one
        ends (REG-9b). A queued event of the socket we registered with changes nothing (K5).
        """

        def is_over() -> bool:
            return streams.value.ended > 0 or self._is_replaced(kubelet)

        def has_peer_left() -> bool:
            # If kubelet.sock is gone, too, all sockets are removed, and nobody has left.
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
                self._clear_suspicion()
                limit = None
        if streams.value.ended:
            raise RegistrationEndedError("the kubelet has ended the stream")
        raise RegistrationEndedError("new kubelet")

    async def _wait_to_retry(self, kubelet: SocketIdentity, retry: _Retry) -> None:
        """Wait before the next attempt; a new kubelet.sock ends any delay."""
        self.registration.not_registered(retry.reason)
        if self._is_replaced(kubelet):
            log.info("%s: registering again", retry.reason)
            return
        is_repeated = retry.reason == self._last_reason  # perhaps for hours
        self._last_reason = retry.reason
        log.log(
            logging.DEBUG if is_repeated else retry.level,
            "%s: registering again in %.1f s",
            retry.reason,
            retry.delay_seconds,
        )
        had_peers = bool(self._peers.current)
        await until(
            lambda: self._is_replaced(kubelet) or (had_peers and not self._peers.current),
            self._kubelet.socket,
            self._kubelet.peers,
            timeout_seconds=retry.delay_seconds,
        )

    def _update_peers(self) -> None:
        has_left = self._peers.update()
        if has_left and self.registration.active.value and not self._peers.later_left:
            # The last list counts, even one of a peer that has left; from 1.37 our stream lasts.
            loop = asyncio.get_running_loop()
            loop.call_later(self._timing.resend, self._servicer.resend)
        names = [peer.name for peer in self._peers.current]
        self.registration.conflict = (
            f"another instance of genericdp serves it on this node, too (at {first_few(names)})"
            if names
            else self._suspicion
        )

    @property
    def _is_suspicious(self) -> bool:
        """Whether another plugin seems to replace us again and again."""
        return self._early_ends >= _SUSPICIOUS_ENDS

    def _count_early_end(self, began: float) -> None:
        if _now() - began > self._timing.stable:
            self._early_ends = 0
            return
        if not self._early_ends:
            self._first_early_began = began
        self._early_ends += 1

    async def _report_suspicion(self) -> None:
        """Log once that another plugin seems to replace us."""
        if not self._is_suspicious or self._suspicion:
            return
        others = await in_worker(partial(sockets_of_others, self._kubelet.path))
        named = f" (sockets there that are not ours: {first_few(others)})" if others else ""
        self._suspicion = (
            f"the kubelet has ended our stream {self._early_ends} times within"
            f" {_now() - self._first_early_began:.0f} s, each time soon after it had begun: another"
            f" device plugin may serve {self.resource} on this node{named}"
        )
        self._update_peers()
        if not self._peers.current:  # else it is known who serves it, and has been logged
            log.warning("%s; let only one of them serve it", self._suspicion)

    def _clear_suspicion(self) -> None:
        """Record that a stream lasts."""
        self._early_ends = 0
        if self._suspicion:
            self._suspicion = ""
            self._update_peers()
            log.info("the stream lasts: nobody else seems to serve the resource any more")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _wall_clock() -> float:
    return time.time()  # noqa: TID251  # shown to people
