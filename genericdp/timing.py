"""How long a plugin waits for the kubelet, and before it tries again; pure."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_DOUBLINGS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """How long a plugin waits, in seconds."""

    register: float = 75.0
    """Much longer than the 10 s that a kubelet takes to dial back: one that is stopped or stuck
    completes the call when it goes on. Giving up earlier would leave a ghost registration with
    older kubelets (REG-3) and end it with those from 1.36 on, without anybody telling us."""
    self_check: float = 5.0
    stream: float = 5.0
    """After a registration the stream comes within one second (REG-12)."""
    first_retry: float = 0.2
    last_retry: float = 5.0
    contested_retry: float = 30.0
    """The longest wait while another plugin seems to throw us out: the node is not to flap."""
    permanent_retry: float = 60.0
    steady: float = 60.0
    """A registration that lasted so long starts the waits anew."""
    same_age: float = 2.0
    """Of two instances whose sockets are so close in age, either may have registered later."""
    last_words: float = 0.2
    """For so long a kubelet may be taking in what an instance that has gone told it last."""
    holders: float = 10.0
    """Between two questions which devices pods hold: all who ask share the kubelet's limit
    (PRS-1)."""
    holders_answer: float = 5.0
    """How long the answer may take."""
    settling: float = 60.0
    """A kubelet that is so new may not have heard of its pods yet, and would name none."""
    farewell: float = 0.3
    """An instance that registers again is back within this time; after it, it has gone."""

    def longest_pause(self, times: int, *, suspected: bool) -> float:
        """Give the wait after so many attempts in a row, from 1 on, before it is jittered."""
        longest = self.contested_retry if suspected else self.last_retry
        return min(longest, _doubled(self.first_retry, times))

    def doubtful_stream(self, times: int) -> float:
        """Give the wait for a stream that may well never come, at an attempt of so many in a row.

        Of a busy kubelet it may only be late: a socket given up makes it drop the next one, too.
        """
        return min(self.stream, _doubled(self.farewell, times))


def _doubled(first: float, times: int) -> float:
    doublings = min(times - 1, _MOST_DOUBLINGS)
    return first * float(2**doublings)
