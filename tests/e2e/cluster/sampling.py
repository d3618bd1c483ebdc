"""The kubelet's offer to pods, read again and again while something happens to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import grpc

from tests.e2e.cluster.looking import Looking
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from tests.e2e.cluster.listing import Ids, PodResources

_LOOK_EVERY_SECONDS = 0.02
"""The kubelet answers 100 calls in a second at most (PRS-1)."""


class Sampler(Looking):
    """Looks while the context lasts whether the kubelet has all devices that it should have."""

    def __init__(self, resources: PodResources, wanted: Ids) -> None:
        super().__init__(_LOOK_EVERY_SECONDS)
        self._resources = resources
        self._wanted = wanted
        self._samples: list[tuple[float, bool]] = []
        """When, on the monotonic clock, and whether all were there. None while no one answers."""

    def __enter__(self) -> Sampler:
        super().__enter__()
        self.seconds_until_whole(0)
        return self

    def look(self) -> None:
        """Ask the kubelet once."""
        try:
            seen = self._resources.allocatable(wait=False)
        except grpc.RpcError:
            return
        whole = all(ids <= seen.get(name, frozenset()) for name, ids in self._wanted.items())
        self._samples.append((time.monotonic(), whole))

    def seconds_until_whole(self, since: float) -> float:
        """Wait for a sample with all devices after that moment; give how much later it was."""

        def first() -> list[float]:
            return [at for at, whole in list(self._samples) if whole and at >= since][:1]

        return eventually(first, what=f"the kubelet has {self._wanted}")[0] - since

    def longest_gap(self) -> float:
        """Give the longest time, in seconds, from a sample with all devices to the next such one.

        0 if no sample between two of them lacks any.
        """
        longest, last, lacked = 0.0, 0.0, False
        for at, whole in list(self._samples):
            if whole and lacked and last:
                longest = max(longest, at - last)
            lacked = not whole
            last = at if whole else last
        return longest
