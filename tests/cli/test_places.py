"""Test what ``genericdp run`` says at its start of the places that it is given."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from genericdp.cli import main

LAPTOP = Path(__file__).parents[1] / "fixtures/laptop"


def said(capsys: pytest.CaptureFixture[str], directory: Path, *options: str) -> list[str]:
    """Return what is logged before it ends, since there is not a such policy."""
    words = [
        *(
            f"--config={directory}/c.yaml",
            f"--root={LAPTOP}",
            f"--policy={directory}/no-policy.yaml",
        ),
        f"--kubelet-dir={directory}",
    ]
    assert main(["run", *words, *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if " warning " in line or " info " in line]


def test_what_is_no_socket_is_a_warning_and_one_that_may_come_is_none(
    short_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = short_directory / "pod-resources.sock"
    (line,) = (
        text_line
        for text_line in said(capsys, short_directory, f"--pod-resources={path}")
        if str(path) in text_line
    )
    assert " info " in line
    assert "does not exist yet" in line
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    assert not [
        line
        for line in said(capsys, short_directory, f"--pod-resources={path}")
        if str(path) in line
    ]
    (line,) = (
        line
        for line in said(capsys, short_directory, f"--pod-resources={os.devnull}")
        if os.devnull in line
    )
    assert " warning " in line
    assert "is not a socket" in line
    below = path / "x"
    (line,) = (
        line
        for line in said(capsys, short_directory, f"--pod-resources={below}")
        if str(below) in line
    )
    assert line.endswith("not a directory")


@pytest.mark.parametrize(
    ("mode", "who"), [(0o755, ""), (0o775, "its group"), (0o1777, "anybody"), (None, "")]
)
def test_a_state_directory_that_others_can_write_to_is_a_warning(
    short_directory: Path, capsys: pytest.CaptureFixture[str], mode: int | None, who: str
) -> None:
    state = short_directory / "state"
    if mode is not None:
        state.mkdir()
        state.chmod(mode)
    lines = [
        text_line
        for text_line in said(capsys, short_directory, f"--state-dir={state}")
        if "--state-dir" in text_line
    ]
    assert [f"{who} can write to {state}" in line for line in lines] == [True] * bool(who)
