"""``genericdp completion``: scripts, which the shells themselves run here."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.cli.command_line import COMMANDS, OPTIONS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def test_it_knows_every_command_and_option(script: str, shell: str) -> None:
    prefix = "-l " if shell == "fish" else "--"
    assert [name for name in COMMANDS if any(one not in script for one in name.split())] == []
    assert [name for name in OPTIONS if f"{prefix}{name}" not in script] == []


def test_the_shell_takes_it(script: str, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    file = tmp_path / "script"
    file.write_text(script)
    done = subprocess.run(
        [shell, "-n", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["genericdp", "va"], ["validate"]),
        (["genericdp", "--v"], ["--version"]),
        (["genericdp", "cd"], ["cdi"]),
        (["genericdp", "cdi", ""], ["generate", "watch", "list", "--help"]),
        (["genericdp", "cdi", "watch", "--cd"], ["--cdi-dir"]),
        (["genericdp", "cdi", "list", "-o", ""], ["text", "json", "yaml"]),
        (["genericdp", "discover", "--co"], ["--config"]),
        (["genericdp", "discover", "-o", ""], ["text", "wide", "json", "yaml"]),
        (["genericdp", "explain", "-o", ""], ["text", "json", "yaml"]),
        (["genericdp", "allocate", "--output", "d"], ["docker"]),
        (["genericdp", "allocate", "--output", "=", "d"], ["docker"]),
        (["genericdp", "completion", "f"], ["fish"]),
        (["genericdp", "convert", "--from", "sq"], ["squat"]),
        # Nothing of its own: bash completes the names of files.
        (["genericdp", "discover", "--config", "x"], []),
        (["genericdp", "validate", "x"], []),
    ],
    ids=" ".join,
)
def test_bash_completes(
    line: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    words = " ".join(f"'{word}'" for word in line)
    program = (
        f"{script}\nCOMP_WORDS=({words}) COMP_CWORD={len(line) - 1}\n_genericdp\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == expected
