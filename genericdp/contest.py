"""Whether somebody else serves the same resource on this node, as far as can be known; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUSPICIOUS = 3
"""So many streams in a row that end early are no accident."""
_MOST_NAMES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """Streams in a row that the same kubelet ended, each soon after it had begun (REG-9b)."""

    ends: int = 0
    since: float = 0.0
    """When the first of them began, on the monotonic clock."""

    def after(self, *, begun: float, ended: float, steady_seconds: float) -> Contest:
        """Take one more stream into account."""
        if ended - begun > steady_seconds:
            return Contest()
        return Contest(ends=self.ends + 1, since=self.since if self.ends else begun)

    @property
    def is_suspected(self) -> bool:
        """Say whether this looks as if another plugin threw us out again and again."""
        return self.ends >= _SUSPICIOUS

    def reason(self, resource: str, strangers: Sequence[str], *, now: float) -> str:
        """Say what is suspected; ``strangers`` are the sockets of others, whatever they serve."""
        names = f" (sockets there that are not ours: {listed(strangers)})" if strangers else ""
        return (
            f"the kubelet has ended our stream {self.ends} times within {now - self.since:.0f} s,"
            f" each time soon after it had begun: another device plugin may serve {resource} on"
            f" this node{names}"
        )


def shared(sockets: Sequence[str]) -> str:
    """Say that other instances of genericdp serve the same resource, at these sockets."""
    return f"another instance of genericdp serves it on this node, too (at {listed(sockets)})"


def listed(names: Sequence[str]) -> str:
    """Give the first few names."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
