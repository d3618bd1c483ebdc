from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genericdp.snapshot.anonymize import Disguise, collect, disguised
from genericdp.snapshot.archive import Entry, Kind

MAC = "00:1b:21:AA:bb:0c"


def file(path: str, text: str) -> Entry:
    return Entry(path, Kind.FILE, text.encode())


def all_of(entries: list[Entry], hostname: str = "") -> list[Entry]:
    disguise = Disguise(frozenset(collect(entries, hostname).texts))
    return [disguise.entry(one) for one in entries]


def test_a_serial_is_replaced_everywhere_alike() -> None:
    link = "usb-FTDI_FT232R_A50285BI-if00-port0"
    entries = all_of(
        [
            file("sys/devices/usb1/1-1/serial", "A50285BI\n"),
            file(
                "run/udev/data/c188:0", f"S:serial/by-id/{link}\nE:ID_SERIAL=FTDI_FT232R_A50285BI\n"
            ),
            Entry(f"dev/serial/by-id/{link}", Kind.LINK, target="../../ttyUSB0"),
            Entry("dev/a", Kind.LINK, target=f"serial/by-id/{link}"),
        ]
    )
    new = entries[0].content.decode().strip()
    assert re.fullmatch(r"[A-Z]\d{5}[A-Z]{2}", new)
    assert new != "A50285BI"
    assert entries[1].content.decode() == (
        f"S:serial/by-id/{link}\nE:ID_SERIAL=FTDI_FT232R_A50285BI\n".replace("A50285BI", new)
    )
    assert entries[2].path == f"dev/serial/by-id/{link}".replace("A50285BI", new)
    assert entries[3].target == f"serial/by-id/{link}".replace("A50285BI", new)


def test_an_address_is_one_in_all_of_its_spellings() -> None:
    entries = all_of(
        [
            file("sys/devices/net/eth0/address", f"{MAC}\n"),
            file("run/udev/data/n2", "E:ID_NET_NAME_MAC=enx001b21aabb0c\n"),
            Entry("sys/class/net/enx001b21aabb0c", Kind.LINK, target="x"),
        ]
    )
    new = entries[0].content.decode().strip().lower()
    assert re.fullmatch(r"02(:[0-9a-f]{2}){5}", new)
    bare = new.replace(":", "")
    assert entries[1].content.decode() == f"E:ID_NET_NAME_MAC=enx{bare}\n"
    assert entries[2].path == f"sys/class/net/enx{bare}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sys/devices/pci0000:00/0000:00:14.0/usb1/serial", "0000:00:14.0\n"),
        ("sys/devices/vhci/usb2/serial", "vhci_hcd.0\n"),
        ("sys/devices/platform/chip/address", "0x12345678\n"),
        ("sys/bus/pci/slots/1/address", "0000:03:00\n"),
        ("sys/devices/usb1/serial", "000000000000\n"),
        ("run/udev/data/c1:1", "E:ID_VENDOR=Acme\nE:ID_MODEL=Thing\nE:ID_SERIAL=Acme_Thing\n"),
    ],
)
def test_what_names_a_place_or_a_kind_stays(path: str, text: str) -> None:
    there = [file(path, text), Entry("sys/bus/platform/devices/vhci_hcd.0", Kind.LINK, target="x")]
    assert all_of(there) == there


@pytest.mark.parametrize("serial", ["AB10x99CDEF", "Phoenx-Data-77"])
def test_what_begins_some_serials_may_stand_within_others(serial: str) -> None:
    """Without ``\\A`` in ``_PREFIX`` another text is looked for, and the serial stays."""
    (entry,) = all_of([file("sys/devices/usb1/1-1/serial", serial)])
    assert entry.content.decode() == disguised(serial) != serial


def test_what_is_too_short_stays_and_is_told() -> None:
    there = [file("sys/devices/usb1/serial", "12A\n"), file("sys/devices/usb1/idVendor", "12A\n")]
    assert all_of(there) == there
    assert collect(there).too_short == {"12A"}


def test_one_that_is_short_counts_only_by_itself() -> None:
    entries = all_of(
        [file("sys/devices/usb1/serial", "030000\n"), file("sys/x/class", "0x030000\n")]
    )
    assert entries[0].content != b"030000\n"
    assert entries[1].content == b"0x030000\n"


def test_the_name_of_the_host_is_replaced() -> None:
    (entry,) = all_of([file("dev/mapper/hermes7--vg-root", "")], hostname="hermes7")
    assert "hermes7" not in entry.path


SERIALS = st.text("abcdefABCDEFxyzXYZ0123456789 -_.:/", min_size=6, max_size=24)


@example(serial="0:00000000000")  # as long as an address, its first two digits apart
@given(serial=SERIALS)
def test_another_text_has_the_same_form(serial: str) -> None:
    def form(text: str) -> str:
        return re.sub(r"[0-9]", "9", re.sub(r"[A-Za-z]", "a", text))

    new = disguised(serial)
    assert len(new) == len(serial)
    is_hex = not re.sub(r"[^0-9A-Za-z]", "", serial).strip("0123456789abcdefABCDEF")
    assert is_hex or form(new) == form(serial)
    assert [one for one in new if not one.isalnum()] == [one for one in serial if not one.isalnum()]
    assert disguised(serial.lower()).lower() == new.lower()
    assert disguised(re.sub(r"[^0-9A-Za-z]", "", serial)) == re.sub(r"[^0-9A-Za-z]", "", new)
