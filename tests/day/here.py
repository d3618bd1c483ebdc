"""The daemon of a day: it runs in this process, on this loop and its clock."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from typing import TYPE_CHECKING

from genericdp.daemon import Settings, serve
from genericdp.status.events import Events
from tests.soak.daemon import _READ_CONFIG, _WRONG, Daemon
from tests.soak.invariants import Violation
from tests.soak.load import Load, Mark
from tests.soak.world import World

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from genericdp.address import Address

_LAST_LINES = 60


class Unloaded(Load):
    """The load where time stands still while anybody works: none."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now

    def mark(self, pid: int | None) -> Mark:
        return Mark(at=self._now(), late=0.0, threads={}, children={})

    def look_at_children(self, mark: Mark, pid: int) -> None:
        pass

    def since(self, mark: Mark, pid: int) -> float:
        return 0.0


class _Log(logging.Handler):
    """Keeps the last lines, and what is wrong in any."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self.lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.count = 0
        self.configs_read = 0
        self.wrong = ""

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        self.lines.append(line)
        self.count += 1
        self.configs_read += _READ_CONFIG.search(line) is not None
        if _WRONG.search(line):
            self.wrong = self.wrong or line


class Here(Daemon):
    """One life of the daemon; nothing of its process is asked for, since that is ours."""

    def __init__(self, settings: Settings, now: Callable[[], float]) -> None:
        self.told = _Log()
        self._settings = settings
        self._now = now
        self._reload = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Let it run."""
        root = logging.getLogger()
        root.setLevel(logging.INFO)
        root.addHandler(self.told)
        work = serve(self._settings, reload=self._reload, now=self._now)
        self._task = tasks.create_task(work, name="daemon")

    @property
    def pid(self) -> int:
        return os.getpid()

    def look_at_log(self, *, ended: bool = False) -> None:
        self.configs_read = self.told.configs_read
        if self.told.wrong:
            raise Violation(f"the daemon logged: {self.told.wrong}")
        if self._task is not None and self._task.done() and not ended:
            raise Violation("the daemon ended by itself")

    async def end(self, number: signal.Signals) -> float:
        assert self._task is not None
        begun = self._now()
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None  # what has ended is kept, and must not keep the daemon
        self.told.lines.clear()
        root = logging.getLogger()
        for one in tuple(root.handlers):
            # A process has one life; this one has several.
            if one is self.told or isinstance(one, Events):
                root.removeHandler(one)
        return self._now() - begun

    def hang_up(self) -> None:
        self._reload.set()


class Node(World):
    """A world whose daemon runs in this process."""

    tasks: asyncio.TaskGroup
    listen: Address

    @property
    def here(self) -> Here:
        """The daemon that runs."""
        assert isinstance(self.daemon, Here)
        return self.daemon

    async def start_daemon(self) -> Mark:
        mark = self.load.mark(None)
        settings = Settings(
            configs=(self.disk.volume, self.disk.plain),
            kubelet_folder=self.side.folder,
            root=self.host.root,
            node_name="node-1",
            state_dir=self.folder / "state",
            listen=self.listen,
        )
        daemon = Here(settings, self.now)
        daemon.begin(self.tasks)
        self.daemons.append(daemon)
        return mark
