"""Health of one device: the state of each probe, and the kernel log lines that count against it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from genericdp.health.kernellog import LogState, names_of, rule_of
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.reasons import NOT_PROBED, Code, Reason

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from genericdp.devices.device import BoundProbe, Device
    from genericdp.errors import Outcome


@dataclass(slots=True, eq=False)
class ProbeState:
    """State of a probe that is run."""

    bound: BoundProbe
    due: float
    """Time of the next run, in seconds of the monotonic clock."""
    healthy: bool | None = None
    """None before the first result. A device that was healthy when the config changed its probes
    counts as healthy.
    """
    contrary: int = 0
    """Number of consecutive results that contradict ``healthy``."""
    failure: str = ""
    """Reason of the latest failure."""
    last: Outcome | None = None
    """The latest result."""
    digest: bytes = b""
    """The digest of the content that was last read, if that must change; empty if there is none."""

    @property
    def reason(self) -> Reason | None:
        """Return why this probe considers the device not healthy; None if it is healthy."""
        if self.healthy:
            return None
        if self.healthy is None:
            return NOT_PROBED
        text = self.failure
        if self.contrary:
            threshold = self.bound.probe.success_threshold
            text = f"{text} (passing again, {self.contrary} of {threshold} required successes)"
        return Reason(Code.PROBE_FAILED, text)

    def add(self, outcome: Outcome) -> None:
        """Count a result against the thresholds, as corev1 defines them.

        The first result decides alone, so that a restart of the daemon makes no healthy device
        Unhealthy.
        """
        probe = self.bound.probe
        threshold = probe.success_threshold if outcome.ok else probe.failure_threshold
        self.last, self.digest = outcome, outcome.digest or self.digest
        if not outcome.ok:
            self.failure = outcome.reason
        self.contrary = 0 if outcome.ok == self.healthy else self.contrary + 1
        if self.healthy is None or self.contrary >= threshold:
            self.healthy, self.contrary = outcome.ok, 0


CheckState = ProbeState | LogState


@dataclass(slots=True, eq=False)
class DeviceHealth:
    """A device under watch."""

    resource: str
    device: Device
    since: float
    """Older lines of the kernel log are about an earlier device in the same place."""
    reasons: tuple[Reason, ...]
    """Why it is not healthy, from the probes that do not pass; empty if it is healthy."""
    states: list[CheckState]
    """The states of its probes, in the order of the config; empty once it is no longer watched."""
    timer: TimerHandle | None = None
    """A timer for the next probe or expiry; None if nothing is due."""

    @classmethod
    def new(
        cls,
        resource: str,
        device: Device,
        now: float,
        *,
        since: float = -math.inf,
        delayed: bool = False,
    ) -> DeviceHealth:
        """Return the state of a device without results; with ``delayed``, probes have their
        initial delay.
        """
        states = [_state(bound, now, since, delayed=delayed) for bound in device.probes]
        return cls(resource, device, since, (), states)

    def is_same(self, device: Device) -> bool:
        """Check whether the results are about this device, which means that it has not been
        replaced.
        """
        return self.device.identity == device.identity

    def set_device(self, device: Device, now: float) -> None:
        """Adopt changed probes of the same device; keep the results if only their strings differ.

        A healthy device is presumed to stay healthy until the new probes have failed often enough.
        """
        old, new = ([probe.probe for probe in of.probes] for of in (self.device, device))
        healthy = not self.reasons
        self.device = device
        self.states = [
            _state(bound, now, self.since, healthy=healthy, before=before)
            for bound, before in zip_longest(device.probes, self.states if old == new else ())
        ]

    @property
    def log_states(self) -> list[LogState]:
        """The states of the ``kernelLog`` probes."""
        return [state for state in self.states if isinstance(state, LogState)]

    def next_due(self, *, running: bool) -> float:
        """Return when a line stops counting or, unless one is ``running``, a probe runs next."""
        states = self.log_states if running else self.states
        return min((state.due for state in states if state.due is not None), default=math.inf)

    def due_probe(self, now: float) -> ProbeState | None:
        """Return the probe that has been due for longest, if any."""
        due = [state for state in self.states if isinstance(state, ProbeState) and state.due <= now]
        return min(due, key=lambda probe: probe.due, default=None)

    def add(self, state: ProbeState, outcome: Outcome, now: float) -> None:
        """Count a result of one of the probes, and set the time of its next run.

        First runs are at the same time for all devices, later ones spread over the period. Missed
        runs are not repeated.
        """
        period = state.bound.probe.period_seconds
        if state.last is None:
            names = (self.resource, self.device.id, str(self.states.index(state)))
            due = now + period * (0.5 + share_of_period(*names))
        else:
            due = max(state.due + period, now)
        state.due = due
        state.add(outcome)

    def expire(self, now: float) -> bool:
        """Drop the kernel log lines that no longer count; return whether there were any."""
        expired = [state for state in self.log_states if state.expire(now)]
        return bool(expired)

    def update_reasons(self) -> None:
        """Bring the reasons up to date with the states."""
        self.reasons = tuple(
            replace(
                reason, text=f"{state.bound.check.name}: {reason}", subject=state.bound.check.name
            )
            for state in self.states
            if (reason := state.reason) is not None
        )


def _state(
    bound: BoundProbe,
    now: float,
    since: float,
    *,
    delayed: bool = False,
    healthy: bool = False,
    before: CheckState | None = None,
) -> CheckState:
    """Return the state of a probe; ``before`` is its state before a change of its strings, whose
    results stay.
    """
    if isinstance(bound.check, KernelLogCheck):
        trouble = None if healthy else NOT_PROBED
        return LogState(bound, rule_of(bound.check), names_of(bound.check), since, trouble)
    if isinstance(before, ProbeState):
        before.bound = bound
        return before
    due = now + bound.probe.initial_delay_seconds * delayed
    return ProbeState(bound, due, healthy=True if healthy else None)


def share_of_period(*names: str) -> float:
    """Return the fraction of the period, from 0 to 1, at which a probe runs: the same after each
    restart.
    """
    digest = hashlib.sha256("\0".join(names).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
