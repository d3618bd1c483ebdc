"""A machine that umockdev makes up, with the daemon on it; devices are plugged and unplugged."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Devices = dict[str, dict[str, str]]

REPOSITORY = Path(__file__).parents[2]
PRELOAD = "LD_PRELOAD=libumockdev-preload.so.0"
DEBIAN = "/usr/bin/python3"
"""Only it has the module ``gi``."""
_LONG_QUEUE = 'echo 4096 > /proc/sys/net/unix/max_dgram_qlen && exec "$@"'
"""umockdev ends when the daemon has not yet read the last 10 events; of a network's own."""
_TESTBED = """
import json, sys, gi
gi.require_version("UMockdev", "1.0")
from gi.repository import UMockdev
testbed = UMockdev.Testbed.new()
print(json.dumps(testbed.get_root_dir()), flush=True)
for line in sys.stdin:
    action, syspath, text = json.loads(line)
    if text:
        testbed.add_from_string(text)
    if action:
        testbed.uevent(syspath, action)
    if action == "remove":
        testbed.remove_device(syspath)
    print("{}", flush=True)
"""


def why_none() -> str:
    """Say why there can be no such machine here; empty if there can."""
    if os.geteuid() != 0:
        return "only root can lengthen the queue of events"
    code = "import gi; gi.require_version('UMockdev', '1.0'); from gi.repository import UMockdev"
    tried = subprocess.run([DEBIAN, "-c", code], check=False, capture_output=True, text=True)
    if tried.returncode:
        return "needs python3-gi and gir1.2-umockdev-1.0 of Debian"
    return loading.why_no_umockdev()


def blocks_of(name: str) -> dict[str, str]:
    """Give the text of each device of a testbed, by its path below /sys."""
    parts = loading.path_of(name).read_text().split("\n\n")
    blocks = (part.strip("\n") + "\n" for part in parts if part.strip())
    return {f"/{block.partition('P: /')[2].partition(chr(10))[0]}": block for block in blocks}


class MadeUp:
    """Owns the process that makes the machine up, and the daemon's."""

    def __init__(
        self, name: str, testbed: _Lines, daemon: _Lines, directory: Path, run: Path
    ) -> None:
        self.there = blocks_of(name)
        """What is plugged."""
        self.lists = 0
        self.seen: list[Devices] = []
        """What the kubelet had after each list."""
        self._testbed = testbed
        self._daemon = daemon
        self._directory = directory
        self._records = run / "udev/data"

    @property
    def devices(self) -> Devices:
        """Return what the kubelet has now."""
        return self.seen[-1]

    def healthy(self) -> dict[str, set[str]]:
        """The healthy ids of each resource."""
        return {
            name: {device for device, health in devices.items() if health == "Healthy"}
            for name, devices in self.devices.items()
        }

    def until(self, reached: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for lists; raises TimeoutError with the last one."""
        end = time.monotonic() + seconds
        while not (self.seen and reached()):
            try:
                self._take(self._daemon.line(end - time.monotonic()))
            except TimeoutError:
                raise TimeoutError(f"not in {seconds} s: {self.seen[-1:]}") from None

    def ask(self, resource: str, device_id: str) -> dict[str, Any]:
        """Allocate one device: give the nodes, or why it is refused."""
        self._daemon.write(f"{resource} {device_id}")
        while "lists" in (line := self._daemon.line(20.0)):
            self._take(line)
        answer: dict[str, Any] = line
        return answer

    def until_given(self, resource: str, device_id: str, nodes: list[str]) -> None:
        """Allocate until it gives these nodes: no list reports another one of a device.

        Raises TimeoutError with the last answer.
        """
        end = time.monotonic() + 20.0
        while (answer := self.ask(resource, device_id)) != {"given": nodes}:
            if time.monotonic() > end:
                raise TimeoutError(answer)
            time.sleep(0.02)  # noqa: TID251 -- polls what has no event

    def _take(self, line: dict[str, Any]) -> None:
        self.lists = line["lists"]
        self.seen.append(line["devices"])

    def below(self, directory: str) -> list[str]:
        """The paths of a device and of all that belongs to it, those above first."""
        return [path for path in self.there if f"{path}/".startswith(f"{directory}/")]

    def unplug(self, directory: str) -> dict[str, str]:
        """Remove a device with all that belongs to it; gives their strings."""
        paths = self.below(directory)
        for path in reversed(paths):
            self._remove(path)
        return {path: self.there.pop(path) for path in paths}

    def plug(self, blocks: Mapping[str, str]) -> None:
        """Add devices one after the other, each with its event, then with its record."""
        for path, block in blocks.items():
            self._testbed.ask("add", f"/sys{path}", kernel_part(block))
            (entry,) = loading.parse(block)
            complete(self._directory, entry)
            self._tell_of_files(entry)
            if entry.udev:
                record = self._records / loading.record_name(entry)
                hidden = record.with_name(f".{record.name}")
                hidden.write_text(loading.record_of(entry))
                hidden.rename(record)
            self.there[path] = block

    def _remove(self, path: str) -> None:
        """Let the kernel's order appear: of what it shows to be removed, nothing is left.

        umockdev reports what is there only; so the daemon stands still meanwhile.
        """
        (entry,) = loading.parse(self.there[path])
        self._daemon.process.send_signal(signal.SIGSTOP)
        self._testbed.ask("remove", f"/sys{path}", "")
        if entry.node:
            kind = "block" if entry.subsystem == "block" else "char"
            left = [f"sys/dev/{kind}/{entry.number}", f"sys/block/{path.rpartition('/')[2]}"]
            left += [f"dev/{link}" for link in (entry.node, *entry.links)]
            for item in (*left, f"dev/.node/{entry.node.replace('/', '_')}"):
                (self._directory / item).unlink(missing_ok=True)
        (self._records / loading.record_name(entry)).unlink(missing_ok=True)
        self._daemon.process.send_signal(signal.SIGCONT)
        self._tell_of_files(entry)

    def _tell_of_files(self, entry: loading.Entry) -> None:
        for name in (entry.node, *entry.links):
            if name:
                self._daemon.write(f"/dev/{name}")


def kernel_part(text: str) -> str:
    """Leave out what udev finds out and makes; nodes are files, which can be made again."""
    of_udev = (*loading.OF_UDEV, "S: ")
    lines = [line for line in text.splitlines() if not line.startswith(of_udev)]
    return "\n".join(re.sub(r"^(N: [^=]*)$", r"\1=00", line) for line in lines) + "\n"


def complete(directory: Path, entry: loading.Entry) -> None:
    """Make what umockdev does not: links to the node as udev's, drivers, IOMMU groups, disks."""
    if entry.node and entry.subsystem == "block":
        (directory / f"sys/dev/char/{entry.number}").unlink(missing_ok=True)
        link = directory / f"sys/dev/block/{entry.number}"
        link.unlink(missing_ok=True)
        loading.add_link(link, directory / f"sys{entry.path}")
    for pointer, target in entry.pointers.items():
        led_to = os.path.normpath(directory / f"sys{entry.path}" / pointer / ".." / target)
        Path(led_to).mkdir(parents=True, exist_ok=True)
    for name in entry.links:
        (directory / "dev" / name).unlink(missing_ok=True)
        loading.add_link(directory / "dev" / name, directory / "dev" / entry.node)


class _Lines:
    """A process that is reported and shows lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._rest = b""

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def ask(self, *arguments: str) -> None:
        """Have something done, and wait for its end."""
        self.write(json.dumps(arguments))
        self.line(20.0)

    def line(self, seconds: float) -> Any:
        """Give the next line, parsed; raises TimeoutError."""
        assert self.process.stdout is not None
        descriptor, end = self.process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            part = os.read(descriptor, 65_536) if ready else b""
            if not ready:
                raise TimeoutError
            if not part:
                raise EOFError(f"it has ended with {self.process.wait()}")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            raise ValueError(line.decode()) from None


@contextmanager
def _running(*command: str) -> Iterator[_Lines]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    ) as process:
        assert process.stdin is not None
        try:
            yield _Lines(process)
        finally:
            process.send_signal(signal.SIGCONT)
            process.stdin.close()
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def made_up(name: str, config: Path, scratch: Path) -> Iterator[MadeUp]:
    """Make a machine of the testbeds up, and run the daemon with a config on it."""
    loading.build(loading.path_of(name), scratch / "tree")
    run = scratch / "tree/run"
    with _running("env", PRELOAD, DEBIAN, "-c", _TESTBED) as testbed:
        directory = Path(testbed.line(20.0))
        for path, block in blocks_of(name).items():
            testbed.ask("", f"/sys{path}", kernel_part(block))
            complete(directory, *loading.parse(block))
        command = (
            *loading.with_private_run(run),
            *("unshare", "--net", "sh", "-c", _LONG_QUEUE, "sh"),
            *("env", PRELOAD, f"UMOCKDEV_DIR={directory}"),
            *(sys.executable, "-m", "tests.testbeds.watching", str(config)),
        )
        with ExitStack() as running:

            def started() -> MadeUp:
                daemon = running.enter_context(_running(*command))
                machine = MadeUp(name, testbed, daemon, directory, run)
                machine.until(lambda: True)
                return machine

            try:
                machine = started()
            except EOFError:
                # Its wrapper of lstat uses a buffer of all threads after its lock is given back,
                # and ends the process where another thread has written to it meanwhile.
                print("umockdev has ended the daemon at its start: starting it once more")
                machine = started()
            yield machine
