"""The state as JSON, and back. Times are those of the log: ISO 8601 in UTC, with milliseconds.

Any version reads what an older daemon says: a key that comes later is read with a default.
``tests/status/former.json`` is what the first one said.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from genericdp.config.loaded import ConfigState
from genericdp.host.descriptors import Supply
from genericdp.logs import timestamp
from genericdp.status.model import DeviceStatus, Event, NotOfferedStatus, ResourceStatus, Status
from genericdp.status.parts import Part, UnreadableStatusError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["UnreadableStatusError", "decode", "encode"]

_HEALTH = {True: "Healthy", False: "Unhealthy"}


def encode(status: Status) -> bytes:
    """Return the JSON of a state.

    Piece by piece: one call of the encoder for ten thousand devices would hold up all threads.
    """
    return "".join(_written(status)).encode()


def _written(status: Status) -> Iterator[str]:
    yield json.dumps(_head(status))[:-1]
    yield ', "resources": ['
    for at, one in enumerate(status.resources):
        yield (", " if at else "") + json.dumps(_resource(one))[:-1]
        yield ', "devices": ['
        yield from _separated(_device(device) for device in one.devices)
        yield '], "notOffered": ['
        yield from _separated({"path": it.path, "reason": it.reason} for it in one.not_offered)
        yield "]}"
    yield '], "events": ['
    yield from _separated(map(_event, status.events))
    yield "]}\n"


def _separated(values: Iterable[object]) -> Iterator[str]:
    for at, one in enumerate(values):
        yield (", " if at else "") + json.dumps(one)


def _head(status: Status) -> dict[str, object]:
    supply = status.descriptors
    return {
        "version": status.version,
        "node": status.node,
        "time": _time(status.time),
        "started": _time(status.started),
        "ready": status.ready,
        "notReady": status.not_ready,
        "kubelet": {
            "folder": status.kubelet_folder,
            "present": status.kubelet_present,
            "reason": status.kubelet_reason,
        },
        "config": _config(status.config),
        "descriptors": supply
        and {"used": supply.used, "most": supply.most, "short": supply.is_short},
    }


def _config(config: ConfigState) -> dict[str, object]:
    return {
        "inForce": config.in_force,
        "digest": config.digest,
        "since": _time(config.since),
        "files": config.files,
        "policy": config.policy,
        "policyDigest": config.policy_digest,
        "resources": config.resources,
        "fromStateDir": config.from_state_dir,
        "warnings": config.warnings,
        "differsSince": _time(config.differs_since),
        "problems": config.problems,
        "refused": config.refused,
        "pinned": config.pinned,
    }


def _resource(one: ResourceStatus) -> dict[str, object]:
    return {
        "name": one.name,
        "registered": one.registered,
        "reason": one.reason,
        "since": _time(one.since),
        "contested": one.contested,
        "capacity": one.capacity,
        "allocatable": one.allocatable,
    }


def _device(one: DeviceStatus) -> dict[str, object]:
    return {
        "id": one.id,
        "state": _HEALTH[one.healthy],
        "reason": one.reason,
        "since": _time(one.since),
        "path": one.path,
        "shares": one.shares,
        "numaNodes": one.numa_nodes,
        "nodes": one.nodes,
    }


def _event(one: Event) -> dict[str, object]:
    return {
        "time": _time(one.time),
        "level": one.level,
        "resource": one.resource,
        "device": one.device,
        "message": one.message,
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)


def decode(body: bytes) -> Status:
    """Return the state that ``encode`` has written; raises UnreadableStatusError.

    What a newer daemon says beside it is left out; what an older one does not say is empty.
    """
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableStatusError(f"it is no JSON: {error}") from error
    top = Part(document, "")
    kubelet = top.part("kubelet")
    return Status(
        version=top.text("version"),
        node=top.text("node"),
        time=top.time("time"),
        started=top.time("started"),
        kubelet_folder=kubelet.text("folder"),
        kubelet_present=kubelet.flag("present"),
        kubelet_reason=kubelet.text("reason", ""),
        not_ready=top.texts("notReady"),
        config=_read_config(top.part("config")),
        descriptors=None if top.is_null("descriptors") else _read_supply(top.part("descriptors")),
        resources=tuple(map(_read_resource, top.parts("resources"))),
        events=tuple(map(_read_event, top.parts("events"))),
    )


def _read_supply(part: Part) -> Supply:
    return Supply(used=part.count("used"), most=part.count("most"))


def _read_config(part: Part) -> ConfigState:
    return ConfigState(
        digest=part.text("digest"),
        since=part.time_or_none("since"),
        files=part.texts("files"),
        policy=part.text("policy", ""),
        policy_digest=part.text("policyDigest", ""),
        resources=part.count("resources"),
        from_state_dir=part.flag("fromStateDir"),
        warnings=part.texts("warnings"),
        differs_since=part.time_or_none("differsSince"),
        problems=part.texts("problems"),
        refused=part.text("refused"),
        pinned=part.texts("pinned"),
    )


def _read_resource(part: Part) -> ResourceStatus:
    return ResourceStatus(
        name=part.text("name"),
        registered=part.flag("registered"),
        reason=part.text("reason"),
        since=part.time_or_none("since"),
        contested=part.text("contested"),
        capacity=part.count("capacity"),
        allocatable=part.count("allocatable"),
        devices=tuple(map(_read_device, part.parts("devices"))),
        not_offered=tuple(map(_read_not_offered, part.parts("notOffered"))),
    )


def _read_device(part: Part) -> DeviceStatus:
    return DeviceStatus(
        id=part.text("id"),
        healthy=part.one_of("state", *_HEALTH.values()) == _HEALTH[True],
        path=part.text("path"),
        reason=part.text("reason"),
        since=part.time_or_none("since"),
        shares=part.count("shares"),
        numa_nodes=part.counts("numaNodes"),
        nodes=part.texts("nodes"),
    )


def _read_not_offered(part: Part) -> NotOfferedStatus:
    return NotOfferedStatus(path=part.text("path"), reason=part.text("reason"))


def _read_event(part: Part) -> Event:
    return Event(
        time=part.time("time"),
        level=part.one_of("level", "info", "warning", "error"),
        message=part.text("message"),
        resource=part.text("resource"),
        device=part.text("device"),
    )
