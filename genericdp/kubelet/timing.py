"""Timeouts of a plugin, and the delays before it registers again; pure."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_DOUBLINGS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginTiming:
    """How long a plugin waits, in seconds."""

    self_check: float = 5.0
    """For its own socket to answer before it registers."""
    register: float = 75.0
    """Much longer than the 10 s that a kubelet takes to dial back: one that is stopped or stuck
    completes the call when it goes on. Giving up earlier would leave a ghost registration with
    older kubelets (REG-3) and end it with those from 1.36 on, without anybody telling us."""
    stream: float = 5.0
    """After a registration the stream comes within one second (REG-12)."""
    first_retry: float = 0.2
    last_retry: float = 5.0
    conflict_retry: float = 30.0
    """The longest delay while another plugin seems to replace us: the node must not flap."""
    permanent_retry: float = 60.0
    stable: float = 60.0
    """A registration that has lasted so long resets the delays."""

    same_age: float = 2.0
    """Of two instances whose sockets are this close in age, either may have registered later."""
    peer_return: float = 0.3
    """A peer that registers again is back within this time; after it, the peer has left."""
    resend: float = 0.2
    """For so long a kubelet may be processing the last list of a peer that has left."""

    node_check: float = 5.0
    """How long Allocate may look at nodes: the kubelet waits forever, and all its pods with it."""
    allocate: float = 9.5
    """How long Allocate may take in all, hooks included (ALL-4)."""
    device_return: float = 2.0
    """How long a device that its own allocate hook has re-created may take to be usable again."""
    pre_start: float = 28.0
    """How long PreStartContainer may take: the kubelet gives up after 30 s (PRE-1)."""
    preferred: float = 1.0
    """How long choosing preferred devices may take: the pods of the node wait meanwhile."""

    pod_resources_period: float = 10.0
    """Between two requests for the devices that pods hold: all clients share the kubelet's rate
    limit (PRS-1)."""
    pod_resources: float = 5.0
    """How long the answer may take."""
    pods_known: float = 60.0
    """A kubelet that has just started may not know its pods yet, and would name none."""

    def retry_delay(self, attempts: int, *, conflict: bool) -> float:
        """Return the delay after this many attempts in a row, from 1 on, before jitter."""
        longest = self.conflict_retry if conflict else self.last_retry
        return min(longest, _doubled(self.first_retry, attempts))

    def doubtful_stream(self, attempts: int) -> float:
        """Return how long to wait for a stream that may never come, at the n-th attempt in a row.

        The stream of a busy kubelet may just be late, and a socket given up makes it drop the next
        one, too.
        """
        return min(self.stream, _doubled(self.peer_return, attempts))


def _doubled(first: float, attempts: int) -> float:
    return first * float(2 ** min(attempts - 1, _MOST_DOUBLINGS))
