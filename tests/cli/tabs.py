"""A program that a shell runs at each Tab, answered by forks of one that has imported everything.

``python -m tests.cli.tabs DIRECTORY`` answers what the program asks through pipes of that
directory. At its first Tab a shell gets the answer of ``python -m genericdp`` itself: to import
the commands takes ten times as long as an answer.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli import main
from genericdp.cli.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ASKED, ANSWER = "asked", "answer"
_PROGRAM = """#!/bin/sh
mkdir "$0.has-run" 2>/dev/null && exec "{python}" -m genericdp "$@"
env -0 >"{directory}/asked"
exec cat "{directory}/answer" >&8
"""
"""8 is where argcomplete writes."""


@contextmanager
def answering(directory: Path) -> Iterator[str]:
    """Answer in another process meanwhile; yields the text of the program."""
    for name in (ASKED, ANSWER):
        os.mkfifo(directory / name)
    with subprocess.Popen([sys.executable, "-m", "tests.cli.tabs", str(directory)]) as process:
        try:
            yield _PROGRAM.format(python=sys.executable, directory=directory)
        finally:
            process.kill()


def _answer(environment: bytes, directory: Path) -> None:
    os.environb.clear()
    for entry in filter(None, environment.split(b"\0")):
        name, _, value = entry.partition(b"=")
        os.environb[name] = value
    os.environ["_ARGCOMPLETE_STDOUT_FILENAME"] = str(directory / ANSWER)
    os.chdir(os.environ["PWD"])
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    sys.argv[1:] = []
    os._exit(main())  # not reached: what completes ends the process


def _serve(directory: Path) -> None:
    for name in COMMANDS:
        import_module(f"genericdp.cli.{name.replace(' ', '_')}")
    gc.freeze()
    while True:
        asked = (directory / ASKED).read_bytes()
        if (child := os.fork()) == 0:
            _answer(asked, directory)
        os.waitpid(child, 0)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
