"""Command lines in a child each, forked from one process that has imported all commands.

``python -m tests.cli.forked FILE``: the file has a list of command lines, each with its stdout
("closed", "gone" as its reader is, or a path). Prints exit codes and what each wrote. To start a
process for each would take ten times as long as what the commands do.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Never

from genericdp.cli import main
from genericdp.cli.commands import COMMANDS

TIMEOUT_SECONDS = 600
CLOSED, GONE = "closed", "gone"


class Case(NamedTuple):
    """A command line, and where its stdout goes; to what is read by default."""

    argv: tuple[str, ...]
    stdout: str = ""


def run(cases: list[Case], directory: Path) -> dict[Case, tuple[int, str]]:
    """Run all cases in a process that forks; return exit code and output of each."""
    file = directory / "cases.json"
    file.write_text(json.dumps(cases))
    command = [sys.executable, "-m", "tests.cli.forked", str(file)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    results = json.loads(done.stdout)
    return {case: (code, text) for case, (code, text) in zip(cases, results, strict=True)}


def _child(case: Case, output: int) -> Never:
    os.dup2(output, 2)
    if case.stdout == CLOSED:
        os.close(1)
        sys.stdout = None  # as Python has it then
    elif case.stdout == GONE:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
    else:
        os.dup2(os.open(case.stdout, os.O_WRONLY) if case.stdout else output, 1)
    sys.argv[1:] = case.argv
    try:
        _exit(main())
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        _exit(ended.code)


def _exit(code: int) -> Never:
    """Exit as Python does, but free nothing: that would take more time than most commands do."""
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # waits for threads
    atexit._run_exitfuncs()  # noqa: SLF001
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored on flushing sys.stdout: {error!r}", file=sys.stderr)
        code = 120
    sys.stderr.flush()
    os._exit(code)


def _forked(case: Case) -> tuple[int, str]:
    with tempfile.TemporaryFile() as output:
        if (child := os.fork()) == 0:
            _child(case, output.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read().decode(errors="replace")


if __name__ == "__main__":
    for name in COMMANDS:
        import_module(f"genericdp.cli.{name.replace(' ', '_')}")
    # Else each child, at its end, goes through all that was imported, and gets its memory copied.
    gc.freeze()
    cases = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps([_forked(Case(tuple(argv), stdout)) for argv, stdout in cases]))
