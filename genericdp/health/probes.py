"""The kinds of probe that are run: commands, files, opened nodes. The kernel log is followed."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from genericdp.devices.restrictions import file_to_read
from genericdp.errors import reason_of
from genericdp.health.execution import run_for
from genericdp.host.calls import HangsError, give_up, hangs
from genericdp.host.devicefiles import is_same
from genericdp.host.workers import start
from genericdp.model import Command, FileCheck, OpenCheck, number
from genericdp.printing import printable
from genericdp.process.outcome import Outcome
from genericdp.regex import TextTooLongError, search

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.device import BoundProbe, Device, DeviceNode
    from genericdp.health.execution import RunCommand
    from genericdp.host.root import Root
    from genericdp.policy import Policy

MAX_HANGING = 16
"""Limit on the hanging threads of a resource, beyond which none of its reads is begun: threads are
limited (``pids.max``), and other resources need theirs."""
MAX_BYTES = 1024 * 1024
MAX_SHOWN = 60
"""Limit on the characters of a content that are quoted."""

_ACCESS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
# Not to wait for a carrier, nor to become the terminal of a daemon that has none.
_ALWAYS = os.O_NONBLOCK | os.O_NOCTTY
_FORBIDDEN = " (the pod's device cgroup or capabilities may forbid it)"


class RunProbe(Protocol):
    """Runs a probe of a device once."""

    async def __call__(
        self, bound: BoundProbe, device: Device, *, resource: str, root: Root, before: bytes = b""
    ) -> Outcome:
        """Return the outcome, whatever happened; ``before`` is the digest of an earlier one."""


class Probes:
    """Runs probes; what hangs in a file or node is given up."""

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command
        self._hanging: Counter[str] = Counter()
        """By resource, how many reads were given up and have threads that still run."""

    async def run(
        self, bound: BoundProbe, device: Device, *, resource: str, root: Root, before: bytes = b""
    ) -> Outcome:
        """Run a probe once, as ``RunProbe``."""
        check, seconds = bound.check, bound.probe.timeout_seconds
        match check:
            case Command():
                return await run_for(
                    device, check, resource=resource, timeout_seconds=seconds, run=self._run_command
                )
            case FileCheck():
                what = f"reading {printable(check.path)}"
                read = partial(read_file, check, root, device.policy, before)
            case OpenCheck():
                paths = " and ".join(printable(node.host_path) for node in device.nodes)
                what, read = f"opening {paths}", partial(open_nodes, check, device, root)
            case _:
                raise TypeError(check)
        return await self.run_in_thread(what, read, resource=resource, timeout_seconds=seconds)

    async def run_in_thread(
        self, what: str, read: Callable[[], Outcome], *, resource: str, timeout_seconds: float
    ) -> Outcome:
        """Run ``read`` in a thread, and return its outcome with the time that it took.

        ``what`` it does, for people; while one of a name hangs, no other is begun.
        """
        if hangs(what):
            return Outcome(reason=f"{what} does not end")
        if self._hanging[resource] >= MAX_HANGING:
            others = f"{MAX_HANGING} others of {resource} do not end"
            return Outcome(reason=f"{what} cannot be begun: {others}")
        began = asked = time.monotonic()

        def work() -> Outcome:
            nonlocal began
            began = time.monotonic()
            with suppress(HangsError):
                return read()
            return Outcome(reason=f"{what} does not end")

        result = start(work, what, is_one_call=True)
        try:
            if await result.ends(timeout_seconds):
                return replace(result.result(), seconds=time.monotonic() - began)
        except asyncio.CancelledError:
            result.cancel()
            raise
        if not result.has_begun:
            result.cancel()
            return Outcome(reason=f"{what} cannot be begun: no thread can be started")
        give_up(result, only_call=True)  # after as little time as the config says
        self._hanging[resource] += 1

        def ended(result: asyncio.Future[Outcome]) -> None:
            self._hanging[resource] -= 1
            result.exception()  # nobody waits for it any longer

        result.add_done_callback(ended)
        return Outcome(reason=f"{what} does not end", seconds=time.monotonic() - asked)


def read_file(
    check: FileCheck[str, float], root: Root, policy: Policy | None, before: bytes = b""
) -> Outcome:
    """Read the file and return whether it is as expected, as ``check_content``. It may hang."""
    path = printable(check.path)
    try:
        found = file_to_read(policy, check.path, root.target)
        if found.refusal:
            return Outcome(reason=printable(found.refusal))
        data = root.read_bytes(found.target, limit=MAX_BYTES + 1, follow_symlinks=False)
        if len(data) > MAX_BYTES:
            return Outcome(reason=f"{path} has more than 1 MiB")
        return check_content(check, data.decode(errors="backslashreplace"), before)
    except (FileNotFoundError, NotADirectoryError):
        reason = f"{path} does not exist"
    except BlockingIOError:
        reason = f"{path} has nothing to read"
    except OSError as error:
        reason = f"{path} cannot be read: {reason_of(error)}"
    except TextTooLongError as error:
        reason = f"{path}: {error}"
    except ValueError:  # all that is left to be wrong
        reason = f"{path} cannot be read: a path holds no NUL"
    return Outcome(reason=reason)


def check_content(check: FileCheck[str, float], content: str, before: bytes = b"") -> Outcome:
    """Return whether a content is as expected: all that is given must hold.

    If it must change, the outcome has its digest, and ``before`` is that of an earlier content of
    this file; empty: there is none, so nothing is to differ from.
    """
    content = content.strip()
    digest, wrong = b"", ""
    if check.changes:  # of the content of just this file
        text = f"{check.path}\0{content}"
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    if check.equals is not None and content != check.equals:
        wrong = f"not {quote(check.equals)}"
    elif check.regex is not None and search(check.regex, content) is None:
        wrong = f"not matching {quote(check.regex)}"
    elif check.min is not None or check.max is not None:
        wrong = _out_of_range(check, content)
    if digest and digest == before and not wrong:
        wrong = "as when it was last read (it must change)"
    reason = f"{printable(check.path)} is {quote(content)}, {wrong}" if wrong else ""
    return Outcome(reason=reason, digest=digest)


def _out_of_range(check: FileCheck[str, float], content: str) -> str:
    value = number(content)
    if value is None:
        return "which is no number"
    if check.min is not None and value < check.min:
        return f"less than {check.min:.15g}"
    if check.max is not None and value > check.max:
        return f"more than {check.max:.15g}"
    return ""


def quote(text: str) -> str:
    """Quote a text for people: what cannot be printed is escaped, what is long is cut."""
    quoted = printable(text[: MAX_SHOWN + 1])
    return f"'{quoted}'" if len(quoted) <= MAX_SHOWN else f"'{quoted[:MAX_SHOWN]}…'"


def open_nodes(check: OpenCheck, device: Device, root: Root) -> Outcome:
    """Open the nodes one after the other, and close each at once."""
    if not device.nodes:
        return Outcome(reason="the device has no node that could be opened")
    reasons = (_why_not_opened(node, _ACCESS[check.mode], root) for node in device.nodes)
    return Outcome(reason=next((reason for reason in reasons if reason), ""))


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
