"""Runs cases: the steps of their transcripts, with what each prints.

    python -m tests.cases.running [TOPIC/NAME …]    # writes transcripts again: ``make cases``

A step is a line ``$ COMMAND``; what it prints follows it. Next to ``genericdp … [| grep REGEX]``,
whose config is the case's ``config.yaml`` and whose root is its machine, and whose paths are
printed as seen from the directory of both, there are

============================= ==================================================================
``config FILE``               replace the config by another file of the case, or by an example
``plug NAME … [KEY=VALUE …]`` plug devices in, with all below them, and with other attributes
``unplug NAME …``             take devices away, with all below them
``write PATH TEXT``           write a file of the machine; ``\\n`` is a line's end
``link PATH TARGET``          make a link, or turn one elsewhere
``remove PATH``               remove a file, link or directory
``reconcile [SECONDS]``       let the daemon decide, this many seconds after the last time: what it
                              logs, and the devices that it lists if these are others now
``reconcile due``             the same when time alone changes something, and after how long
``pod NAME RESOURCE=N``       start a pod, which gets the first Healthy devices that are free
``end NAME``                  end a pod
``restart``                   end the daemon and start it again
============================= ==================================================================
"""

from __future__ import annotations

import contextlib
import difflib
import io
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch  # noqa: TID251 -- of the environment only

from genericdp.cli import main
from genericdp.cli.output import table
from genericdp.config.load import load
from genericdp.devices.changes import changes
from genericdp.devices.decide import decide
from genericdp.devices.held import Held, HeldDevice, Name
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.kubelet.servicer import entry_bytes
from genericdp.status import view

from tests.cases.machine import Machine, MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from genericdp.devices.decide import DeviceLists

DIRECTORY = Path(__file__).parent
EXAMPLES = DIRECTORY.parents[1] / "examples/configs"
NODE = "node-1"
_ENVIRONMENT = {
    "COLUMNS": "100",
    "GENERICDP_CONFIG": "config.yaml",
    "GENERICDP_ROOT": "machine",
    "NODE_NAME": NODE,
}
_REASON = re.compile(r"(?<=: ).*")
"""What follows the first colon of a line is for humans."""


class CaseError(Exception):
    """A mistake in a case."""


def all_cases() -> list[Path]:
    """Return the directories of all cases."""
    return sorted(file.parent for file in DIRECTORY.glob("*/*/expect.txt"))


def run(case: Path) -> str:
    """Run the steps of a case and return its transcript; raise CaseError."""
    transcript = case / "expect.txt"
    lines = transcript.read_text().splitlines()
    if not lines or not lines[0].startswith("# "):
        raise CaseError(f"{transcript}:1: begin with '# ' and why the case matters")
    steps = [(at, line) for at, line in enumerate(lines, start=1) if line.startswith("$ ")]
    if not steps:
        raise CaseError(f"{transcript}: there is no step: write a line '$ genericdp discover'")
    printed = list(takewhile(lambda line: line.startswith("# "), lines))
    with _Node(case) as node:
        for at, line in steps:
            if not printed[-1].startswith("$ "):
                printed.append("")
            printed.append(line)
            try:
                printed += node.take(line.removeprefix("$ "))
            except (CaseError, MachineError, OSError) as error:
                raise CaseError(f"{transcript}:{at}: {line}: {error}") from error
    return "\n".join(line.rstrip() for line in printed) + "\n"


def difference(case: Path, printed: str) -> str:
    """Return how a transcript differs from what its steps print now; empty if it does not."""
    name = f"tests/cases/{case.relative_to(DIRECTORY)}/expect.txt"
    expected = (case / "expect.txt").read_text()
    return "".join(
        difflib.unified_diff(
            expected.splitlines(keepends=True), printed.splitlines(keepends=True), name, "now"
        )
    )


class _Node:
    """A node of a case: its machine, its config, the daemon's last decision, and pods."""

    def __init__(self, case: Path) -> None:
        self._case = case
        self._now = 0.0
        self._due: float | None = None
        self._lists: DeviceLists = {}
        self._rows: list[tuple[str, ...]] = []
        self._pods: dict[str, HeldDevice] = {}
        self._steps: dict[str, Callable[..., Iterator[str]]] = {
            "genericdp": self._genericdp,
            "config": self._config,
            "plug": self._plug,
            "unplug": self._unplug,
            "write": self._machine(
                lambda machine, path, text: machine.write(path, text.replace("\\n", "\n"))
            ),
            "link": self._machine(Machine.link),
            "remove": self._machine(Machine.remove),
            "reconcile": self._reconcile,
            "restart": self._restart,
            "pod": self._pod,
            "end": self._end,
        }

    def __enter__(self) -> _Node:
        with contextlib.ExitStack() as stack:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for file in self._case.iterdir():
                if file.name != "expect.txt":
                    shutil.copyfile(file, work / file.name)  # without its mode
            description = work / "machine.yaml"
            if not description.exists():
                raise CaseError(f"{self._case} has no machine.yaml")
            try:
                self._of_machine = Machine(description, work / "machine")
            except MachineError as error:
                raise CaseError(f"{self._case / 'machine.yaml'}: {error}") from error
            stack.enter_context(contextlib.chdir(work))
            stack.enter_context(patch.dict(os.environ, _ENVIRONMENT))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take(self, command: str) -> list[str]:
        """Take a step and return what it prints; raise CaseError."""
        name, *arguments = shlex.split(command)
        if name not in self._steps:
            raise CaseError(f"there is no command {name}: {', '.join(sorted(self._steps))}")
        try:
            return list(self._steps[name](*arguments))
        except TypeError as error:
            raise CaseError(str(error)) from error

    def _genericdp(self, *arguments: str) -> Iterator[str]:
        output = io.StringIO()
        pipe = arguments.index("|") if "|" in arguments else len(arguments)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main(arguments[:pipe])
        wanted = re.compile("".join(arguments[pipe + 2 :]))
        printed = output.getvalue().replace(f"{os.getcwd()}/", "")
        yield from filter(wanted.search, printed.splitlines())
        if code:
            yield f"exit {code}"

    def _config(self, name: str) -> Iterator[str]:
        shutil.copy(name if Path(name).exists() else EXAMPLES / name, "config.yaml")
        return iter(())

    def _machine(self, change: Callable[..., None]) -> Callable[..., Iterator[str]]:
        def step(*arguments: str) -> Iterator[str]:
            change(self._of_machine, *arguments)
            return iter(())

        return step

    def _plug(self, name: str, *others: str) -> Iterator[str]:
        changes = dict(pair.split("=", 1) for pair in others if "=" in pair)
        for plugged in (name, *(other for other in others if "=" not in other)):
            self._of_machine.plug(plugged, changes)
        return iter(())

    def _unplug(self, name: str, *others: str) -> Iterator[str]:
        for unplugged in (name, *others):
            self._of_machine.unplug(unplugged)
        return iter(())

    def _restart(self) -> Iterator[str]:
        self._lists = {}
        return iter(())

    def _reconcile(self, seconds: str = "1") -> Iterator[str]:
        if seconds == "due":
            if self._due is None:
                yield "nothing is due"
                return
            yield f"after {self._due - self._now:.4g} s"
            self._now = self._due
        else:
            self._now += float(seconds)
        loaded = load([Path("config.yaml")])
        for problem in loaded.problems:
            raise CaseError(str(problem))
        decision = decide(
            loaded.resources,
            HostCache(Root(Path("machine"))),
            node_name=NODE,
            previous=self._lists,
            now=self._now,
            held=Held(self._pods.values()),
            entry_bytes=entry_bytes,
        )
        before, self._lists, self._due = self._lists, decision.lists, decision.due
        for change in changes(before, decision):
            subject = f"{change.resource}: " if change.resource else ""
            yield f"{logging.getLevelName(change.level).lower()} {subject}{change.text}"
        columns = ("RESOURCE", "ID", "STATE", "NODES", "WHY")
        rows = [
            view.row(name, view.device(entry), columns)
            for name, listed in self._lists.items()
            for entry in listed.devices.values()
        ]
        if rows != self._rows:
            yield from table([columns, *rows]) if rows else ["no devices"]
        self._rows = rows

    def _pod(self, pod: str, amount: str) -> Iterator[str]:
        resource, _, count = amount.partition("=")
        listed = self._lists.get(resource)
        taken = {share for held in self._pods.values() for share in held.holders}
        entries = listed.devices.values() if listed else ()
        free = [
            (entry.device, share)
            for entry in entries
            if entry.is_healthy
            for share in entry.device.shares
            if share not in taken and share not in entry.withheld
        ][: int(count or 1)]
        if len(free) < int(count or 1):
            yield f"Insufficient {resource}"
            return
        for device, share in free:
            self._pods[f"{pod} {share}"] = HeldDevice(
                name=Name(resource, device.id),
                identities=device.identities,
                replicas=device.replicas,
                exclusive=device.exclusive,
                holders={share: (f"pod default/{pod}",)},
            )
            yield share

    def _end(self, pod: str) -> Iterator[str]:
        self._pods = {
            key: each_pod for key, each_pod in self._pods.items() if key.split()[0] != pod
        }
        return iter(())


def _masked(transcript: str) -> str:
    return _REASON.sub("…", transcript)


def _write(names: Sequence[str]) -> int:
    cases = [case for case in all_cases() if not names or _name(case) in names]
    changed = reworded = 0
    for case in cases:
        file = case / "expect.txt"
        before, now = file.read_text(), run(case)
        changed += before != now
        reworded += before != now and _masked(before) == _masked(now)
        file.write_text(now)
    more = changed - reworded
    print(f"{changed} of {len(cases)} transcripts changed, {more} in more than wording")
    return 0


def _name(case: Path) -> str:
    return case.relative_to(DIRECTORY).as_posix()


if __name__ == "__main__":
    sys.exit(_write(sys.argv[1:]))
