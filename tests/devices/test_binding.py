"""Facts of probes and hooks that only a run shows: commands, patterns, times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.health.kinds.open import OpenCheck
from genericdp.model import Command, Hook, Probe, Selector
from genericdp.template import parse

from tests.devices.known import Known
from tests.devices.making import decide, node, resource
from tests.selecting import udev_selector

if TYPE_CHECKING:
    from genericdp.devices.device import Device
    from genericdp.template import Template

XID = r"Xid \((?P<address>[^)]+)\): (?P<code>\d+)"
DISK = "/sys/devices/virtual/block/zram0"


def command(*argv: str, **env: str) -> Command[Template]:
    return Command(
        argv=tuple(map(parse, argv)), env={name: parse(text) for name, text in env.items()}
    )


def offered(properties: dict[str, str], **keys: object) -> Device:
    """Return the only device of a resource."""
    known = Known()
    known.add(DISK, "block", "disk", number=(252, 0), properties=properties)
    file = node("/dev/zram0", (252, 0), syspath=DISK, block=True)
    match = Selector(candidates=udev_selector(subsystem=("block",)))
    lists = decide([resource("disk", match, **keys)], [file], facts=known)  # type: ignore[arg-type]
    (entry,) = lists["example.com/disk"].devices.values()
    return entry.device


def test_a_probe_has_its_templates_expanded_once_and_stays_in_its_place() -> None:
    """No shell and no second pass sees a string: it is one argument, as it is."""
    asked = (
        OpenCheck(mode="w"),
        ExecCheck(
            command=command("/c", "$(device.path)", "$$(id)=$(device.id)", A="$(usb.serial:-q)")
        ),
        ExecCheck(command=command("/c", "$(property.LABEL)")),
        KernelLogCheck(
            regex=XID, where={"address": parse("$(device.id)")}, ignore={"code": ("13",)}
        ),
        OpenCheck(mode="r"),
    )
    probes = tuple(Probe(check=check, period_seconds=3) for check in asked)
    bound = offered({"LABEL": "a *(b)$(x)"}, health=probes).probes
    assert [entry.probe for entry in bound] == [*probes]
    assert [item.check for item in bound] == [
        asked[0],
        ExecCheck(command=Command(argv=("/c", "/dev/zram0", "$(id)=zram0"), env={"A": "q"})),
        ExecCheck(command=Command(argv=("/c", "a *(b)$(x)"))),
        KernelLogCheck(regex=XID, where={"address": "zram0"}, ignore={"code": ("13",)}),
        asked[4],
    ]


def test_each_hook_has_its_templates_expanded_and_its_own_time() -> None:
    asked = {
        "allocate": Hook(command=command("/bin/init", "$(device.id)"), timeout_seconds=4),
        "preStart": Hook(command=command("/bin/reset", AT="$(device.path)"), timeout_seconds=20),
    }
    reset = Command(argv=("/bin/reset",), env={"AT": "/dev/zram0"})
    assert offered({}, hooks=asked).hooks == {
        "allocate": Hook(command=Command(argv=("/bin/init", "zram0")), timeout_seconds=4),
        "preStart": Hook(command=reset, timeout_seconds=20),
    }


@pytest.mark.parametrize(
    ("text", "expected"), [("8411207", 8.411207), ("soon", None)], ids=["a time", "no time"]
)
def test_a_device_knows_since_when_udev_knows_it(text: str, expected: float | None) -> None:
    """Older lines of the kernel's log are about what was there before."""
    device = offered({"USEC_INITIALIZED": text})
    assert device.known_since == expected
    assert (device.probes, device.hooks) == ((), {})
