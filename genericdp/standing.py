"""How a resource stands with the kubelet, for whoever shows it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from genericdp.observed import Observed

if TYPE_CHECKING:
    from collections.abc import Callable


class Standing:
    """Whether a resource is registered, and if not, why; its owner keeps it true."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:  # noqa: TID251  # to be shown
        self.active = Observed(value=False)
        """Whether the kubelet has registered us and its stream is open."""
        self.reason = "it has only just been started"
        """Why it is not registered; empty: it is."""
        self._clock = clock
        self.since = clock()
        """Since when it is registered, or not; in seconds since 1970."""

    def is_registered(self) -> None:
        """Take note that the stream is open."""
        self.reason, self.since = "", self._clock()
        self.active.value = True

    def lacks(self, reason: str) -> None:
        """Take note of what stands in the way now."""
        if self.active.value:
            self.since = self._clock()
        self.reason = reason
        self.active.value = False
