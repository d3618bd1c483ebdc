"""The state in words, for the page and for a terminal: sentences, times, what is worth a look."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from genericdp.printing import printable

if TYPE_CHECKING:
    from genericdp.status.model import DeviceStatus, ResourceStatus, Status

MOST_CHARACTERS = 2000
"""Of one text: whoever wrote it must not fill the page."""
_MOST_NAMED = 5
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def visible(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return one line of at most about ``most`` characters that hides and reorders nothing.

    What ends a line, moves a cursor or turns the direction of writing is escaped, as in the log.
    """
    if len(text) > most:
        text = f"{text[:most]}… ({plural(len(text) - most, 'more character')})"
    return printable(text)


def moment(seconds: float) -> datetime | None:
    """Return a time since 1970 as a date in UTC; None for what is none."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def absolute(seconds: float) -> str:
    """Return a time since 1970 as ``2026-11-21 19:00:00 UTC``."""
    when = moment(seconds)
    return f"{when:%Y-%m-%d %H:%M:%S} UTC" if when else "at an unknown time"


def span(seconds: float) -> str:
    """Return a duration with its one or two largest units: ``42 s``, ``3 h 5 min``, ``2 d 4 h``."""
    if not seconds >= 0:  # not a number, or the clock was set
        return "0 s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s" if seconds < _MINUTE - 0.5 else "1 min"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min"
    if seconds < _DAY:
        return _two(seconds, _HOUR, "h", _MINUTE, "min")
    return _two(seconds, _DAY, "d", _HOUR, "h")


def _two(seconds: float, large: int, word: str, small: int, small_word: str) -> str:
    rest = seconds % large // small
    first = f"{seconds // large:,.0f} {word}"
    return f"{first} {rest:.0f} {small_word}" if rest else first


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``1 device``, ``1,200 devices``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def needs_attention(resource: ResourceStatus) -> bool:
    """Return whether there is something about a resource that a person may have to mend."""
    return not resource.registered or bool(resource.contested) or bool(unhealthy(resource))


def unhealthy(resource: ResourceStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices that are Unhealthy."""
    return tuple(one for one in resource.devices if not one.healthy)


def is_refused(status: Status) -> bool:
    """Return whether the config on disk is refused."""
    return status.config.differs_since is not None or bool(status.config.problems)


def summary(status: Status) -> str:
    """Say in a line or two how it is; another text means that something has changed state."""
    parts = [_of_resources(status)]
    if is_refused(status):
        parts.append("The config on disk is refused.")
    elsewhere = [one.name for one in status.resources if one.contested]
    if elsewhere:
        parts.append(f"Also served by somebody else: {_named(elsewhere)}.")
    return " ".join(parts)


def _of_resources(status: Status) -> str:
    if not status.config.in_force:
        return "No config is in force: nothing is served."
    if not status.resources:
        return "The config has no resource for this node."
    registered = sum(one.registered for one in status.resources)
    devices = sum(len(one.devices) for one in status.resources)
    sick = {one.name: [each.id for each in unhealthy(one)] for one in status.resources}
    healthy = devices - sum(map(len, sick.values()))
    sentence = (
        f"{_all_or(registered, len(status.resources), 'resource')} registered,"
        f" {_all_or(healthy, devices, 'device')} Healthy."
    )
    named = [f"{visible(name, 100)}: {_named(ids)}" for name, ids in sick.items() if ids]
    more = len(named) - _MOST_NAMED
    said = "; ".join(named[:_MOST_NAMED])
    rest = f"; and of {plural(more, 'more resource')}" if more > 0 else ""
    return f"{sentence} Unhealthy: {said}{rest}." if named else sentence


def _all_or(count: int, of: int, one: str) -> str:
    if count == of:
        return plural(of, one)
    return f"{count:,} of {plural(of, one)}"


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    named = ", ".join(visible(one, 100) for one in names[:_MOST_NAMED])
    return f"{named} and {more:,} more" if more > 0 else named
