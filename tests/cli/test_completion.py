"""``genericdp completion``: scripts, which the shells themselves run here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.asking import Ask

COMPLETED = {
    "genericdp va": "validate",
    "genericdp cdi li": "list",
    "genericdp discover --po": "--policy",
    "genericdp allocate --output=j": "json",
    "genericdp discover --config alpha.yaml --config be": "beta.yaml",
    "genericdp validate alpha.yaml be": "beta.yaml",
}
"""Command lines, each with the last word that it has after Tab."""
PROGRAM = '#!/bin/sh\nexec "{}" -m genericdp "$@"\n'


@pytest.mark.parametrize(
    ("shell", "way"),
    [("bash", "sourced"), ("fish", "sourced"), ("zsh", "sourced"), ("zsh", "from a directory")],
)
def test_the_shell_completes(shell: str, way: str, tmp_path: Path, ask: Ask) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    for name in ("alpha.yaml", "beta.yaml"):
        (tmp_path / name).touch()
    program = tmp_path / "genericdp"
    program.write_text(PROGRAM.format(sys.executable))
    program.chmod(0o755)
    # The name is what zsh loads from a directory: at the first Tab, which must not be lost.
    (tmp_path / "_genericdp").write_text(ask(f"completion {shell}").out)
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
