"""What a container gets for one device, and when it gets nothing."""

from __future__ import annotations

import pytest

from genericdp.devices.allocation import edits
from genericdp.devices.device import BindMount, DeviceSpec
from genericdp.model import FileType, Inject
from tests.devices.card import GPU, HOST, SELF, given, gpu
from tests.devices.making import (
    decide,
    healthy,
    inject,
    node,
    nodes,
    refusals,
    resource,
    selector,
)


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
        (inject(SELF, mounts=[("/a", "/$(usb.x:-)")]), "gives '/', which holds an empty name"),
        (inject(SELF, mounts=[("/a", "//")]), "is '//', the root of the container"),
        (inject(SELF, cdi=["vendor/$(device.name)"]), "gives 'vendor/gpu0', which is no CDI name"),
        (inject(SELF, cdi=["1v/c=$(device.name)"]), "gives '1v/c=gpu0', which is no CDI name"),
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
    without_nodes = resource("n", selector("/dev/gpu0"), given=Inject(devices=()))
    offers = decide([without_nodes], HOST)
    assert refusals(offers, "n") == {"/dev/gpu0": "there is nothing to give to a container"}


def test_a_folder_is_given_as_a_mount_that_is_read_only_by_default() -> None:
    one = resource(
        "f",
        selector("/dev/*", types=[FileType.DIRECTORY]),
        given=inject(mounts=[("$(device.path)", "/mnt/$(device.name)/")]),
    )
    device = decide([one], HOST)["example.com/f"].devices["caps"].device
    answer = edits([device])
    expected = BindMount(host_path="/dev/caps", container_path="/mnt/caps", read_only=True)
    assert (answer.mounts, answer.devices) == ((expected,), ())


def test_a_link_stays_a_link() -> None:
    """ALL-7: the answer is replayed at each restart, when the bare node may be another device."""
    link = node("/dev/by-id/gpu", (195, 0), target="/dev/gpu0", syspath="/sys/devices/pci0/gpu0")
    one = resource(
        "x", "/dev/gpu0", "/dev/by-id/*", given=inject(SELF, env={"N": "$(device.name)"})
    )
    offered = decide([one], [GPU, link])["example.com/x"].devices
    answer = edits([offered["by-id_gpu"].device])
    expected = DeviceSpec(
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
