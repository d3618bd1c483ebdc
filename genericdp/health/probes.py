"""The kinds of probe that are run: commands, files, opened nodes. The kernel log is followed."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

from genericdp.devices.restrictions import file_to_read
from genericdp.errors import reason_of
from genericdp.health.commands import run_for
from genericdp.host.devicefiles import is_same
from genericdp.host.workers import start
from genericdp.model import Command, FileCheck, OpenCheck
from genericdp.printing import printable
from genericdp.process.outcome import Outcome
from genericdp.regex import TextTooLongError, search

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.device import BoundProbe, Device, DeviceNode
    from genericdp.health.commands import RunCommand
    from genericdp.host.root import Root
    from genericdp.policy import Policy

MOST_HANGING = 16
"""Limit on the hanging threads of a resource, beyond which none of its reads is begun: threads are
limited (``pids.max``), and other resources need theirs."""
MOST_BYTES = 1024 * 1024
MOST_SHOWN = 60
"""Limit on the characters of a content that are quoted."""

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_ACCESS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
# Not to wait for a carrier, nor to become the terminal of a daemon that has none.
_ALWAYS = os.O_NONBLOCK | os.O_NOCTTY
_FORBIDDEN = " (the pod's device cgroup or capabilities may forbid it)"


class RunProbe(Protocol):
    """Runs a probe of a device once."""

    async def __call__(
        self, bound: BoundProbe, device: Device, *, resource: str, root: Root
    ) -> Outcome:
        """Return the outcome, whatever happened."""


class Probes:
    """Runs probes; what hangs in a file or node is given up."""

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command
        self._hanging: dict[str, str] = {}
        """The resource of each read that was given up and whose thread still runs: there is one
        thread for each, not one a period."""

    async def run(self, bound: BoundProbe, device: Device, *, resource: str, root: Root) -> Outcome:
        """Run a probe once, as ``RunProbe``."""
        check, seconds = bound.check, bound.probe.timeout_seconds
        match check:
            case Command():
                return await run_for(
                    device,
                    check,
                    resource=resource,
                    timeout_seconds=seconds,
                    run=self._run_command,
                )
            case FileCheck():
                what = f"reading {printable(check.path)}"
                read = partial(read_file, check, root, device.policy)
            case OpenCheck():
                paths = " and ".join(printable(node.host_path) for node in device.nodes)
                what, read = f"opening {paths}", partial(open_nodes, check, device, root)
            case _:
                raise TypeError(check)
        return await self.in_time(what, read, resource=resource, timeout_seconds=seconds)

    async def in_time(
        self, what: str, read: Callable[[], str], *, resource: str, timeout_seconds: float
    ) -> Outcome:
        """Run ``read`` in a thread: it returns why it failed; empty: it did not.

        ``what`` it does, for people; while one of a name hangs, no other is begun.
        """
        if what in self._hanging:
            return Outcome(reason=f"{what} does not end")
        if list(self._hanging.values()).count(resource) >= MOST_HANGING:
            others = f"{MOST_HANGING} others of {resource} do not end"
            return Outcome(reason=f"{what} cannot be begun: {others}")
        began = asked = time.monotonic()
        has_begun = False

        def work() -> str:
            nonlocal began, has_begun
            began, has_begun = time.monotonic(), True
            return read()

        result = start(work)
        done, _ = await asyncio.wait([result], timeout=timeout_seconds)
        if done:
            return Outcome(reason=result.result(), seconds=time.monotonic() - began)
        if not has_begun:
            result.cancel()
            return Outcome(reason=f"{what} cannot be begun: no thread can be started")
        self._hanging[what] = resource

        def ended(result: asyncio.Future[str]) -> None:
            del self._hanging[what]
            result.exception()  # nobody waits for it any longer

        result.add_done_callback(ended)
        return Outcome(reason=f"{what} does not end", seconds=time.monotonic() - asked)


def read_file(check: FileCheck[str], root: Root, policy: Policy | None) -> str:
    """Read the file and return what is not as expected; empty: nothing. It may hang."""
    path = printable(check.path)
    try:
        found = file_to_read(policy, check.path, root.target)
        if found.refusal:
            return printable(found.refusal)
        data = root.read_bytes(found.target, limit=MOST_BYTES + 1, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return f"{path} does not exist"
    except BlockingIOError:
        return f"{path} has nothing to read"
    except OSError as error:
        return f"{path} cannot be read: {reason_of(error)}"
    except ValueError:  # all that is left to be wrong
        return f"{path} cannot be read: a path holds no NUL"
    if len(data) > MOST_BYTES:
        return f"{path} has more than 1 MiB"
    try:
        return judged(check, data.decode(errors="backslashreplace"))
    except TextTooLongError as error:
        return f"{path}: {error}"


def judged(check: FileCheck[str], content: str) -> str:
    """Return what is not as expected; empty: nothing. All that is given must hold."""
    content = content.strip()
    wrong = ""
    if check.equals is not None and content != check.equals:
        wrong = f"not {shown(check.equals)}"
    elif check.regex is not None and search(check.regex, content) is None:
        wrong = f"not matching {shown(check.regex)}"
    elif check.min is not None or check.max is not None:
        wrong = _out_of_range(check, content)
    return f"{printable(check.path)} is {shown(content)}, {wrong}" if wrong else ""


def _out_of_range(check: FileCheck[str], content: str) -> str:
    value = number(content)
    if value is None:
        return "which is no number"
    if check.min is not None and value < check.min:
        return f"less than {_plain(check.min)}"
    if check.max is not None and value > check.max:
        return f"more than {_plain(check.max)}"
    return ""


def number(text: str) -> float | None:
    """Parse a decimal or, after ``0x``, hexadecimal number; None: not a number, or not finite."""
    if _NUMBER.fullmatch(text) is None:
        return None
    if "x" in text or "X" in text:
        return int(text, 16)
    value = float(text)
    return value if math.isfinite(value) else None


def shown(text: str) -> str:
    """Quote a text for people: what cannot be printed is escaped, what is long is cut."""
    quoted = printable(text[: MOST_SHOWN + 1])
    return f"'{quoted}'" if len(quoted) <= MOST_SHOWN else f"'{quoted[:MOST_SHOWN]}…'"


def _plain(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def open_nodes(check: OpenCheck, device: Device, root: Root) -> str:
    """Open the nodes one after the other, and close each at once; return why that failed."""
    if not device.nodes:
        return "the device has no node that could be opened"
    reasons = (_why_not_opened(node, _ACCESS[check.mode], root) for node in device.nodes)
    return next((reason for reason in reasons if reason), "")


def _why_not_opened(node: DeviceNode, access: int, root: Root) -> str:
    path = printable(node.host_path)
    try:
        # First, because opening can do something to whatever has taken its place.
        same = is_same(root, node.host_path, node.identity)
        if same is None:
            return f"{path} does not exist"
        if not same:
            return f"{path} is another device now"
        os.close(root.descriptor(node.host_path, access | _ALWAYS))
    except OSError as error:
        forbidden = _FORBIDDEN if error.errno in {errno.EPERM, errno.EACCES} else ""
        return f"{path} cannot be opened: {reason_of(error)}{forbidden}"
    return ""
