"""Asks the kubelet which vanished devices pods hold, and only when one is about to be forgotten."""

from __future__ import annotations

import logging
import time
from math import inf
from typing import TYPE_CHECKING, Any

from genericdp.devices.holders import Holders, are_news, holders_of, next_question
from genericdp.errors import KubeletError
from genericdp.host.workers import in_worker
from genericdp.observed import Observed, until
from genericdp.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from genericdp.devices.assembling import Offers
    from genericdp.kubelet.folder import KubeletFolder

log = logging.getLogger(__name__)


class Holding:
    """Keeps ``holders``, which a pass goes by, as true as it has to be."""

    def __init__(
        self,
        socket: Path,
        *,
        kubelet: KubeletFolder,
        look_again: Callable[[], None],
        timing: Timing | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.holders = Holders()
        """The last answer."""
        self._socket = socket
        self._kubelet = kubelet
        self._look_again = look_again
        self._timing = timing or Timing()
        self._now = now
        self._last_asked = -inf
        self._settled_at = inf
        self._failing = ""

    async def run(
        self,
        offers: Observed[Offers],
        forget_after_seconds: Callable[[], Mapping[str, float]],
        config: Observed[Any],
    ) -> None:
        """Ask when it is time to, forever; another ``config`` may have it another time."""

        def moment() -> float | None:
            return self._next(offers.value, forget_after_seconds())

        with self._kubelet.socket.calling(self._meet):
            while True:
                asked_at = moment()
                wait = None if asked_at is None else asked_at - self._now()
                if wait is None or wait > 0:
                    await until(
                        lambda asked_at=asked_at: moment() != asked_at,  # type: ignore[misc]
                        offers,
                        config,
                        self._kubelet.socket,
                        timeout_seconds=wait,
                    )
                    continue
                await self._ask()
                if are_news(self.holders, offers.value, forget_after_seconds()):
                    self._look_again()

    def _meet(self) -> None:
        """Take note that another kubelet is there, or one at all."""
        self._settled_at = self._now() + self._timing.settling

    def _next(self, offers: Offers, forget_after_seconds: Mapping[str, float]) -> float | None:
        moment = next_question(
            offers, forget_after_seconds, self._last_asked, pace_seconds=self._timing.holders
        )
        return None if moment is None else max(moment, self._settled_at)

    async def _ask(self) -> None:
        self._last_asked = asked_at = self._now()
        settled_at = self._settled_at
        try:
            shares = await self._shares()
        except KubeletError as error:
            self._tell(str(error))
            return
        self._tell("")
        if self._settled_at == settled_at:  # no other kubelet has come meanwhile
            self.holders = holders_of(shares, asked_at=asked_at)

    async def _shares(self) -> Mapping[str, set[str]]:
        # Costs 5 ms and is rarely needed.
        from genericdp.kubelet.podresources import held_shares, pods

        answer = await pods(self._socket, timeout_seconds=self._timing.holders_answer)
        return await in_worker(lambda: held_shares(answer))

    def _tell(self, reason: str) -> None:
        """Log the first failure of a row, and its end."""
        if reason and not self._failing:
            log.warning(
                "the kubelet does not say which devices pods hold: %s;"
                " until it does, vanished ones stay listed",
                reason,
            )
        elif self._failing and not reason:
            log.info("the kubelet says again which devices pods hold")
        self._failing = reason
