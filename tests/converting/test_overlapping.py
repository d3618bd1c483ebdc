"""A device that several resources find: the first has it, and the others say so."""

from __future__ import annotations

import json

import pytest

from genericdp.converting.overlapping import MAX_SELECTORS, globs_meet
from tests.converting.offering import prose_of


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("/dev/fuse", "/dev/fuse", True),
        ("/dev/fuse", "/dev/kvm", False),
        ("/dev/ttyUSB*", "/dev/ttyUSB0", True),
        ("/dev/ttyUSB*", "/dev/ttyACM0", False),
        ("/dev/a[*]", "/dev/ab", False),
        ("/dev/tty*", "/dev/ttyUSB*", True),
        ("/dev/ttyACM*", "/dev/ttyUSB*", False),
        ("/dev/snd/pcmC*D0c", "/dev/snd/pcmC*D0p", False),
        ("/dev/a*", "/dev/*b[0-9]", True),
    ],
)
def test_globs_meet_unless_none_can(one: str, other: str, meet: bool) -> None:
    assert globs_meet(one, other) is globs_meet(other, one) is meet


def squat(*groups: str) -> str:
    """Make a config with a resource for each group."""
    devices = (f"{{name: r{i}, groups: [{group}]}}" for i, group in enumerate(groups))
    return f"[{', '.join(devices)}]"


@pytest.mark.parametrize(
    ("second", "is_told"),
    [
        ("{paths: [{path: /dev/fuse}], count: 2}", True),
        ("{paths: [{path: /dev/kvm}]}", False),
        ("{usb: [{vendor: '1a86', product: '7523'}]}", False),
    ],
)
def test_squats_say_it(second: str, is_told: bool) -> None:
    text = prose_of("squat", squat("{paths: [{path: /dev/fuse}]}", second))
    assert ("What squat.ai/r0 above may also find" in text) is is_told


@pytest.mark.parametrize(
    ("first", "second", "is_told"),
    [
        ({"vendors": ["15b3"], "ifNames": ["ib0"]}, {"vendors": ["15b3"]}, True),
        ({"vendors": ["15b3"]}, {"drivers": ["mlx5_core"]}, True),
        ({"vendors": ["15b3"]}, {"vendors": ["8086"]}, False),
        ({"ifNames": ["ib0", "ib1"]}, {"ifNames": ["ib2"]}, False),
    ],
)
def test_rdmas_say_it(first: object, second: object, is_told: bool) -> None:
    both = (("a", first), ("b", second))
    listed = [{"resourceName": n, "rdmaHcaMax": 1, "selectors": chosen} for n, chosen in both]
    text = prose_of("rdma", json.dumps({"configList": listed}))
    assert ("What rdma/a above may also find" in text) is is_told


def test_of_very_many_it_is_said_once() -> None:
    groups = ["{paths: [{path: /dev/fuse}]}"] * (MAX_SELECTORS + 1)
    assert prose_of("squat", squat(*groups)).count("What ") == 2
