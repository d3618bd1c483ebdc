"""``python -m tests.cluster.dra.killed DIRECTORY STEP ARGUMENTS``: genericdp, which kills itself.

A step is the moment before a file that is named after a claim is put in its place or removed, and
the one after it was put there. Those of a claim are counted from when DIRECTORY has a file that is
called as its UID.
"""

from __future__ import annotations

import os
import re
import signal
import sys

from genericdp.cli import main

_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def kill_at(directory: str, step: int) -> None:
    """Do so in this process."""
    steps = 0
    is_put = False

    def look(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal steps, is_put
        if event in {"os.rename", "os.remove"}:
            found = _UID.search(" ".join(map(str, arguments)))
            # exists() is not an event of its own.
            if not found or not os.path.exists(os.path.join(directory, found.group())):
                return
            is_put = event == "os.rename"
        elif is_put and event == "open" and os.path.isdir(str(arguments[0])):
            is_put = False  # the directory is written to the disk
        else:
            return
        steps += 1
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


if __name__ == "__main__":
    kill_at(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["genericdp", *sys.argv[3:]]
    sys.exit(main())
