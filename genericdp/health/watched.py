"""One device under probes: its states, what is due next, and what that makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.checks import FileRead, LogWatch
from genericdp.health.schedule import in_step, next_run, second_run, share_of_period
from genericdp.health.thresholds import UNPROBED, WELL, ProbeState, after, verdict

if TYPE_CHECKING:
    from genericdp.devices.checks import BoundProbe
    from genericdp.devices.device import Device
    from genericdp.process.outcome import Outcome


@dataclass(slots=True)
class Watched:
    """A device with the states of its probes, in the order of the config.

    Only ``due`` and ``states`` change; times are of the monotonic clock, in seconds.
    """

    resource: str
    device: Device
    due: list[float | None]
    """When each probe runs next; None: it is not run (the kernel's log is read as it comes)."""
    states: list[ProbeState]
    last: dict[int, Outcome] = field(default_factory=dict)
    """The latest result of each probe."""

    @property
    def next_due(self) -> float | None:
        """When something has to be run next."""
        return min((due for due in self.due if due is not None), default=None)

    def take_due(self, now: float) -> int | None:
        """Give the probe that has been due for longest, if one is."""
        waiting = [(due, i) for i, due in enumerate(self.due) if due is not None and due <= now]
        return min(waiting)[1] if waiting else None

    def enter(self, index: int, outcome: Outcome, now: float) -> None:
        """Take a result, and plan the probe's next run."""
        probe = self.device.probes[index].probe
        first = self.states[index].healthy is None or index not in self.last
        self.states[index] = after(self.states[index], probe, outcome)
        self.last[index] = outcome
        due = self.due[index]
        begun = now if due is None else due
        if first:
            share = share_of_period(self.resource, self.device.id, str(index))
            due = second_run(now, probe.period_seconds, share)
        else:
            due = next_run(begun, now, probe.period_seconds)
        files = isinstance(self.device.probes[index].check, FileRead)
        self.due[index] = in_step(due, probe.period_seconds) if files else due

    @property
    def is_settled(self) -> bool:
        """Whether each probe that runs has a result."""
        return all(
            state.healthy is not None or due is None
            for state, due in zip(self.states, self.due, strict=True)
        )

    @property
    def reason(self) -> str:
        """Say why the device is not well by what has been run; empty: it is."""
        probes = self.device.probes
        return verdict(
            (str(bound.check), state.reason(bound.probe))
            for bound, state, due in zip(probes, self.states, self.due, strict=True)
            if due is not None
        )


def watched(
    resource: str,
    device: Device,
    now: float,
    *,
    delayed: bool,
    presumed_well: bool = False,
) -> Watched:
    """Begin to watch a device; ``delayed``: one that has just appeared gets its initial delay."""
    state = WELL if presumed_well else UNPROBED
    return Watched(
        resource=resource,
        device=device,
        due=[_first_due(bound, now, delayed=delayed) for bound in device.probes],
        states=[state] * len(device.probes),
    )


def _first_due(bound: BoundProbe, now: float, *, delayed: bool) -> float | None:
    if isinstance(bound.check, LogWatch):
        return None
    return now + bound.probe.initial_delay_seconds * delayed


def is_same_device(one: Device, other: Device) -> bool:
    """Say whether results of the one still speak of the other: it has not been replaced."""
    return one.key == other.key and one.identity == other.identity


def asks_the_same(one: Device, other: Device) -> bool:
    """Say whether both have the same probes by the config; their texts may differ."""
    return [bound.probe for bound in one.probes] == [bound.probe for bound in other.probes]
