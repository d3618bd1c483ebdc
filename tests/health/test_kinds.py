"""Probes of files and of nodes: what is expected of them, what is odd, and reads that hang."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.devices.device import BoundProbe, DeviceNode
from genericdp.health.execution import command_environment, sha256
from genericdp.health.health import Probes
from genericdp.health.kinds.file import FileCheck, check_content, quote
from genericdp.health.kinds.open import OpenCheck
from genericdp.host.devicefiles import DeviceFiles
from genericdp.host.root import Root
from genericdp.model import Probe, number
from genericdp.process.run import Commands
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.health.probed_devices import R, device
from tests.polling import ask_until

if TYPE_CHECKING:
    from genericdp.devices.device import Device
    from genericdp.model import Check

MACHINE = Root(Path("/"))


@pytest.mark.parametrize(
    ("content", "expected", "wrong"),
    [
        ("4: ACTIVE\n", {"regex": "ACTIVE"}, ""),
        ("1: DOWN\n", {"regex": "ACTIVE"}, "'1: DOWN', not matching 'ACTIVE'"),
        ("up\n", {"equals": "up"}, ""),
        (" up \n", {"equals": "up"}, ""),
        ("up2", {"equals": "up"}, "'up2', not 'up'"),
        ("", {"equals": ""}, ""),
        ("\n", {"equals": "up"}, "'', not 'up'"),
        ("95\n", {"max": 90}, "'95', more than 90"),
        ("90", {"min": 90, "max": 90}, ""),
        ("-3", {"min": 0.5}, "'-3', less than 0.5"),
        ("0x1F", {"min": 31, "max": 31}, ""),
        ("1e3", {"min": 1000, "max": 1000}, ""),
        ("abc", {"max": 90}, "'abc', which is not a number"),
        ("nan", {"max": 90}, "'nan', which is not a number"),
        ("inf", {"min": 90}, "'inf', which is not a number"),
        ("1e999", {"min": 90}, "'1e999', which is not a number"),
        ("95 %", {"max": 99}, "'95 %', which is not a number"),
        (f"0x{'f' * 256}", {"max": 1}, f"'0x{'f' * 58}…', which is not a number"),
        ("5", {"regex": "5", "max": 4}, "'5', more than 4"),
        ("5", {"regex": "6", "max": 4}, "'5', not matching '6'"),
        ("5", {"equals": "5", "regex": "^5$", "min": 5, "max": 5}, ""),
        ("a\0b\x1b[2J", {"equals": "x"}, r"'a\x00b\x1b[2J', not 'x'"),
        ("x" * 61, {"equals": "x"}, f"'{'x' * 60}…', not 'x'"),
    ],
)
def test_a_content_is_judged(content: str, expected: dict[str, Any], wrong: str) -> None:
    check: FileCheck[str, float] = FileCheck(path="/sys/x", **expected)
    assert check_content(check, content).reason == (f"/sys/x is {wrong}" if wrong else "")


ODD_NUMBERS = ("", "1_000", "٣", "0x", "x1", "1.2.3", "--1", ".", "e5", "0b1", "1 2", "infinity")


@pytest.mark.parametrize("text", [*ODD_NUMBERS, "9" * 1_000_000], ids=[*ODD_NUMBERS, "a million"])
def test_what_looks_like_a_number_need_not_be_one(text: str) -> None:
    assert number(text) is None


@given(st.text() | st.from_regex(r"[+-]?[0-9xXa-fA-F.eE]*", fullmatch=True))
def test_no_text_raises_and_numbers_are_finite(text: str) -> None:
    value = number(text)
    assert value is None or isinstance(value, int) or math.isfinite(value)
    assert len(quote(text)) <= 63
    assert quote(text).isprintable()


async def reason(
    check: Check, of: Device | None = None, root: Root = MACHINE, *, seconds: float = 5
) -> str:
    """Return why a probe fails, if it does."""
    probe = Probe(check=OpenCheck(), timeout_seconds=seconds)  # type: ignore[arg-type]
    bound = BoundProbe(probe=probe, check=check)
    found = await Probes(Commands().run).run(bound, of or device("a"), resource="r", root=root)
    assert found.ok is not bool(found.reason)
    return found.reason


def file(path: Path | str, **expected: Any) -> FileCheck[str, float]:
    return FileCheck(path=str(path), **(expected or {"equals": "1"}))


async def test_files_are_read_and_odd_ones_have_a_reason(tmp_path: Path) -> None:
    """A serial number may be ``*``: after expansion a path is literal."""
    fifo, loop, state = tmp_path / "fifo", tmp_path / "loop", tmp_path / "state"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    state.write_text("0\n")
    (tmp_path / "well").write_text("1\n")
    for path, why in (
        (tmp_path / "well", ""),
        (state, "is '0', not '1'"),
        (tmp_path / "none", "does not exist"),
        (tmp_path / "none" / "below", "does not exist"),
        (tmp_path / "*", "does not exist"),
        (fifo, "cannot be read: it is a FIFO, not a file"),
        (tmp_path, "cannot be read: it is a directory, not a file"),
        (loop, "must not be read: its links lead in a circle"),
        ("/dev/zero", "cannot be read: it is a character device, not a file"),
        ("/sys/kernel/mm", "cannot be read: it is a directory, not a file"),
        ("/a\0b", "cannot be read: a path holds no NUL"),
    ):
        said = f"{path} {why}".replace("\0", r"\x00") if why else ""
        assert await reason(file(path)) == said
    assert await reason(file("/proc/self/status", regex="Name:")) == ""
    assert await reason(file("/proc/sys/kernel/ostype", regex="Linux")) == ""


@pytest.mark.parametrize(("size", "ok"), [(1024 * 1024, True), (1024 * 1024 + 1, False)])
async def test_a_mebibyte_is_read_and_no_more(tmp_path: Path, size: int, ok: bool) -> None:
    (tmp_path / "big").write_bytes(b"x" * size)
    assert (await reason(file(tmp_path / "big", regex="x$")) == "") is ok


class Refusing(Root):
    """A machine whose files cannot be opened."""

    def __init__(self, number: int) -> None:
        super().__init__(Path("/"))
        self.number = number

    def descriptor(self, path: str, flags: int) -> int:
        raise OSError(self.number, os.strerror(self.number), path)

    def read_bytes(self, path: str, *, limit: int, follow_symlinks: bool = True) -> bytes:
        raise OSError(self.number, os.strerror(self.number), path)


async def test_a_copied_tree_is_looked_at_instead_of_the_machine(tmp_path: Path) -> None:
    """Its links stay within it. What is not a string is shown escaped."""
    root = Root(tmp_path)
    for name in ("sys", "dev"):
        (tmp_path / name).mkdir()
    (tmp_path / "sys/state").write_text("1")
    (tmp_path / "link").symlink_to("/sys/state")
    assert await reason(file("/link"), root=root) == ""
    (tmp_path / "vpd").write_bytes(b"\x82\xff\0\x1b")
    assert await reason(file("/vpd"), root=root) == r"/vpd is '\x82\xff\x00\x1b', not '1'"
    (tmp_path / "dev/x").touch()
    there = with_nodes(node("/dev/x", root))
    assert await reason(OpenCheck(mode="rw"), there, root) == ""
    (tmp_path / "dev/x").unlink()
    assert await reason(OpenCheck(mode="rw"), there, root) == "/dev/x does not exist"


def node(path: str, root: Root = MACHINE) -> DeviceNode:
    found = DeviceFiles(root).examine(path)
    assert found is not None
    return DeviceNode(
        host_path=path, real_path=path, container_path=parse(path), permissions="rw",
        key=found.key, identity=found.identity, exclusive=True,
    )  # fmt: skip


def with_nodes(*nodes: DeviceNode) -> Device:
    return replace(device("a"), nodes=nodes)


async def test_nodes_are_opened_as_asked_without_waiting_and_closed_at_once() -> None:
    asked: list[int] = []

    class Noting(Root):
        def descriptor(self, path: str, flags: int) -> int:
            asked.append(flags)
            return super().descriptor(path, flags)

    before, both = os.listdir("/proc/self/fd"), with_nodes(node("/dev/null"), node("/dev/zero"))
    for mode in ("r", "w", "rw"):
        assert await reason(OpenCheck(mode=mode), both, Noting(Path("/"))) == ""
    always = os.O_NONBLOCK | os.O_NOCTTY
    accesses = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)
    assert asked == [access | always for access in accesses for _ in range(2)]
    assert len(os.listdir("/proc/self/fd")) == len(before)
    named = command_environment(R, both, {})["GENERICDP_DEVICE_PATHS"]
    assert named == "/dev/null:/dev/zero", "a command knows them, too"


async def test_a_node_that_is_gone_or_another_one_is_not_opened() -> None:
    """D5: another device on the same path."""
    null = node("/dev/null")
    gone = replace(null, host_path="/dev/no-such-node")
    other = replace(null, identity=replace(null.identity, plugged="diskseq 7"))
    for nodes, why in (
        ((), "the device has no node that could be opened"),
        ((null, gone), "/dev/no-such-node does not exist"),
        ((other,), "/dev/null is another device now"),
    ):
        assert await reason(OpenCheck(mode="rw"), with_nodes(*nodes)) == why


FORBIDDEN = " (the pod's device cgroup or capabilities may forbid it)"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EBUSY, "Device or resource busy"),
        (errno.EPERM, f"Operation not permitted{FORBIDDEN}"),
    ],
)
async def test_what_the_driver_says_is_told_in_words(number: int, said: str) -> None:
    null, root = with_nodes(node("/dev/null")), Refusing(number)
    opened = await reason(OpenCheck(mode="rw"), null, root)
    assert opened == f"/dev/null cannot be opened: {said}"
    read = await reason(file("/sys/x"), root=root)
    assert read == f"/sys/x cannot be read: {said.removesuffix(FORBIDDEN)}"


class Stuck(Root):
    """A machine whose files do not answer, but for one."""

    begun = 0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.go = threading.Event()

    def read_bytes(self, path: str, *, limit: int, follow_symlinks: bool = True) -> bytes:
        if path != "/well":
            self.begun += 1
            self.go.wait()
        return super().read_bytes(path, limit=limit, follow_symlinks=follow_symlinks)


async def test_reads_that_hang_are_given_up_and_no_more_than_a_few_are_begun(
    tmp_path: Path,
) -> None:
    probes, root = Probes(Commands().run), Stuck(tmp_path)
    (tmp_path / "well").write_text("1")

    async def why(path: str, resource: str = R) -> str:
        probe = Probe(check=OpenCheck(), timeout_seconds=0.05)  # type: ignore[arg-type]
        bound = BoundProbe(probe=probe, check=file(path))
        return (await probes.run(bound, device("a"), resource=resource, root=root)).reason

    try:
        for path in ("/0", "/0", *(f"/{number}" for number in range(16))):
            assert await why(path) == f"reading {path} timed out"
        full = f"cannot be begun: 16 others of {R} do not end"
        assert await why("/16") == f"reading /16 {full}"
        assert root.begun == 16, "none twice"
        await ask_until(lambda: why("/well", "example.com/other"), lambda reason: not reason)
    finally:
        root.go.set()
    await ask_until(lambda: why("/well"), lambda reason: not reason)


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("later", [0, 10**10])
def test_a_file_that_changes_gets_another_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """Even with the size and the time of modification that it had, and long after a write."""
    clock = time.time_ns  # noqa: TID251 -- by which files have their times
    monkeypatch.setattr(time, "time_ns", lambda: clock() + later)
    path = tmp_path / "x"
    path.write_bytes(b"one")
    times = path.stat()
    assert sha256(str(path)) == sha256(str(path)) == digest(b"one")
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sha256(str(path)) == digest(b"two")
    path.unlink()
    path.write_bytes(b"six")
    assert sha256(str(path)) == digest(b"six")


def test_links_are_followed_and_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one")
    (tmp_path / "link").symlink_to("x")
    os.mkfifo(tmp_path / "pipe")
    assert sha256(str(tmp_path / "link")) == digest(b"one")
    for name in ("pipe", "missing", "."):
        with pytest.raises(OSError, match=r"not a file|No such file"):
            sha256(str(tmp_path / name))
