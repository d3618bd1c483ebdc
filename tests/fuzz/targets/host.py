"""A machine whose sysfs, udev database and /dev hold anything: a pass continues and lists come.

An input is a list of edits of a testbed's copy, each ``KIND PATH NAME CONTENT`` as in ``_edits``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from genericdp.config.load import load
from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.changes import changes
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.sysfs import device_names, plugged_of
from genericdp.kubelet import servicer as messages
from genericdp.kubelet.servicer import encode_list
from genericdp.model import FileType
from genericdp.prepare import why_unusable
from genericdp.template import UnusableValueError

from tests.testbeds import loading
from tests.testbeds.telling import told_by_genericdp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.host.root import Root
    from genericdp.model import Resource

TESTBED = "serial-adapters"
_OTHERS = ("/1-0:1.0", "/1-1.2", "/1-1.3", "/1-1.4")
"""What is left out, for one adapter costs a fourth of four."""
CONFIG = rb"""
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: a/serial
    match: [{udev: {subsystem: tty}, hardware: {usb: {vendor: "*"}}}]
    id: $(usb.serial:-none)-$(property.ID_PATH:-x)
    values:
      name: {text: "$(device.name)", regex: "(.)"}
      up: {link: "$(device.syspath)/device/driver"}
      port: {file: "$(device.syspath)/uevent", regex: "DEVNAME=(.*)"}
      number: {linkedBy: "/sys/dev/char/*"}
    inject:
      mounts: [{hostPath: "/dev/serial/by-$(value.number:-x)", containerPath: /x, optional: true}]
      env: {NAME: "$(device.name)", P: "$(property.ID_SERIAL:-none)", V: "$(value.name)"}
      annotations: {a/b: "$(value.up:-x)$(attribute.device/uevent:-y)"}
  - name: a/usb
    match: [{usb: {}}]
    inject: {env: {S: "$(usb.serial:-x)$(attribute.uevent:-y)"}}
  - name: a/files
    match: [{path: ["/dev/*", "/dev/*/*", "/dev/*/*/*"]}]
    inject:
      devices: [{path: "$(device.path)"}, {path: "/dev/bus/*/*", optional: true}]
      env: {NAME: "$(device.path)"}
      annotations: {a/b: "$(property.DEVNAME:-none)"}
"""
WRITE, LINK, REMOVE, FILE_BESIDE, LINK_BESIDE = range(5)
SEPARATOR = b"\n\0\n"
WORDS = (
    *(SEPARATOR, b"0", b"1", b"2", b"3", b"4", b"\0", b"MAJOR=188\n", b"MINOR=0\n"),
    *(b"DEVNAME=ttyUSB0\n", b"DEVTYPE=", b"=", b"E:ID_PATH=", b"S:serial/x\n", b"G:systemd\n"),
    *(b"\xff", b"\xed\xa0\x80", b"../../../devices/", b"/sys/devices/", b"/dev/ttyUSB0", b".."),
    *(b"9" * 30, b"9" * 4400, "٣".encode(), "²".encode(), b"\r", b"\x7f", b"$(", b"::", b"/"),
    *(
        b"E:MAJOR=",
        b"E:USEC_INITIALIZED=",
        b"I:1\n",
        b"Q:\n",
        b"E:DEVNAME=/dev/\xff\n",
        b"/.",
        b"//",
    ),
)


class Edit(NamedTuple):
    kind: int
    path: int
    name: bytes
    content: bytes


def _edits(data: bytes) -> list[Edit]:
    """Take an input apart: a digit for the kind, a byte for the path; the name ends at a NUL."""
    found = []
    for part in data.split(SEPARATOR)[:8]:
        if len(part) > 2:
            name, _, content = part[2:].partition(b"\0")
            found.append(Edit(part[0] % 5, part[1], name, content))
    return found


def _edit(kind: int, path: int, name: bytes = b"", content: bytes = b"") -> bytes:
    return bytes([50 + kind, path]) + name + b"\0" + content


def seeds() -> Iterator[bytes]:
    with TemporaryDirectory() as directory:
        paths = _paths(_built(Path(directory)))
        for at, path in enumerate(paths):
            file = Path(directory + path)
            if path.endswith("uevent") or "/udev/data/" in path:
                yield _edit(WRITE, at, content=file.read_bytes())
            elif path.startswith("/dev/ttyUSB"):
                yield _edit(FILE_BESIDE, at, b"tty\xff")
                yield _edit(LINK_BESIDE, at, b"\xfe", os.fsencode(file.name))
            elif file.is_symlink():
                yield _edit(LINK, at, content=os.fsencode(os.readlink(file)))


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with TemporaryDirectory() as directory, TemporaryDirectory() as configs:
        (Path(configs) / "c.yaml").write_bytes(CONFIG)
        loaded = load([Path(configs)])
        assert not loaded.problems, loaded.problems
        root = _built(Path(directory))
        paths = _paths(root)
        yield lambda data: _run(data, root, paths, loaded.resources)


def _built(directory: Path) -> Root:
    text = loading.path_of(TESTBED).read_text()
    blocks = [entry for entry in text.split("\n\n") if not any(path in entry for path in _OTHERS)]
    with TemporaryDirectory() as scratch:
        part = Path(scratch) / "part.umockdev"
        part.write_text("\n\n".join(blocks))
        return loading.build(part, directory)


def _paths(root: Root) -> list[str]:
    """Give the files and links of the copy."""
    directory = root.real("")
    found = (path for path in Path(directory).rglob("*") if path.is_symlink() or path.is_file())
    return sorted(str(path).removeprefix(directory) for path in found)


def _run(data: bytes, root: Root, paths: list[str], resources: tuple[Resource, ...]) -> None:
    with _changed(data, root, paths):
        told_by_genericdp(root)
        for file_type in FileType:
            plugged_of(
                root.read_text,
                file_type,
                "/sys" + paths[len(data) % len(paths)].removeprefix("/sys"),
            )
        device_names(root)
        found = decide(
            resources,
            HostCache(root),
            node_name="n",
            previous={},
            now=0.0,
        )
        assert all(change.text for change in changes({}, found))
        for offer in found.lists.values():
            encode_list(offer)
            for device in list(offer.devices.values())[:4]:
                why_unusable(root, [device.device])
                with suppress(AllocationConflictError, UnusableValueError):
                    messages.allocation([edits([device.device])])


@contextmanager
def _changed(data: bytes, root: Root, paths: list[str]) -> Iterator[None]:
    """Make the edits, and undo them."""
    undo: list[Callable[[], object]] = []
    try:
        for edit in _edits(data):
            with suppress(OSError, ValueError):  # a name too long, a string no link can hold
                undo.append(_changed_one(edit, Path(root.real(paths[edit.path % len(paths)]))))
    finally:
        yield
        for mend in reversed(undo):
            mend()


def _changed_one(edit: Edit, path: Path) -> Callable[[], object]:
    content = edit.content.replace(b"\0", b"")
    if edit.kind in {FILE_BESIDE, LINK_BESIDE}:
        made = path.parent / os.fsdecode(edit.name.replace(b"/", b"") or b"x")
        if edit.kind == FILE_BESIDE:
            with made.open("xb") as file:
                file.write(content)
        else:
            made.symlink_to(os.fsdecode(content or b"."))
        return made.unlink
    mend = _kept(path)
    if edit.kind == WRITE:
        path.unlink()
        path.write_bytes(edit.content)
    else:
        path.unlink()
        if edit.kind == LINK:
            with suppress(OSError):
                path.symlink_to(os.fsdecode(content))
    return mend


def _kept(path: Path) -> Callable[[], object]:
    """Give what puts a file or link back as it was."""
    if path.is_symlink():
        target = os.readlink(path)

        def link() -> None:
            path.unlink(missing_ok=True)
            path.symlink_to(target)

        return link
    before = path.read_bytes()

    def write() -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(before)

    return write
