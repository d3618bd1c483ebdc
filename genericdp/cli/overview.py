"""The state of the daemon for a terminal: what the page shows, in lines and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.colours import Colour, coloured
from genericdp.cli.tables import table
from genericdp.status.wording import absolute, is_refused, plural, span, summary, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.status.model import Event, ResourceStatus, Status

MOST_EVENTS = 20
_LEVELS = {"error": Colour.BAD, "warning": Colour.ODD}

Line = tuple[str, Colour]


def lines(status: Status, *, colours: bool) -> Iterator[str]:
    """Give the state as lines, Unhealthy devices first; no line holds anything but text."""
    for line, colour in _lines(status):
        yield coloured(line, colour) if colours else line


def _lines(status: Status) -> Iterator[Line]:
    state, colour = ("ready", Colour.GOOD) if status.ready else ("NOT READY", Colour.BAD)
    yield f"{visible(status.node)}: {state}", colour
    yield summary(status), Colour.PLAIN
    yield from _told("Not ready", status.not_ready, Colour.BAD)
    yield from _refused(status)
    yield "", Colour.PLAIN
    yield from _daemon(status)
    yield from _told("Warnings of the config", status.config.warnings, Colour.ODD)
    yield from _told("Never reloaded", status.config.pinned, Colour.ODD)
    yield from _titled("Resources", _resource_rows(status))
    yield from _titled("Devices", _device_rows(status))
    aside = [
        f"{r.name}: {one.path}: {one.reason}" for r in status.resources for one in r.not_offered
    ]
    yield from _told("Matched, but not offered", aside)
    yield from _titled("Last events (UTC)", _event_rows(status.events[-MOST_EVENTS:]))


def _told(title: str, texts: Sequence[str], colour: Colour = Colour.TITLE) -> Iterator[Line]:
    if texts:
        yield "", Colour.PLAIN
        yield f"{title}:", colour
        for text in texts:
            yield f"  {visible(text)}", Colour.PLAIN


def _daemon(status: Status) -> Iterator[Line]:
    config = status.config
    version = visible(status.version)
    yield f"Daemon:   genericdp {version}, for {span(status.time - status.started)}", Colour.PLAIN
    files = ", ".join(map(visible, config.files))
    if config.in_force:
        since = f", since {absolute(config.since)}" if config.since is not None else ""
        of_old = ", the last good one of the state folder" if config.from_state_dir else ""
        digest = visible(config.digest[:12])
        yield f"Config:   in force{since}{of_old} ({digest}; {files})", Colour.PLAIN
        bounds = "none: nothing bounds the config"
        if config.policy:
            bounds = f"{visible(config.policy)} ({visible(config.policy_digest[:12])})"
        yield f"Policy:   {bounds}", Colour.PLAIN
    else:
        yield f"Config:   none is in force{files and f' ({files})'}", Colour.BAD
    if status.kubelet_present:
        yield f"Kubelet:  kubelet.sock is there ({visible(status.kubelet_folder)})", Colour.PLAIN
    else:
        yield f"Kubelet:  MISSING: {visible(status.kubelet_reason)}", Colour.BAD
    if (supply := status.descriptors) is not None:
        short = ": THEY RUN SHORT" if supply.is_short else ""
        colour = Colour.BAD if supply.is_short else Colour.PLAIN
        yield f"Open:     {supply.used} of {plural(supply.most, 'descriptor')}{short}", colour


def _refused(status: Status) -> Iterator[Line]:
    if not is_refused(status):
        return
    since = status.config.differs_since
    when = f" since {absolute(since)}" if since is not None else ""
    problems = status.config.problems or ("it could not be read",)
    yield from _told(f"The config on disk is REFUSED{when}", problems, Colour.BAD)


def _titled(title: str, rows: Sequence[tuple[Colour, tuple[str, ...]]]) -> Iterator[Line]:
    """Give a table, if there is anything in it but the heading."""
    if len(rows) > 1:
        yield "", Colour.PLAIN
        yield f"{title}:", Colour.TITLE
        texts = table(tuple(map(visible, cells)) for _, cells in rows)
        yield from zip(texts, (colour for colour, _ in rows), strict=True)


_Rows = list[tuple[Colour, tuple[str, ...]]]


def _resource_rows(status: Status) -> _Rows:
    heading = ("RESOURCE", "REGISTERED", "FOR", "HEALTHY", "ALLOCATABLE", "CAPACITY", "WHY")
    told = any(_said_of(one) for one in status.resources)
    rows: _Rows = [(Colour.FAINT, heading if told else heading[:-1])]
    for one in status.resources:
        healthy = sum(each.healthy for each in one.devices)
        cells = (
            one.name,
            "yes" if one.registered else "NO",
            _for(one.since, status.time),
            f"{healthy} of {len(one.devices)}",
            str(one.allocatable),
            str(one.capacity),
        )
        colour = Colour.PLAIN if one.registered else Colour.BAD
        colour = Colour.ODD if one.registered and one.contested else colour
        rows.append((colour, (*cells, _said_of(one)) if told else cells))
    return rows


def _said_of(one: ResourceStatus) -> str:
    return "; ".join(filter(None, ("" if one.registered else one.reason, one.contested)))


def _device_rows(status: Status) -> _Rows:
    heading = ("RESOURCE", "ID", "STATE", "FOR", "NODES", "NUMA", "WHY")
    known = [(one.name, each) for one in status.resources for each in one.devices]
    told = any(one.reason for _, one in known)
    rows: _Rows = [(Colour.FAINT, heading if told else heading[:-1])]
    for name, one in sorted(known, key=lambda pair: pair[1].healthy):
        cells = (
            name,
            f"{one.id} ({one.shares} shares)" if one.shares > 1 else one.id,
            "Healthy" if one.healthy else "Unhealthy",
            _for(one.since, status.time),
            " ".join(one.nodes) or one.path,
            ",".join(map(str, one.numa_nodes)),
        )
        colour = Colour.PLAIN if one.healthy else Colour.BAD
        rows.append((colour, (*cells, one.reason) if told else cells))
    return rows


def _for(since: float | None, now: float) -> str:
    return span(now - since) if since is not None else ""


def _event_rows(events: Sequence[Event]) -> _Rows:
    rows: _Rows = [(Colour.FAINT, ("TIME", "LEVEL", "ABOUT", "WHAT"))]
    for one in events:
        about = " ".join(filter(None, (one.resource, one.device)))
        when = absolute(one.time).removesuffix(" UTC")
        rows.append((_LEVELS.get(one.level, Colour.PLAIN), (when, one.level, about, one.message)))
    return rows
