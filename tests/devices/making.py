"""Values for tests of deciding code: files, resources, and one pass over them without a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp import glob
from genericdp.devices import decide as deciding
from genericdp.devices.inventory import FoundFile, Identity, Look, natural_key
from genericdp.kubelet.servicer import entry_bytes
from genericdp.model import (
    DeviceNodeSelector,
    EnvVar,
    FileType,
    Inject,
    PathSelector,
    Place,
    Resource,
    Selector,
)
from genericdp.template import parse

from tests.devices.known import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.devices.decide import Decision, DeviceLists
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.held import Held

PLACE = Place(file="test.yaml", line=1, column=1)


def node(
    path: str,
    number: tuple[int, int],
    *,
    target: str = "",
    inode: int = 1,
    syspath: str | None = None,
    plugged: str = "",
    refusal: str = "",
    block: bool = False,
) -> FoundFile:
    """A device node under one of its names."""
    return FoundFile(
        path=path,
        target=target or path,
        type=FileType.BLOCK if block else FileType.CHAR,
        identity=Identity(inode=inode, device_number=number, syspath=syspath, plugged=plugged),
        refusal=refusal,
    )


def selector(*globs: str) -> Selector:
    """A path selector."""
    return Selector(candidates=PathSelector(globs=globs))


def nodes(path: str, *, optional: bool = False) -> DeviceNodeSelector:
    """An entry of ``inject.devices``."""
    return DeviceNodeSelector(path=parse(path), optional=optional)


def inject(*devices: DeviceNodeSelector, env: Mapping[str, str] | None = None) -> Inject:
    """Injected things; without devices: the candidates' own nodes."""
    variables = {name: EnvVar(value=parse(text)) for name, text in (env or {}).items()}
    return Inject(devices=devices or None, env=variables)


def resource(
    name: str,
    *match: str | Selector,
    exclude: Iterable[str] = (),
    id: str | None = None,  # noqa: A002  # the key's name
    given: Inject | None = None,
    **keys: object,
) -> Resource:
    """A resource, ``example.com/NAME``, of path selectors."""
    return Resource(
        name=f"example.com/{name}",
        place=PLACE,
        match=tuple(entry if isinstance(entry, Selector) else selector(entry) for entry in match),
        exclude=tuple(map(selector, exclude)),
        id=None if id is None else parse(id),
        inject=given or Inject(),
        **keys,  # type: ignore[arg-type]
    )


def decide(
    resources: Iterable[Resource],
    files: Iterable[FoundFile],
    previous: Mapping[str, DeviceList] | None = None,
    **keys: Any,
) -> DeviceLists:
    """Give what the resources offer if these are all the files of the host."""
    return decision(resources, files, previous, **keys).lists


def decision(
    resources: Iterable[Resource],
    files: Iterable[FoundFile],
    previous: Mapping[str, DeviceList] | None = None,
    *,
    now: float = 0.0,
    hanging: Iterable[str] = (),
    held: Held | None = None,
    facts: Known | None = None,
) -> Decision:
    """Decide about the resources if these are all the files of the host."""
    present = sorted(files, key=lambda file: natural_key(file.path))
    stuck = frozenset(hanging)

    def look(pattern: str) -> Look | None:
        if pattern in stuck:
            return None
        return Look(files=tuple(file for file in present if finds(pattern, file.path)))

    host = facts or Known()
    host.look = look
    return deciding.decide(
        tuple(resources),
        host,
        node_name="node-1",
        previous=previous or {},
        now=now,
        held=held,
        entry_bytes=entry_bytes,
    )


def finds(pattern: str, path: str) -> bool:
    """Return whether a glob finds a path."""
    segments, parts = pattern.split("/"), path.split("/")
    return len(segments) == len(parts) and all(map(glob.matches, segments, parts))


def healthy(offers: Mapping[str, DeviceList], name: str) -> list[str]:
    """The ids that are on offer and Healthy."""
    offered = offers[f"example.com/{name}"].devices
    return [device_id for device_id, entry in offered.items() if entry.is_healthy]


def unhealthy(offers: Mapping[str, DeviceList], name: str) -> dict[str, str]:
    """The ids that are on offer and Unhealthy, with the reasons."""
    offered = offers[f"example.com/{name}"].devices
    return {device_id: entry.text for device_id, entry in offered.items() if not entry.is_healthy}


def refusals(offers: Mapping[str, DeviceList], name: str) -> dict[str, str]:
    """Candidates that are not offered, with the reasons."""
    return {entry.device.path: entry.text for entry in offers[f"example.com/{name}"].not_offered}
