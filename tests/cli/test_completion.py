"""``genericdp completion``: scripts, which the shells themselves run here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.cli.tabs import answering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMPLETED = {
    "genericdp va": "validate",
    "genericdp --v": "--version",
    "genericdp cd": "cdi",
    "genericdp cdi li": "list",
    "genericdp cdi watch --cd": "--cdi-dir",
    "genericdp cdi list -o y": "yaml",
    "genericdp discover --po": "--policy",
    "genericdp discover -o w": "wide",
    "genericdp allocate --output j": "json",
    "genericdp allocate --output=j": "json",
    "genericdp run --config=alpha.yaml --log-level=d": "debug",
    "genericdp completion f": "fish",
    "genericdp convert --from sq": "squat",
    "genericdp discover --config al": "alpha.yaml",
    "genericdp discover --config=al": "alpha.yaml",
    "genericdp discover --config alpha.yaml --po": "--policy",
    "genericdp discover --config alpha.yaml --config be": "beta.yaml",
    "genericdp validate alpha.yaml be": "beta.yaml",
    "genericdp explain al": "alpha.yaml",
}
"""Command lines, each with the last word that it has after Tab."""


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The text of a program that completes."""
    with answering(tmp_path_factory.mktemp("tabs")) as program:
        yield program


@pytest.mark.parametrize(
    ("shell", "way"),
    [("bash", "sourced"), ("fish", "sourced"), ("zsh", "sourced"), ("zsh", "from a directory")],
)
def test_the_shell_completes(
    script: str, shell: str, way: str, tmp_path: Path, answered: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    for name in ("alpha.yaml", "beta.yaml"):
        (tmp_path / name).touch()
    program = tmp_path / "genericdp"
    program.write_text(answered)
    program.chmod(0o755)
    # The name is what zsh loads from a directory: at the first Tab, which must not be lost.
    (tmp_path / "_genericdp").write_text(script)
    driver = {"bash": _in_bash, "fish": _in_fish, "zsh": _in_zsh}[shell]
    (tmp_path / ".zshrc").write_text(driver(way))
    command = ["zsh", "-d", "-i"] if shell == "zsh" else [shell, ".zshrc"]
    subprocess.run(
        # At a terminal, since without one zsh completes nothing.
        [sys.executable, "-c", f"import pty; pty.spawn({command})"],
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "ZDOTDIR": str(tmp_path),
        },
    )
    found = (tmp_path / "found").read_text().splitlines()
    # fish adds what a word means, zsh what ends it.
    lines = [line.partition("\t")[0].rstrip(" =") for line in found]
    words = [line.replace("=", " ").split()[-1] for line in lines]
    assert dict(zip(COMPLETED, words, strict=True)) == COMPLETED


def _in_bash(_way: str) -> str:
    program = "source ./_genericdp\n"
    for line in COMPLETED:
        program += f"COMP_LINE='{line}' COMP_POINT={len(line)}\n_python_argcomplete genericdp\n"
        program += 'echo "${COMPREPLY[@]}" >>found\n'
    return program


def _in_fish(_way: str) -> str:
    program = "source _genericdp\n"
    for line in COMPLETED:
        program += f"echo (complete -C '{line}') >>found\n"
    return program


def _in_zsh(way: str) -> str:
    program = "fpath+=($PWD)\n" if way == "from a directory" else ""
    program += "autoload -Uz compinit\ncompinit -u\n"
    if way == "sourced":
        program += "source <(cat _genericdp)\n"
    program += "zle-line-init() {\n"
    for line in COMPLETED:
        program += f"BUFFER='{line}' CURSOR={len(line)}\nzle complete-word\n"
        program += "print -r -- $BUFFER >>found\n"
    return program + "exit\n}\nzle -N zle-line-init\n"
