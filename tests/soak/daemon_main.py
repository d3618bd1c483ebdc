"""The daemon, which also says which tasks it has: ``python -m tests.soak.daemon_main FD run …``.

The program is ``genericdp`` itself. Its loop answers each byte that comes from the socket FD with
how many tasks it has of each name, how many blocks of memory Python has, how many bytes the C
library has given out, and how many gRPC calls were canceled: nothing of that is in the product.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import re
import socket
import sys
from collections import Counter
from typing import Any

from genericdp.cli import main

_INTERNED = 200_000


class _Allocator(ctypes.Structure):
    """``struct mallinfo2`` of glibc's malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class _Policy(asyncio.DefaultEventLoopPolicy):
    """Gives loops that answer."""

    def __init__(self, asked: socket.socket) -> None:
        super().__init__()
        self._asked = asked
        self._is_settled = False
        self._canceled = Counter[str]()

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        loop.add_reader(self._asked, self._answer, loop)
        return loop

    def _answer(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._asked.recv(1):
            loop.remove_reader(self._asked)  # the soak has gone
            return
        if not self._is_settled:
            _settle()
            self._canceled = _count_canceled()
            self._is_settled = True
        names = (re.sub(r"\d+|soak\.example\.com/\S+", "N", t.get_name()) for t in _tasks(loop))
        gc.collect()  # else what waits for it is counted, too
        reported = {
            "tasks": Counter(names),
            "blocks": sys.getallocatedblocks(),
            "given_out": _given_out(),
            "canceled": self._canceled["calls"],
        }
        self._asked.sendall(json.dumps(reported).encode() + b"\n")


def _settle() -> None:
    """Have Python's table of interned strings grow now to what it takes forever.

    pathlib interns each part of a path. When this many have come, gone or not, that the table is
    full, it is made again, three times as large as what is in it: half a megabyte more, once.
    """
    for number in range(_INTERNED):
        sys.intern(f"settling {number}")


def _count_canceled() -> Counter[str]:
    """Count the calls of gRPC that are canceled from now on: each loses some memory of its own.

    No public interface reports them.
    """
    from grpc.aio import _call  # not before the program, which sets its environment

    canceled, cancel = Counter[str](), _call.Call._cancel  # noqa: SLF001

    def counted(call: Any, details: str) -> bool:
        has_canceled: bool = cancel(call, details)
        canceled["calls"] += has_canceled
        return has_canceled

    _call.Call._cancel = counted  # type: ignore[assignment,method-assign]  # noqa: SLF001
    return canceled


def _given_out() -> int:
    """Give how many bytes the C library has given out, large blocks aside; 0: it cannot show."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    mallinfo.restype = _Allocator
    return int(mallinfo().uordblks)


def _tasks(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[object]]:
    return asyncio.all_tasks(loop)


if __name__ == "__main__":
    asyncio.set_event_loop_policy(_Policy(socket.socket(fileno=int(sys.argv.pop(1)))))
    sys.argv[0] = "genericdp"
    sys.exit(main())
