"""Test what ``/status`` answers: with everything in it, with nothing, and with very much."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Document = dict[str, Any]

NOW = 1_795_287_600.0
SCRIPT = "FT232R_<script>alert(1)</script>"
NO = "nothing on this node matches"
DIRECTORY = "/var/lib/kubelet/device-plugins"


def at(seconds: float) -> str:
    """Return a time as ``/status`` has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def device(number: int, *, name: str = "ttyUSB", reason: str = "", **keys: object) -> Document:
    """Return a device, Unhealthy if there is a reason."""
    path = f"/dev/{name}{number}"
    return {
        "id": f"{name}{number}",
        "state": "Unhealthy" if reason else "Healthy",
        "reason": reason,
        "since": at(NOW - 90_000 + number),
        "path": path,
        "shares": 1,
        "numaNodes": [],
        "nodes": [path],
        "model": "",
        "serial": "",
        "driver": "",
        "probes": [],
        "holders": [],
        **keys,
    }


def resource(name: str, *devices: Document, **keys: object) -> Document:
    """Return a registered resource."""
    return {
        "name": name,
        "registered": True,
        "reason": "",
        "since": at(NOW - 273_000),
        "contested": "",
        "allocated": sum(bool(device["holders"]) for device in devices),
        "expected": None,
        "capacity": sum(device["shares"] for device in devices),
        "allocatable": sum(
            each_device["shares"] for each_device in devices if not each_device["reason"]
        ),
        "empty": "" if devices else f"{NO} match[0] {{path: /dev/{name}}} (a.yaml:5)",
        "emptyCause": "" if devices else "nothing_found",
        "devices": list(devices),
        "notOffered": [],
        **keys,
    }


def config(**keys: object) -> Document:
    """Return what is reported about a config, of none unless the keys say so."""
    return {
        "active": bool(keys.get("digest")),
        "digest": "",
        "since": None,
        "files": [],
        "policy": "",
        "policyDigest": "",
        "resources": 0,
        "fromStateDir": False,
        "warnings": [],
        "differsSince": None,
        "problems": [],
        "refused": "",
        "pinned": [],
        **keys,
    }


def status(*resources: Document, **keys: object) -> Document:
    """Return a status; without other keys, all is well."""
    lacking = [
        f"{resource['name']}: not registered: {resource['reason']}"
        for resource in resources
        if not resource["registered"]
    ]
    found = {
        "version": "0.1.0",
        "node": "edge-1",
        "time": at(NOW),
        "started": at(NOW - 300_000),
        "notReady": lacking,
        "kubelet": {"directory": DIRECTORY, "present": True, "reason": ""},
        "config": config(
            digest="ab" * 32, since=at(NOW - 4000), files=["/etc/genericdp/a.yaml"], resources=1
        ),
        "descriptors": None,
        "holders": {"known": True, "reason": ""},
        "resources": list(resources),
        "events": [],
        **keys,
    }
    return {**found, "ready": not found["notReady"]}


def many(resources: int, devices: int) -> Document:
    """Return a status of this many resources of this many devices each, one in 50 Unhealthy."""
    return status(
        *(
            resource(
                f"example.com/kind-{number}",
                *(
                    device(n, reason="" if n % 50 else f"/dev/ttyUSB{n} does not exist")
                    for n in range(devices)
                ),
            )
            for number in range(resources)
        )
    )


def held(holder: str, share: str, since: str | None = None) -> Document:
    """Return who holds a share."""
    return {"share": share, "holder": holder, "pods": [], "since": since}


def expected(count: int, code: str = "", reason: str = "") -> Document:
    """Return that exactly this many devices are expected."""
    return {"min": count, "max": count, "code": code, "reason": reason}


def probe(name: str, result: str = "success", reason: str = "") -> Document:
    """Return the latest result of a probe."""
    return {"probe": name, "result": result, "reason": reason}


EMPTY = status(
    started=at(NOW - 12),
    kubelet={
        "directory": DIRECTORY,
        "present": False,
        "reason": f"there is no {DIRECTORY}/kubelet.sock",
    },
    notReady=["no config is active", "there is no kubelet.sock"],
    config=config(
        differsSince=at(NOW - 11), problems=["/etc/genericdp/devices.yaml:1:1: it does not exist"]
    ),
)

_MODEM = (
    "exec /usr/local/bin/check-modem --timeout 2 --device /dev/ttyUSB1: exit code 3: modem does not"
    " answer to AT within 2 s (tried 3 times, last answer: '+CME ERROR: SIM busy'); the last line"
    " of 14"
)
SERIAL = resource(
    "example.com/serial",
    device(
        0,
        model="FT232R USB UART",
        serial="A50285BI",
        driver="ftdi_sio",
        holders=[held("pod home/zigbee2mqtt-0", "ttyUSB0", at(NOW - 81_000))],
    ),
    device(
        1,
        since=at(NOW - 312),
        reason=_MODEM,
        model="FT232R USB UART",
        serial="A50285BJ",
        driver="ftdi_sio",
        probes=[probe("exec-0", "failure", "exit code 3"), probe("kernelLog-1", "")],
    ),
    device(2, since=at(NOW - 42), reason="/dev/ttyUSB2 does not exist"),
    device(3, probes=[probe("exec-0"), probe("kernelLog-1", "")]),
    device(4, id=SCRIPT, path="/dev/serial/by-id/usb-x", nodes=["/dev/ttyUSB4"], model=SCRIPT),
    device(5, since=at(NOW - 3), reason="not probed yet \u202egnp.exe\nsecond line"),
    notOffered=[
        {"path": "/dev/ttyUSB7", "reason": "usb.serial is not known, and id needs it"},
        {"path": "/dev/ttyUSB8", "reason": "excluded by .resources[0].exclude[1]"},
    ],
    expected=expected(
        6, "too_few", "3 devices Healthy, expected 6; not Healthy: ttyUSB1, ttyUSB2, ttyUSB5"
    ),
)
GPU = resource(
    "example.com/gpu",
    *(
        device(
            n,
            name="renderD12",
            shares=4,
            numaNodes=[n % 2],
            nodes=[f"/dev/dri/card{n}", f"/dev/dri/renderD12{n}"],
            model="GA102GL [RTX A5000]",
            driver="i915",
            holders=[
                held("pod ml/train-0", f"renderD12{n}::{i}", at(NOW - 600) if i else None)
                for i in range(n)
            ],
        )
        for n in range(4)
    ),
)
FUSE = resource(
    "example.com/fuse",
    device(0, name="fuse", id="fuse", nodes=["/dev/fuse"], path="/dev/fuse", shares=100),
    since=at(NOW - 500),
    contested="an instance of genericdp in pid 4711 (genericdp-7c9f)",
)
LOOPS = resource(
    "example.com/loop",
    *(
        device(
            n, name="loop", reason="" if n != 40 else "kernel log: I/O error, dev loop40, sector 0"
        )
        for n in range(64)
    ),
)
NET = resource(
    "hardware.example.com/infiniband-with-a-rather-long-name",
    registered=False,
    since=at(NOW - 30),
    reason="the kubelet refused it: rpc error: code = Unknown desc = failed to dial device plugin",
)
_KINDS = (
    ("info", "example.com/serial", "ttyUSB1", "Unhealthy: modem does not answer to AT within 2 s"),
    ("warning", "example.com/fuse", "", "another instance serves it, too"),
    ("error", "", "", "config refused: 2 problems, the one active continues"),
    ("info", "", "", "active config: 5 resources, +1 -0 ~2 (/etc/genericdp/devices.yaml)"),
    ("info", "example.com/gpu", "", "registered"),
)
REFUSED = config(
    digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    since=at(NOW - 273_500),
    files=["/etc/genericdp/devices.yaml", "/etc/genericdp/network.yaml"],
    policy="/etc/genericdp-policy/policy.yaml",
    policyDigest="4fb8a80745d3ad6bc2a1ffbf3ce5ac4b3f4d8c2cbd3a5bf5f1a2b3c4d5e6f708",
    resources=7,
    warnings=[
        "/etc/genericdp/devices.yaml:14:7: .resources[1].hooks: with replicas above 1, hooks of"
        " one container may run next to those of another"
    ],
    differsSince=at(NOW - 95),
    refused="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    problems=[
        "/etc/genericdp/devices.yaml:5:13: .resources[1].matches: unknown key 'matches'"
        " (did you mean 'match'?)",
        "/etc/genericdp/devices.yaml:9:15: .resources[2].replicas: 0 is less than 1",
    ],
    pinned=["/etc/genericdp/network.yaml is a subPath mount: it never changes here"],
)
RICH = status(
    GPU,
    SERIAL,
    FUSE,
    LOOPS,
    NET,
    node="edge-worker-07.rack-2.example.com",
    started=at(NOW - 273_600),
    config=REFUSED,
    descriptors={"used": 57, "most": 1_048_576, "short": False},
    events=[
        {
            "time": at(NOW - 4 - (299 - n) ** 1.8),
            "level": level,
            "resource": name,
            "device": entry,
            "message": text,
        }
        for n in range(300)
        for level, name, entry, text in [_KINDS[n % len(_KINDS)]]
    ],
)
"""Five resources: GPUs, serial ports with failing probes, a contested one, loops, a refused one."""


def fleet(count: int) -> Document:
    """Return RICH with this many resources, most of them with one device or empty."""
    kinds = [f"example.com/kind-{number}" for number in range(count - len(RICH["resources"]))]
    return {
        **RICH,
        "resources": [
            *RICH["resources"],
            *(
                resource(
                    name, *([device(n, name="video", model="HD Webcam C270")] if n % 3 else [])
                )
                for n, name in enumerate(kinds)
            ),
        ],
    }
