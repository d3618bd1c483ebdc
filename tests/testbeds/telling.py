"""Shows as JSON what devices there are: by libudev (through pyudev), and by our own reader.

    python -m tests.testbeds.telling [DIRECTORY]

``{"pyudev": {SYSPATH: …}, "genericdp": {SYSPATH: …}}``; with a directory, ours of that alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from genericdp.host.root import Root
from genericdp.host.sysfs import SysDevices

Told = dict[str, dict[str, Any]]


def told_by_pyudev() -> Told:
    """Show what libudev says of each device of this machine."""
    import pyudev

    return {
        device.sys_path: {
            "name": device.sys_name,
            # Before the driver is requested, which libudev then adds to them.
            "properties": _comparable(dict(device.properties)),
            "subsystem": device.subsystem,
            "devtype": device.device_type or "",
            "driver": device.driver or "",
            "tags": sorted(device.tags),
            "links": sorted(device.device_links),
            "file": device.device_node or "",
            "number": device.device_number,
            "recorded": device.is_initialized,
            "ancestors": [above.sys_path for above in device.ancestors],
        }
        for device in pyudev.Context().list_devices()
    }


def told_by_genericdp(root: Root) -> Told:
    """Show what our reader says of each device below a root."""
    devices = SysDevices(root)
    return {
        device.syspath: {
            "name": device.name,
            "properties": _comparable(dict(device.properties)),
            "subsystem": device.subsystem,
            "devtype": device.devtype,
            "driver": device.driver,
            "tags": sorted(device.tags),
            "links": sorted(device.links),
            "file": device.device_file,
            "number": os.makedev(*device.number) if device.number else 0,
            "recorded": device.recorded,
            "ancestors": [above.syspath for above in devices.ancestors(device)],
        }
        for subsystem in devices.subsystems()
        for device in devices.members(subsystem)
    }


def _comparable(properties: dict[str, str]) -> dict[str, object]:
    """Sort what libudev keeps in sets, so in no order."""
    separators = {"DEVLINKS": " ", "TAGS": ":", "CURRENT_TAGS": ":"}
    return {
        key: sorted(value.split(separators[key])) if key in separators else value
        for key, value in properties.items()
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps({"genericdp": told_by_genericdp(Root(Path(sys.argv[1])))}))
    else:
        ours = told_by_genericdp(Root(Path("/")))
        print(json.dumps({"pyudev": told_by_pyudev(), "genericdp": ours}))
