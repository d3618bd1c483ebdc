"""How a registration comes to an end, and what follows."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import KubeletError
from genericdp.kubelet.registration import RegistrationError

if TYPE_CHECKING:
    from genericdp.timing import Timing


class Ended(KubeletError):  # noqa: N818  # it is no failure of ours
    """A registration has come to an end, with the reason."""


class LeftAlone(Ended):
    """Another instance has left, and a kubelet up to 1.36 has dropped us for it (REG-9b)."""


class ThrownOut(Ended):
    """The kubelet has ended the stream, whether by itself or because of another plugin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """The time before the next attempt. It holds no exception: that would hold the server."""

    reason: str
    seconds: float
    level: int = logging.WARNING


def pause_after(error: Exception, *, times: int, suspected: bool, timing: Timing) -> Pause:
    """Give what follows an attempt that ended so, the ``times``-th in a row (from 1 on).

    ``suspected``: another plugin seems to throw us out.
    """
    if isinstance(error, RegistrationError) and error.permanent:
        return Pause(reason=str(error), seconds=timing.permanent_retry, level=logging.ERROR)
    longest = timing.longest_pause(times, suspected=suspected)
    if isinstance(error, LeftAlone):  # the kubelet has had its time already
        longest = timing.first_retry / 2
    # Not all resources of all nodes at the same moment.
    return Pause(reason=str(error), seconds=longest * random.uniform(0.5, 1.0))  # noqa: S311
