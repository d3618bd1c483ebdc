"""States of a daemon as ``/metrics`` and ``/status`` take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.devices.device import Device, Unmade
from genericdp.devices.devicelist import DeviceList, Entry
from genericdp.devices.inventory import Identity
from genericdp.devices.transitions import Event
from genericdp.errors import Problem
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host.descriptors import Supply
from genericdp.model import (
    Command,
    Expectation,
    Hook,
    PathSelector,
    Place,
    Probe,
    Resource,
    Selector,
)
from genericdp.policy import SECTIONS, Policy, Section
from genericdp.reasons import Code, Reason
from genericdp.status.state import DaemonState, ResourceState
from genericdp.template import Template

NAME = "example.com/a"
_SECTIONS: dict[str, Any] = {key: Section(says="") for key in SECTIONS}
POLICY = Policy(file="/etc/p.yaml", sha256="cd" * 32, **_SECTIONS)
IN_FORCE = ConfigState(loaded=Loaded(digest="ab" * 32, policy=POLICY), since=1500.0)
REFUSED = Loaded(
    digest="ef", problems=(Problem(file="a.yaml", line=1, column=1, path="", message="wrong"),)
)
_COMMAND = Command(argv=(Template(("/bin/true",)),))


def declared(name: str = NAME, **keys: Any) -> Resource:
    """Return a resource of a config with an ``exec`` and a ``kernelLog`` probe and both hooks."""
    known: dict[str, Any] = {
        "health": (
            Probe(check=ExecCheck(command=_COMMAND)),
            Probe(check=KernelLogCheck(regex="x")),
        ),
        "hooks": {"allocate": Hook(command=_COMMAND), "preStart": Hook(command=_COMMAND)},
    }
    return Resource(
        name=name,
        place=Place(file="a.yaml", line=4, column=5),
        match=(Selector(candidates=PathSelector(globs=("/dev/a*",))),),
        **{**known, **keys},
    )


def device(number: int, *, reason: str = "", device_id: str = "") -> Entry[Device]:
    """Return a device that is listed, Unhealthy if there is a reason."""
    path = f"/dev/a{number}"
    sample = Device(
        id=device_id or f"a{number}", key=path, path=path, identity=Identity(inode=number)
    )
    entry = Entry(device=sample, since=0.0).after(Event.MADE)
    return entry.after(Event.GONE, Reason(Code.GONE, reason)) if reason else entry


def devices(*listed: Entry[Device], not_offered: Mapping[str, str] | None = None) -> DeviceList:
    """Return a list, and what is not in it by path, with the reasons."""
    refused = (
        Entry(device=Unmade(path=path, key=path)).after(Event.REFUSED, Reason(Code.TAKEN, reason))
        for path, reason in (not_offered or {}).items()
    )
    return DeviceList(entries=(*listed, *refused))


def resource(name: str = NAME, *, count: int = 2, **keys: Any) -> ResourceState:
    """Return a registered resource of this many devices, of which the second is Unhealthy."""
    listed = (device(n, reason="gone" if n == 1 else "") for n in range(count))
    known = {
        "resource": declared(name),
        "registered": True,
        "reason": "",
        "contested": "somebody",
        "devices": replace(
            devices(*listed, not_offered={"/dev/x": "odd"}),
            owned=frozenset(),
            expect=Expectation(min=4, max=8),
        ),
        "allocated": 1,
    }
    return ResourceState(**{**known, **keys})


def state(*resources: ResourceState, **keys: Any) -> DaemonState:
    """Return the state of a daemon."""
    known: dict[str, Any] = {
        "node": "node-1",
        "time": 2000.0,
        "started": 1000.0,
        "kubelet": {"directory": "/k", "present": True, "reason": ""},
        "config": IN_FORCE,
        "descriptors": Supply(used=30, most=1024),
        "claims": {"prepared": 0, "gone": 0},
        "resources": resources,
    }
    return DaemonState(**{**known, **keys})
