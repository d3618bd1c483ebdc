"""Transitions: the states of a device, and which event leads from which state to which.

A reconcile is level-triggered and replays nothing: it starts each device in its state of the last
list, and applies the current facts. The events are listed in the order in which they are applied.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(StrEnum):
    """The state of something that a resource matches."""

    NOT_OFFERED = "not_offered"
    """It is not in the list; new devices start here."""
    WAITING = "waiting"
    """It is not in the list yet: other members of its group may follow in a moment."""
    PROBING = "probing"
    """It is listed as Unhealthy until each of its probes has a result."""
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    """Its hardware is there, but lacks something or fails."""
    MISSING = "missing"
    """It is listed as Unhealthy although no device can be made of it now, until it is forgotten.

    A kubelet reports a device that is missing from the list as healthy (LAW-10).
    """


class Event(StrEnum):
    """Facts about a device in one reconcile."""

    SETTLING = "settling"
    """Its group has changed just now."""
    MADE = "made"
    """Its hardware makes a device, and no other device has what it needs."""
    REFUSED = "refused"
    """No container may get it: it is excluded, lacks something, belongs to another, is held."""
    GONE = "gone"
    """Its hardware is missing, or no longer matches."""
    FORGOTTEN = "forgotten"
    """It has been missing for ``forgetAfterSeconds``, and no pod or claim holds it."""
    INCOMPLETE = "incomplete"
    """It lacks a node, or a member of its group."""
    RENAMED = "renamed"
    """It gets another name as soon as no pod can hold it under this one."""
    LEFT_OUT = "left_out"
    """The list would be larger than a kubelet takes."""
    SPEC_FAILED = "spec_failed"
    """Its CDI spec cannot be written."""
    NOT_PROBED = "not_probed"
    """A probe has no result yet."""
    FAILING = "failing"
    """A probe fails, or the kernel's log has a line about it."""


OUT, WAIT, PROBE, GOOD, BAD, LOST = State
____ = None  # it stays as it is, with its reasons

# fmt: off
TABLE: Mapping[Event, tuple[State | None, ...]] = {
    # In the state:      OUT   WAIT  PROBE GOOD  BAD   LOST
    Event.SETTLING:     (WAIT, WAIT, ____, ____, ____, WAIT),
    Event.MADE:         (GOOD, GOOD, GOOD, GOOD, GOOD, GOOD),
    Event.REFUSED:      (OUT,  OUT,  LOST, LOST, LOST, LOST),
    Event.GONE:         (____, ____, LOST, LOST, LOST, LOST),
    Event.FORGOTTEN:    (____, ____, ____, ____, ____, OUT),
    Event.INCOMPLETE:   (____, ____, BAD,  BAD,  BAD,  ____),
    Event.RENAMED:      (____, ____, BAD,  BAD,  ____, ____),
    Event.LEFT_OUT:     (____, ____, OUT,  OUT,  OUT,  OUT),
    Event.SPEC_FAILED:  (____, ____, BAD,  BAD,  ____, ____),
    Event.NOT_PROBED:   (____, ____, PROBE, PROBE, ____, ____),
    Event.FAILING:      (____, ____, BAD,  BAD,  ____, ____),
}
"""The next state for each event; a Healthy device has no reasons."""
# fmt: on

LISTED = frozenset({State.PROBING, State.HEALTHY, State.UNHEALTHY, State.MISSING})
"""The states of devices in the list that the kubelet gets."""


def next_state(state: State, event: Event) -> State | None:
    """Return the next state after an event; None if it changes nothing."""
    return TABLE[event][_COLUMNS[state]]


_COLUMNS = {state: column for column, state in enumerate(State)}
