"""From the parts of a running daemon to its state."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.devices.devicelist import NOTHING
from genericdp.status.model import DeviceStatus, NotOfferedStatus, ResourceStatus, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from genericdp.config.loaded import ConfigState
    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList, ListedDevice
    from genericdp.host.descriptors import Supply
    from genericdp.kubelet.lifecycle import Plugin
    from genericdp.observed import Observed
    from genericdp.status.events import Events
    from genericdp.supervisor import Supervisor

_NO_PLUGIN = "the first look at the host is not over"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What the state is seen in."""

    node: str
    supervisor: Supervisor
    config: Observed[ConfigState]
    descriptors: Observed[Supply | None]
    events: Events
    started: float
    """In seconds since 1970."""


def glance(parts: Parts) -> Callable[[], Status]:
    """Look, on the loop; what this gives makes the state of it, in any thread.

    For ten thousand devices that takes its time.
    """
    standings = tuple(_standings(parts.supervisor))
    kubelet = parts.supervisor.kubelet
    present = kubelet.socket.value is not None
    return partial(
        _status,
        Status(
            version=__version__,
            node=parts.node,
            time=time.time(),  # noqa: TID251  # to be shown
            started=parts.started,
            kubelet_folder=str(kubelet.path),
            kubelet_present=present,
            kubelet_reason="" if present else kubelet.absence.value,
            not_ready=_not_ready(parts.config.value, standings),
            config=parts.config.value,
            descriptors=parts.descriptors.value,
            events=parts.events.last(),
        ),
        standings,
        parts.supervisor.lists.value,
    )


def not_ready(parts: Parts) -> tuple[str, ...]:
    """Return why the daemon is not ready, a line each; none: it is."""
    return _not_ready(parts.config.value, tuple(_standings(parts.supervisor)))


def _standings(supervisor: Supervisor) -> Iterator[ResourceStatus]:
    """Return each resource as it stands with the kubelet, yet without its devices."""
    plugins: Mapping[str, Plugin] = supervisor.plugins
    for name in supervisor.wanted:
        plugin = plugins.get(name)
        if plugin is None:
            yield ResourceStatus(name=name, registered=False, reason=_NO_PLUGIN)
            continue
        state = plugin.registration
        yield ResourceStatus(
            name=name,
            registered=state.active.value,
            reason=state.reason,
            since=state.since,
            contested=state.conflict,
        )


def _not_ready(config: ConfigState, standings: tuple[ResourceStatus, ...]) -> tuple[str, ...]:
    lacking = (
        f"{one.name}: not registered: {one.reason}" for one in standings if not one.registered
    )
    if config.in_force:
        return tuple(lacking)
    first, *more = config.problems or ("it is being read",)
    rest = f" (and {len(more)} more)" if more else ""
    return (f"no config in force: {first}{rest}", *lacking)


def _status(bare: Status, standings: tuple[ResourceStatus, ...], offers: DeviceLists) -> Status:
    resources = tuple(_resource(one, offers.get(one.name, NOTHING)) for one in standings)
    return replace(bare, resources=resources)


def _resource(standing: ResourceStatus, offer: DeviceList) -> ResourceStatus:
    started = time.time() - time.monotonic()  # noqa: TID251  # to be shown
    devices = tuple(_device(one, since=started + one.since) for one in offer.devices.values())
    return replace(
        standing,
        capacity=sum(one.shares for one in devices),
        allocatable=sum(one.shares for one in devices if one.healthy),
        devices=devices,
        not_offered=tuple(
            NotOfferedStatus(path=one.path, reason=one.reason) for one in offer.not_offered
        ),
    )


def _device(one: ListedDevice, *, since: float) -> DeviceStatus:
    device = one.device
    return DeviceStatus(
        id=device.id,
        healthy=not one.unhealthy,
        path=device.path,
        reason=one.unhealthy,
        since=since,
        shares=device.replicas,
        numa_nodes=device.numa_nodes,
        nodes=tuple(node.host_path for node in device.nodes),
    )
