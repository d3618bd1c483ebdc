"""How many instructions pure code takes, counted by valgrind: slow, and always the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

DEVICES = 100
PROGRAM = f"""
import sys
from tests.devices.making import decide, node, resource
from genericdp.listing import listing
things = (resource("thing", "/dev/thing*"),)
found = [node(f"/dev/thing{{n}}", (1, n)) for n in range({DEVICES})]
passes, lists = map(int, sys.argv[1:])
for _ in range(1 + passes):
    (offer,) = decide(things, found).values()
for _ in range(1 + lists):
    listing(offer)
"""
PASSES, LISTS = 4, 40
MOST_OF_PASS = 400_000
"""For each device that is looked at and decided about; with Python 3.11 there were 313,000."""
MOST_OF_LIST = 26_000
"""For each device that is encoded; there were 20,300."""


def instructions(passes: int, lists: int) -> int:
    """Count those of a whole process."""
    done = subprocess.run(
        [
            *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
            *(sys.executable, "-c", PROGRAM, str(passes), str(lists)),
        ],
        env=os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode or (found := re.search(r"Collected : (\d+)", done.stderr)) is None:
        pytest.skip(f"valgrind cannot run this Python: {done.stderr[-200:]}")
    return int(found[1])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_a_pass_and_a_list_take_no_more_instructions_for_each_device() -> None:
    """Bites if each device is encoded twice."""
    none = instructions(0, 0)
    of_pass = (instructions(PASSES, 0) - none) / PASSES / DEVICES
    of_list = (instructions(0, LISTS) - none) / LISTS / DEVICES
    assert of_pass <= MOST_OF_PASS
    assert of_list <= MOST_OF_LIST
