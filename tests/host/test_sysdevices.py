"""Devices of sysfs, as libudev reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.testbeds import loading
from tests.testbeds.telling import Told

if TYPE_CHECKING:
    pass

TELLING = (sys.executable, "-m", "tests.testbeds.telling")
BESIDE_UDEVD = str(loading.DIRECTORY / "beside_udevd")


def printed_by(*command: str) -> dict[str, Any]:
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, cwd=loading.DIRECTORY.parents[1]
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def told_alike(*command: str) -> Told:
    """Ask again if they differ: devices of a real machine may come and go in between."""
    answer = printed_by(*command)
    for _ in range(4):
        if answer["genericdp"] == answer["pyudev"]:
            break
        answer = printed_by(*command)
    assert answer["genericdp"] == answer["pyudev"]
    alike: Told = answer["pyudev"]
    return alike


def why_no_udevd() -> str:
    if os.geteuid() != 0:
        return "a udevd can only be started as root"
    if not os.access("/lib/systemd/systemd-udevd", os.X_OK):
        return "systemd-udevd is not installed (Debian's udev)"
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "true"],
        check=False,
        capture_output=True,
        text=True,
    )
    return f"no namespaces can be had: {tried.stderr.strip()}" if tried.returncode else ""


def test_this_machine_is_read_as_libudev_reads_it() -> None:
    assert told_alike(*TELLING)


def test_this_machine_with_a_udevd_is_read_as_libudev_reads_it() -> None:
    if reason := why_no_udevd():
        pytest.skip(reason)
    alike = told_alike(BESIDE_UDEVD, *TELLING)
    assert any(item["recorded"] for item in alike.values())
    assert any(entry["tags"] for entry in alike.values())


@pytest.mark.parametrize("name", loading.NAMES)
def test_a_testbed_and_its_copy_are_read_as_libudev_reads_it(name: str, tmp_path: Path) -> None:
    if reason := loading.why_no_umockdev():
        pytest.skip(reason)
    command = loading.umockdev_command(loading.path_of(name), tmp_path, *TELLING)
    answer = printed_by(*command)
    entries = loading.parse(loading.path_of(name).read_text())
    assert {f"/sys{entry.path}" for entry in entries} == answer["pyudev"].keys()
    assert answer["genericdp"] == answer["pyudev"]
    assert printed_by(*TELLING, str(tmp_path / "tree"))["genericdp"] == answer["pyudev"]
