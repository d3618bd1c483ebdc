"""Which device a line names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.health.kernellog import name_of, names_match, names_of, rule_of, stems_of
from genericdp.health.kinds.kernellog import KernelLogCheck
from tests.health.probed_devices import struck

XID = r"NVRM: Xid \(PCI:(?P<address>[0-9a-fA-F:.]+)\): (?P<code>\d+)"
HARMLESS = ("13", "31", "43", "45", "68", "109")


def xid(address: str, *ignore: str) -> KernelLogCheck[str]:
    codes = ignore or HARMLESS
    return KernelLogCheck(regex=XID, where={"address": address}, ignore={"code": codes})


@pytest.mark.parametrize(
    ("address", "line_has", "same"),
    [
        ("0000:3b:00.0", "0000:3b:00.0", True),
        ("0000:3b:00.0", "0000:3b:00", True),
        ("0000:3b:00", "0000:3b:00.1", True),
        ("0000:3b:00.0", "3b:00.0", True),
        ("3b:00", "0000:3B:00", True),
        ("0000:3b:00.0", "00000000:3B:00.0", True),
        ("10000:01:00.0", "00010000:01:00", True),
        ("0000:3b:00.0", "0000:3b:00.1", False),
        ("0000:3b:00.0", "0001:3b:00.0", False),
        ("0001:3b:00.0", "3b:00.0", False),
        ("0000:3b:00.0", "0000:3b:01.0", False),
        ("0000:3b:00.0", "0000:3c:00", False),
        ("sda", "sda", True),
        ("sda", "sdA", False),
        ("sda", "sdaa", False),
        ("0xDEAD", "0xdead", True),
        ("de-ad:BE", "DE-AD:be", True),
        ("Xdead", "xdead", False),
        ("1f", "0x1f", False),
        ("", "", True),
    ],
)
def test_texts_are_compared(address: str, line_has: str, same: bool) -> None:
    assert name_of(address).matches(name_of(line_has)) is same
    assert name_of(line_has).matches(name_of(address)) is same


@given(st.text() | st.from_regex(r"([0-9a-fA-F]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(\.[0-7])?"))
def test_each_text_is_itself_whatever_it_is(text: str) -> None:
    assert name_of(text).matches(name_of(text))


@given(st.lists(st.tuples(*[st.sampled_from(["3b:00", "3b:00.0", "0000:3B:00.1", "x"])] * 2)))
def test_what_agrees_is_found_by_its_stems(pairs: list[tuple[str, str]]) -> None:
    names = [tuple(map(name_of, pair)) for pair in pairs]
    for one in names:
        for other in names:
            assert not names_match(one, other) or stems_of(one) == stems_of(other)


def test_a_line_counts_if_all_of_where_and_none_of_ignore_holds() -> None:
    watch = KernelLogCheck(
        regex=r"(?P<bus>\w+) (?P<dev>\w+): error(?: (?P<code>\w+))?",
        where={"dev": "sda", "bus": "scsi"},
        ignore={"code": ("0x1F", "7")},
    )
    assert struck(watch, "[x] scsi sda: error 8")
    assert struck(watch, "scsi sda: error")
    assert not struck(watch, "scsi sdb: error 8")
    assert not struck(watch, "usb sda: error 8")
    assert not struck(watch, "scsi sda: error 0x1f")
    assert not struck(watch, "scsi sda: fine")


def test_a_group_that_took_no_part_names_nothing() -> None:
    watch = KernelLogCheck(regex=r"error(?: on (?P<dev>\w+))?", where={"dev": "sda"})
    assert struck(watch, "error on sda")
    assert not struck(watch, "error")


def test_probes_of_one_resource_share_their_rule() -> None:
    one, other = xid("0000:3b:00.0"), xid("0000:af:00.0")
    assert rule_of(one) == rule_of(other)
    assert names_of(one) != names_of(other)
