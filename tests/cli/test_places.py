"""What ``genericdp run`` says at its start of the places that it is given."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LAPTOP = Path(__file__).parents[1] / "fixtures/laptop"


def said(folder: Path, *options: str) -> list[str]:
    """Return what is logged before it ends, since there is no such policy."""
    words = [
        *(f"--config={folder}/c.yaml", f"--root={LAPTOP}", f"--policy={folder}/no-policy.yaml"),
        f"--kubelet-dir={folder}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "genericdp", "run", *words, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    return [line for line in done.stderr.splitlines() if " warning " in line or " info " in line]


def test_what_is_no_socket_is_a_warning_and_one_that_may_come_is_none(short_folder: Path) -> None:
    path = short_folder / "pod-resources.sock"
    (line,) = (one for one in said(short_folder, f"--pod-resources={path}") if str(path) in one)
    assert " info " in line
    assert "does not exist yet" in line
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    assert not [one for one in said(short_folder, f"--pod-resources={path}") if str(path) in one]
    (line,) = (
        one for one in said(short_folder, f"--pod-resources={os.devnull}") if os.devnull in one
    )
    assert " warning " in line
    assert "is not a socket" in line
    below = path / "x"
    (line,) = (one for one in said(short_folder, f"--pod-resources={below}") if str(below) in one)
    assert line.endswith("not a directory")


@pytest.mark.parametrize(
    ("mode", "who"), [(0o755, ""), (0o775, "its group"), (0o1777, "anybody"), (None, "")]
)
def test_a_state_folder_that_others_can_write_to_is_a_warning(
    short_folder: Path, mode: int | None, who: str
) -> None:
    state = short_folder / "state"
    if mode is not None:
        state.mkdir()
        state.chmod(mode)
    lines = [one for one in said(short_folder, f"--state-dir={state}") if "--state-dir" in one]
    assert [f"{who} can write to {state}" in one for one in lines] == [True] * bool(who)
