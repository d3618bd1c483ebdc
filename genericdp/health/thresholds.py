"""From the results of probes to Healthy or Unhealthy; pure, with corev1's thresholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.model import Probe
    from genericdp.process.outcome import Outcome

NOT_PROBED = "not probed yet"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeState:
    """What the results of one probe say of one device."""

    healthy: bool | None = None
    """None: there is no result yet."""
    against: int = 0
    """Results in a row that speak against ``healthy``."""
    failure: str = ""
    """What the latest failure was; empty after a success that counted."""

    def reason(self, probe: Probe) -> str:
        """Say why the device is not well by this probe; empty if it is."""
        if self.healthy:
            return ""
        if self.healthy is None:
            return NOT_PROBED
        if not self.against:
            return self.failure
        return f"{self.failure} (well since, {self.against} of {probe.success_threshold} times)"


UNPROBED = ProbeState()
WELL = ProbeState(healthy=True)
"""Also of a device that was Healthy when the config asked for another probe: it stays so until its
results say otherwise."""


def after(state: ProbeState, probe: Probe, outcome: Outcome) -> ProbeState:
    """Give the state after one more result.

    The first result decides alone: a well device is Healthy at once after a restart, and nothing
    speaks for one that fails. From then on as corev1: so many results in a row change the state.
    """
    against = state.against + 1
    threshold = probe.success_threshold if outcome.ok else probe.failure_threshold
    if state.healthy is None or outcome.ok == state.healthy or against >= threshold:
        # Always the same object for what is well: so it is seen at once that nothing has changed.
        return WELL if outcome.ok else ProbeState(healthy=False, failure=outcome.reason)
    failure = state.failure if outcome.ok else outcome.reason
    return replace(state, against=against, failure=failure)


def verdict(reasons: Iterable[tuple[str, str]]) -> str:
    """Join the probes' names and reasons to the device's; empty: all of them pass."""
    return "; ".join(f"{name}: {reason}" if name else reason for name, reason in reasons if reason)
