"""Several devices in one container: the order in which they are named changes nothing."""

from __future__ import annotations

from genericdp.devices.allocation import edits
from genericdp.devices.device import ContainerEdits, Device
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import decide, inject, node, nodes, resource

FILES = [node(f"/dev/ttyUSB{i}", (188, i)) for i in range(12)]


def devices(*entries: object, **keys: object) -> list[Device]:
    """A device for each serial port."""
    spec = resource("x", "/dev/ttyUSB*", given=inject(*entries, **keys))  # type: ignore[arg-type]
    offer = decide([spec], FILES)["example.com/x"]
    assert not offer.not_offered
    return [each.device for each in offer.devices.values()]


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_order_in_which_devices_are_named_changes_nothing(order: list[int], n: int) -> None:
    """ALL-1: a kubelet names them in random order."""
    some = devices(nodes("$(device.path)", "/dev/s$(allocation.index)"))
    chosen = [some[i] for i in order[:n]]
    assert edits(chosen) == edits(sorted(chosen, key=lambda entry: int(entry.id[6:])))


def test_a_device_named_twice_counts_once() -> None:
    first, second, *_ = devices(
        nodes("$(device.path)", "/dev/s$(allocation.index)"), env={"A": "$(device.id)"}
    )
    assert edits([first, second, first]) == edits([first, second])


def test_nothing_is_given_for_nothing() -> None:
    assert edits([]) == ContainerEdits()
