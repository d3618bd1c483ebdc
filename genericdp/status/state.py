"""The state of the running daemon at one moment, the latest lines of its log, and their JSON."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from genericdp import __version__
from genericdp.config.files import Loaded
from genericdp.devices.devicelist import DeviceList
from genericdp.host import descriptors
from genericdp.logs import add_subject, timestamp
from genericdp.model import ServedBy
from genericdp.printing import shortened
from genericdp.reasons import Code, Reason
from genericdp.status import view
from genericdp.tally import probe_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.config.reload import ConfigState
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import Entry
    from genericdp.devices.held import HeldDevice
    from genericdp.devices.inventory import Identity
    from genericdp.errors import Outcome
    from genericdp.host.descriptors import Supply
    from genericdp.kubelet.lifecycle import Plugin
    from genericdp.model import Resource
    from genericdp.observed import Observed
    from genericdp.supervisor import Supervisor

    Results = Mapping[str, Sequence[Outcome | None]]
    """The latest result of each probe, in the order of the config, by device ID."""
    HardwareOf = Mapping[Identity, view.HardwareLabels]
    Holders = Mapping[str, Sequence[tuple[str, str, tuple[str, ...], float | None]]]
    """Share, holder, pods of a claim, and since when in seconds since 1970, of each held share, by
    device ID.
    """

MAX_EVENTS = 200
_MAX_CHARACTERS = 2000
"""Maximum length of a message; the page shows no more of any text."""
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"))
_UNDECIDED = "the first scan of the host is not over"
NOT_YET_DECIDED = DeviceList(empty=Reason(Code.UNDECIDED, _UNDECIDED))


class Events(logging.Handler):
    """Keeps the latest records of the log at info or above, as ``/status`` has them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.addFilter(add_subject)
        self._kept: deque[dict[str, str]] = deque(maxlen=MAX_EVENTS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        try:
            self._kept.append(_event(record))
        except Exception:  # noqa: BLE001  # as all handlers do
            self.handleError(record)

    def last(self) -> tuple[dict[str, str], ...]:
        """Return them, the newest last."""
        self.acquire()
        try:
            return tuple(self._kept)
        finally:
            self.release()


def _event(record: logging.LogRecord) -> dict[str, str]:
    message = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]):
        message = f"{message}: {type(error).__name__}: {error}"
    return {
        "time": timestamp(record.created),
        "level": next((name for least, name in _LEVELS if record.levelno >= least), "info"),
        "resource": getattr(record, "resource", ""),
        "device": getattr(record, "device", ""),
        "message": shortened(message, _MAX_CHARACTERS),
    }


@contextmanager
def record_events() -> Iterator[Events]:
    """Record log lines within the context."""
    events, root = Events(), logging.getLogger()
    root.addHandler(events)
    try:
        yield events
    finally:
        root.removeHandler(events)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """The parts of a running daemon whose state is shown."""

    supervisor: Supervisor
    config: Observed[ConfigState]
    events: Events
    started: float
    """In seconds since 1970."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceState:
    """A resource of this node."""

    resource: Resource
    registered: bool = False
    """Whether it is registered and the kubelet's stream is open."""
    reason: str = _UNDECIDED
    """Why it is not registered."""
    since: float | None = None
    """Since when it has been registered, or not; in seconds since 1970."""
    contested: str = ""
    """Which other plugin serves it on this node, or why the config's back end does not; empty if
    all is well.
    """
    devices: DeviceList = NOT_YET_DECIDED
    results: Results = field(default_factory=dict)
    holders: Holders = field(default_factory=dict)
    allocated: int | None = None
    """How many of its devices are held; None if that is not known."""
    in_slices: Mapping[str, str] | None = None
    """Driver and pool in ResourceSlices; None if DRA does not serve it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonState:
    """The state of the daemon; all times are in seconds since 1970, and only for display."""

    node: str
    time: float
    """The time of this state."""
    started: float
    kubelet: dict[str, object]
    """The kubelet's directory, and whether there is a ``kubelet.sock``, as in ``/status``."""
    config: ConfigState
    descriptors: Supply
    resources: tuple[ResourceState, ...] = ()
    """The resources for this node, in the order of the config."""
    holders_unknown: str = ""
    """Why it is unknown which pods hold devices; or an empty string."""
    api_server_lacks: str = ""
    """What of the DRA features in use the API server lacks, and what follows."""
    claims: Mapping[str, int] = field(default_factory=dict)
    """The number of prepared ResourceClaims, by state; empty if DRA has served no resource."""
    events: tuple[dict[str, str], ...] = ()
    """The latest lines of the log, the newest last."""

    @property
    def not_ready(self) -> tuple[str, ...]:
        """Return why the daemon is not ready, a line for each reason; empty if it is ready."""
        lacking = [
            f"{state.resource.name}: not registered: {state.reason}"
            for state in self.resources
            if not state.registered
        ]
        if self.config.loaded is None:
            refused = self.config.refused
            first, *more = refused.problems if refused else ("it is being read",)
            rest = f" (and {len(more)} more)" if more else ""
            lacking.insert(0, f"no active config: {first}{rest}")
        return tuple(lacking)


def collect_state(sources: Sources, *, with_results: bool = False) -> DaemonState:
    """Return the current state; to be called on the event loop.

    ``with_results`` includes the latest results of probes.
    """
    supervisor, kubelet = sources.supervisor, sources.supervisor.kubelet
    plugins = supervisor.reconciler.running
    holders = _holders(supervisor.reconciler.held(latest=True))
    unknown, dra = supervisor.holders_unknown, supervisor.reconciler.dra
    return DaemonState(
        node=supervisor.settings.node_name,
        time=time.time(),  # noqa: TID251  # to be shown
        started=sources.started,
        kubelet={
            "directory": str(kubelet.path),
            "present": kubelet.socket.value is not None,
            "reason": kubelet.absence.value,
        },
        config=sources.config.value,
        descriptors=descriptors.count(),
        resources=tuple(
            _shown(
                replace(
                    _resource(
                        resource, plugins.get(resource.name), supervisor, with_results=with_results
                    ),
                    holders=(held := holders.get(resource.name, {})),
                    allocated=len(held)
                    if resource.served_by is ServedBy.DRA or not unknown
                    else None,
                )
                for resource in supervisor.named.values()
            )
        ),
        holders_unknown=unknown,
        claims={} if dra is None else dra.claim_counts,
        api_server_lacks="" if dra is None else dra.why_lacking,
        events=sources.events.last(),
    )


def _holders(held: Iterable[HeldDevice]) -> Mapping[str, Holders]:
    """Return the holders of each share that is held, by resource and device ID."""
    found: dict[str, dict[str, list[tuple[str, str, tuple[str, ...], float | None]]]] = {}
    for device in held:
        resource, device_id, _ = device.name
        for share, names in device.holders.items():
            since = device.since.get(share)
            holders = found.setdefault(resource, {}).setdefault(device_id, [])
            holders += ((share, name, device.pods.get(name, ()), since) for name in names)
    return found


def _shown(states: Iterable[ResourceState]) -> Iterator[ResourceState]:
    """Yield the resources, except templates of names without anything to show.

    A template that is shown, for devices without a name or for their absence, has nothing to
    register.
    """
    for state in states:
        if state.devices is NOT_YET_DECIDED or not state.resource.names:
            yield state
        elif state.devices.is_shown:
            yield replace(state, registered=True, reason="")


def _resource(
    resource: Resource, plugin: Plugin | None, supervisor: Supervisor, *, with_results: bool
) -> ResourceState:
    devices = supervisor.lists.value.get(resource.name, NOT_YET_DECIDED)
    dra = supervisor.reconciler.dra
    waiting = dra.waiting.get(devices.template or resource.name, "") if dra else ""
    results: Results = supervisor.reconciler.probe_results(resource.name) if with_results else {}
    shown = ResourceState(
        resource=resource,
        devices=devices,
        results=results,
        contested=waiting,
        in_slices=dra.names_of(resource.name) if dra else None,
    )
    if plugin is not None:
        state = plugin.registration
        return replace(
            shown,
            registered=state.active.value,
            reason=state.reason,
            since=state.since,
            contested=state.conflict or waiting,
        )
    if dra is not None and resource.name in dra.gates:
        why = dra.why_not_served(resource.name)
        if dra.is_standby:  # the devices are served, and waiting is not a fault
            return replace(shown, registered=True, reason="", contested=why)
        return replace(shown, registered=not why, reason=why)
    if waiting and dra is not None and dra.awaits_peers:
        # The other instance serves it, and must not end before this one is ready.
        return replace(shown, registered=True, reason="")
    return replace(shown, reason=waiting, contested="") if waiting else shown


def as_json(state: DaemonState, hardware: HardwareOf | None = None) -> dict[str, Any]:
    """Return the answer of ``/status``; docs/reference/output.md explains each field."""
    supply = state.descriptors
    return {
        "version": __version__,
        "node": state.node,
        "time": _time(state.time),
        "started": _time(state.started),
        "ready": not state.not_ready,
        "notReady": state.not_ready,
        "kubelet": state.kubelet,
        "config": _config_json(state.config),
        "claims": sum(state.claims.values()) if state.claims else None,
        "goneClaims": state.claims.get("gone"),
        "apiServerLacks": state.api_server_lacks,
        "holders": {"known": not state.holders_unknown, "reason": state.holders_unknown},
        "descriptors": {"used": supply.used, "most": supply.most, "short": supply.is_short},
        "resources": [
            _resource_document(resource_state, hardware or {}) for resource_state in state.resources
        ],
        "events": state.events,
    }


def _config_json(config: ConfigState) -> dict[str, Any]:
    loaded, refused = config.loaded or Loaded(), config.refused or Loaded()
    policy = loaded.policy
    return {
        "active": config.loaded is not None,
        "digest": loaded.digest,
        "since": _time(config.since),
        "files": list(map(str, loaded.files)),
        "policy": policy.file if policy else "",
        "policyDigest": policy.sha256 if policy else "",
        "resources": len(loaded.resources),
        "fromStateDir": config.from_state_dir,
        "warnings": list(map(str, loaded.warnings)),
        "differsSince": _time(config.differs_since),
        "problems": list(map(str, refused.problems)),
        "refused": refused.digest,
        "pinned": config.pinned,
    }


def _resource_document(state: ResourceState, hardware: HardwareOf) -> view.Document:
    clock = time.time() - time.monotonic()  # noqa: TID251  # to be shown
    names = probe_names(state.resource)

    def document_of(entry: Entry[Device]) -> view.Document:
        device = entry.device
        results = zip(names, state.results.get(device.id, ()), strict=False)
        return {
            **view.device(
                entry,
                hardware.get(device.identity, view.UNKNOWN),
                probes=[view.probe(name, outcome) for name, outcome in results],
            ),
            "since": _time(clock + entry.since),
            "holders": [
                {"share": share, "holder": holder, "pods": pods, "since": _time(since)}
                for share, holder, pods, since in state.holders.get(device.id, ())
            ],
        }

    return view.resource(
        state.resource.name,
        state.devices,
        document_of,
        servedBy=state.resource.served_by,
        dra=state.in_slices,
        registered=state.registered,
        reason=state.reason,
        since=_time(state.since),
        contested=state.contested,
        allocated=state.allocated,
    )


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
