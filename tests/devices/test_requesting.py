"""The nodes that ``inject.devices`` asks for: which are given, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.allocation import edits
from genericdp.devices.device import DeviceSpec
from genericdp.model import DeviceNodeSelector, FileType, Inject
from tests.devices.card import HOST, SELF, given, gpu
from tests.devices.known import ROOT, Known
from tests.devices.making import (
    decide,
    inject,
    node,
    nodes,
    plain,
    refusals,
    resource,
    selector,
    unhealthy,
)

if TYPE_CHECKING:
    from genericdp.devices.inventory import FoundFile


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], ["/dev/gpu0=/dev/gpu0:rw"]),
        ([SELF], ["/dev/gpu0=/dev/gpu0:rw"]),
        ([nodes("$(device.path)", permissions="r")], ["/dev/gpu0=/dev/gpu0:r"]),
        ([nodes("$(device.path)", "/dev/x$(device.minor)")], ["/dev/gpu0=/dev/x0:rw"]),
        ([nodes("$(device.path)", "/dev/mine/")], ["/dev/gpu0=/dev/mine/gpu0:rw"]),
        ([nodes("$(device.path)", "/dev/i$(allocation.index)")], ["/dev/gpu0=/dev/i0:rw"]),
        ([nodes("$(device.path)", "//dev//./x")], ["/dev/gpu0=/dev/x:rw"]),
        (
            [SELF, nodes("/dev/caps/*")],
            [
                "/dev/gpu0=/dev/gpu0:rw",
                "/dev/caps/cap2=/dev/caps/cap2:rw",
                "/dev/caps/cap10=/dev/caps/cap10:rw",
            ],
        ),
        (
            [nodes("/dev/caps/*", "/caps/")],
            ["/dev/caps/cap2=/caps/cap2:rw", "/dev/caps/cap10=/caps/cap10:rw"],
        ),
        ([SELF, nodes("/dev/kfd", optional=True)], ["/dev/gpu0=/dev/gpu0:rw"]),
        ([SELF, nodes("/dev/gpu?", permissions="m")], ["/dev/gpu0=/dev/gpu0:rwm"]),
        ([nodes("/dev/ca*"), SELF, nodes("/dev/gpuctl")], None),
    ],
)
def test_the_nodes_of_inject_are_given(
    entries: list[DeviceNodeSelector], expected: list[str] | None
) -> None:
    if expected is None:  # a wildcard finds folders too, and those are not given
        assert unhealthy(decide([gpu(inject(*entries))], HOST), "gpu") == {
            "gpu0": "/dev/ca* does not exist"
        }
        return
    found = [
        f"{one.host_path}={one.container_path}:{one.permissions}"
        for one in given(inject(*entries)).devices
    ]
    order = [line for line in expected if line in found]
    assert found == order == expected


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([SELF, nodes("/dev/kfd")], "/dev/kfd does not exist"),
        ([SELF, nodes("/dev/kfd*")], "/dev/kfd* does not exist"),
        ([SELF, nodes("/dev/caps")], "/dev/caps: no device node (its type is directory)"),
        ([nodes("/dev/a"), nodes("/dev/b")], "/dev/a does not exist; /dev/b does not exist"),
        ([SELF, nodes("/dev/gpuctl")], "/dev/gpuctl: excluded by the config"),
        ([nodes("/dev/$(device.name)-x")], "/dev/gpu0-x does not exist"),
        ([SELF, nodes("/dev/bad*")], "/dev/bad\\n: its name holds a control character"),
        ([SELF, nodes("/mnt/slow/x")], "looking at /mnt/slow/x does not end"),
    ],
)
def test_what_is_not_there_makes_the_device_unhealthy(
    entries: list[DeviceNodeSelector], reason: str
) -> None:
    bad = node("/dev/bad\n", (1, 1), refusal="its name holds a control character")
    one = gpu(inject(*entries), exclude=("/dev/gpuctl",))
    offers = decide([one], [*HOST, bad], hanging=["/mnt/slow/x"])
    assert unhealthy(offers, "gpu") == {"gpu0": reason}


def test_what_is_excluded_is_not_brought_along() -> None:
    one = gpu(inject(SELF, nodes("/dev/caps/*")), exclude=("/dev/caps/cap2",))
    device = decide([one], HOST)["example.com/gpu"].devices["gpu0"].device
    assert [each.host_path for each in device.nodes] == ["/dev/gpu0", "/dev/caps/cap10"]


def test_a_file_is_never_given_as_a_device() -> None:
    one = resource("f", selector("/run/*", types=[FileType.FILE]), given=inject(SELF))
    offers = decide([one], [plain("/run/sock")])
    assert unhealthy(offers, "f") == {"_run_sock": "/run/sock: no device node (its type is file)"}


HOSTILE = ["stick*", "[a-z]", "a?b", "x[!y]", "[", "]", "[[]", "$(device.id)", "$$(x)", "a b", "#"]


@pytest.mark.parametrize("name", HOSTILE)
def test_inserted_text_is_literal(name: str) -> None:
    """A device's name may look like a pattern or a template: it is neither."""
    own = node(f"/dev/{name}", (1, 1))
    aux = node(f"/dev/{name}-aux", (1, 2))
    others = [node("/dev/stickX-aux", (1, 3)), node("/dev/b-aux", (1, 4)), node("/dev/xz", (1, 5))]
    one = resource(
        "x",
        "/dev/*",
        exclude=["/dev/*-aux", "/dev/xz"],
        given=inject(
            SELF,
            nodes("/dev/$(device.name)-aux", "/aux/$(device.name)"),
            env={"NAME": "$(device.name)"},
        ),
    )
    offers = decide([one], [own, aux, *others])
    assert list(unhealthy(offers, "x").values()) == [f"/dev/{name}-aux: excluded by the config"]
    one = resource("x", selector("/dev/*"), given=one.inject)
    offered = decide([one], [own, aux, *others])["example.com/x"].devices
    device = next(each.device for each in offered.values() if each.device.path == own.path)
    assert edits([device]).devices == (
        DeviceSpec(host_path=own.path, container_path=own.path, permissions="rw"),
        DeviceSpec(host_path=aux.path, container_path=f"/aux/{name}", permissions="rw"),
    )
    assert edits([device]).env == {"NAME": name}


GPU_AT = "0000:0a:00.0"
BELOW = f"{GPU_AT}/0000:0b:00.0"


def drm() -> tuple[Known, list[FoundFile]]:
    """A GPU with its nodes, another one below it, and one that is no hardware."""
    known = Known()
    known.add(GPU_AT, "pci")
    known.add(BELOW, "pci")
    known.add(f"{GPU_AT}/drm/connector", "drm")
    known.add(f"{GPU_AT}/drm/renderD7", "drm", number=(226, 7))  # its node is not there
    files = [node("/dev/bare", (10, 9))]
    for place, minor in (
        (f"{GPU_AT}/drm/card0", 0),
        (f"{GPU_AT}/drm/renderD128", 128),
        (f"{GPU_AT}/drm/renderD10", 10),
        (f"{BELOW}/drm/card1", 1),
        ("/sys/devices/virtual/drm/card2", 2),
    ):
        one = known.add(place, "drm", number=(226, minor))
        files.append(node(one.device_file, (226, minor), syspath=one.syspath))
    return known, files


@pytest.mark.parametrize(
    ("path", "subsystem", "name", "expected"),
    [
        ("card0", "drm", (), ["/dev/card0", "/dev/renderD10", "/dev/renderD128"]),
        ("renderD10", "drm", ("card*",), ["/dev/card0"]),
        ("card0", "drm", ("x", "renderD*"), ["/dev/renderD10", "/dev/renderD128"]),
        ("card1", "drm", (), ["/dev/card1"]),
        ("card0", "drm", ("x", "y"), "there is no drm node called x or y on the same hardware"),
        (
            "card0",
            "drm",
            ("renderD7",),
            "there is no drm node called renderD7 on the same hardware",
        ),
        ("card0", "sound", (), "there is no sound node on the same hardware"),
        ("card2", "drm", (), ["/dev/card2"]),
        ("bare", "drm", (), "there is no drm node on the same hardware"),
    ],
)
def test_nodes_of_the_same_hardware_are_found_by_subsystem_and_name(
    path: str, subsystem: str, name: tuple[str, ...], expected: list[str] | str
) -> None:
    known, files = drm()
    given = Inject(devices=(DeviceNodeSelector(subsystem=subsystem, name=name),))
    one = resource("gpu", f"/dev/{path}", given=given)
    (offered,) = decide([one], files, facts=known)[one.name].devices.values()
    if isinstance(expected, str):
        assert offered.text == expected
    else:
        assert offered.text == ""
        assert [one.host_path for one in offered.device.nodes] == expected


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (nodes("$(device.path)", "/dev/$(attribute.label)"), "cannot be part of a path"),
        (nodes("$(device.path)", "/dev/$(attribute.label)/$(allocation.index)"), "cannot be part"),
        (nodes("$(device.path)", "/dev/$(attribute.up)"), "holds '..'"),
        (nodes("/dev/$(attribute.label)"), "cannot be part of a path"),
    ],
)
def test_what_hardware_says_brings_no_folders_into_a_path(
    entry: DeviceNodeSelector, reason: str
) -> None:
    known, files = drm()
    at = f"{ROOT}/{GPU_AT}/drm/card0"
    known.texts |= {f"{at}/label": "a/b", f"{at}/up": ".."}
    offers = decide([resource("gpu", "/dev/card0", given=inject(entry))], files, facts=known)
    assert reason in refusals(offers, "gpu")["/dev/card0"]


def test_a_star_of_the_hardware_stays_a_star_in_the_path_of_a_mount() -> None:
    known, files = drm()
    known.texts[f"{ROOT}/{GPU_AT}/drm/card0/label"] = "[*]"
    given = inject(mounts=[("/opt/$(attribute.label)", "/x")])
    one = resource("gpu", "/dev/card0", given=given)
    (offered,) = decide([one], files, facts=known)[one.name].devices.values()
    assert [mount.host_path for mount in offered.device.mounts] == ["/opt/[*]"]
