"""The daemon, which also says which tasks it has: ``python -m tests.soak.daemon_main FD run …``.

The program is ``genericdp`` itself. Its loop answers each byte that comes from the socket FD with
how many tasks it has of each name, and how many blocks of memory Python has: nothing of that is
in the product.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections import Counter

from genericdp.cli import main


class _Policy(asyncio.DefaultEventLoopPolicy):
    """Gives loops that answer."""

    def __init__(self, asked: socket.socket) -> None:
        super().__init__()
        self._asked = asked

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        loop.add_reader(self._asked, self._answer, loop)
        return loop

    def _answer(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._asked.recv(1):
            loop.remove_reader(self._asked)  # the soak has gone
            return
        names = (re.sub(r"\d+|soak\.example\.com/\S+", "N", t.get_name()) for t in _tasks(loop))
        told = {"tasks": Counter(names), "blocks": sys.getallocatedblocks()}
        self._asked.sendall(json.dumps(told).encode() + b"\n")


def _tasks(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[object]]:
    return asyncio.all_tasks(loop)


if __name__ == "__main__":
    asyncio.set_event_loop_policy(_Policy(socket.socket(fileno=int(sys.argv.pop(1)))))
    sys.argv[0] = "genericdp"
    sys.exit(main())
