"""Files that cannot be read: they hang, are denied, or fail, as on no machine of a case."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from genericdp.devices import decide as deciding
from genericdp.devices.inventory import Candidate, Identity, Inventory, Look
from genericdp.devices.lookup import Names
from genericdp.model import Selector, ValueKind, ValueSource
from genericdp.template import UnusableValueError, expand, parse

from tests.devices.known import Known
from tests.devices.making import (
    decide,
    healthy,
    inject,
    node,
    nodes,
    plain,
    refusals,
    resource,
    unhealthy,
)
from tests.selecting import usb_selector

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.model import Resource

TTY0, TTY1 = (node(f"/dev/ttyUSB{number}", (188, number)) for number in range(2))
SERIAL, SLOW = resource("x", "/dev/ttyUSB*"), "/mnt/slow/*"


@pytest.mark.parametrize(
    ("after", "hanging", "reason"),
    [
        (SERIAL, "/dev/ttyUSB*", "reading /dev/ttyUSB* timed out"),
        (resource("x", "/dev/ttyUSB*", exclude=[SLOW]), SLOW, f"reading {SLOW} timed out"),
        (resource("x", "/dev/ttyUSB*", SLOW), SLOW, "/dev/ttyUSB0 does not exist"),
    ],
    ids=["its own directory hangs", "what is excluded hangs", "another directory hangs"],
)
def test_a_listed_device_that_is_not_seen_is_unhealthy_and_comes_back(
    after: Resource, hanging: str, reason: str
) -> None:
    before = decide([SERIAL], [TTY0])
    files = [] if hanging == SLOW else [TTY0]
    offers = decide([after], files, before, now=1.0, hanging=[hanging])
    assert unhealthy(offers, "x") == {"ttyUSB0": reason}
    assert healthy(decide([SERIAL], [TTY0], offers, now=2.0), "x") == ["ttyUSB0"]


def test_a_directory_that_hangs_gives_nothing_of_its_devices_to_others() -> None:
    link = node("/dev/by/0", (188, 0), target="/dev/ttyUSB0")
    resources = [resource("x", "/dev/by/*"), resource("y", "/dev/ttyUSB0")]
    before = decide(resources, [TTY0, link])
    offers = decide(resources, [TTY0, link], before, now=1.0, hanging=["/dev/by/*"])
    assert (healthy(offers, "x"), healthy(offers, "y")) == ([], [])


def test_while_exclude_cannot_be_looked_at_nothing_is_offered_nor_given_to_others() -> None:
    first = resource("first", "/dev/ttyUSB*", exclude=[SLOW])
    resources = [first, resource("second", "/dev/ttyUSB*"), resource("other", "/dev/sd*")]
    disk = node("/dev/sda", (8, 0), block=True)
    offers = decide(resources, [TTY0, TTY1, disk], hanging=[SLOW])
    reason = f"may be excluded, but reading {SLOW} timed out"
    assert refusals(offers, "first") == {"/dev/ttyUSB0": reason, "/dev/ttyUSB1": reason}
    assert (healthy(offers, "second"), healthy(offers, "other")) == ([], ["sda"])


def test_an_undecided_resource_keeps_nothing_from_those_that_share_with_it() -> None:
    resources = [
        resource("encode", "/dev/ttyUSB*", id="e-$(device.name)", replicas=4, exclusive=False),
        resource("compute", "/dev/ttyUSB*", id="c-$(device.name)", replicas=2, exclusive=False),
        resource("whole", "/dev/ttyUSB*"),
    ]
    names = ("encode", "compute", "whole")
    offers = decide(resources, [TTY0, TTY1], hanging=["/dev/ttyUSB*"])
    assert [len(healthy(offers, name)) for name in names] == [0, 0, 0]
    offers = decide(resources, [TTY0, TTY1], offers, now=1.0)
    assert [len(healthy(offers, name)) for name in names] == [2, 2, 0]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/dev/bad*", "/dev/bad\\n: its name holds a control character"),
        (SLOW, f"reading {SLOW} timed out"),
    ],
)
def test_a_node_that_cannot_be_had_makes_the_device_unhealthy(path: str, reason: str) -> None:
    bad = node("/dev/bad\n", (1, 1), refusal="its name holds a control character")
    wanted = resource("x", "/dev/ttyUSB0", given=inject(nodes("$(device.path)"), nodes(path)))
    assert unhealthy(decide([wanted], [TTY0, bad], hanging=[SLOW]), "x") == {"ttyUSB0": reason}


def test_a_name_that_may_be_handed_out_counts_before_one_that_may_not() -> None:
    smuggled = node("/dev/shm/a", (188, 0), target="/dev/ttyUSB0", refusal="not on /dev")
    offers = decide([resource("x", "/dev/ttyUSB0", "/dev/shm/*")], [TTY0, smuggled])
    assert healthy(offers, "x") == ["ttyUSB0"]
    offers = decide([resource("x", "/dev/shm/*")], [TTY0, smuggled])
    assert refusals(offers, "x") == {"/dev/shm/a": "not on /dev"}


def _denied(_: str) -> Look:
    return Look(unreadable="/dev cannot be read: denied")


def _broken(pattern: str) -> Look:
    raise ValueError(pattern)


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (lambda _: None, "reading /dev/ttyUSB* timed out"),
        (_denied, "/dev cannot be read: denied"),
        (_broken, "it cannot be decided what is offered: ValueError"),
    ],
    ids=["hangs", "denied", "fails"],
)
def test_what_cannot_be_seen_is_not_known_to_be_absent(
    look: Callable[[str], Look | None], reason: str
) -> None:
    found = deciding.decide([SERIAL], Known(look=look), node_name="n", previous={}, now=0.0)
    empty, cause = found.lists[SERIAL.name].why_empty
    assert cause == "undecided"
    assert reason in empty


def test_nothing_is_read_once_it_is_decided_nor_for_the_reason() -> None:
    known = Known()
    known.usb("usb1", idVendor="1d6b", idProduct="0002", serial="1")
    known.usb("usb1/1-4", idVendor="0403", idProduct="6001", serial="aBc")
    directories = [
        replace(plain(path, directory=True), identity=Identity(inode=1, syspath=path))
        for path in known.devices
    ]
    usb = usb_selector(vendor=("10c4",), product=("ea60",), serial=("1",))
    lists = decide([resource("x", Selector(candidates=usb))], directories, facts=known)
    assert lists["example.com/x"].why_empty[1] == "not_matched"
    assert {path.rpartition("/")[2] for path in known.asked} == {"idVendor"}


VALUES = {
    "file": ValueSource(kind=ValueKind.FILE, source=parse("/map/$(device.minor)")),
    "slot": ValueSource(kind=ValueKind.TEXT, source=parse("$(value.file)"), regex=r"(.*)\.\d"),
    "none": ValueSource(kind=ValueKind.FILE, source=parse("/proc/none")),
    "other": ValueSource(kind=ValueKind.TEXT, source=parse("a$(value.none)")),
    "secret": ValueSource(kind=ValueKind.FILE, source=parse("/proc/secret")),
    # Found by fuzzing: a network interface may be called anything, which ended the pass.
    "odd": ValueSource(kind=ValueKind.LINK, source=parse("$(device.syspath)/odd")),
}


@pytest.mark.parametrize(
    ("template", "text", "reason"),
    [
        ("$(value.slot) $(value.slot)", "0000:00:14 0000:00:14", ""),
        ("$(value.none:-none)", "none", ""),
        ("$(value.other:-none)", "none", ""),
        ("$(value.none)", "", "the value 'none': /proc/none: it does not exist"),
        ("$(value.nothing)", "", "it has no '$(value.nothing)'"),
        ("$(device.nothing)", "", "it has no '$(device.nothing)'"),
        ("$(value.secret:-none)", "", "the value 'secret': /proc/secret: Permission denied"),
        ("$(value.odd)", "", r"the value 'odd': 'can\udcff' is not valid UTF-8"),
    ],
)
def test_a_value_that_may_be_there_has_no_default_and_each_file_is_read_once(
    template: str, text: str, reason: str
) -> None:
    known = Known(texts={"/map/0": "0000:00:14.0"})
    device = known.add("0000:0a:00.0", "pci")
    known.links[f"{device.syspath}/odd"] = "can\udcff"
    known.unreadable["/proc/secret"] = "Permission denied"
    found = Candidate(file=node("/dev/gpu0", (195, 0), syspath=device.syspath), device=device)
    names = Names(found, resource=resource("x", values=VALUES), inventory=Inventory(known))
    if reason:
        with pytest.raises(UnusableValueError) as raised:
            expand(parse(template), names.get_text)
        assert str(raised.value) == reason
    else:
        assert expand(parse(template), names.get_text) == text
    assert len(set(known.asked)) == len(known.asked)
