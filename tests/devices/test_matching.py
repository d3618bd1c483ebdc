"""Selectors: what they take, who owns it, and why the rest is not offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from genericdp.devices.inventory import Inventory, Look
from genericdp.devices.matching import Owners, for_node, match, reads_properties
from genericdp.devices.selectors import path_globs
from genericdp.model import Command, FileType, Hook, Resource, Selector, ValueKind, ValueSource
from genericdp.template import parse
from tests.devices.known import Known
from tests.devices.making import decide, healthy, inject, node, plain, refusals, resource, selector
from tests.selecting import hardware, udev_selector, usb_selector

TTY0 = node("/dev/ttyUSB0", (188, 0))
TTY1 = node("/dev/ttyUSB1", (188, 1))
BY_ID = node("/dev/serial/by-id/usb-A", (188, 0), target="/dev/ttyUSB0")
BY_PATH = node("/dev/serial/by-path/pci-1", (188, 0), target="/dev/ttyUSB0")
SDA = node("/dev/sda", (8, 0), block=True, syspath="/sys/devices/ata1/block/sda")
SDA1 = node("/dev/sda1", (8, 1), block=True, syspath="/sys/devices/ata1/block/sda/sda1")
SDAB = node("/dev/sdab", (65, 176), block=True, syspath="/sys/devices/ata2/block/sdab")
FOLDER = plain("/dev/dri", folder=True)
SOCKET = plain("/run/x.sock")
HOST = (TTY0, TTY1, BY_ID, BY_PATH, SDA, SDA1, SDAB, FOLDER, SOCKET)


@pytest.mark.parametrize(
    ("match", "ids"),
    [
        (["/dev/ttyUSB*"], ["ttyUSB0", "ttyUSB1"]),
        (["/dev/ttyUSB1", "/dev/ttyUSB[0]"], ["ttyUSB0", "ttyUSB1"]),
        (["/dev/ttyUSB?", "/dev/ttyUSB1"], ["ttyUSB0", "ttyUSB1"]),
        (["/dev/tty[!A-Z]*"], []),
        (["/dev/*"], ["sda", "sda1", "sdab", "ttyUSB0", "ttyUSB1"]),
        (["/dev/*/*/*"], ["serial_by-id_usb-A"]),
        ([selector("/dev/ttyUSB0", "/dev/sda")], ["sda", "ttyUSB0"]),
        ([selector("/dev/*", types=[FileType.BLOCK])], ["sda", "sda1", "sdab"]),
        ([selector("/dev/*", types=[FileType.CHAR])], ["ttyUSB0", "ttyUSB1"]),
        (["/dev/TTYUSB*"], []),
        (["/dev/absent"], []),
    ],
)
def test_a_selector_takes_what_all_its_conditions_fit(
    match: list[str | Selector], ids: list[str]
) -> None:
    assert healthy(decide([resource("x", *match)], HOST), "x") == ids


@pytest.mark.parametrize(
    ("types", "pattern", "path"),
    [([FileType.DIRECTORY], "/dev/*", "/dev/dri"), ([FileType.FILE], "/run/*", "/run/x.sock")],
)
def test_folders_and_files_are_taken_only_where_the_type_says_so(
    types: list[FileType], pattern: str, path: str
) -> None:
    one = resource("x", selector(pattern, types=types))
    inventory = Inventory(Known(look=lambda _: Look(files=tuple(HOST))))
    found = match(one, Owners(), inventory)
    assert [candidate.path for candidate in found.members] == [path]


@pytest.mark.parametrize(
    "match",
    [
        ["/dev/ttyUSB0", "/dev/serial/by-id/*"],
        ["/dev/serial/by-id/*", "/dev/ttyUSB0"],
        ["/dev/serial/*/*", "/dev/ttyUSB0"],
        [selector("/dev/ttyUSB0", "/dev/serial/by-id/usb-A")],
    ],
)
def test_a_link_and_its_target_are_one_device_named_by_the_link(match: list[str]) -> None:
    """D7: a link and its target are one."""
    offers = decide([resource("x", *match)], HOST)
    assert (healthy(offers, "x"), refusals(offers, "x")) == (["serial_by-id_usb-A"], {})
    device = offers["example.com/x"].devices["serial_by-id_usb-A"].device
    assert [one.host_path for one in device.nodes] == ["/dev/serial/by-id/usb-A"]


def test_of_several_links_the_first_in_natural_order_names_the_device() -> None:
    links = [
        node(f"/dev/by/disk{i}", (8, 0), target="/dev/sda", block=True) for i in (10, 9, 2, 30)
    ]
    assert healthy(decide([resource("x", "/dev/by/*")], links), "x") == ["by_disk2"]


def test_a_name_that_may_be_handed_out_counts_before_one_that_may_not() -> None:
    smuggled = node("/dev/shm/a", (188, 0), target="/dev/ttyUSB0", refusal="not on /dev")
    offers = decide([resource("x", "/dev/ttyUSB0", "/dev/shm/*")], [TTY0, smuggled])
    assert healthy(offers, "x") == ["ttyUSB0"]
    offers = decide([resource("x", "/dev/shm/*")], [TTY0, smuggled])
    assert refusals(offers, "x") == {"/dev/shm/a": "not on /dev"}


def test_the_first_resource_that_takes_a_candidate_owns_it() -> None:
    """D8: one device for two resources goes to the first."""
    first, second = resource("first", "/dev/serial/by-id/*"), resource("second", "/dev/ttyUSB*")
    offers = decide([first, second], HOST)
    assert healthy(offers, "first") == ["serial_by-id_usb-A"]
    assert healthy(offers, "second") == ["ttyUSB1"]
    assert refusals(offers, "second") == {
        "/dev/ttyUSB0": "belongs to resource example.com/first, which comes first in the config"
    }
    offers = decide([second, first], HOST)
    assert healthy(offers, "second") == ["ttyUSB0", "ttyUSB1"]
    assert healthy(offers, "first") == []


def test_what_a_resource_excludes_is_free_for_the_next_one() -> None:
    first = resource("first", "/dev/ttyUSB*", exclude=["/dev/ttyUSB0"])
    offers = decide([first, resource("second", "/dev/ttyUSB*")], HOST)
    assert (healthy(offers, "first"), healthy(offers, "second")) == (["ttyUSB1"], ["ttyUSB0"])


@pytest.mark.parametrize(
    ("exclude", "ids"),
    [
        (["/dev/ttyUSB1"], ["serial_by-id_usb-A"]),
        (["/dev/serial/by-path/*"], ["ttyUSB1"]),  # by another name of the same device
        (["/dev/serial/by-id/usb-A", "/dev/ttyUSB1"], []),
        (["/dev/absent*"], ["serial_by-id_usb-A", "ttyUSB1"]),
    ],
)
def test_exclude_takes_a_device_away_by_any_of_its_names(
    exclude: list[str], ids: list[str]
) -> None:
    one = resource("x", "/dev/ttyUSB*", "/dev/serial/by-id/*", exclude=exclude)
    assert healthy(decide([one], HOST), "x") == ids


def test_what_sits_on_something_excluded_is_excluded_with_it() -> None:
    offers = decide([resource("x", "/dev/sd*", exclude=["/dev/sda"])], HOST)
    assert healthy(offers, "x") == ["sdab"]
    assert refusals(offers, "x") == {
        "/dev/sda": "excluded by the config",
        "/dev/sda1": "excluded by the config",
    }


def test_while_exclude_cannot_be_looked_at_nothing_is_offered_nor_given_to_others() -> None:
    first = resource("first", "/dev/ttyUSB*", exclude=["/mnt/slow/*"])
    resources = [first, resource("second", "/dev/ttyUSB*"), resource("other", "/dev/sd*")]
    offers = decide(resources, HOST, hanging=["/mnt/slow/*"])
    reason = "may be excluded, but looking at /mnt/slow/* does not end"
    assert refusals(offers, "first") == {"/dev/ttyUSB0": reason, "/dev/ttyUSB1": reason}
    assert healthy(offers, "second") == []
    assert healthy(offers, "other") == ["sda", "sda1", "sdab"]


def test_a_path_written_out_that_has_another_type_is_told() -> None:
    offers = decide([resource("x", "/dev/dri", "/run/x.sock", "/dev/*")], [FOLDER, SOCKET])
    assert refusals(offers, "x") == {
        "/dev/dri": "its type is directory, wanted char or block (see the key type)",
        "/run/x.sock": "its type is file, wanted char or block (see the key type)",
    }


def test_a_path_that_another_entry_takes_is_not_told() -> None:
    one = resource("x", "/dev/sda", selector("/dev/sda", types=[FileType.CHAR]))
    offers = decide([one], [SDA])
    assert (healthy(offers, "x"), refusals(offers, "x")) == (["sda"], {})


@pytest.mark.parametrize(
    ("name", "taken"),
    [("edge-1", ["edge"]), ("core-1", ["all"]), ("EDGE-1", ["all"]), ("db7", ["digit"])],
)
def test_of_equal_names_the_first_that_fits_the_node_counts(name: str, taken: list[str]) -> None:
    resources = [
        resource("x", "/dev/edge", node_names=("edge-*",)),
        resource("x", "/dev/digit", node_names=("web?", "db[0-9]")),
        resource("x", "/dev/all"),
    ]
    fitting = for_node(resources, name)
    assert [pattern for one in fitting for pattern in path_globs(one.match)] == [
        f"/dev/{one}" for one in taken
    ]


def test_a_resource_for_other_nodes_owns_nothing() -> None:
    resources = for_node(
        [
            resource("first", "/dev/ttyUSB*", node_names=("other",)),
            resource("second", "/dev/ttyUSB*"),
        ],
        "node-1",
    )
    assert healthy(decide(resources, [TTY0]), "second") == ["ttyUSB0"]


RECORDED = udev_selector(properties={"ID_BUS": ("usb",)})
PROPERTY = parse("a$(device.name)$(property.ID_BUS)")
ASKED = Hook(command=Command(argv=(parse("/bin/true"), PROPERTY)))


@pytest.mark.parametrize(
    ("one", "reads"),
    [
        (resource("x", "/dev/a"), False),
        (resource("x", Selector(candidates=udev_selector(attributes={"dev": ("*",)}))), False),
        (resource("x", Selector(candidates=usb_selector(vendor=("1",)))), False),
        (resource("x", "/dev/a", given=inject(env={"A": "$(attribute.dev)"})), False),
        (resource("x", "/dev/a", Selector(candidates=RECORDED)), True),
        (
            resource("x", Selector(candidates=usb_selector(), hardware=hardware(udev=RECORDED))),
            True,
        ),
        (replace(resource("x", "/dev/a"), exclude=(Selector(candidates=RECORDED),)), True),
        (resource("x", "/dev/a", id="$(property.ID_BUS)"), True),
        (resource("x", "/dev/a", given=inject(env={"A": "1", "B": "$(property.A)"})), True),
        (resource("x", "/dev/a", given=inject(mounts=[("/a", "/b/$(property.A)")])), True),
        (resource("x", "/dev/a", hooks={"preStart": ASKED}), True),
        (resource("x", "/dev/a", names=("a",), name_template=PROPERTY), True),
        (
            resource(
                "x",
                "/dev/a",
                values={"v": ValueSource(kind=ValueKind.TEXT, source=PROPERTY)},
            ),
            True,
        ),
    ],
)
def test_a_resource_that_reads_what_udev_records_is_known_wherever_it_says_so(
    one: Resource, reads: bool
) -> None:
    assert reads_properties(one) is reads


def test_a_node_has_each_resource_that_fits_it_under_its_own_name() -> None:
    one, other, elsewhere = (
        resource("a", "/dev/a"),
        resource("b", "/dev/b", node_names=("node-*",)),
        resource("c", "/dev/c", node_names=("edge-*",)),
    )
    assert for_node([one, other, elsewhere], "node-1") == (one, other)


def test_what_the_first_resource_owns_the_third_does_not_get_either() -> None:
    first, second, third = (
        resource("a", "/dev/ttyUSB0"),
        resource("b", "/dev/ttyUSB1"),
        resource("c", "/dev/ttyUSB*"),
    )
    offers = decide([first, second, third], HOST)
    assert healthy(offers, "c") == []
    assert {(one.device.path, one.device.key) for one in offers[third.name].not_offered} == {
        ("/dev/ttyUSB0", TTY0.key),
        ("/dev/ttyUSB1", TTY1.key),
    }


def test_only_a_path_that_is_written_out_tells_that_its_type_is_another() -> None:
    of_udev = Selector(candidates=udev_selector(subsystem=("none",)))
    offers = decide([resource("x", of_udev, "/dev/ttyUSB0", "/dev/dri", "/run/*")], HOST)
    (refused,) = offers["example.com/x"].not_offered
    assert (refused.device.path, refused.device.key) == ("/dev/dri", FOLDER.key)
    assert "its type is directory" in refused.reasons[0].text
