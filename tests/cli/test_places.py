"""genericdp.cli.places, and what ``run`` says of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from genericdp.cli.places import socket_doubt, state_doubt


def test_what_is_no_socket_is_named_and_one_that_may_come_is_none(short_folder: Path) -> None:
    path = short_folder / "kubelet.sock"
    said, may_pass = socket_doubt(path)
    assert "does not exist yet" in said
    assert may_pass
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    assert socket_doubt(path) == ("", False)
    path.unlink()
    path.write_text("")
    for nonsense, kind in (
        (path, "a file"),
        (short_folder, "a folder"),
        (Path(os.devnull), "a character device"),
    ):
        said, may_pass = socket_doubt(nonsense)
        assert said.startswith(f"--pod-resources: {nonsense} is {kind}, no socket of a kubelet")
        assert not may_pass
    assert socket_doubt(path / "x") == (f"--pod-resources: {path / 'x'}: not a directory", False)


@pytest.mark.parametrize(
    ("mode", "who"), [(0o700, ""), (0o755, ""), (0o775, "its group"), (0o1777, "anybody")]
)
def test_a_state_folder_that_others_can_write_to_is_told(
    tmp_path: Path, mode: int, who: str
) -> None:
    tmp_path.chmod(mode)
    said = state_doubt(tmp_path)
    assert said.startswith(f"--state-dir: {who} can write to {tmp_path}") if who else said == ""
    assert state_doubt(tmp_path / "none") == ""


def test_run_tells_its_doubts_at_the_start(short_folder: Path) -> None:
    state = short_folder / "state"
    state.mkdir()
    state.chmod(0o777)
    root = Path(__file__).parents[1] / "fixtures/laptop"
    words = [
        "run",
        f"--config={short_folder}/c.yaml",
        f"--root={root}",
        f"--policy={short_folder}/p.yaml",
    ]
    words += [
        f"--state-dir={state}",
        f"--pod-resources={os.devnull}",
        f"--kubelet-dir={short_folder}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "genericdp", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    doubts = [line for line in done.stderr.splitlines() if " warning " in line]
    assert len(doubts) == 2, done.stderr
    assert "anybody can write to" in doubts[0]
    assert "no socket of a kubelet" in doubts[1]
