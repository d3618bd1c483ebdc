"""Run commands within a time limit, and end each with all processes that it has started."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.errors import Outcome, reason_of
from genericdp.host.workers import in_worker
from genericdp.observed import Signal, until
from genericdp.printing import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Self

log = logging.getLogger(__name__)

MAX_KEPT = 64 * 1024
"""Bytes of a command's output, half of its start and half of its end."""
_MAX_IN_PIPE = 64 * 1024
_PAUSE_SECONDS = 0.01
"""Pause after each read of discarded output, which limits it to 6 MB/s."""
_PATIENCE = 2.0
"""Seconds within which killed processes must end; one that remains hangs in the kernel."""
_MAX_PAUSE = 0.05
"""Seconds between two checks of processes that are being killed."""
_SWEEP_DELAY = 0.05
"""Seconds after a SIGCHLD, so that many deaths become one sweep."""
_MAX_SPARED = 64
"""Maximum number of orphans in their own sessions that are kept because the command that started
them may still run.
"""
_RETRY_DELAY = 1.0
"""Seconds until the next sweep after one that failed."""

_NOT_STARTED = {126, 127}
"""Exit codes of nice if it cannot start a program; the program itself may use them, too."""
_LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 1024,
    # Limits memory that a process can really use: writable, private.
    resource.RLIMIT_DATA: 4 * 1024**3,
    # Counts reserved memory, too: 1 GiB for a Go program, all memory of node and cards for CUDA.
    resource.RLIMIT_AS: 4096 * 1024**3,
}
_NICE = shutil.which("nice") or "/usr/bin/nice"
_NICENESS = "10"
"""Niceness of commands: hundreds of them must not starve the daemon that has to end them."""

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks per second of start times in /proc."""

_NO_NEW_PRIVS = 38
"""PR_SET_NO_NEW_PRIVS: exec grants no privileges from now on; it cannot be undone."""
_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: descendants whose parent dies become children of this process."""
_MAX_START = 4096  # bytes at the start of a program that name its interpreter or loader
_LOADER = re.compile(rb"/[^\0]*/ld-[^\0]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Process:
    """A child of this process, dead or alive, in another session."""

    pid: int
    session: int
    started: int
    """Clock ticks since boot."""


class Pipe:
    """A pipe that a command writes to and the loop reads from while it runs.

    The first and the last part of the output are kept, ``max_bytes`` in total. Further output is
    read slowly, so that a command that writes without end waits instead of using half a core.
    """

    def __init__(self, max_bytes: int = MAX_KEPT) -> None:
        self.data = bytearray()
        """The kept output, without the middle if it is too long."""
        self.news = Signal()
        """Sent when something has been read."""
        self._half = max_bytes // 2
        self._left_out = 0
        self._pause: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        try:
            self._loop.add_reader(self._read_end, self.read)
        except OSError:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        self.close_write_end()
        self._stop_reading()
        os.close(self._read_end)

    def close_write_end(self) -> None:
        """Close our write end, so that only the command has it."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def read(self) -> None:
        """Read the available data, at most a full pipe; do not wait for more."""
        with suppress(BlockingIOError):
            chunk = os.read(self._read_end, _MAX_IN_PIPE)
            if not chunk:
                self._loop.remove_reader(self._read_end)
            self.data += chunk
            self.news.send()
            surplus = len(self.data) - 2 * self._half
            if surplus > 0:
                del self.data[self._half : self._half + surplus]
                self._left_out += surplus
                self._stop_reading()
                self._pause = self._loop.call_later(
                    _PAUSE_SECONDS, self._loop.add_reader, self._read_end, self.read
                )

    def _stop_reading(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._read_end)

    def text(self) -> str:
        """Return the output as text, with unprintable bytes escaped."""
        if not self._left_out:
            return decoded(self.data)
        first, last = decoded(self.data[: self._half]), decoded(self.data[self._half :])
        return f"{first}\n[{self._left_out} bytes left out]\n{last}"


class _Child:
    """A program in its own session; it stays a zombie until ``process`` reaps it."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        stdout: int,
        stderr: int,
        restricted: bool,
    ) -> None:
        self.command = argv, env
        self.is_stuck = False
        """Whether something of its session could not be killed in time."""
        self.started = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _CLOCK_TICKS)
        """Its start in clock ticks since boot: none of its processes is older."""
        # Popen waits in the kernel until a program has started, which never happens on a mount that
        # hangs. So Popen starts nice, and the daemon has a child that it can kill.
        start = (_NICE, "-n", _NICENESS, *argv) if restricted else argv
        self.process = subprocess.Popen(  # noqa: S603  # what to run is the config's, and the policy's
            start,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd="/" if restricted else None,
            start_new_session=True,
        )
        self.pid = self.process.pid
        """The process ID, which is also that of its group and session."""
        if restricted:
            _restrict(self.pid)
        # When memory runs out, the kernel might otherwise kill the daemon, which is bigger.
        with suppress(OSError):
            Path(f"/proc/{self.pid}/oom_score_adj").write_text("1000")

    @property
    def has_exited(self) -> bool:
        """Return whether it has exited, reaped or not."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        """Kill its process group, and its descendants in other groups.

        Not after it has been reaped: its process ID may belong to another process by then.
        """
        elsewhere = [] if self.has_exited else _descendants(self.pid)
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in elsewhere:  # a bomb would be faster than sweeps
            _kill(pid)


def _restrict(pid: int) -> None:
    for what, limit in _LIMITS.items():
        with suppress(OSError):  # it has exited already, or this limit cannot be set
            _, hard = resource.getrlimit(what)  # it inherited this one
            most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.prlimit(pid, what, (most, most))


class Commands:
    """Runs the commands of this process, within an ``async with`` in its main thread.

    Every process that a command starts is killed: its process group and session at once, an orphan
    in its own session once every command that was running when it started has ended. Orphans become
    children of this process, a subreaper. There must be only one ``Commands`` at a time: it would
    treat processes of another one as orphans.
    """

    def __init__(self) -> None:
        self._running: set[_Child] = set()
        self._ended: set[_Child] = set()
        """Killed commands whose sessions still have processes."""
        self._deaths = Signal()
        """Sent when a child has died, or may have."""
        self._next_sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        for option in (_NO_NEW_PRIVS, _CHILD_SUBREAPER):
            try:
                _prctl(option, 1)
            except OSError as error:
                log.warning(
                    "prctl(%d) failed (%s): processes started by commands may survive them",
                    option,
                    reason_of(error),
                )
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._note_death)
        # the process that started us may block it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            self.kill()
            self._ended |= self._running
            self._running.clear()
            await _wait_until_gone(self._sweep, "commands")
        finally:
            self._is_closed = True
            asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
            self._deaths.send()  # nothing else reports the process that was just reaped
            if self._next_sweep is not None:
                self._next_sweep.cancel()
            with suppress(OSError):
                _prctl(_CHILD_SUBREAPER, 0)

    def kill(self) -> None:
        """Kill all commands, each with its process group, and wait for nothing."""
        for child in self._running:
            child.kill()

    async def run(
        self, argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        """Run a command with limited resources; raise nothing."""
        began = time.monotonic()
        try:
            if self._is_stuck(argv, env):
                return Outcome(reason="its last run still hangs in the kernel")
            with Pipe() as pipe:
                code = await self.complete(
                    argv,
                    env,
                    timeout_seconds=timeout_seconds,
                    stdout=pipe,
                    stderr=pipe,
                    restricted=True,
                )
        except OSError as error:
            return Outcome(reason=f"cannot be started: {_why_not_begun(error)}")
        except ValueError:  # the only other possible cause
            why = "an argument or a variable of its environment holds a NUL"
            return Outcome(reason=f"cannot be started: {why}")
        seconds = time.monotonic() - began
        if code in _NOT_STARTED:
            try:
                async with asyncio.timeout(timeout_seconds):
                    why = await in_worker(partial(_why_not_startable, argv[0]))
            except TimeoutError:
                why = f"reading it takes longer than {timeout_seconds:g} s"
            if why:
                return Outcome(reason=f"cannot be started: {why}", seconds=seconds)
        return outcome_of(code, pipe.text(), seconds=seconds, timeout_seconds=timeout_seconds)

    async def complete(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        timeout_seconds: float,
        stdout: Pipe,
        stderr: Pipe,
        restricted: bool = False,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Run a program until it exits or times out, then kill its processes.

        Return its exit code, which is negative for the signal that killed it; None if it took too
        long. Do not wait for other processes that still hold its output, nor for the program once
        its output ``is_enough``. If canceled, the program is ended first. If ``restricted``, it
        starts in /, with a niceness, and gets resource limits right afterwards. Raise OSError or
        ValueError if it cannot be started.
        """
        out, err = stdout.write_end, stderr.write_end
        child = _Child(argv, env, stdout=out, stderr=err, restricted=restricted)
        self._running.add(child)
        try:
            stdout.close_write_end()
            stderr.close_write_end()
            in_time = await until(
                lambda: child.has_exited or is_enough(),
                self._deaths,
                stdout.news,
                timeout_seconds=timeout_seconds,
            )
        finally:
            await self._end(child)
        stdout.read()
        stderr.read()
        return child.process.returncode if in_time else None

    async def _end(self, child: _Child) -> None:
        """Kill a command and its processes."""
        if child in self._running:
            child.kill()
            self._running.remove(child)
            self._ended.add(child)
        child.is_stuck = not await _wait_until_gone(
            lambda: self._left_of(child), child.command[0][0]
        )

    def _is_stuck(self, argv: Sequence[str], env: Mapping[str, str]) -> bool:
        """Return whether an earlier run of a command could not be killed and still exists."""
        if any(child.is_stuck for child in self._ended):
            self._sweep()
        return any(child.is_stuck and child.command == (argv, env) for child in self._ended)

    def _left_of(self, child: _Child) -> list[_Process]:
        """Sweep, and return the processes that may be left of a command that has ended."""
        left = self._sweep()
        others = {ended.pid for ended in self._ended if ended is not child}
        return [
            process
            for process in left
            if process.session == child.pid
            or (process.session not in others and process.started >= child.started)
        ]

    def _sweep(self) -> list[_Process]:
        """Reap dead children; kill, and return, those whose command has ended.

        A child in the session of a command belongs to that command. Any other orphan may belong to
        any command that was running when it started: it is killed when those have ended, or when
        there are very many orphans.
        """
        running = {child.pid for child in self._running}
        oldest = min((child.started for child in self._running), default=inf)
        ended = {child.pid for child in self._ended}
        dying = [child for child in self._ended if child.process.poll() is None]
        left = [
            _Process(pid=child.pid, session=child.pid, started=child.started) for child in dying
        ]
        known = running | {child.pid for child in dying}
        spared = []
        for orphan in _children():
            if orphan.pid in known:
                continue
            gone = _reap(orphan.pid)
            if orphan.session in ended or not (
                orphan.session in running or orphan.started >= oldest
            ):
                # Even one that has ended: its processes may not have been among the children.
                left.append(orphan)
                if not gone:
                    _kill(orphan.pid)
            elif not gone and orphan.session not in running:
                spared.append(orphan)
        if len(spared) > _MAX_SPARED:
            log.warning("commands have left %d processes behind: all are killed", len(spared))
            for orphan in spared:
                _kill(orphan.pid)
            left += spared
        sessions = {process.session for process in left}
        self._ended = {child for child in self._ended if child.pid in sessions}
        return left

    def _note_death(self) -> None:
        self._deaths.send()
        # A signal from before the end may come here after it.
        if self._next_sweep is None and not self._is_closed:
            self._sweep_after(_SWEEP_DELAY)

    def _sweep_after(self, seconds: float) -> None:
        """Sweep later, and again until nothing is left."""

        def sweep() -> None:
            self._next_sweep = None
            with suppress(OSError):  # no descriptor is left to look with
                if not self._sweep():
                    return
            self._sweep_after(_RETRY_DELAY)

        self._next_sweep = asyncio.get_running_loop().call_later(seconds, sweep)


def _why_not_begun(error: OSError) -> str:
    if error.errno == errno.EAGAIN:
        return f"{reason_of(error)} (a limit on processes is reached)"
    if error.errno == errno.ENOENT:
        return f"{_NICE}, which starts every program, does not exist"
    return reason_of(error)


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


async def _wait_until_gone(sweep: Callable[[], Collection[_Process]], name: str) -> bool:
    """Sweep until nothing is left; return False if that takes too long."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + _PATIENCE, 0.001
    while True:
        try:
            left = sweep()
            if not left:
                return True
            why = f"{len(left)} processes of {name} are still there {_PATIENCE:g} s after SIGKILL"
        except OSError as error:  # no descriptor is left to look with
            why = f"what {name} left cannot be looked for: {reason_of(error)}"
        if loop.time() > deadline:
            log.warning("%s", why)
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


def _children() -> list[_Process]:
    """Return the children in other sessions: no command can leave one in ours."""
    own = os.getpid()  # also the ID of the thread that becomes the parent of orphans
    try:
        text = Path(f"/proc/{own}/task/{own}/children").read_text()
        pids = [int(pid) for pid in text.split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        pids = [
            int(directory.name) for directory in Path("/proc").iterdir() if directory.name.isdigit()
        ]
    found = []
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            # The fields after the command name, see proc_pid_stat(5).
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            parent, session, started = int(fields[1]), int(fields[3]), int(fields[19])
            if parent == own and session != os.getsid(0):
                found.append(_Process(pid=pid, session=session, started=started))
    return found


def _descendants(pid: int) -> list[int]:
    """Return the process IDs below a process, as far as they can be seen."""
    found = [pid]
    for process in found:  # also those that are appended
        with suppress(OSError):
            for file in Path(f"/proc/{process}/task").glob("*/children"):
                found.extend(int(child) for child in file.read_text().split())
    return found[1:]


def _reap(pid: int) -> bool:
    """Reap a child if it is dead; return whether it was."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def _prctl(option: int, value: int) -> None:
    """Set an attribute of this process; raise OSError if that fails."""
    import ctypes  # not before it is needed

    number = ctypes.c_ulong
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, number(value), number(0), number(0), number(0)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def decoded(data: bytes | bytearray) -> str:
    """Decode as UTF-8, and escape invalid bytes and characters that no terminal should see."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() or character in "\t\n" else printable(character)
        for character in text
    )


def outcome_of(code: int | None, output: str, *, seconds: float, timeout_seconds: float) -> Outcome:
    """Return how a command ended, with its last line if it failed; ``None`` means that it timed
    out.
    """
    if code is None:
        reason = f"took longer than {timeout_seconds:g} s"
    elif code < 0:
        reason = f"killed by {signal_name(-code)}"
    else:
        reason = f"exited with {code}" if code else ""
    line = shortened(output.rstrip().rpartition("\n")[2].strip())
    if reason and line:
        reason = f"{reason}: {line}"
    return Outcome(reason=reason, output=output, seconds=seconds)


def signal_name(number: int) -> str:
    """Return the name of a signal; a real-time signal has a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _why_not_startable(program: str) -> str:
    """Return why the kernel cannot start a program; empty if it can. The check may hang."""
    try:
        mode = os.stat(program).st_mode  # noqa: PTH116
        if stat.S_ISDIR(mode):
            return "it is a directory"
        if not os.access(program, os.X_OK):
            return "it is not executable"
        with open(program, "rb") as file:  # noqa: PTH123
            start = file.read(_MAX_START)
    except OSError as error:
        return reason_of(error)
    what = "its interpreter"
    if start.startswith(b"#!"):
        needed = start[2:].partition(b"\n")[0].strip(b" \t").partition(b" ")[0]
    else:
        what, found = "the loader that it needs", _LOADER.search(start)
        needed = found[0] if found else b""
    if not needed or os.path.exists(needed):  # noqa: PTH110
        return ""
    return f"{what} does not exist: {decoded(needed)}"
