"""genericdp.devices.making: probes and hooks of a resource for one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.making import bound_hooks, bound_probes
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.file import FileCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.health.kinds.open import OpenCheck
from genericdp.model import Command, Hook, Probe, Selector
from genericdp.template import UnusableValueError, parse
from tests.devices.known import Known
from tests.devices.making import decide, node, refusals, resource
from tests.selecting import udev_selector

if TYPE_CHECKING:
    from genericdp.model import Check
    from genericdp.template import Template

NAMES = {
    "device.path": "/dev/gpu0",
    "device.id": "0000:3b:00.0",
    "property.LABEL": "a *(b)$",
    "attribute.low": "1f",
    "attribute.nothing": "",
    "attribute.infinite": "inf",
    "attribute.huge": f"0x{'f' * 60_000}",
    "attribute.long": "f" * 255,
    "attribute.odd": "5\x1b[2J",
}
XID = r"Xid \((?P<address>[^)]+)\): (?P<code>\d+)"


def lookup(scope: str, name: str, /) -> str | None:
    return NAMES.get(f"{scope}.{name}")


def command(*argv: str, **env: str) -> Command[Template]:
    return Command(
        argv=tuple(map(parse, argv)), env={name: parse(text) for name, text in env.items()}
    )


def executed(*argv: str, **env: str) -> ExecCheck[Template]:
    return ExecCheck(command=command(*argv, **env))


@pytest.mark.parametrize(
    ("asked", "check"),
    [
        (
            executed("/bin/check", "$(device.path)", "$$(id)=$(device.id)", MODE="$(node.x:-q)"),
            ExecCheck(
                command=Command(
                    argv=("/bin/check", "/dev/gpu0", "$(id)=0000:3b:00.0"), env={"MODE": "q"}
                )
            ),
        ),
        # No shell and no second pass sees it: it is one argument, as it is.
        (
            executed("/bin/check", "$(property.LABEL)"),
            ExecCheck(command=Command(argv=("/bin/check", "a *(b)$"))),
        ),
        (
            FileCheck(path=parse("/sys/gpus/$(device.id)/state"), equals=parse("$(device.id) ok")),
            FileCheck(path="/sys/gpus/0000:3b:00.0/state", equals="0000:3b:00.0 ok"),
        ),
        (
            FileCheck(path=parse("/sys/t"), regex="$(device.id)", min=parse("-1"), changes=True),
            FileCheck(path="/sys/t", regex="$(device.id)", min=-1, changes=True),
        ),
        (
            FileCheck(path=parse("/sys/t"), min=parse("0x$(attribute.low)"), max=parse("85.5")),
            FileCheck(path="/sys/t", min=31, max=85.5),
        ),
        (OpenCheck(mode="r"), OpenCheck(mode="r")),
        (
            KernelLogCheck(
                regex=XID, where={"address": parse("$(device.id)")}, ignore={"code": ("13",)}
            ),
            KernelLogCheck(regex=XID, where={"address": "0000:3b:00.0"}, ignore={"code": ("13",)}),
        ),
    ],
)
def test_a_probe_has_its_templates_expanded(asked: Check, check: Check) -> None:
    probe = Probe(check=asked, period_seconds=3)
    (bound,) = bound_probes(resource("gpu", health=(probe,)), lookup)
    assert bound.probe is probe
    assert bound.check == check


def test_probes_stay_in_the_order_of_the_config() -> None:
    probes = tuple(Probe(check=OpenCheck(mode=mode)) for mode in ("w", "r", "rw"))
    bound = bound_probes(resource("gpu", health=probes), lookup)
    assert [one.check for one in bound] == [OpenCheck(mode=mode) for mode in ("w", "r", "rw")]


def test_each_hook_has_its_templates_expanded_and_its_own_time() -> None:
    asked = {
        "allocate": Hook(command=command("/bin/init", "$(device.id)"), timeout_seconds=4),
        "preStart": Hook(command=command("/bin/reset", AT="$(device.path)"), timeout_seconds=20),
    }
    assert bound_hooks(resource("gpu", hooks=asked), lookup) == {
        "allocate": Hook(command=Command(argv=("/bin/init", "0000:3b:00.0")), timeout_seconds=4),
        "preStart": Hook(
            command=Command(argv=("/bin/reset",), env={"AT": "/dev/gpu0"}), timeout_seconds=20
        ),
    }


def test_a_resource_without_probes_and_hooks_has_none() -> None:
    assert bound_probes(resource("gpu"), lookup) == ()
    assert bound_hooks(resource("gpu"), lookup) == {}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("state", "'state' gives 'state', which is not an absolute path"),
        ("$(device.id)/state", "gives '0000:3b:00.0/state', which is not an absolute path"),
        ("/sys/$(property.LABEL)/../x", "which holds '..'"),
        ("/sys$(property.SUB)", "it has no '$(property.SUB)'"),
    ],
)
def test_the_path_of_a_file_must_be_absolute_and_whole(path: str, reason: str) -> None:
    probe = Probe(check=FileCheck(path=parse(path), equals=parse("1")))
    with pytest.raises(UnusableValueError) as raised:
        bound_probes(resource("gpu", health=(probe,)), lookup)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("low", "high", "reason"),
    [
        (
            "$(device.id)",
            "9",
            "'$(device.id)' gives '0000:3b:00.0', which is no number",
        ),
        ("1", "$(attribute.nothing)", "'$(attribute.nothing)' gives '', which is no number"),
        ("$(attribute.infinite)", None, "'$(attribute.infinite)' gives 'inf', which is no number"),
        ("-$(attribute.low)", None, "'-$(attribute.low)' gives '-1f', which is no number"),
        ("$(attribute.odd)", None, r"'$(attribute.odd)' gives '5\x1b[2J', which is no number"),
        (None, "$(usb.serial)", "it has no '$(usb.serial)'"),
        ("10", "$(usb.x:-9)", "min '10' gives 10, which is more than 9 of max '$(usb.x:-9)'"),
        (
            "0x$(attribute.long)",
            "1e300",
            "min '0x$(attribute.long)' gives 1.12355820928895e+307,"
            " which is more than 1e+300 of max '1e300'",
        ),
        (
            "$(attribute.huge)",
            "1e300",
            f"'$(attribute.huge)' gives '0x{'f' * 197}…', which is no number",
        ),
    ],
)
def test_limits_must_be_numbers_in_order(low: str | None, high: str | None, reason: str) -> None:
    check = FileCheck(
        path=parse("/sys/t"),
        min=None if low is None else parse(low),
        max=None if high is None else parse(high),
    )
    with pytest.raises(UnusableValueError) as raised:
        bound_probes(resource("gpu", health=(Probe(check=check),)), lookup)
    assert str(raised.value) == reason


LACKS = "it has no '$(usb.serial)'"


@pytest.mark.parametrize(
    "asked",
    [
        executed("/bin/check", "$(usb.serial)"),
        executed("/bin/check", SERIAL="$(usb.serial)"),
        FileCheck(path=parse("/sys/$(usb.serial)"), equals=parse("1")),
        FileCheck(path=parse("/sys/x"), equals=parse("$(usb.serial)")),
        KernelLogCheck(regex="(?P<a>.)", where={"a": parse("$(usb.serial)")}),
    ],
)
def test_a_device_that_lacks_what_a_probe_names_is_not_offered(
    asked: Check,
) -> None:
    one = resource("gpu", "/dev/gpu0", health=(Probe(check=asked),))
    offers = decide([one], [node("/dev/gpu0", (195, 0))])
    assert offers["example.com/gpu"].devices == {}
    assert refusals(offers, "gpu") == {"/dev/gpu0": LACKS}


@pytest.mark.parametrize("which", ["allocate", "preStart"])
def test_a_device_that_lacks_what_a_hook_names_is_not_offered(which: str) -> None:
    hooks = {which: Hook(command=command("/bin/init", "$(usb.serial)"))}
    offers = decide([resource("gpu", "/dev/gpu*", hooks=hooks)], [node("/dev/gpu0", (195, 0))])
    assert refusals(offers, "gpu") == {"/dev/gpu0": LACKS}


def test_a_device_on_offer_carries_its_probes_and_hooks() -> None:
    one = resource(
        "gpu",
        "/dev/gpu*",
        id="card-$(device.minor)",
        health=(Probe(check=executed("/bin/check", "$(device.id)")),),
        hooks={"allocate": Hook(command=command("/bin/init", "$(device.path)"))},
    )
    offers = decide([one], [node(f"/dev/gpu{i}", (195, i)) for i in range(2)])
    devices = [each.device for each in offers["example.com/gpu"].devices.values()]
    assert [each.probes[0].check for each in devices] == [
        ExecCheck(command=Command(argv=("/bin/check", f"card-{i}"))) for i in range(2)
    ]
    hooks = [each.hooks["allocate"] for each in devices]
    assert [hook.command.argv[1] for hook in hooks] == ["/dev/gpu0", "/dev/gpu1"]


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"USEC_INITIALIZED": "8411207"}, 8.411207),
        ({"USEC_INITIALIZED": "soon"}, None),
        ({}, None),
    ],
)
def test_a_device_knows_since_when_udev_knows_it(
    recorded: dict[str, str], expected: float | None
) -> None:
    """Older lines of the kernel's log are about what was there before."""
    known = Known()
    syspath = "/sys/devices/virtual/block/zram0"
    known.add(syspath, "block", "disk", number=(252, 0), properties=recorded)
    file = node("/dev/zram0", (252, 0), syspath=syspath, block=True)
    match = Selector(candidates=udev_selector(subsystem=("block",)))
    offers = decide((resource("disk", match),), [file], facts=known)
    (one,) = offers["example.com/disk"].devices.values()
    assert one.device.known_since == expected
