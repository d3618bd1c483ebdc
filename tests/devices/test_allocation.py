"""Several devices in one container: nothing is lost, and nothing is there twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.device import BindMount, ContainerEdits, Device, DeviceSpec
from genericdp.model import EnvVar
from genericdp.template import parse
from tests.devices.making import decide, inject, node, nodes, resource

FILES = [node(f"/dev/ttyUSB{i}", (188, i)) for i in range(12)]
CONTROL = node("/dev/ctl", (10, 1))


def devices(*entries: object, **keys: object) -> list[Device]:
    """A device for each serial port."""
    one = resource("x", "/dev/ttyUSB*", given=inject(*entries, **keys))  # type: ignore[arg-type]
    offer = decide([one], [*FILES, CONTROL])["example.com/x"]
    assert not offer.not_offered
    return [each.device for each in offer.devices.values()]


def test_one_fixed_container_path_for_two_devices_is_refused_with_a_remedy() -> None:
    """D9: the pod silently gets one of two devices."""
    first, second, *_ = devices(nodes("$(device.path)", "/dev/serial"))
    assert [one.container_path for one in edits([first]).devices] == ["/dev/serial"]
    with pytest.raises(AllocationConflictError) as caught:
        edits([first, second])
    assert str(caught.value) == (
        "devices ttyUSB0 and ttyUSB1: /dev/ttyUSB0 and /dev/ttyUSB1 would both be '/dev/serial'"
        " in the container (put $(allocation.index) or $(device.name) into containerPath)"
    )


def test_the_index_within_the_container_tells_them_apart() -> None:
    """D9: the remedy, a container path with ``$(allocation.index)``."""
    all_of_them = devices(
        nodes("$(device.path)", "/dev/serial$(allocation.index)"),
        env={"PORTS": "/dev/serial$(allocation.index)"},
    )
    chosen = [all_of_them[i] for i in (11, 2, 5)]
    answer = edits(chosen)
    assert [(one.host_path, one.container_path) for one in answer.devices] == [
        ("/dev/ttyUSB2", "/dev/serial0"),
        ("/dev/ttyUSB5", "/dev/serial1"),
        ("/dev/ttyUSB11", "/dev/serial2"),
    ]
    assert answer.env == {"PORTS": "/dev/serial0,/dev/serial1,/dev/serial2"}


def test_permissions_of_one_node_stay_as_the_config_writes_them() -> None:
    first, *_ = devices(nodes("$(device.path)", permissions="mrw"))
    assert [one.permissions for one in edits([first]).devices] == ["mrw"]


def test_each_container_gets_its_own_device() -> None:
    """D15: all responses hold the last device."""
    answers = [edits([one]) for one in devices()]
    assert [[one.host_path for one in answer.devices] for answer in answers] == [
        [f"/dev/ttyUSB{i}"] for i in range(12)
    ]


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_order_in_which_devices_are_named_changes_nothing(order: list[int], n: int) -> None:
    """ALL-1: a kubelet names them in random order."""
    some = devices(nodes("$(device.path)", "/dev/s$(allocation.index)"))
    chosen = [some[i] for i in order[:n]]
    assert edits(chosen) == edits(sorted(chosen, key=lambda one: int(one.id[6:])))


def test_a_device_named_twice_counts_once() -> None:
    first, second, *_ = devices(
        nodes("$(device.path)", "/dev/s$(allocation.index)"), env={"A": "$(device.id)"}
    )
    assert edits([first, second, first]) == edits([first, second])


def test_values_of_all_devices_are_enclosed_once() -> None:
    variable = EnvVar(value=parse('"$(device.name)":{}'), prefix="{", suffix="}")
    one = replace(inject(), env={"INFO": variable})
    offer = decide([resource("x", "/dev/ttyUSB[0-1]", given=one)], FILES)["example.com/x"]
    first, second = (each.device for each in offer.devices.values())
    assert edits([first]).env == {"INFO": '{"ttyUSB0":{}}'}
    assert edits([first, second]).env == {"INFO": '{"ttyUSB0":{},"ttyUSB1":{}}'}


def test_values_are_joined_without_repeats() -> None:
    one = inject(
        env={"ALL": "$(device.name)", "SAME": "fixed"},
        separator=":",
        annotations={"example.com/all": "$(device.minor)", "example.com/same": "fixed"},
        cdi=["vendor.com/class=all", "vendor.com/class=$(device.name)"],
    )
    offer = decide([resource("x", "/dev/ttyUSB[0-2]", given=one)], FILES)["example.com/x"]
    answer = edits(each.device for each in offer.devices.values())
    assert answer.env == {"ALL": "ttyUSB0:ttyUSB1:ttyUSB2", "SAME": "fixed"}
    assert answer.annotations == {"example.com/all": "0,1,2", "example.com/same": "fixed"}
    assert answer.cdi == (
        "vendor.com/class=all",
        "vendor.com/class=ttyUSB0",
        "vendor.com/class=ttyUSB1",
        "vendor.com/class=ttyUSB2",
    )


def test_equal_nodes_are_given_once_with_united_permissions() -> None:
    first, second, *_ = devices(
        nodes("$(device.path)"),
        nodes("/dev/ctl", permissions="m"),
        nodes("/dev/ctl", permissions="r"),
    )
    control = [one for one in edits([first, second]).devices if one.host_path == "/dev/ctl"]
    assert control == [
        DeviceSpec(host_path="/dev/ctl", container_path="/dev/ctl", permissions="rm")
    ]


def test_one_node_at_two_places_is_given_at_both() -> None:
    first, *_ = devices(nodes("$(device.path)"), nodes("$(device.path)", "/dev/modem"))
    assert [one.container_path for one in edits([first]).devices] == ["/dev/ttyUSB0", "/dev/modem"]


def test_equal_mounts_are_given_once_and_different_ones_are_refused() -> None:
    first, second, *_ = devices(mounts=[("/opt/lib", "/lib/x"), ("/opt/$(device.id)", "/etc/x/")])
    assert edits([first]).mounts == (
        BindMount(host_path="/opt/lib", container_path="/lib/x", read_only=True),
        BindMount(host_path="/opt/ttyUSB0", container_path="/etc/x", read_only=True),
    )
    with pytest.raises(AllocationConflictError, match="/opt/ttyUSB0 and /opt/ttyUSB1 would both"):
        edits([first, second])


def test_a_mount_and_a_node_of_two_devices_cannot_be_at_one_place() -> None:
    first, second, *_ = devices(
        nodes("$(device.path)", "/x/n$(allocation.index)"),
        mounts=[("/opt/lib", "/x/n1")],
    )
    assert edits([first]).mounts[0].container_path == "/x/n1"
    with pytest.raises(AllocationConflictError, match="would both be '/x/n1'"):
        edits([first, second])


def test_the_index_counts_in_mounts_and_annotations_too() -> None:
    first, second, *_ = devices(
        nodes("$(device.path)"),
        mounts=[("/opt/lib", "/X/$(allocation.index)")],
        annotations={"a/b": "n$(allocation.index)"},
    )
    answer = edits([first, second])
    assert [one.container_path for one in answer.mounts] == ["/X/0", "/X/1"]
    assert answer.annotations == {"a/b": "n0,n1"}


def test_a_node_that_comes_under_two_names_is_given_by_the_first() -> None:
    link = node("/dev/control", (10, 1), target="/dev/ctl")
    entries = [nodes("/dev/ctl", "/dev/c"), nodes("/dev/control", "/dev/c", permissions="m")]
    one = resource("x", "/dev/ttyUSB0", given=inject(*entries))
    (offered,) = decide([one], [*FILES, CONTROL, link])["example.com/x"].devices.values()
    assert edits([offered.device]).devices == (
        DeviceSpec(host_path="/dev/ctl", container_path="/dev/c", permissions="rwm"),
    )


def test_a_node_at_the_place_of_an_earlier_mount_is_refused_with_both_paths() -> None:
    mounted = resource("m", "/dev/ttyUSB0", given=inject(mounts=[("/opt/lib", "/x")]))
    given = resource("n", "/dev/ttyUSB1", given=inject(nodes("$(device.path)", "/x")))
    offers = decide([mounted, given], FILES)
    both = [one.device for offer in offers.values() for one in offer.devices.values()]
    with pytest.raises(AllocationConflictError, match="/opt/lib and /dev/ttyUSB1 would both be"):
        edits(both)


def test_nothing_is_given_for_nothing() -> None:
    assert edits([]) == ContainerEdits()
