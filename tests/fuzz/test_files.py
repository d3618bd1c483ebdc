"""Files of others raise nothing but what is declared, whatever bytes they hold."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from genericdp.config.build import build
from genericdp.config.check import check_config
from genericdp.config.child import decode, encode
from genericdp.config.files import Loaded
from genericdp.config.load import load, plain_resources
from genericdp.config.manifests import read_config
from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.changes import changes
from genericdp.devices.decide import decide
from genericdp.gate import why_unusable
from genericdp.host.cache import HostCache, Stale
from genericdp.host.events import uevent_of
from genericdp.host.root import Root
from genericdp.host.sysfs import device_names, parse_record, plugged_of
from genericdp.kubelet import servicer as messages
from genericdp.kubelet.servicer import encode_list
from genericdp.model import FileType, Resource
from genericdp.template import UnusableValueError

from tests.fuzz.varying import attempt, words
from tests.testbeds import loading
from tests.testbeds.telling import told_by_genericdp

CONFIGS = Path(__file__).parents[1] / "configs"
OF_CONFIGS = words(r"""
    name: match: exclude: path: udev: usb: pci: net: hardware: values: text: file: link: linkedBy:
    regex: optional: groupBy: groupNeeds: inject: devices: mounts: env: cdi: annotations: health:
    open: kernelLog: where: ignore: hooks: replicas: $(device.path) $(usb.serial) $$( :-x) 0403 id:
    0x1f 1_0 ~ null on && *a &a <<: !!str !!binary ? --- ... # | > % @ [*] 1e10 exec: [!a-b]
    (?P<a>.) \\xff \\U0001F600 -\s :\s \n\s\s \t \r\n \xef\xbb\xbf \xe2\x80\xa8 \0 { } [ ] '
    apiVersion:\sgenericdp.io/v1alpha1\nkind:\sDevicePluginConfig\nresources:\n
""")


def test_any_bytes_are_a_config_that_can_be_used_or_have_problems_with_places(
    tmp_path: Path,
) -> None:
    root = loading.build(loading.path_of("can"), tmp_path)
    files = [*sorted(CONFIGS.glob("valid/*.yaml")), *sorted(CONFIGS.glob("invalid/*.yaml"))]
    seeds = [file.read_bytes() for file in files if file.stat().st_size < 5000]
    attempt(lambda data: _use_config(data, root), seeds, OF_CONFIGS, corpus="config")


def _use_config(content: bytes, root: Root) -> None:
    documents, problems = read_config("f", content)
    found, warnings = check_config(documents)
    assert documents or problems, "neither a document nor a problem"
    ends = (b"\n", b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
    lines = sum(map(content.count, ends)) + 3
    for problem in (*problems, *found, *warnings):
        assert 1 <= problem.line <= lines, problem
        assert 1 <= problem.column <= len(content) + 2, problem
        str(problem).encode()
    if problems or found:
        return
    checked = [plain for document in documents for plain in plain_resources(document)]
    resources = build(checked)
    assert decode(encode(Loaded(), checked)).resources == resources, "the pipe changes the config"
    decided = decide(resources, HostCache(root), node_name="edge-1", previous={}, now=0.0)
    for offer in decided.lists.values():
        encode_list(offer)


END = b"\0\0"
"""Between a record and the events, and between these."""
OF_UDEV = words(r"""
    E: S: G: Q: I: L: V:1\n W:1\n \n \r \0 = \0\0 add@/devices/ remove@ move@ ACTION= n1 +a: .. //
    DEVPATH=/devices/ DEVPATH_OLD=/devices/ SUBSYSTEM=net IFINDEX= MAJOR= MINOR= SEQNUM=1
    E:USEC_INITIALIZED=\n I:\xd9\xa1\n \xff
""")


def test_any_bytes_are_a_record_of_udev_and_events_of_the_kernel(tmp_path: Path) -> None:
    root = loading.build(loading.path_of("can"), tmp_path)
    moved = b"move@/devices/a\0DEVPATH_OLD=/devices/b\0ACTION=move"
    seeds = [*_udev_seeds(), END + moved + END]
    attempt(lambda data: _hear(data, root), seeds, [*OF_UDEV, b"x" * 300])


def _udev_seeds() -> Iterator[bytes]:
    for name in ("can", "serial-adapters"):
        for entry in loading.parse(loading.path_of(name).read_text()):
            event = f"add@{entry.path}\0ACTION=add\0DEVPATH={entry.path}\0SUBSYSTEM=net"
            record = loading.record_of(entry) if entry.udev else ""
            yield record.encode() + END + event.encode()


def _hear(data: bytes, root: Root) -> None:
    text, *events = data.split(END)[:20]
    assert all(parse_record(text.decode(errors="backslashreplace")).properties.keys())
    facts = HostCache(root)
    facts.subsystems()
    for message in events:
        with suppress(UnicodeError):
            device = _device(message)
            event = uevent_of(device)
            facts.forget(Stale(syspaths={event.syspath}))
            facts.device(event.syspath)
            facts.members(device.subsystem or "")
    lines = (line.decode(errors="surrogateescape") for line in text.split(b"\n")[:5])
    facts.forget(Stale(records={line.replace("\0", "") for line in lines}))


def _device(message: bytes) -> SimpleNamespace:
    """Return an event as libudev gives it; raises UnicodeError if it cannot be decoded."""
    header, *pairs = message.decode().split("\0")
    action, _, path = header.partition("@")
    properties = {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
    subsystem = properties.get("SUBSYSTEM")
    return SimpleNamespace(
        action=action, sys_path=f"/sys{path}", properties=properties, subsystem=subsystem
    )


OTHERS = ("/1-0:1.0", "/1-1.2", "/1-1.3", "/1-1.4")
"""What is left out of the testbed, for one adapter costs a fourth of four."""
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
NEXT = b"\n\0\n"
"""Between edits, each ``KIND PATH NAME NUL CONTENT``: a digit, a byte, and any bytes."""
OF_HOSTS = words(r"""
    \n\0\n 0 1 2 3 4 \0 MAJOR=188\n MINOR=0\n DEVNAME=ttyUSB0\n DEVTYPE= = E:ID_PATH= S:serial/x\n
    G:systemd\n \xff \xed\xa0\x80 ../../../devices/ /sys/devices/ /dev/ttyUSB0 .. \xd9\xa3 \xc2\xb2
    \r \x7f $( :: / E:MAJOR= E:USEC_INITIALIZED= I:1\n Q:\n E:DEVNAME=/dev/\xff\n /. //
""")


def test_whatever_sysfs_and_dev_hold_a_pass_goes_on_and_lists_come(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(CONFIG)
    loaded = load([tmp_path / "c.yaml"])
    assert not loaded.problems, loaded.problems
    blocks = loading.path_of("serial-adapters").read_text().split("\n\n")
    part = tmp_path / "part.umockdev"
    part.write_text(
        "\n\n".join(block for block in blocks if not any(path in block for path in OTHERS))
    )
    machine = tmp_path / "machine"
    loading.build(part, machine)
    files = (path for path in machine.rglob("*") if path.is_symlink() or path.is_file())
    paths = sorted(str(path.relative_to(machine)) for path in files)

    def run(data: bytes) -> None:
        with TemporaryDirectory() as place:
            copy = shutil.copytree(machine, Path(place) / "m", symlinks=True)
            for edit in data.split(NEXT)[:8]:
                if len(edit) > 2:
                    with suppress(OSError, ValueError):  # a name too long, no string for a link
                        _edit(copy / paths[edit[1] % len(paths)], edit[0] % 5, edit[2:])
            _look(Root(copy), f"/{paths[len(data) % len(paths)]}", loaded.resources)

    seeds = [*_host_seeds(machine, paths)]
    attempt(run, seeds, [*OF_HOSTS, b"9" * 30, b"9" * 4400])


def _host_seeds(machine: Path, paths: list[str]) -> Iterator[bytes]:
    for at, path in enumerate(paths):
        file = machine / path
        if path.endswith("uevent") or "/udev/data/" in path:
            yield b"2%c\0" % at + file.read_bytes()
            for line in (b"I:%s\n", b"E:MAJOR=%s\n", b"MAJOR=%s\n"):
                yield b"2%c\0" % at + file.read_bytes() + line % (b"9" * 4400)
        elif path.startswith("dev/ttyUSB"):
            yield b"5%ctty\xff\0" % at
            yield b"6%c\xfe\0" % at + os.fsencode(file.name)
        elif file.is_symlink():
            yield b"3%c\0" % at + os.fsencode(os.readlink(file))


def _edit(path: Path, kind: int, data: bytes) -> None:
    name, _, content = data.partition(b"\0")
    if kind in {FILE_BESIDE, LINK_BESIDE}:
        path = path.parent / os.fsdecode(name.replace(b"/", b"") or b"x")
    else:
        path.unlink()
    if kind == WRITE:
        path.write_bytes(content)
    elif kind == FILE_BESIDE:
        with path.open("xb") as file:
            file.write(content)
    elif kind != REMOVE:
        path.symlink_to(os.fsdecode(content.replace(b"\0", b"") or b"."))


def _look(root: Root, syspath: str, resources: tuple[Resource, ...]) -> None:
    told_by_genericdp(root)
    for file_type in FileType:
        plugged_of(root.read_text, file_type, "/sys" + syspath.removeprefix("/sys"))
    device_names(root)
    found = decide(resources, HostCache(root), node_name="n", previous={}, now=0.0)
    assert all(change.text for change in changes({}, found))
    for offer in found.lists.values():
        encode_list(offer)
        for entry in list(offer.devices.values())[:4]:
            why_unusable(root, [entry.device])
            with suppress(AllocationConflictError, UnusableValueError):
                messages.allocation([edits([entry.device])])
