"""States to be shown: one with everything in it, one with nothing."""

from __future__ import annotations

from genericdp.config.loaded import ConfigState
from genericdp.host.descriptors import Supply
from genericdp.status.model import (
    DeviceStatus,
    Event,
    NotOfferedStatus,
    ResourceStatus,
    Status,
)

NOW = 1_795_287_600.0
SCRIPT = "FT232R_<script>alert(1)</script>"
FOLDER = "/var/lib/kubelet/device-plugins"


def device(number: int, *, name: str = "ttyUSB", **fields: object) -> DeviceStatus:
    """Give a device that is Healthy, unless the fields say otherwise."""
    path = f"/dev/{name}{number}"
    known: dict[str, object] = {
        "id": f"{name}{number}",
        "healthy": True,
        "path": path,
        "since": NOW - 90_000 + number,
        "nodes": (path,),
    }
    return DeviceStatus(**{**known, **fields})  # type: ignore[arg-type]


def many(resources: int, devices: int) -> Status:
    """Give a state with so many resources of so many devices each, one in 50 Unhealthy."""
    return Status(
        version="0.1.0",
        node="edge-1",
        time=NOW,
        started=NOW - 300_000,
        kubelet_folder=FOLDER,
        kubelet_present=True,
        config=ConfigState(digest="ab" * 32, since=NOW - 4000, files=("/etc/genericdp/a.yaml",)),
        resources=tuple(
            ResourceStatus(
                name=f"example.com/kind-{at}",
                registered=True,
                since=NOW - 4000,
                capacity=devices,
                allocatable=devices - -(-devices // 50),
                devices=tuple(
                    device(n, reason="", healthy=True)
                    if n % 50
                    else device(n, healthy=False, reason=f"/dev/ttyUSB{n} does not exist")
                    for n in range(devices)
                ),
            )
            for at in range(resources)
        ),
    )


EMPTY = Status(
    version="0.1.0",
    node="edge-1",
    time=NOW,
    started=NOW - 12,
    kubelet_folder=FOLDER,
    kubelet_present=False,
    kubelet_reason=f"there is no {FOLDER}/kubelet.sock",
    not_ready=("no config is in force", "there is no kubelet.sock"),
    config=ConfigState(
        differs_since=NOW - 11,
        problems=("/etc/genericdp/devices.yaml:1:1: it does not exist",),
    ),
)

_SERIAL = ResourceStatus(
    name="example.com/serial",
    registered=True,
    since=NOW - 273_000,
    capacity=6,
    allocatable=3,
    devices=(
        device(0),
        device(
            1,
            healthy=False,
            since=NOW - 312,
            reason=(
                "exec /usr/local/bin/check-modem --timeout 2 --device /dev/ttyUSB1: exit code 3:"
                " modem does not answer to AT within 2 s (tried 3 times, last answer: '+CME ERROR:"
                " SIM busy'); the last line of 14"
            ),
        ),
        device(2, healthy=False, since=NOW - 42, reason="/dev/ttyUSB2 does not exist"),
        device(3),
        device(4, id=SCRIPT, path="/dev/serial/by-id/usb-x", nodes=("/dev/ttyUSB4",)),
        device(5, healthy=False, since=NOW - 3, reason="not probed yet \u202egnp.exe\nsecond line"),
    ),
    not_offered=(
        NotOfferedStatus(path="/dev/ttyUSB7", reason="usb.serial is not known, and id needs it"),
        NotOfferedStatus(path="/dev/ttyUSB8", reason="excluded by .resources[0].exclude[1]"),
    ),
)
_GPU = ResourceStatus(
    name="example.com/gpu",
    registered=True,
    since=NOW - 273_000,
    capacity=16,
    allocatable=16,
    devices=tuple(
        device(
            n,
            name="renderD12",
            shares=4,
            numa_nodes=(n % 2,),
            nodes=(f"/dev/dri/card{n}", f"/dev/dri/renderD12{n}"),
        )
        for n in range(4)
    ),
)
_FUSE = ResourceStatus(
    name="example.com/fuse",
    registered=True,
    since=NOW - 500,
    contested="an instance of genericdp in pid 4711 (genericdp-7c9f)",
    capacity=100,
    allocatable=100,
    devices=(
        device(0, name="fuse", id="fuse", nodes=("/dev/fuse",), path="/dev/fuse", shares=100),
    ),
)
_LOOPS = ResourceStatus(
    name="example.com/loop",
    registered=True,
    since=NOW - 273_000,
    capacity=64,
    allocatable=63,
    devices=tuple(
        device(
            n,
            name="loop",
            healthy=n != 40,
            reason="" if n != 40 else "kernel log: I/O error, dev loop40, sector 0",
        )
        for n in range(64)
    ),
)
_NET = ResourceStatus(
    name="hardware.example.com/infiniband-with-a-rather-long-name",
    registered=False,
    since=NOW - 30,
    reason="the kubelet refused it: rpc error: code = Unknown desc = failed to dial device plugin",
)
_KINDS = (
    ("info", "example.com/serial", "ttyUSB1", "Unhealthy: modem does not answer to AT within 2 s"),
    ("warning", "example.com/fuse", "", "another instance serves it, too"),
    ("error", "", "", "config refused: 2 problems, the one in force goes on"),
    ("info", "", "", "config in force: 5 resources, +1 -0 ~2 (/etc/genericdp/devices.yaml)"),
    ("info", "example.com/gpu", "", "registered"),
)

RICH = Status(
    version="0.1.0",
    node="edge-worker-07.rack-2.example.com",
    time=NOW,
    started=NOW - 273_600,
    kubelet_folder=FOLDER,
    kubelet_present=True,
    not_ready=(f"{_NET.name}: not registered: {_NET.reason}",),
    config=ConfigState(
        digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        since=NOW - 273_500,
        files=("/etc/genericdp/devices.yaml", "/etc/genericdp/network.yaml"),
        policy="/etc/genericdp-policy/policy.yaml",
        policy_digest="4fb8a80745d3ad6bc2a1ffbf3ce5ac4b3f4d8c2cbd3a5bf5f1a2b3c4d5e6f708",
        resources=7,
        warnings=(
            "/etc/genericdp/devices.yaml:14:7: .resources[1].hooks: with replicas above 1, hooks of"
            " one container may run beside those of another",
        ),
        differs_since=NOW - 95,
        refused="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        problems=(
            "/etc/genericdp/devices.yaml:5:13: .resources[1].matches: unknown key 'matches'"
            " (did you mean 'match'?)",
            "/etc/genericdp/devices.yaml:9:15: .resources[2].replicas: 0 is less than 1",
        ),
        pinned=("/etc/genericdp/network.yaml is a subPath mount: it never changes here",),
    ),
    descriptors=Supply(used=57, most=1_048_576),
    resources=(_GPU, _SERIAL, _FUSE, _LOOPS, _NET),
    events=tuple(
        Event(time=NOW - 4 - (299 - n) ** 1.8, level=level, resource=name, device=one, message=text)
        for n in range(300)
        for level, name, one, text in [_KINDS[n % len(_KINDS)]]
    ),
)
