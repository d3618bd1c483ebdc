"""What a test or a person may want to know of a kubelet's past; it outlives restarts."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class ListReceived:
    """One message of a ListAndWatch stream."""

    at: float
    """On the monotonic clock, in seconds."""
    resource: str
    path: str
    """The socket of the plugin that sent it."""
    size: int
    """How many devices it had."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One Allocate, GetPreferredAllocation or PreStartContainer that the kubelet made."""

    method: str
    resource: str
    ids: tuple[str, ...]
    """In the order in which they were sent."""


@dataclass(kw_only=True, slots=True)
class Record:
    """Counters for each resource, and the latest messages and calls."""

    registrations: Counter[str] = field(default_factory=Counter)
    """Register calls, counted before they are checked (MET-1)."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Register calls that succeeded, whether or not their caller still waited."""
    lists: Counter[str] = field(default_factory=Counter)
    """Messages received on all streams."""
    pod_resources_calls: int = 0
    """Calls to the pod-resources service, those it refused included."""
    history: deque[ListReceived] = field(default_factory=lambda: deque(maxlen=KEPT))
    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=KEPT))

    def call(self, method: str, resource: str, ids: Iterable[str]) -> None:
        """Note a call to a plugin, before it is answered."""
        self.calls.append(Call(method=method, resource=resource, ids=tuple(ids)))
