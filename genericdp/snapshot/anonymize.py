"""Replaces serial numbers and the like with others of the same form, consistently.

First they are collected from the attributes and properties that are known to hold them; then each
text is searched for them: names of files, targets of links, contents. So what named one stick
before, in whatever spelling, still names one stick afterwards, and the same one each time.

It hides serials from readers. Who guesses one can check the guess: the digest has no secret.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from genericdp.snapshot.archive import Entry, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORTEST = 6
"""Letters and digits; what has fewer would be found in places where it means something else."""
_ALONE_UP_TO = 7
"""Up to so many, it counts only where no further letter or digit is beside it."""

_ATTRIBUTES = frozenset(
    (
        *("serial", "serial_number", "serialnumber", "unique_id", "uniq", "uid", "ifalias"),
        *("wwid", "wwn", "eui", "nguid", "uuid", "hostnqn", "hostid", "subsysnqn", "cid", "csd"),
        *("perm_address", "permaddr", "phys_switch_id", "bssid"),
        *("port_name", "node_name", "fabric_name", "sas_address", "targetname", "initiatorname"),
        *("node_guid", "sys_image_guid", "port_guid", "guid", "device_id", "fs_uuid"),
    )
)
_PROPERTIES = frozenset(
    (
        *("ID_SERIAL_SHORT", "ID_USB_SERIAL_SHORT", "ID_SCSI_SERIAL", "SCSI_IDENT_SERIAL"),
        *("ID_WWN", "ID_WWN_WITH_EXTENSION", "ID_ATA_SERIAL", "UNIQ", "HID_UNIQ", "DM_UUID"),
        *("ID_FS_UUID", "ID_FS_UUID_SUB", "ID_FS_UUID_ENC", "ID_FS_LABEL", "ID_FS_LABEL_ENC"),
        *("ID_PART_ENTRY_UUID", "ID_PART_TABLE_UUID", "ID_PART_ENTRY_NAME", "PARTUUID"),
        *("ID_FS_VERSION_UUID", "DM_NAME", "DM_LV_NAME", "DM_VG_NAME", "PARTNAME", "MD_UUID"),
        *("ID_NET_NAME_MAC", "DM_CRYPT_UUID", "MD_NAME", "ID_REVISION_SERIAL"),
    )
)
_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]){5}(?:[0-9a-f]{2}[:-])*[0-9a-f]{2}", re.IGNORECASE)
_MAC_DIGITS = 12
_GUID = re.compile(r"(?:[0-9a-f]{4}:)+[0-9a-f]{4}", re.IGNORECASE)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_PREFIX = re.compile(r"\A(?:(?:eui|naa|uuid|t10|nvme)\.|0x|enx|ib(?=[0-9a-f]{12}))")
_ALNUM = re.compile(r"[^0-9A-Za-z]")
_NOT_OF_UDEV = re.compile(r"[^0-9A-Za-z#+\-.:=@_/]")
_USB_HOST = re.compile(r"/([^/]+)/usb\d+$")
"""What the kernel gives a root hub for its serial number."""
_GROUPS = re.compile(r"gids/\d+$")


@dataclass(slots=True)
class Found:
    """The texts to be replaced."""

    texts: set[str] = field(default_factory=set)
    too_short: set[str] = field(default_factory=set)
    """What was left alone."""

    def add(self, text: str, *, own_names: frozenset[str]) -> None:
        """Add a serial number in all of its spellings; what is none is left out."""
        text = _PREFIX.sub("", text.strip(), count=1)
        canonical = _ALNUM.sub("", text)
        # A root hub has its controller's address for a serial: all devices behind it do.
        if _PCI.fullmatch(text) or text in own_names or len(set(canonical.lower())) < 2:
            return
        if len(canonical) < SHORTEST:
            self.too_short.add(text)
            return
        self.texts.update(_spellings(text))


def _spellings(text: str) -> Iterator[str]:
    """Give a text as the kernel, udev and links write it."""
    yield text
    words = re.sub(r"\s+", "_", text)
    yield _NOT_OF_UDEV.sub("_", words)
    yield _NOT_OF_UDEV.sub(lambda x: "".join(f"\\x{one:02x}" for one in x[0].encode()), text)
    if _MAC.fullmatch(text) or _GUID.fullmatch(text):
        bare = _ALNUM.sub("", text)
        for one in (text, bare, text.replace(":", "-")):
            yield one.lower()
            yield one.upper()
    elif re.fullmatch(r"[0-9a-fA-F-]+", text):
        yield from (text.lower(), text.upper())


def collect(entries: Iterable[Entry], hostname: str = "") -> Found:
    """Find what tells this machine and its devices from all others."""
    kept = list(entries)
    found = Found()
    listed = (one.path.split("/")[-1] for one in kept if one.path.startswith("sys/bus/"))
    hosts = (host[1] for one in kept if (host := _USB_HOST.search(one.path)))
    own_names = frozenset((*listed, *hosts))
    whole: list[str] = []
    for entry in kept:
        if entry.kind is Kind.FILE and entry.content:
            for text in _told(entry, whole):
                found.add(text, own_names=own_names)
    within = Disguise(frozenset(found.texts))
    for text in whole:
        # Made up of maker, model and serial: where that is known, it alone is replaced.
        if within.text(text) == text:
            found.add(text, own_names=own_names)
    if hostname and hostname != "localhost":
        found.add(hostname, own_names=own_names)
    return found


def _told(entry: Entry, whole: list[str]) -> Iterator[str]:
    name = entry.path.rpartition("/")[2]
    text = entry.content.decode(errors="surrogateescape")
    if entry.path.startswith("run/") or name == "uevent":
        yield from _told_by_properties(text, whole)
    elif name in {"address", "broadcast"}:
        # That of a network card, not the place of a chip or slot.
        yield from [text] if _MAC.fullmatch(text.strip()) else []
    elif name in _ATTRIBUTES or _GROUPS.search(entry.path):
        yield text


def _told_by_properties(text: str, whole: list[str]) -> Iterator[str]:
    pairs = (line.removeprefix("E:").partition("=") for line in text.splitlines())
    properties = {key: value.strip('"') for key, _, value in pairs}
    yield from (properties[key] for key in properties.keys() & _PROPERTIES)
    serial = properties.get("ID_SERIAL", "")
    made_up = f"{properties.get('ID_VENDOR')}_{properties.get('ID_MODEL')}"
    if serial and "ID_SERIAL_SHORT" not in properties and serial != made_up:
        whole.append(serial)


@dataclass(frozen=True)
class Disguise:
    """Replaces the texts that were found."""

    texts: frozenset[str]
    _known: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def _by_start(self) -> dict[str, list[str]]:
        starts: dict[str, list[str]] = {}
        for text in sorted(self.texts, key=lambda one: (-len(one), one)):
            starts.setdefault(text[:SHORTEST], []).append(text)
        return starts

    def entry(self, entry: Entry) -> Entry:
        """Give an entry with all replaced."""
        content = entry.content
        if content:
            lines = content.decode(errors="surrogateescape").split("\n")
            content = "\n".join(map(self.text, lines)).encode(errors="surrogateescape")
        return Entry(self._path(entry.path), entry.kind, content, self._path(entry.target))

    def _path(self, path: str) -> str:
        return "/".join(map(self.text, path.split("/")))

    def text(self, text: str) -> str:
        """Give a line, or one part of a path, with all replaced."""
        if len(text) < SHORTEST:
            return text
        if text not in self._known:
            self._known[text] = self._replaced(text)
        return self._known[text]

    def _replaced(self, text: str) -> str:
        parts: list[str] = []
        at = since = 0
        while at + SHORTEST <= len(text):
            found = self._at(text, at)
            if found:
                parts += (text[since:at], disguised(found))
                at = since = at + len(found)
            else:
                at += 1
        return "".join((*parts, text[since:])) if parts else text

    def _at(self, text: str, at: int) -> str:
        for one in self._by_start.get(text[at : at + SHORTEST], ()):
            if text.startswith(one, at) and _stands_for_itself(one, text, at):
                return one
        return ""


def _stands_for_itself(one: str, text: str, at: int) -> bool:
    if len(one) > _ALONE_UP_TO:
        return True
    beside = text[at - 1 : at] + text[at + len(one) : at + len(one) + 1]
    return not any(map(str.isalnum, beside))


def disguised(text: str) -> str:
    """Give another text of the same form: digits stay digits, hex stays hex, the rest stays.

    All spellings of one text, by case and punctuation, become spellings of one other text.
    """
    spelt = re.sub(r"\\x[0-9a-f]{2}", "", text)
    canonical = _ALNUM.sub("", spelt).lower()
    digest = hashlib.shake_256(f"genericdp {canonical}".encode()).digest(len(canonical))
    if len(canonical) == _MAC_DIGITS and not canonical.strip("0123456789abcdef"):
        digest = b"\x00\x02" + digest[2:]  # begins with 02: an address of one card, of no maker
    numbers = iter(digest)
    is_hex = not canonical.strip("0123456789abcdef") and not canonical.isdecimal()
    upper = any(map(str.isupper, spelt))

    def other(match: re.Match[str]) -> str:
        one = match[0]
        if len(one) > 1:
            return one  # an escape
        number = next(numbers)
        if is_hex:
            return f"{number % 16:{'X' if upper else 'x'}}"
        if one.isdecimal():
            return str(number % 10)
        return chr((ord("A") if one.isupper() else ord("a")) + number % 26)

    return re.sub(r"\\x[0-9a-f]{2}|[0-9A-Za-z]", other, text)
