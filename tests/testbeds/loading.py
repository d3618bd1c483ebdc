"""Makes the machines of this directory: as a copied tree, or under umockdev.

    python -m tests.testbeds.loading webcam DIRECTORY
    umockdev-run -d tests/testbeds/webcam.umockdev -- COMMAND

The files are umockdev's text: for each device ``P:`` its path, ``N:`` its node, ``S:`` the links
to that, ``E:`` properties, ``A:`` and ``H:`` attributes (as text, in hex), ``L:`` links in sysfs.
What udev would have found out is among the properties; both ways put it into records of the udev
database, where it belongs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.host.root import Root

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTORY = Path(__file__).parent
NAMES = tuple(sorted(file.stem for file in DIRECTORY.glob("*.umockdev")))
_BUSES = {
    *("auxiliary", "dfl", "gpio", "hid", "i2c", "mdev", "media", "node", "pci", "platform"),
    *("scsi", "serial", "spi", "usb", "usb-serial"),
}
_OF_UDEV = (
    *("COLORD_", "ID_", "INTERFACE_OLD", "LIBINPUT_", "SOUND_", "SYSTEMD_"),
    *("CURRENT_TAGS", "DEVLINKS", "TAGS", "USEC_INITIALIZED"),
)
OF_UDEV = tuple(f"E: {key}" for key in _OF_UDEV)
"""How lines begin that show what udev has found out."""
_PRIVATE_RUN = 'mount --bind "$1" /run && shift && exec "$@"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One device of a testbed."""

    path: str
    """Below /sys."""
    node: str = ""
    content: bytes = b""
    links: tuple[str, ...] = ()
    """Those that lead to this device: others may claim them too."""
    kernel: dict[str, str] = field(default_factory=dict)
    udev: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, bytes] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)

    @property
    def subsystem(self) -> str:
        """Its bus or class; empty if it has none."""
        return self.kernel.get("SUBSYSTEM", "")

    @property
    def number(self) -> str:
        """Major and minor number with a colon, if it has a node."""
        return f"{self.kernel['MAJOR']}:{self.kernel['MINOR']}" if self.node else ""


def path_of(name: str) -> Path:
    """Give the file of a testbed."""
    return DIRECTORY / f"{name}.umockdev"


def parse(text: str) -> tuple[Entry, ...]:
    """Take a testbed apart."""
    return tuple(_entry(part.splitlines()) for part in text.split("\n\n") if part.strip())


def _entry(lines: list[str]) -> Entry:
    pairs = [(line[0], line[3:]) for line in lines]
    properties = dict(text.split("=", 1) for kind, text in pairs if kind == "E")
    node, _, content = next((text for kind, text in pairs if kind == "N"), "").partition("=")
    attributes = dict(text.split("=", 1) for kind, text in pairs if kind == "A")
    hexes = dict(text.split("=", 1) for kind, text in pairs if kind == "H")
    return Entry(
        path=next(text for kind, text in pairs if kind == "P"),
        node=node,
        content=bytes.fromhex(content),
        links=tuple(text for kind, text in pairs if kind == "S"),
        kernel={key: value for key, value in properties.items() if not key.startswith(_OF_UDEV)},
        udev={key: value for key, value in properties.items() if key.startswith(_OF_UDEV)},
        attributes={
            **{key: _unescaped(value) for key, value in attributes.items()},
            **{key: bytes.fromhex(value) for key, value in hexes.items()},
        },
        pointers=dict(text.split("=", 1) for kind, text in pairs if kind == "L"),
    )


def _unescaped(text: str) -> bytes:
    """Undo umockdev's escapes: a backslash is doubled, a line's end is ``\\n``."""
    return "\\".join(part.replace("\\n", "\n") for part in text.split("\\\\")).encode()


def build(testbed: Path, directory: Path) -> Root:
    """Make a copied tree of a testbed, as ``discover --root`` takes one."""
    build_entries(parse(testbed.read_text()), directory)
    return Root(directory)


def build_entries(entries: Sequence[Entry], directory: Path) -> None:
    """Add devices to a copied tree, which may be empty."""
    # Without a device that udev would know, as on a machine without udev.
    of_udev = [] if entries and not any(entry.subsystem for entry in entries) else ["run/udev/data"]
    for path in ("dev", *of_udev, "sys/dev/char", "sys/dev/block"):
        (directory / path).mkdir(parents=True, exist_ok=True)
    for entry in entries:
        _add_device(directory, entry)
        _add_node(directory, entry)
        if entry.udev:
            _write(directory / "run/udev/data" / record_name(entry), record_of(entry).encode())
    for entry in entries:
        for pointer, target in entry.pointers.items():
            _point(directory / f"sys{entry.path}" / pointer, target)


def remove_entry(entry: Entry, directory: Path) -> None:
    """Remove a device from a copied tree, with its node, its links, and its record."""
    device = directory / f"sys{entry.path}"
    for link in (*_members(directory, entry), *_node_links(directory, entry)):
        link.unlink(missing_ok=True)
    (directory / "run/udev/data" / record_name(entry)).unlink(missing_ok=True)
    shutil.rmtree(device)


def _add_device(directory: Path, entry: Entry) -> None:
    device = directory / f"sys{entry.path}"
    kernel = {key: value for key, value in entry.kernel.items() if key != "SUBSYSTEM"}
    if entry.node:
        kernel["DEVNAME"] = entry.node
    _write(device / "uevent", "".join(f"{k}={v}\n" for k, v in kernel.items()).encode())
    for attribute, content in entry.attributes.items():
        _write(device / attribute, content)
    for member in _members(directory, entry):
        add_link(member, device)
        add_link(device / "subsystem", directory / "sys" / _subsystem_of(entry))


def _subsystem_of(entry: Entry) -> str:
    return f"{'bus' if entry.subsystem in _BUSES else 'class'}/{entry.subsystem}"


def _members(directory: Path, entry: Entry) -> list[Path]:
    """Return the link to a device among those of its subsystem, if it has one."""
    if not entry.subsystem:
        return []
    members = directory / "sys" / _subsystem_of(entry)
    if entry.subsystem in _BUSES:
        members /= "devices"
    return [members / entry.path.rpartition("/")[2]]


def _node_links(directory: Path, entry: Entry) -> list[Path]:
    """Return the node of a device and what leads to it: no paths if it has none."""
    if not entry.node:
        return []
    kind = "block" if entry.subsystem == "block" else "char"
    names = (entry.node, *entry.links)
    return [
        directory / f"sys/dev/{kind}/{entry.number}",
        *(directory / "dev" / name for name in names),
    ]


def _add_node(directory: Path, entry: Entry) -> None:
    if not entry.node:
        return
    by_number, node, *links = _node_links(directory, entry)
    add_link(by_number, directory / f"sys{entry.path}")
    _write(node, entry.content)
    for link in links:
        add_link(link, node)


def record_name(entry: Entry) -> str:
    if entry.node:
        return f"{'b' if entry.subsystem == 'block' else 'c'}{entry.number}"
    if index := entry.kernel.get("IFINDEX"):
        return f"n{index}"
    return f"+{entry.subsystem}:{entry.path.rpartition('/')[2]}"


def record_of(entry: Entry) -> str:
    """Write a record as udev does; what libudev derives from the rest is not in it as such."""
    rest = dict(entry.udev)
    links = [f"S:{link.removeprefix('/dev/')}" for link in rest.pop("DEVLINKS", "").split()]
    initialized = [f"I:{rest.pop('USEC_INITIALIZED')}"]
    tags = [f"G:{tag}" for tag in rest.pop("TAGS", "").split(":") if tag]
    current = [f"Q:{tag}" for tag in rest.pop("CURRENT_TAGS", "").split(":") if tag]
    properties = [f"E:{key}={value}" for key, value in rest.items()]
    return "\n".join([*links, *initialized, *properties, *tags, *current, "V:1", ""])


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except FileNotFoundError:  # most often the directory is there
        file.parent.mkdir(parents=True)
        file.write_bytes(content)


def add_link(link: Path, target: Path) -> None:
    """Make a link as the kernel and udev do, with the directories on its way."""
    relative = os.path.relpath(target, link.parent)
    try:
        link.symlink_to(relative)
    except FileNotFoundError:
        link.parent.mkdir(parents=True)
        link.symlink_to(relative)


def _point(link: Path, target: str) -> None:
    """Add a link of sysfs, and the directory it leads to: of a driver, of an IOMMU group."""
    link.symlink_to(target)
    Path(os.path.normpath(link.parent / target)).mkdir(parents=True, exist_ok=True)


def write_kernel_part(testbed: Path, file: Path) -> None:
    """Write a testbed without what udev has found out, since umockdev has no udev database."""
    lines = testbed.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith(OF_UDEV)))


def umockdev_command(testbed: Path, directory: Path, *command: str) -> list[str]:
    """Give what runs a command on a testbed, in a directory to work in.

    umockdev shows its /dev and /sys to the command, but not its udev database: so /run is that of
    the copied tree, in a mount namespace of the command's own.
    """
    build(testbed, directory / "tree")
    write_kernel_part(testbed, directory / "kernel.umockdev")
    return [
        *with_private_run(directory / "tree/run"),
        *("umockdev-run", "-d", str(directory / "kernel.umockdev"), "--", *command),
    ]


def with_private_run(run: Path) -> list[str]:
    """Give what runs a command with a /run of its own."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return [
        *("unshare", "--mount", "--propagation", "private", *as_root),
        *("sh", "-c", _PRIVATE_RUN, "sh", str(run)),
    ]


def why_no_umockdev() -> str:
    """Say why testbeds cannot be run here; empty if they can."""
    if shutil.which("umockdev-run") is None:
        return "umockdev-run is not installed (Debian's umockdev)"
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    tried = subprocess.run(
        ["unshare", "--mount", *as_root, "true"], check=False, capture_output=True, text=True
    )
    return f"no mount namespace can be had: {tried.stderr.strip()}" if tried.returncode else ""


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m tests.testbeds.loading {'|'.join(NAMES)} DIRECTORY")
    if (Path(sys.argv[2]) / "sys").exists():
        sys.exit(f"there is a machine in {sys.argv[2]} already: name a new directory")
    build(path_of(sys.argv[1]), Path(sys.argv[2]))
