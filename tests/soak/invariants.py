"""Invariants of the soak: comparisons of its record with what was seen; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.soak.config import kind_of
from tests.soak.record import ABSENT, HEALTHY, UNHEALTHY, Record

TRUE_WITHIN_SECONDS = 1.0
"""After a step the kubelet's lists say what is, by then; so much for the soak's own waits, too."""
PROBE_PERIODS = 1.525
"""What a probe adds at most, in its periods: the second run comes after up to one and a half."""
ENDED_WITHIN_SECONDS = 2.0


class Violation(Exception):  # noqa: N818  # it is the soak's finding, no failure of its own
    """An invariant does not hold."""


def mistakes(
    record: Record,
    listed: Mapping[str, Mapping[str, str]],
    now: float,
    *,
    patience: float = 0.0,
    healthy_only: bool = False,
) -> list[str]:
    """Say what the kubelet's lists say wrongly; ``listed``: by type and id.

    ``healthy_only``: where a kubelet only shows which devices are healthy.
    """
    return [
        f"{kind}: {entry}"
        for kind in record.kinds
        for entry in _of_list(
            record.allowed(kind, now, patience=patience), listed.get(kind, {}), healthy_only
        )
    ]


def _of_list(
    allowed: Mapping[str, frozenset[str]], listed: Mapping[str, str], healthy_only: bool
) -> Iterator[str]:
    for device in sorted(allowed.keys() | listed.keys()):
        may, state = allowed.get(device, frozenset({ABSENT})), listed.get(device, ABSENT)
        if healthy_only:
            may = may | {ABSENT} if UNHEALTHY in may else may
            if state == UNHEALTHY:
                continue
        if state not in may:
            should = " or ".join(sorted(entry or "not listed" for entry in may))
            yield f"{device} is {state or 'not listed'} and should be {should}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Knowledge:
    """The facts about a device when Allocate is called for it, or has answered."""

    plugged: bool
    healthy: bool
    """Whether its list must say so."""
    settled: bool
    """Whether no step is under way that touches its resource."""
    epochs: tuple[int, int]
    """How often its resource and its node have been touched."""


def knowledge(record: Record, node: str, now: float) -> Knowledge:
    kind = kind_of(node)
    may = record.allowed(kind, now).get(record.places.id_of(node), frozenset())
    return Knowledge(
        plugged=node in record.plugged,
        healthy=may == {HEALTHY},
        settled=kind not in record.unsettled,
        epochs=(record.epochs[kind], record.epochs[node]),
    )


def wrong_answer(before: Knowledge, after: Knowledge, *, answered: bool) -> str:
    """Say what is wrong with an answer of Allocate, or with a refusal; empty: nothing.

    A node that was missing when the call began, and stayed so, is never given. The expected list
    and untouched devices count as well.
    """
    moved = before.epochs[1] != after.epochs[1]
    if answered and not before.plugged and not moved:
        return "answered for a device that was missing"
    if not (before.settled and after.settled) or before.epochs != after.epochs:
        return ""
    if answered and not before.healthy:
        return "answered for a device that is not on offer"
    if not answered and before.healthy:
        return "refused for a device that is there"
    return ""


def registered_again(
    before: Mapping[str, object], after: Mapping[str, object], touched: frozenset[str]
) -> list[str]:
    """Give the types that registered during a step although it does not concern them."""
    return sorted(k for k, n in after.items() if n != before.get(k) and k not in touched)


@dataclass(frozen=True, slots=True)
class Growth:
    """A line through samples of memory."""

    seconds: float
    first: float
    """The amount on the line at its begin."""
    total: float
    """How much more it is at the end, on the line."""


def usual_growth(samples: Sequence[tuple[float, float]]) -> Growth | None:
    """Fit a line by the median of all slopes (Theil and Sen): a sample may be far off."""
    slopes = [
        (later - amount) / (after - at)
        for i, (at, amount) in enumerate(samples)
        for after, later in samples[i + 1 :]
        if after > at
    ]
    if len(samples) < 3 or not slopes:
        return None
    slope = median(slopes)
    begin, end = samples[0][0], samples[-1][0]
    first = median(amount - slope * (at - begin) for at, amount in samples)
    return Growth(end - begin, first, slope * (end - begin))


def leftover(reference: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    found = {kind: number - reference.get(kind, 0) for kind, number in sorted(now.items())}
    return {kind: more for kind, more in found.items() if more > 0}
