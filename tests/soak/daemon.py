"""The daemon under test as a process of its own, and what the kernel and its log say of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.processes import resident_memory

from tests.soak.invariants import Violation

_REPOSITORY = Path(__file__).parent.parent.parent
_POOLED = ("anon_inode:[eventpoll]", "anon_inode:[eventfd]")
"""gRPC opens more of these when many things happen at once, and keeps them for the next time."""
_READ_CONFIG = re.compile(
    r"active config: |the config on disk is active|the config cannot be used: "
)
_WITHOUT_CACHES = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""What the C library keeps for each thread to be given out again counts as given out: up to 230 kB
for each, and it takes thousands of events until all are full."""
_WRONG = re.compile(r"Traceback|unexpected failure|never awaited|never retrieved")


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """The resources of the daemon, by its own account and by that of the kernel."""

    tasks: Counter[str]
    """By name, without numbers."""
    blocks: int
    """Python's blocks of memory, garbage aside."""
    given_out: int
    """Bytes that the C library has given out, large blocks aside; 0: it cannot show."""
    canceled: int
    """Calls of gRPC that were canceled since the first question."""
    descriptors: Counter[str]
    """Open files by what they are, those that gRPC pools aside."""
    resident: float
    """Its resident memory, in MB."""

    def counts(self) -> dict[str, Mapping[str, int]]:
        """Give what must come down to what it was."""
        return {"descriptors": self.descriptors, "asyncio tasks": self.tasks}


class Daemon:
    """One run of the program."""

    def __init__(self, process: asyncio.subprocess.Process, asked: socket.socket, log: Path):
        self.process = process
        self.log = log
        self.configs_read = 0
        """How often it has said what becomes of a config."""
        self._asked = asked
        self._offset = 0
        self._rest = ""

    @classmethod
    async def start(cls, log: Path, arguments: Sequence[str]) -> Daemon:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GENERICDP_")}
        with theirs, log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "tests.soak.daemon_main"),
                *(str(theirs.fileno()), "run"),
                *arguments,
                cwd=_REPOSITORY,
                env={
                    **environment,
                    **_WITHOUT_CACHES,
                    "MALLOC_ARENA_MAX": "1",  # as in the image and the unit
                    "PYTHONUTF8": "1",
                    "PYTHONPATH": str(_REPOSITORY),
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(theirs.fileno(),),
            )
        return cls(process, ours, log)

    @property
    def pid(self) -> int:
        return self.process.pid

    def look_at_log(self, *, ended: bool = False) -> None:
        """Read what it has logged since; raises Violation if that reports a mistake in it."""
        with self.log.open("rb") as log:
            log.seek(self._offset)
            new = log.read()
        self._offset += len(new)
        *lines, self._rest = (self._rest + new.decode(errors="replace")).split("\n")
        for line in lines:
            if _WRONG.search(line):
                raise Violation(f"the daemon logged: {line}")
            self.configs_read += _READ_CONFIG.search(line) is not None
        if self.process.returncode is not None and not ended:
            raise Violation(f"the daemon ended by itself with {self.process.returncode}")

    def _descriptors(self) -> Counter[str]:
        found = Counter[str]()
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            with suppress(FileNotFoundError):
                what = os.readlink(f"/proc/{self.pid}/fd/{name}")
                found[re.sub(r":\[\d+\]$", "", what)] += 1
        return Counter({kind: count for kind, count in found.items() if kind not in _POOLED})

    def resident(self) -> float:
        return resident_memory(self.pid)

    async def ask(self) -> Held:
        loop = asyncio.get_running_loop()
        answer = b""
        async with asyncio.timeout(10):
            await loop.sock_sendall(self._asked, b"?")
            while not answer.endswith(b"\n"):
                answer += await loop.sock_recv(self._asked, 65536)
        said = json.loads(answer)
        return Held(
            **{**said, "tasks": Counter(said["tasks"])},
            descriptors=self._descriptors(),
            resident=self.resident(),
        )

    async def end(self, number: signal.Signals) -> float:
        """End it by a signal; give how long that took, in seconds, and its log's last lines."""
        if self.process.returncode is not None:
            self.look_at_log()
        begun = time.monotonic()
        self.process.send_signal(number)
        try:
            async with asyncio.timeout(30):
                await self.process.wait()
        except TimeoutError:
            raise Violation(f"{number.name} does not end the daemon within 30 s") from None
        took = time.monotonic() - begun
        self._asked.close()
        code = self.process.returncode
        if number is signal.SIGTERM and code != 0:
            raise Violation(f"SIGTERM ended the daemon with {code} instead of 0")
        return took

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)
