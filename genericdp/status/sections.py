"""The parts of the page: what each shows of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.status.markup import (
    Markup,
    ago,
    element,
    escaped,
    joined,
    pill,
    row,
    table,
    time_of,
)
from genericdp.status.wording import absolute, moment, plural, unhealthy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.config.loaded import ConfigState
    from genericdp.status.choosing import Chosen
    from genericdp.status.model import DeviceStatus, Event, ResourceStatus, Status

_FEW_DEVICES = 20
"""So many are shown without being asked for."""
_FEW_EVENTS = 12
_MOST_LINES = 200
_LEVELS = {"error": "bad", "warning": "odd"}


def lines_of(texts: Sequence[str]) -> Markup:
    """Return a list of lines; what is too much is counted."""
    shown = joined(element("li", element("code", one)) for one in texts[:_MOST_LINES])
    return joined([element("ul", shown, class_="lines"), *_more(len(texts) - _MOST_LINES, "line")])


def _more(count: int, what: str) -> Iterator[Markup]:
    if count > 0:
        link = element("a", "/status", href="status")
        yield element("p", f"{plural(count, 'more ' + what)}: ", link, class_="more")


def resource_section(at: int, chosen: Chosen, now: float) -> Markup:
    """Return the card of a resource."""
    one, heading = chosen.resource, f"resource-{at}"
    return element(
        "article",
        element(
            "header",
            element("h3", escaped(one.name), id=heading),
            element("p", joined(_states(one, now)), class_="states"),
        ),
        _amounts(one),
        *_devices(chosen, now),
        *_not_offered(chosen),
        class_="card",
        aria_labelledby=heading,
        data_key=one.name,
    )


def _states(one: ResourceStatus, now: float) -> Iterator[str]:
    yield pill("Registered", "good") if one.registered else pill("Not registered", "bad")
    if one.since is not None:
        yield joined([" ", ago(one.since, now)])
    if one.reason and not one.registered:
        yield element("span", one.reason, class_="why")
    if one.contested:
        yield joined([" ", pill("Contested", "odd"), element("span", one.contested, class_="why")])


def _amounts(one: ResourceStatus) -> Markup:
    listed, sick = len(one.devices), len(unhealthy(one))
    facts = {
        "Allocatable": f"{one.allocatable:,}",
        "Capacity": f"{one.capacity:,}",
        "Healthy devices": f"{listed - sick:,} of {listed:,}" if sick else f"{listed:,}",
    }
    return element("dl", joined(_facts(facts.items())), class_="amounts")


def _facts(facts: Iterable[tuple[str, str]]) -> Iterator[Markup]:
    for name, text in facts:
        yield element("div", element("dt", name), element("dd", text))


def _devices(chosen: Chosen, now: float) -> Iterator[Markup]:
    sick, well, name = chosen.unhealthy, chosen.healthy, chosen.resource.name
    if not chosen.resource.devices:
        yield element("p", "No devices.", class_="none")
    if len(sick) + len(well) <= _FEW_DEVICES:
        if sick or well:
            yield _device_table(f"Devices of {name}", (*sick, *well), now)
    else:
        if sick:
            yield _device_table(f"Unhealthy devices of {name}", sick, now)
        if well:
            yield element(
                "details",
                element("summary", _healthy_of(chosen)),
                _device_table(f"Healthy devices of {name}", well, now),
            )
    yield from _more(chosen.left_out, "device")


def _healthy_of(chosen: Chosen) -> str:
    shown, healthy = len(chosen.healthy), sum(one.healthy for one in chosen.resource.devices)
    of = f"{shown:,} of " if shown < healthy else ""
    return of + plural(healthy, "Healthy device")


def _device_table(caption: str, devices: Sequence[DeviceStatus], now: float) -> Markup:
    columns = [("id", "Device"), ("state", "State"), ("since", "Since")]
    shared = any(one.shares != 1 for one in devices)
    near = any(one.numa_nodes for one in devices)
    columns += [("shares", "Shares")] * shared + [("numa", "NUMA")] * near + [("nodes", "Nodes")]

    def cells(one: DeviceStatus) -> Iterator[tuple[str, str]]:
        yield "id", one.id
        yield "state", _state(one)
        yield "since", ago(one.since, now) if one.since is not None else "-"
        if shared:
            yield "shares", f"{one.shares:,}"
        if near:
            yield "numa", ", ".join(map(str, one.numa_nodes)) or "-"
        yield "nodes", _nodes(one)

    return table(caption, columns, (row(cells(one)) for one in devices), "devices")


def _nodes(one: DeviceStatus) -> str:
    if len(one.nodes) == 1:
        return one.nodes[0]
    return joined(element("span", node, " ") for node in one.nodes) or one.path or "-"


_HEALTHY = pill("Healthy", "good")
_UNHEALTHY = pill("Unhealthy", "bad")


def _state(one: DeviceStatus) -> Markup:
    why = f'<span class="why">{escaped(one.reason)}</span>' if one.reason else ""
    return Markup((_HEALTHY if one.healthy else _UNHEALTHY) + why)


def _not_offered(chosen: Chosen) -> Iterator[Markup]:
    resource = chosen.resource
    if not resource.not_offered:
        return
    columns = [("path", "What"), ("why", "Why")]
    rows = (row((("path", one.path), ("why", one.reason))) for one in chosen.not_offered)
    yield element(
        "details",
        element("summary", f"{len(resource.not_offered):,} matched, but not offered"),
        table(f"Not offered of {resource.name}", columns, rows, "aside"),
        *_more(chosen.not_offered_left_out, "path"),
    )


def config_section(status: Status) -> Markup:
    """Return the config in force."""
    config = status.config
    facts: list[tuple[str, str]] = []
    if config.in_force:
        state = pill("In force", "good")
        origin = " the last good one, from the state folder" if config.from_state_dir else ""
        facts.append(("State", joined([state, origin])))
        if config.since is not None:
            facts.append(("Since", ago(config.since, status.time)))
        facts.append(("Resources", f"{config.resources:,}, for all nodes"))
        facts.append(("Digest", _digest(config.digest)))
        facts.append(("Policy", _policy(config)))
    else:
        facts.append(("State", pill("None in force", "bad")))
    files = joined(element("code", one) for one in config.files[:_MOST_LINES])
    facts += [("Files", files)] * bool(files)
    told = [("Warnings", config.warnings), ("Never reloaded", config.pinned)]
    more = (
        part for name, texts in told if texts for part in (element("h3", name), lines_of(texts))
    )
    return element(
        "section",
        element("h2", "Config", id="config"),
        element("dl", joined(_facts(facts)), class_="facts"),
        *more,
        class_="card",
        aria_labelledby="config",
    )


def _policy(config: ConfigState) -> Markup | str:
    if not config.policy:
        return "none: nothing bounds the config"
    return joined([element("code", config.policy), " ", _digest(config.policy_digest)])


def _digest(digest: str) -> Markup:
    return element("code", digest[:12], title=f"SHA-256: {digest}")


def kubelet_section(status: Status) -> Markup:
    """Return what there is of the kubelet, and what this process has."""
    present = pill("kubelet.sock is there", "good")
    absent = joined(
        [pill("no kubelet", "bad"), " ", element("span", status.kubelet_reason, class_="why")]
    )
    socket = present if status.kubelet_present else absent
    facts: list[tuple[str, str]] = [
        ("Socket", socket),
        ("Folder", element("code", status.kubelet_folder)),
    ]
    if (supply := status.descriptors) is not None:
        short = pill("run short", "bad") if supply.is_short else ""
        used = f"{supply.used:,} of {supply.most:,} "
        facts.append(("Descriptors", joined([used, short])))
    return element(
        "section",
        element("h2", "Kubelet", id="kubelet"),
        element("dl", joined(_facts(facts)), class_="facts"),
        class_="card",
        aria_labelledby="kubelet",
    )


def events_section(status: Status) -> Markup:
    """Return the last events, the newest first."""
    events = status.events[::-1][:_MOST_LINES]
    if events:
        parts = [_event_table("The last events, times in UTC", events[:_FEW_EVENTS], status.time)]
    else:
        parts = [element("p", "Nothing has happened yet.", class_="none")]
    if earlier := events[_FEW_EVENTS:]:
        parts.append(
            element(
                "details",
                element("summary", plural(len(earlier), "earlier event")),
                _event_table("Earlier events, times in UTC", earlier, status.time),
            )
        )
    parts += _more(len(status.events) - len(events), "event")
    heading = element("h2", "Last events", id="events")
    return element("section", heading, *parts, class_="card", aria_labelledby="events")


def _event_table(caption: str, events: Sequence[Event], now: float) -> Markup:
    columns = [("time", "Time"), ("level", "Level"), ("about", "About"), ("message", "What")]
    rows = (
        row(
            (
                ("time", time_of(one.time, _clock(one.time, now))),
                ("level", pill(one.level, _LEVELS.get(one.level, "plain"))),
                ("about", " ".join(filter(None, (one.resource, one.device))) or "-"),
                ("message", one.message),
            )
        )
        for one in events
    )
    return table(caption, columns, rows, "events")


def _clock(seconds: float, now: float) -> str:
    when, today = moment(seconds), moment(now)
    if when is None or today is None or when.date() != today.date():
        return absolute(seconds).removesuffix(" UTC")
    return f"{when:%H:%M:%S}"
