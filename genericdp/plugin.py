"""The life of one resource: serve, register, and again whenever the kubelet is gone or new."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from genericdp.contest import Contest, shared
from genericdp.endings import Ended, LeftAlone, ThrownOut, pause_after
from genericdp.errors import KubeletError
from genericdp.host.workers import in_worker
from genericdp.kubelet.company import Company, Later
from genericdp.kubelet.peers import strangers
from genericdp.kubelet.registration import RegistrationError, check, register
from genericdp.kubelet.server import Streams, listening
from genericdp.kubelet.sockets import digest_of
from genericdp.logs import resource_name
from genericdp.observed import Observed, until
from genericdp.standing import Standing
from genericdp.tally import ResourceTally
from genericdp.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from genericdp.endings import Pause
    from genericdp.kubelet.folder import KubeletFolder, SocketIdentity
    from genericdp.kubelet.sockets import SocketNames
    from genericdp.service import Service

log = logging.getLogger(__name__)


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
        tally: ResourceTally | None = None,
        now: Callable[[], float] = time.monotonic,
        call: Callable[..., Awaitable[None]] = register,
    ) -> None:
        self.resource = resource
        self.standing = Standing()
        self.active = self.standing.active
        """Whether the kubelet has registered us and its stream is open."""
        self.contested = Observed("")
        """Who else serves the resource on this node, as far as can be known; empty: nobody."""
        self._kubelet = kubelet
        self._service = service
        self._names = names
        self._timing = timing or Timing()
        self._tally = tally or ResourceTally()
        self._now = now
        self._call = call
        self._company = Company(kubelet.peers, digest=digest_of(resource), now=now)
        self._later: Later | None = None
        """Those who came after us, while there is a stream."""
        self._failures = 0
        """Attempts in a row that came to no stream."""
        self._contest = Contest()
        self._suspicion = ""
        self._told = ""
        """Why the last attempt has come to nothing; empty: it has not."""

    async def run(self) -> None:
        """Serve and register forever."""
        resource_name.set(self.resource)
        with self._kubelet.peers.calling(self._look_around):
            last: SocketIdentity | None = None
            while True:
                kubelet = await self._present_kubelet()
                if kubelet != last:
                    # The long waits were for another one; this one may only not listen yet (K2).
                    last, self._failures = kubelet, 0
                    self._contest = Contest()  # that the last one has gone was nobody's doing
                pause = await self._attempt(kubelet)
                if (task := asyncio.current_task()) and task.cancelling():
                    # gRPC can lose a cancellation that comes in the moment when a call ends.
                    raise asyncio.CancelledError
                await self._suspect()
                await self._wait(kubelet, pause)

    async def _attempt(self, kubelet: SocketIdentity) -> Pause:
        """Go through one registration; give what follows."""
        begun = self._now()
        self._failures += 1
        self._undertakes("registering")
        try:
            await self._serve(kubelet)
        except (KubeletError, OSError) as error:
            self._count(error)
            if self._now() - begun > self._timing.steady:
                self._failures = 0
            return self._pause_after(error)
        except Exception as error:
            # A mistake of ours in one resource must not stop the others (K6).
            log.exception("unexpected failure")
            self._count(error)
            return self._pause_after(KubeletError(f"unexpected failure: {error}"))
        return self._pause_after(Ended("ended"))

    def _undertakes(self, what: str) -> None:
        self.standing.lacks(f"{what}; the last time: {self._told}" if self._told else what)

    def _count(self, error: Exception) -> None:
        if self._failures:  # no stream has opened
            refused = isinstance(error, RegistrationError) and error.permanent
            self._tally.registrations["refused" if refused else "failure"] += 1

    async def _present_kubelet(self) -> SocketIdentity:
        socket, absence = self._kubelet.socket, self._kubelet.absence
        while (identity := socket.value) is None:
            with absence.calling(lambda: self.standing.lacks(absence.value)):
                await until(lambda: socket.value is not None, socket)
        return identity

    async def _serve(self, kubelet: SocketIdentity) -> None:
        """Go through one registration; always ends with an exception that says why it is over."""
        name = self._names.next_name(self.resource)
        path = self._kubelet.path / name
        begun = self._now()
        async with listening(path, self._service) as streams:
            bound_ns = path.lstat().st_ctime_ns
            async with self._kubelet.registrations:
                await check(path, timeout_seconds=self._timing.self_check)
                self._undertakes("the kubelet has not answered Register yet")
                await self._register(name, kubelet)
            self._undertakes("the kubelet has taken it, but has not opened its stream yet")
            await self._stream_opened(streams, kubelet, begun)
            log.info("registered")
            self._told = ""
            self._failures = 0
            self.standing.is_registered()
            self._tally.registrations["success"] += 1
            begun = self._now()
            try:
                await self._until_over(streams, kubelet, bound_ns)
            except ThrownOut:
                steady = self._timing.steady
                self._contest = self._contest.after(
                    begun=begun, ended=self._now(), steady_seconds=steady
                )
                raise
            finally:
                self._later = None
                self.standing.lacks("the stream is over")

    async def _register(self, endpoint: str, kubelet: SocketIdentity) -> None:
        """Register; a kubelet that does not answer is given up when another one is there."""
        loop = asyncio.get_running_loop()
        # The next kubelet may listen before an event tells of it, and get two registrations.
        self._kubelet.look()
        if self._is_replaced(kubelet):
            raise Ended("new kubelet")
        try:
            # Not a task group: up to Python 3.12 it loses a cancellation if a child fails in that
            # very moment, and the plugin would live on forever.
            async with asyncio.timeout(None) as limit:

                def give_up() -> None:
                    # Yet another kubelet may come before the call has ended.
                    if self._is_replaced(kubelet) and not limit.expired():
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

    async def _stream_opened(
        self, streams: Observed[Streams], kubelet: SocketIdentity, begun: float
    ) -> None:
        """Wait for the stream, but not for long if another instance leaves meanwhile.

        A kubelet up to 1.36 that notices this between its answer and the stream closes the new
        connection, and tells nobody (REG-9b). It may notice later than we do.
        """
        timing, since = self._timing, begun - self._timing.stream

        def is_over() -> bool:
            return streams.value.opened > 0 or self._is_replaced(kubelet)

        def is_doubtful() -> bool:
            return self._company.left_since(since)

        values = streams, self._kubelet.socket, self._kubelet.peers
        await until(lambda: is_over() or is_doubtful(), *values, timeout_seconds=timing.stream)
        if not is_over() and is_doubtful():
            patience = timing.doubtful_stream(self._failures)
            if not await until(is_over, *values, timeout_seconds=patience):
                raise LeftAlone("another instance of genericdp left while we registered")
        if not streams.value.opened:
            raise Ended("the kubelet did not open its stream")

    async def _until_over(
        self, streams: Observed[Streams], kubelet: SocketIdentity, bound_ns: int
    ) -> None:
        """Wait for the end of a stream, another kubelet.sock (KST-3), or that of a later instance.

        Each stream counts: a kubelet up to 1.36 drops the current connection when an older one
        ends (REG-9b). A queued event of the socket we registered with changes nothing (K5).
        """
        later = self._later = Later(
            self._company, bound_ns=bound_ns, same_age_seconds=self._timing.same_age
        )

        def is_over() -> bool:
            return streams.value.ended > 0 or self._is_replaced(kubelet)

        def has_left() -> bool:
            # Where kubelet.sock has gone, too, all sockets are removed, and nobody has left.
            return later.has_left() and self._kubelet.socket.value is not None

        values = streams, self._kubelet.socket, self._kubelet.peers
        limit: float | None = self._timing.steady
        while not is_over():
            if has_left():
                # Up to 1.36 a kubelet has no endpoint then, and says nothing to us.
                back = await until(
                    lambda: is_over() or not has_left(),
                    *values,
                    timeout_seconds=self._timing.farewell,
                )
                if not back:
                    raise LeftAlone("another instance of genericdp, which came after us, has gone")
            elif not await until(lambda: is_over() or has_left(), *values, timeout_seconds=limit):
                self._calm_down()
                limit = None
        if streams.value.ended:
            raise ThrownOut("the kubelet has ended the stream")
        raise Ended("new kubelet")

    async def _wait(self, kubelet: SocketIdentity, pause: Pause) -> None:
        """Wait before the next attempt; a new kubelet.sock ends any wait."""
        reason, level = pause.reason, pause.level
        self.standing.lacks(reason)
        if self._is_replaced(kubelet):
            log.info("%s: registering again", reason)
            return
        if reason == self._told:  # again and again, perhaps for hours
            level = logging.DEBUG
        self._told = reason
        log.log(level, "%s: registering again in %.1f s", reason, pause.seconds)
        accompanied = bool(self._company.peers)
        await until(
            lambda: self._is_replaced(kubelet) or (accompanied and not self._company.peers),
            self._kubelet.socket,
            self._kubelet.peers,
            timeout_seconds=pause.seconds,
        )

    def _pause_after(self, error: Exception) -> Pause:
        times = self._failures or self._contest.ends or 1
        suspected = self._contest.is_suspected
        return pause_after(error, times=times, suspected=suspected, timing=self._timing)

    def _look_around(self) -> None:
        if self._company.look() and self._later and not self._later.has_left():
            # The last list counts, that of one who has gone, too; from 1.37 on our stream lasts.
            wait = self._timing.last_words
            asyncio.get_running_loop().call_later(wait, self._service.tell_again)
        names = sorted(one.name for one in self._company.peers)
        self.contested.value = shared(names) if names else self._suspicion

    async def _suspect(self) -> None:
        """Say once that another plugin seems to throw us out."""
        if not self._contest.is_suspected or self._suspicion:
            return
        others = await in_worker(partial(strangers, self._kubelet.path))
        self._suspicion = self._contest.reason(self.resource, others, now=self._now())
        self._look_around()
        if not self._company.peers:  # else it is known who, and has been said
            log.warning("%s; let only one of them serve it", self._suspicion)

    def _calm_down(self) -> None:
        """Take note that a stream lasts."""
        self._contest = Contest()
        if self._suspicion:
            self._suspicion = ""
            self._look_around()
            log.info("the stream lasts: nobody else seems to serve the resource any more")
