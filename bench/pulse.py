"""How late a daemon's loop is: ``python -m bench.pulse FOLDER`` calls it again and again.

In a process of its own, so that what the benchmark does meanwhile holds nothing up. It calls any
plugin that it finds in the kubelet's folder, and another one when that has gone.
"""

from __future__ import annotations

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["GRPC_VERBOSITY"] = "NONE"

import select
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from bench.beside import ask, beside

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

_APART_SECONDS = 0.004


class Pulse:
    """Knows how long the slowest call took; calls only between ``begin`` and ``end``."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def begin(self) -> None:
        """Begin to call."""
        await ask(self._process, "begin")

    async def end(self) -> float:
        """Give how long the slowest call took, in ms; 0 if there was nobody to call."""
        return float(await ask(self._process, "end"))


@asynccontextmanager
async def pulse(folder: Path) -> AsyncIterator[Pulse]:
    """Run one beside a kubelet's folder."""
    async with beside("bench.pulse", folder) as process:
        yield Pulse(process)


class _Caller:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._channel: grpc.Channel | None = None
        self._call: grpc.UnaryUnaryMultiCallable[bytes, bytes] | None = None

    def took(self) -> float:
        """Give how long a call took, in ms; 0 if nobody answered."""
        if self._call is None and not self._found():
            return 0.0
        if self._call is None:
            raise AssertionError
        since = time.perf_counter()
        try:
            self._call(b"", timeout=30)
        except grpc.RpcError:
            self.close()
            return 0.0  # it has gone, which is not being late
        return (time.perf_counter() - since) * 1000

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._call = None

    def _found(self) -> bool:
        """Connect to the plugin that has come last."""
        sockets = [one for one in self._folder.glob("*.sock") if one.name != "kubelet.sock"]
        if not sockets:
            return False
        self._channel = grpc.insecure_channel(f"unix:{max(sockets)}")
        self._call = self._channel.unary_unary("/v1beta1.DevicePlugin/GetDevicePluginOptions")
        try:
            self._call(b"", timeout=30)  # connecting is not what is measured
        except grpc.RpcError:
            self.close()
            return False
        return True


def _serve(folder: Path) -> None:
    caller, calls, worst = _Caller(folder), False, 0.0
    while True:
        asked, _, _ = select.select([sys.stdin], [], [], _APART_SECONDS if calls else None)
        if not asked:
            worst = max(worst, caller.took())
            continue
        if not (line := sys.stdin.readline()):
            return
        calls = line.strip() == "begin"
        print(repr(worst), flush=True)
        worst = 0.0
        if not calls:
            caller.close()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
