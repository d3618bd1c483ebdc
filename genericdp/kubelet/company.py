"""The other instances of genericdp that serve one resource, and which of them have left."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from genericdp.kubelet.peers import Peer
    from genericdp.observed import Observed


@lru_cache(maxsize=2)  # every resource asks about the same ones
def _by_digest(peers: frozenset[Peer]) -> Mapping[str, Sequence[Peer]]:
    """Give the peers of each resource: 500 resources that walk through 500 peers take a while."""
    found: dict[str, list[Peer]] = {}
    for one in peers:
        found.setdefault(one.digest, []).append(one)
    return found


class Company:
    """The peers of one resource; ``look`` is to be called whenever any peers have changed."""

    def __init__(
        self, peers: Observed[frozenset[Peer]], *, digest: str, now: Callable[[], float]
    ) -> None:
        self._peers = peers
        self._digest = digest
        self._now = now
        self._known: frozenset[str] = frozenset()
        self._left_at = -math.inf

    @property
    def peers(self) -> Sequence[Peer]:
        """Those that serve it now."""
        return _by_digest(self._peers.value).get(self._digest, ())

    @property
    def instances(self) -> frozenset[str]:
        """Whose they are."""
        return frozenset(one.instance for one in self.peers)

    def look(self) -> bool:
        """Take note of who is there, and so of who is there no more; say whether one has left."""
        here = self.instances
        if left := not self._known <= here:
            self._left_at = self._now()
        self._known = here
        return left

    def left_since(self, moment: float) -> bool:
        """Say whether an instance was seen to leave at that moment or later."""
        return self._left_at >= moment


class Later:
    """The company that came after a socket of ours, as far as it has been seen."""

    def __init__(self, company: Company, *, bound_ns: int, same_age_seconds: float = 2.0) -> None:
        self._company = company
        self._oldest_ns = bound_ns - same_age_seconds * 10**9
        self._seen: set[str] = set()

    def has_left(self) -> bool:
        """Say whether one of them is not there now; to be asked whenever peers have changed."""
        came = (one for one in self._company.peers if one.bound_ns > self._oldest_ns)
        self._seen.update(one.instance for one in came)
        return not self._seen <= self._company.instances
