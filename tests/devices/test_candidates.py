"""What selectors take, on machines of the testbeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.decide import decide
from genericdp.devices.inventory import Inventory
from genericdp.devices.selectors import select
from genericdp.host.cache import HostCache
from genericdp.model import (
    DeviceNodeSelector,
    FileType,
    Inject,
    PathSelector,
    Selector,
    ValueKind,
    ValueSource,
)
from genericdp.template import parse
from tests.devices.making import PLACE, healthy, refusals, resource, selector
from tests.selecting import hardware, net_selector, pci_selector, udev_selector, usb_selector
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists
    from genericdp.host.root import Root
    from genericdp.model import Resource, SysSelector


@pytest.fixture(scope="module")
def root_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Root]:
    """Copied trees of the testbeds, each made once; nobody changes them."""
    made: dict[str, Root] = {}

    def build(name: str) -> Root:
        if name not in made:
            made[name] = loading.build(loading.path_of(name), tmp_path_factory.mktemp(name))
        return made[name]

    return build


def inventory_of(root: Root) -> Inventory:
    return Inventory(HostCache(root), "node-1")


def paths(root: Root, *selectors: Selector, wanted: Resource | None = None) -> list[str]:
    """The paths of all that the selectors take."""
    found = select(selectors, wanted or resource("x"), inventory_of(root))
    return [one.path for one in found.candidates if one.entries]


def offers(root: Root, *resources: Resource) -> DeviceLists:
    return decide(resources, HostCache(root), node_name="n", previous={}, now=0.0).lists


def udev(*subsystem: str, name: Iterable[str] = (), **kinds: SysSelector) -> Selector:
    return Selector(
        candidates=udev_selector(subsystem=subsystem, name=tuple(name)), hardware=hardware(**kinds)
    )


ADAPTERS, WEBCAM, MOUSE = "serial-adapters", "webcam", "input"
FTDI = usb_selector(vendor=("0403",))


@pytest.mark.parametrize(
    ("machine", "wanted", "expected"),
    [
        pytest.param(
            ADAPTERS,
            udev("tty", usb=usb_selector(vendor=("1a86",))),
            ["/dev/ttyUSB3"],
            id="the-port-of-a-usb-serial-adapter",
        ),
        pytest.param(
            WEBCAM,
            udev("video4linux", usb=usb_selector(vendor=("046d",), product=("082d",))),
            ["/dev/video0", "/dev/video1"],
            id="the-video-nodes-of-a-camera",
        ),
        pytest.param(
            MOUSE,
            udev("input", name=["event*"], usb=usb_selector(vendor=("046d",))),
            ["/dev/input/event3"],
            id="the-event-node-of-a-mouse",
        ),
    ],
)
def test_the_node_of_what_sits_on_a_usb_device(
    root_of: Callable[[str], Root], machine: str, wanted: Selector, expected: list[str]
) -> None:
    """D14: "I matched the USB device, the app needs /dev/ttyUSB0 / video0 / input/event3"."""
    assert paths(root_of(machine), wanted) == expected


@pytest.mark.parametrize(
    ("machine", "candidates", "expected"),
    [
        (ADAPTERS, FTDI, ["/dev/bus/usb/001/003", "/dev/bus/usb/001/004", "/dev/bus/usb/001/005"]),
        ("gpu", pci_selector(driver=("amdgpu",)), ["…/0000:00:03.1/0000:0a:00.0"]),
        (
            "can",
            net_selector(name=("*",)),
            ["…/1-3:1.0/net/can0", "/sys/devices/virtual/net/vcan0"],
        ),
        ("vfio", udev_selector(driver=("vfio-pci",)), ["…/0000:3b:01.0", "…/vfio-dev/vfio0"]),
        (
            "vfio",
            udev_selector(subsystem=("[!p]*",), name=("v*",)),
            ["…/vfio-dev/vfio0", "/dev/vfio/vfio"],
        ),
        ("gpu", udev_selector(subsystem=("none",)), []),
    ],
)
def test_candidates_of_sysfs_are_known_by_their_file_else_by_their_folder(
    root_of: Callable[[str], Root], machine: str, candidates: object, expected: list[str]
) -> None:
    found = paths(root_of(machine), Selector(candidates=candidates))  # type: ignore[arg-type]
    ends = [one.lstrip("…") for one in expected]
    assert len(found) == len(ends)
    assert all(path.endswith(end) for path, end in zip(sorted(found), sorted(ends), strict=True))


def test_a_device_its_file_and_all_links_to_it_are_one_candidate_under_its_link(
    root_of: Callable[[str], Root],
) -> None:
    found = select(
        [selector("/dev/ttyUSB*"), selector("/dev/serial/by-path/*"), udev("tty")],
        resource("x"),
        inventory_of(root_of(ADAPTERS)),
    ).candidates
    links = [f"/dev/serial/by-path/pci-0000:00:14.0-usb-0:1.{i}:1.0-port0" for i in (1, 2, 3, 4)]
    assert [one.path for one in found] == links
    assert all(one.device is not None and one.device.subsystem == "tty" for one in found)


def test_hardware_holds_for_paths_too(root_of: Callable[[str], Root]) -> None:
    by_path = Selector(
        candidates=PathSelector(globs=("/dev/ttyUSB*", "/dev/null")), hardware=hardware(usb=FTDI)
    )
    assert paths(root_of(ADAPTERS), by_path) == [f"/dev/ttyUSB{i}" for i in (0, 1, 2)]


def test_what_sysfs_does_not_know_sits_on_nothing(root_of: Callable[[str], Root]) -> None:
    folder = PathSelector(globs=("/dev/bus",), types=(FileType.DIRECTORY,))
    assert paths(root_of(ADAPTERS), Selector(candidates=folder)) == ["/dev/bus"]
    on_usb = Selector(candidates=folder, hardware=hardware(usb=usb_selector()))
    assert paths(root_of(ADAPTERS), on_usb) == []


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (("1-1.1",), [0]),
        (("1-1.[12]", "*.4"), [0, 1, 3]),
        (("1-1",), []),
    ],
)
def test_values_are_conditions(
    root_of: Callable[[str], Root], globs: tuple[str, ...], expected: list[int]
) -> None:
    port = ValueSource(kind=ValueKind.TEXT, source=parse("$(usb.port)"))
    wanted = resource("x", values={"port": port})
    on = Selector(candidates=PathSelector(globs=("/dev/ttyUSB*",)), values={"port": globs})
    assert paths(root_of(ADAPTERS), on, wanted=wanted) == [f"/dev/ttyUSB{i}" for i in expected]


def test_what_lacks_a_value_does_not_match_it(root_of: Callable[[str], Root]) -> None:
    serial = ValueSource(kind=ValueKind.TEXT, source=parse("$(usb.serial)"))
    wanted = resource("x", values={"serial": serial})
    on = Selector(candidates=PathSelector(globs=("/dev/ttyUSB*",)), values={"serial": ("*",)})
    assert paths(root_of(ADAPTERS), on, wanted=wanted) == [f"/dev/ttyUSB{i}" for i in (0, 1, 2)]


def excluding(*exclude: Selector) -> Resource:
    made = resource("serial", udev("tty"))
    return type(made)(name=made.name, place=PLACE, match=made.match, exclude=exclude)


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        pytest.param(udev("tty", name=["ttyUSB*"]), [], id="by-kernel-name"),
        pytest.param(udev("tty", name=["ttyUSB[!12]"]), [2, 3], id="with-a-set"),
        pytest.param(selector("/dev/ttyUSB[0-2]"), [4], id="by-path"),
        pytest.param(selector("/dev/serial/by-id/usb-1a86*"), [1, 2, 3], id="by-link"),
        pytest.param(udev("tty", name=["ttyUSB.*", "^tty"]), [1, 2, 3, 4], id="no-regex"),
        pytest.param(Selector(candidates=FTDI), [4], id="what-sits-on-it"),
        pytest.param(
            Selector(candidates=usb_selector(port=("1-1",))), [], id="or-anywhere-below-it"
        ),
        pytest.param(
            Selector(candidates=pci_selector(vendor=("8086",))), [], id="or-on-its-pci-function"
        ),
    ],
)
def test_what_is_excluded_is_not_offered(
    root_of: Callable[[str], Root], exclude: Selector, left: list[int]
) -> None:
    """D12: an exclusion that is read as another kind of pattern excludes nothing."""
    found = offers(root_of(ADAPTERS), excluding(exclude))
    assert healthy(found, "serial") == [f"1-1.{i}:1.0-tty" for i in left]
    assert len(refusals(found, "serial")) == 4 - len(left)
    assert set(refusals(found, "serial").values()) <= {"excluded by the config"}


def test_what_is_excluded_is_not_injected_either(root_of: Callable[[str], Root]) -> None:
    gpu = resource(
        "gpu",
        Selector(candidates=pci_selector(driver=("amdgpu",))),
        exclude=["/dev/dri/card*"],
        given=Inject(devices=(DeviceNodeSelector(subsystem="drm"),)),
    )
    found = offers(root_of("gpu"), gpu)
    (offered,) = found["example.com/gpu"].devices.values()
    assert [one.host_path for one in offered.device.nodes] == ["/dev/dri/renderD128"]


def test_a_candidate_of_sysfs_has_one_owner_too(root_of: Callable[[str], Root]) -> None:
    """D8, where one resource goes by path and the other by udev."""
    resources = [resource("a", "/dev/ttyUSB0"), resource("b", udev("tty"))]
    found = offers(root_of(ADAPTERS), *resources)
    owned = {
        name: [one.device.path for one in devices.devices.values()]
        for name, devices in found.items()
    }
    assert owned == {
        "example.com/a": ["/dev/ttyUSB0"],
        "example.com/b": ["/dev/ttyUSB1", "/dev/ttyUSB2", "/dev/ttyUSB3"],
    }


def test_a_device_whose_file_is_not_there_is_known_by_its_folder(tmp_path: Path) -> None:
    root = loading.build(loading.path_of(ADAPTERS), tmp_path)
    (tmp_path / "dev/ttyUSB0").unlink()
    found = offers(root, resource("serial", udev("tty")))
    assert healthy(found, "serial") == [f"1-1.{i}:1.0-tty" for i in (2, 3, 4)]
    assert list(refusals(found, "serial").values()) == ["its node /dev/ttyUSB0 does not exist"]
