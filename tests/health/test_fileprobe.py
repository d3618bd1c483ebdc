"""Probes of files: what is expected of a content, and files that are odd."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.devices.device import BoundProbe
from genericdp.health.health import Probes
from genericdp.health.kinds.file import FileCheck, check_content, quote
from genericdp.health.kinds.open import OpenCheck
from genericdp.host.root import Root
from genericdp.model import Probe, number
from genericdp.process.run import Commands
from tests.health.probed_devices import device

if TYPE_CHECKING:
    from genericdp.errors import Outcome

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
        ("abc", {"max": 90}, "'abc', which is no number"),
        ("nan", {"max": 90}, "'nan', which is no number"),
        ("inf", {"min": 90}, "'inf', which is no number"),
        ("1e999", {"min": 90}, "'1e999', which is no number"),
        ("95 %", {"max": 99}, "'95 %', which is no number"),
        ("5", {"regex": "5", "max": 4}, "'5', more than 4"),
        ("5", {"regex": "6", "max": 4}, "'5', not matching '6'"),
        ("5", {"equals": "5", "regex": "^5$", "min": 5, "max": 5}, ""),
        ("a\0b\x1b[2J", {"equals": "x"}, r"'a\x00b\x1b[2J', not 'x'"),
        ("x" * 61, {"equals": "x"}, f"'{'x' * 60}…', not 'x'"),
    ],
)
def test_a_content_is_judged(content: str, expected: dict[str, object], wrong: str) -> None:
    check: FileCheck[str, float] = FileCheck(path="/sys/x", **expected)  # type: ignore[arg-type]
    assert check_content(check, content).reason == (f"/sys/x is {wrong}" if wrong else "")


LIKE_BEFORE = "as when it was last read (it must change)"


@pytest.mark.parametrize(
    ("contents", "expected", "wrong"),
    [
        (["17"], {}, [""]),
        (["17", "18"], {}, ["", ""]),
        (["17", "17\n", "17", "18"], {}, ["", LIKE_BEFORE, LIKE_BEFORE, ""]),
        (["17", "18", "17"], {}, ["", "", ""]),
        (["", ""], {}, ["", LIKE_BEFORE]),
        # What else is wrong with a content comes first, and it counts as a content all the same.
        (["17", "17", "9"], {"min": 10}, ["", LIKE_BEFORE, "less than 10"]),
        (["9", "9"], {"min": 10}, ["less than 10", "less than 10"]),
        (["a", "b", "b"], {"equals": "b"}, ["not 'b'", "", LIKE_BEFORE]),
    ],
)
def test_a_content_that_must_change_is_compared_with_the_one_before(
    contents: list[str], expected: dict[str, object], wrong: list[str]
) -> None:
    check: FileCheck[str, float] = FileCheck(path="/sys/x", changes=True, **expected)  # type: ignore[arg-type]
    before, said = b"", []
    for content in contents:
        outcome = check_content(check, content, before)
        before = outcome.digest
        said.append(outcome.reason.removeprefix(f"/sys/x is '{content.strip()}', "))
    assert said == wrong


def test_another_file_with_the_same_content_is_no_standstill() -> None:
    """A value may lead to another file than before."""
    before = check_content(FileCheck(path="/sys/x", changes=True), "17").digest
    assert check_content(FileCheck(path="/sys/y", changes=True), "17", before).ok


@given(st.text())
def test_of_any_content_only_a_digest_is_kept_and_only_where_it_must_change(content: str) -> None:
    assert len(check_content(FileCheck(path="/x", changes=True), content).digest) == 32
    assert check_content(FileCheck(path="/x", equals=""), content).digest == b""


@pytest.mark.parametrize(
    "text", ["", "1_000", "٣", "0x", "x1", "1.2.3", "--1", ".", "e5", "0b1", "1 2", "infinity"]
)
def test_what_looks_like_a_number_need_not_be_one(text: str) -> None:
    assert number(text) is None


@given(st.text() | st.from_regex(r"[+-]?[0-9xXa-fA-F.eE]*", fullmatch=True))
def test_no_text_raises_and_numbers_are_finite(text: str) -> None:
    value = number(text)
    assert value is None or isinstance(value, int) or math.isfinite(value)
    assert len(quote(text)) <= 63
    assert quote(text).isprintable()


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_each_number_is_read(value: float) -> None:
    assert number(str(value)) == pytest.approx(value)


def test_a_number_of_a_million_digits_is_no_trouble() -> None:
    assert number("9" * 1_000_000) is None
    for digits, wrong in ((255, "less than 2e+307"), (256, "which is no number")):
        outcome = check_content(FileCheck(path="/x", min=2e307), f"0x{'f' * digits}")
        assert outcome.reason.endswith(wrong)
    outcome = check_content(FileCheck(path="/x", max=1), f"0x{'f' * 1_000_000}")
    assert outcome.reason.endswith("which is no number")


async def run(check: FileCheck[str, float], root: Root, *, seconds: float) -> Outcome:
    probe = Probe(check=OpenCheck(), timeout_seconds=seconds)  # type: ignore[arg-type]
    bound = BoundProbe(probe=probe, check=check)
    return await Probes(Commands().run).run(bound, device("a"), resource="r", root=root)


async def outcome(path: Path | str, root: Root = MACHINE, **expected: object) -> Outcome:
    check: FileCheck[str, float] = FileCheck(path=str(path), **(expected or {"equals": "1"}))  # type: ignore[arg-type]
    return await run(check, root, seconds=5)


async def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.write_text("1\n")
    found = await outcome(file)
    assert (found.ok, found.reason) == (True, "")
    file.write_text("0\n")
    found = await outcome(file)
    assert (found.ok, found.reason) == (False, f"{file} is '0', not '1'")


async def test_attributes_of_sysfs_and_procfs_are_read() -> None:
    for path in ("/proc/self/status", "/proc/sys/kernel/ostype", "/sys/kernel/mm"):
        found = await outcome(path, regex="Name:|Linux")
        directory = f"{path} cannot be read: it is a folder, not a file"
        assert found.reason == ("" if path.startswith("/proc") else directory)


async def test_files_that_are_odd_have_a_reason(tmp_path: Path) -> None:
    fifo, loop = tmp_path / "fifo", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    for path, reason in (
        (tmp_path / "none", "does not exist"),
        (tmp_path / "none" / "below", "does not exist"),
        (fifo, "cannot be read: it is a FIFO, not a file"),
        (tmp_path, "cannot be read: it is a folder, not a file"),
        (loop, "must not be read: its links lead in a circle"),
        ("/dev/zero", "cannot be read: it is a character device, not a file"),
        ("/a\0b", "cannot be read: a path holds no NUL"),
    ):
        assert (await outcome(path)).reason == f"{path} {reason}".replace("\0", r"\x00")


async def test_a_file_that_may_not_be_read_has_a_reason(tmp_path: Path) -> None:
    class Forbidden(Root):
        def read_bytes(self, path: str, *, limit: int, follow_symlinks: bool = True) -> bytes:
            raise PermissionError(13, "Permission denied", path)

    found = await outcome("/sys/x", Forbidden(tmp_path))
    assert found.reason == "/sys/x cannot be read: Permission denied"


@pytest.mark.parametrize(("size", "ok"), [(1024 * 1024, True), (1024 * 1024 + 1, False)])
async def test_a_mebibyte_is_read_and_no_more(tmp_path: Path, size: int, ok: bool) -> None:
    file = tmp_path / "big"
    file.write_bytes(b"x" * size)
    assert (await outcome(file, regex="x$")).ok is ok


async def test_wildcards_and_links_are_no_patterns(tmp_path: Path) -> None:
    """As literal after expansion: a serial may be ``*``; a copied tree's links stay within it."""
    (tmp_path / "a").write_text("0")
    assert (await outcome(tmp_path / "*")).reason == f"{tmp_path}/* does not exist"
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "state").write_text("1")
    (tmp_path / "link").symlink_to("/sys/state")
    assert (await outcome("/link", Root(tmp_path))).ok


async def test_bytes_that_are_no_text_are_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "vpd").write_bytes(b"\x82\xff\0\x1b")
    found = await outcome("/vpd", Root(tmp_path))
    assert found.reason == r"/vpd is '\x82\xff\x00\x1b', not '1'"


async def test_a_read_that_hangs_ends_at_its_timeout(tmp_path: Path) -> None:
    go = threading.Event()

    class Hanging(Root):
        def read_bytes(self, path: str, *, limit: int, follow_symlinks: bool = True) -> bytes:
            if path.endswith("hangs"):
                go.wait()
            return super().read_bytes(path, limit=limit, follow_symlinks=follow_symlinks)

    (tmp_path / "well").write_text("1")
    root = Hanging(tmp_path)
    try:
        hangs = await run(FileCheck(path="/hangs", equals="1"), root, seconds=0.2)
        well = await run(FileCheck(path="/well", equals="1"), root, seconds=5)
    finally:
        go.set()
    assert (hangs.reason, well.reason) == ("reading /hangs does not end", "")
