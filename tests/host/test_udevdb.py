"""Records of the udev database, as libudev reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from genericdp.host.calls import HangsError
from genericdp.host.root import Root
from genericdp.host.sysfs import parse_record, udevd_runs
from hypothesis import given
from hypothesis import strategies as st

from tests.testbeds import loading

if TYPE_CHECKING:
    import os
    from pathlib import Path


ODD = {
    "nothing": b"",
    "no end of the last line": b"E:A=1\nE:B=2",
    "a carriage return": b"E:A=1\rE:B=2\n",
    "a zero": b"E:A=1\0E:B=2\n",
    "the last one counts": b"E:A=1\nE:A=2\nI:1\nI:2\nI:x\n",
    "taken away again": b"E:A=1\nE:A=\nE:B=\n",
    "a property of the kernel taken away": b"E:MODALIAS=\n",
    "a property of the kernel replaced": b"E:MODALIAS=mine\n",
    "derived ones written out": b"E:TAGS=:no:\nE:DEVLINKS=/dev/no\nE:USEC_INITIALIZED=9\n",
    "derived ones twice": b"E:TAGS=:no:\nG:yes\nE:DEVLINKS=/dev/no\nS:yes\nI:1\n",
    "tags that can be none": b"G:a:b\nG:c d\nG:e/f\nQ:g\nQ:\n",
    "no key, no value": b"E:A\nE:B=x=y\nE:C =d\n",
    "long keys": b"EE:A=1\nE:B=2\n",
    "kinds we do not know": b"V:1\nW:4\nL:-10\nZ:x\nE:A=1\n",
    "private ones": b"E:.A=1\n",
    "links as they are": b"S:a//b\nS:a b\nS:/c\n",
}


def test_odd_records_are_read_as_libudev_reads_them(tmp_path: Path) -> None:
    if reason := loading.why_no_umockdev():
        pytest.skip(reason)
    bed = tmp_path / "odd.umockdev"
    bed.write_text(
        "".join(
            f"P: /devices/virtual/misc/odd{n}\nN: odd{n}\nE: DEVNAME=/dev/odd{n}\nE: MAJOR=240\n"
            f"E: MINOR={n}\nE: MODALIAS=odd\nE: SUBSYSTEM=misc\nA: dev=240:{n}\\n\n\n"
            for n in range(len(ODD))
        )
    )
    telling = (sys.executable, "-m", "tests.testbeds.telling")
    command = loading.umockdev_command(bed, tmp_path, *telling)
    for n, record in enumerate(ODD.values()):
        (tmp_path / f"tree/run/udev/data/c240:{n}").write_bytes(record)
    printed = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    for n, what in enumerate(ODD):
        syspath = f"/sys/devices/virtual/misc/odd{n}"
        assert printed["genericdp"][syspath] == printed["pyudev"][syspath], what


@given(st.text(st.sampled_from("ESGQIV:=\n\r\0 aé/1²"), max_size=60))
def test_no_record_is_too_broken(text: str) -> None:
    record = parse_record(text)
    assert all(
        key and not {"\n", "\r", "\0"} & {*key, *value} for key, value in record.properties.items()
    )


class HangingRun(Root):
    def lstat(self, path: str) -> os.stat_result:
        raise HangsError(path)


def test_a_directory_of_udevd_that_hangs_is_as_good_as_none(tmp_path: Path) -> None:
    """It is read on the loop, and HangsError is not an OSError."""
    assert not udevd_runs(HangingRun(tmp_path))
