"""What a container gets for one device, and when it gets nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.allocation import edits
from genericdp.devices.device import BindMount, DeviceNode
from genericdp.model import FileType
from tests.devices.making import (
    decide,
    healthy,
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
    from genericdp.devices.device import ContainerEdits
    from genericdp.model import DeviceNodes, Inject, Resource

GPU = node("/dev/gpu0", (195, 0), syspath="/sys/devices/pci0/gpu0")
CTL = node("/dev/gpuctl", (195, 255))
CAPS = [node(f"/dev/caps/cap{i}", (240, i)) for i in (10, 2)]
FOLDER = plain("/dev/caps", folder=True)
HOST = [GPU, CTL, *CAPS, FOLDER]
SELF = nodes("$(device.path)")


def gpu(given: Inject, *, exclude: tuple[str, ...] = ()) -> Resource:
    return resource("gpu", "/dev/gpu[0-9]", given=given, exclude=exclude)


def given(one: Inject) -> ContainerEdits:
    """What a container gets for every device of the resource."""
    offered = decide([gpu(one)], HOST)["example.com/gpu"].offered
    assert offered, "nothing is on offer"
    return edits(each.device for each in offered.values())


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
    entries: list[DeviceNodes], expected: list[str] | None
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
    entries: list[DeviceNodes], reason: str
) -> None:
    bad = node("/dev/bad\n", (1, 1), trouble="its name holds a control character")
    one = gpu(inject(*entries), exclude=("/dev/gpuctl",))
    offers = decide([one], [*HOST, bad], hanging=["/mnt/slow/x"])
    assert unhealthy(offers, "gpu") == {"gpu0": reason}


def test_what_is_excluded_is_not_brought_along() -> None:
    one = gpu(inject(SELF, nodes("/dev/caps/*")), exclude=("/dev/caps/cap2",))
    device = decide([one], HOST)["example.com/gpu"].offered["gpu0"].device
    assert [each.host_path for each in device.nodes] == ["/dev/gpu0", "/dev/caps/cap10"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (inject(nodes("/dev/kfd", optional=True)), "all nodes of inject.devices are optional"),
        (inject(nodes("/a", optional=True), env={"A": "1"}), "all nodes of inject.devices are"),
        (inject(SELF, env={"A": "$(property.X)"}), "it has no '$(property.X)'"),
        (inject(SELF, annotations={"a": "$(usb.serial)"}), "it has no '$(usb.serial)'"),
        (inject(SELF, nodes("$(attribute.x)")), "it has no '$(attribute.x)'"),
        (inject(SELF, mounts=[("/a/$(pci.address)", "/b")]), "it has no '$(pci.address)'"),
        (inject(SELF, mounts=[("/a", "/b/$(value.v)")]), "it has no '$(value.v)'"),
        (inject(nodes("x$(device.path)")), "'x$(device.path)' gives 'x/dev/gpu0', which is not an"),
        (inject(nodes("$(device.path)", "$(device.name)")), "'gpu0', which is not an absolute"),
        (inject(SELF, mounts=[("/a", "/$(usb.x:-)")]), "is '/', the root of the container"),
        (inject(SELF, cdi=["vendor/$(device.name)"]), "gives 'vendor/gpu0', which is no CDI name"),
        (
            inject(nodes("/dev/caps/*", "/dev/cap")),
            "device gpu0: /dev/caps/cap2 and /dev/caps/cap10 would both be '/dev/cap'"
            ' in the container (let containerPath end in "/": then base names are kept)',
        ),
        (
            inject(SELF, mounts=[("/opt/x", "/dev/gpu0")]),
            "device gpu0: /dev/gpu0 and /opt/x would both be '/dev/gpu0'"
            " in the container (give them different containerPaths)",
        ),
    ],
)
def test_what_cannot_be_given_is_not_offered(given: Inject, reason: str) -> None:
    offers = decide([gpu(given)], HOST)
    assert healthy(offers, "gpu") == []
    assert reason in refusals(offers, "gpu")["/dev/gpu0"]


def test_a_default_stands_in_for_what_a_device_lacks() -> None:
    answer = given(inject(env={"S": "$(usb.serial:-none)", "L": "$$(x)"}))
    assert answer.env == {"S": "none", "L": "$(x)"}


def test_what_has_nothing_to_give_is_not_offered() -> None:
    folders = resource("f", selector("/dev/*", types=[FileType.DIRECTORY]))
    offers = decide([folders], HOST)
    assert refusals(offers, "f") == {"/dev/caps": "there is nothing to give to a container"}


def test_a_folder_is_given_as_a_mount_that_is_read_only_by_default() -> None:
    one = resource(
        "f",
        selector("/dev/*", types=[FileType.DIRECTORY]),
        given=inject(mounts=[("$(device.path)", "/mnt/$(device.name)/")]),
    )
    device = decide([one], HOST)["example.com/f"].offered["caps"].device
    answer = edits([device])
    expected = BindMount(host_path="/dev/caps", container_path="/mnt/caps", read_only=True)
    assert (answer.mounts, answer.devices) == ((expected,), ())


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
    offered = decide([one], [own, aux, *others])["example.com/x"].offered
    device = next(each.device for each in offered.values() if each.device.path == own.path)
    assert edits([device]).devices == (
        DeviceNode(host_path=own.path, container_path=own.path, permissions="rw"),
        DeviceNode(host_path=aux.path, container_path=f"/aux/{name}", permissions="rw"),
    )
    assert edits([device]).env == {"NAME": name}


def test_a_link_stays_a_link() -> None:
    """ALL-7: the answer is replayed at each restart, when the bare node may be another device."""
    link = node("/dev/by-id/gpu", (195, 0), target="/dev/gpu0", syspath="/sys/devices/pci0/gpu0")
    one = resource(
        "x", "/dev/gpu0", "/dev/by-id/*", given=inject(SELF, env={"N": "$(device.name)"})
    )
    offered = decide([one], [GPU, link])["example.com/x"].offered
    answer = edits([offered["by-id_gpu"].device])
    expected = DeviceNode(
        host_path="/dev/by-id/gpu", container_path="/dev/by-id/gpu", permissions="rw"
    )
    assert answer.devices == (expected,)
    assert answer.env == {"N": "gpu0"}


def test_the_names_of_a_device_are_those_of_the_host() -> None:
    names = ["device.id", "device.path", "device.name", "device.major", "device.minor", "node.name"]
    env = {name.upper(): f"$({name})" for name in names}
    assert given(inject(SELF, env=env)).env == {
        "DEVICE.ID": "gpu0",
        "DEVICE.PATH": "/dev/gpu0",
        "DEVICE.NAME": "gpu0",
        "DEVICE.MAJOR": "195",
        "DEVICE.MINOR": "0",
        "NODE.NAME": "node-1",
    }
