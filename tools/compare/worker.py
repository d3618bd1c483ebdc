"""A process that runs commands of one genericdp, the first on its path, and reports them.

It reads batches from stdin, one JSON line each: a list of argument lists. It answers a batch with
one JSON line: for each command its exit code and what it wrote to stdout and stderr.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

from genericdp.cli import main


def run(arguments: list[str]) -> dict[str, object]:
    """Return what a command does."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: object = main(arguments)
        except SystemExit as ending:
            code = ending.code
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what a user would see
            code = f"{type(error).__name__}: {error}"
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that nothing else can write between the answers
    for line in sys.stdin:
        answers.write(json.dumps([run(arguments) for arguments in json.loads(line)]) + "\n")
        answers.flush()
