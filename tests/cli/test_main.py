from __future__ import annotations

import os
import subprocess
import sys

import pytest

from genericdp.cli import COMMANDS, main


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert all(f"    {command} " in printed for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_teaches_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"example:\n  genericdp {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], "the following arguments are required: COMMAND (see genericdp --help)"),
        (["frob"], "(see genericdp --help)"),
        (["run", "--config=x", "--frob"], "unrecognized arguments: --frob (see genericdp --help)"),
        (["run"], "the following arguments are required: --config (see genericdp run --help)"),
        (["run", "--config=x", "--log-level=loud"], "(see genericdp run --help)"),
        (["discover", "--config"], "expected one argument (see genericdp discover --help)"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    argv: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("genericdp: ")
    assert printed.err.rstrip().endswith(expected)


def test_a_reader_that_goes_away_is_no_failure() -> None:
    """``genericdp schema | head -1``."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        ended = subprocess.run(
            [sys.executable, "-m", "genericdp", "schema"],
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")
