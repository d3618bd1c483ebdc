"""The node of a case, which takes the steps of a transcript.

Next to ``genericdp … [| grep REGEX]``, whose config is the case's ``config.yaml`` and whose root
is its machine, there are

============================= ==================================================================
``config FILE``               replace the config by another file of the case, or by an example
``plug NAME … [KEY=VALUE …]`` plug devices in, with all below them, and with other attributes
``unplug NAME …``             take devices away, with all below them
``write PATH TEXT``           write a file of the machine; ``\\n`` is a line's end
``link PATH TARGET``          make a link, or turn one elsewhere
``remove PATH``               remove a file, link or directory
``reconcile [SECONDS|due]``   let the daemon decide, this many seconds after the last time: what it
                              logs, and the devices that it lists if these are others now; or
                              when time alone changes something, and after how long. No probes
``pod NAME RESOURCE=N``       start a pod, which gets the first Healthy devices that are free
``end NAME``                  end a pod
``restart``                   end the daemon and start it again
============================= ==================================================================
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
import re
import shlex
import shutil
import tempfile
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

from tests.cases.description import CaseError, nearest
from tests.cases.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from genericdp.devices.decide import DeviceLists
    from genericdp.model import Resource

EXAMPLES = Path(__file__).parents[2] / "examples/configs"
NODE = "node-1"
_ENVIRONMENT = {
    "COLUMNS": "100",
    "GENERICDP_CONFIG": "config.yaml",
    "GENERICDP_ROOT": "machine",
    "NODE_NAME": NODE,
}
_OF_SHELL = "|;&<>"
_USAGES = {use.split()[0]: use for use in re.findall(r"(?m)^``(.+?)``", str(__doc__))}
COMMANDS = ("genericdp", *_USAGES)


@contextlib.contextmanager
def node_of(case: Path) -> Iterator[Node]:
    """Make the node of a case, whose files are in the working directory; raise CaseError."""
    with tempfile.TemporaryDirectory() as made:
        for file in case.iterdir():
            shutil.copyfile(file, Path(made, file.name))  # without its mode
        machine = Machine(Path(made, "machine"), case / "machine.yaml")
        with contextlib.chdir(made), patch.dict(os.environ, _ENVIRONMENT):
            yield Node(machine)


class Node:
    """A node of a case: its machine, its config, the daemon's last decision, and pods."""

    def __init__(self, machine: Machine) -> None:
        """Start with no decision and no pods."""
        self._machine = machine
        self._remove = machine.remove
        self._now = 0.0
        self._due: float | None = None
        self._known: set[str] = set()
        """The resources of all configs that the daemon has read."""
        self._lists: DeviceLists = {}
        self._rows: list[tuple[str, ...]] = []
        self._pods: list[tuple[str, HeldDevice]] = []

    def take(self, command: str) -> list[str]:
        """Take a step and return what it prints; raise CaseError."""
        split = shlex.shlex(command, posix=True, punctuation_chars=_OF_SHELL)
        split.whitespace_split, split.commenters = True, ""
        name, *arguments = list(split) or [""]
        if name not in COMMANDS:
            raise CaseError(f"there is no command {name}: {nearest(name, COMMANDS)}")
        step: Callable[..., Iterable[str] | None] = getattr(self, f"_{name}")
        try:
            inspect.signature(step).bind(*arguments)
        except TypeError as error:
            hint = ", and '| grep REGEX' after genericdp only" if "|" in arguments else ""
            raise CaseError(f"write $ {_USAGES[name]}{hint}") from error
        return list(step(*arguments) or ())

    def _genericdp(self, *words: str) -> Iterator[str]:
        pipe = next(
            (at for at, word in enumerate(words) if word and not word.strip(_OF_SHELL)), None
        )
        arguments, piped = words[:pipe], words[pipe:] if pipe is not None else ("|", "grep", "")
        if piped[:2] != ("|", "grep") or len(piped) != 3 or piped[2].startswith("-"):
            raise CaseError("only '| grep REGEX' may follow, with one regex, in quotes")
        try:
            wanted = re.compile(piped[2])
        except re.error as error:
            raise CaseError(f"{piped[2]!r} is not a regex: {error}") from error
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                code: object = main(arguments)
            except SystemExit as ended:  # --help
                code = ended.code
        lines = output.getvalue().replace(f"{os.getcwd()}/", "").splitlines()
        if code == 2 and lines and lines[-1].endswith("--help)"):
            raise CaseError(lines[-1])
        kept = [line for line in lines if wanted.search(line)]
        if lines and not kept:
            raise CaseError(f"grep keeps none of {len(lines)} lines; the first is {lines[0]!r}")
        yield from kept
        if code:
            yield f"exit {code}"

    def _config(self, name: str) -> None:
        others = {file.name: file for file in (*EXAMPLES.iterdir(), *Path().glob("*.yaml"))}
        if name not in others:
            raise CaseError(
                f"neither the case nor examples/configs has it: {nearest(name, others)}"
            )
        if name != "config.yaml":
            shutil.copy(others[name], "config.yaml")

    def _plug(self, name: str, *others: str) -> None:
        changes = dict(pair.split("=", 1) for pair in others if "=" in pair)
        for plugged in (name, *(other for other in others if "=" not in other)):
            self._machine.plug_in(plugged, changes)

    def _unplug(self, name: str, *others: str) -> None:
        for unplugged in (name, *others):
            self._machine.pull_out(unplugged)

    def _write(self, path: str, text: str) -> None:
        self._machine.write(path, text.replace("\\n", "\n"))

    def _link(self, path: str, target: str) -> None:
        self._machine.link(path, target)

    def _restart(self) -> None:
        self._lists = {}

    def _reconcile(self, seconds: str = "1") -> Iterator[str]:
        if seconds == "due":
            if self._due is None:
                yield "nothing is due"
                return
            yield f"after {self._due - self._now:.4g} s"
            self._now = self._due
        elif re.fullmatch(r"\d+(\.\d+)?", seconds):
            self._now += float(seconds)
        else:
            raise CaseError(f"write $ {_USAGES['reconcile']}")
        decision = decide(
            self._resources(),
            HostCache(Root(Path("machine"))),
            node_name=NODE,
            previous=self._lists,
            now=self._now,
            held=Held(held for _, held in self._pods),
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

    def _resources(self) -> Sequence[Resource]:
        loaded = load([Path("config.yaml")])
        for problem in loaded.problems:
            raise CaseError(str(problem))
        for resource in loaded.resources:
            self._known.add(resource.name)
            if resource.health:
                raise CaseError(f"it runs no probes, as of {resource.name}: genericdp probe does")
        return loaded.resources

    def _pod(self, pod: str, amount: str) -> Iterator[str]:
        resource, _, count = amount.partition("=")
        if not re.fullmatch("[1-9][0-9]*", count):
            raise CaseError(f"write $ {_USAGES['pod']}")
        if resource not in self._known:
            where = nearest(resource, self._known)
            raise CaseError(f"no config that '$ reconcile' has read has {resource}: {where}")
        listed = self._lists.get(resource)
        held = [device for _, device in self._pods if device.name.resource == resource]
        taken = {share for device in held for share in device.holders}
        free = [
            (entry.device, share)
            for entry in (listed.devices.values() if listed else ())
            if entry.is_healthy
            for share in entry.device.shares
            if share not in taken and share not in entry.withheld
        ][: int(count)]
        if len(free) < int(count):
            yield f"Insufficient {resource}"
            return
        for device, share in free:
            given = HeldDevice(
                name=Name(resource, device.id),
                identities=device.identities,
                replicas=device.replicas,
                exclusive=device.exclusive,
                holders={share: (f"pod default/{pod}",)},
            )
            self._pods.append((pod, given))
            yield share

    def _end(self, pod: str) -> None:
        names = {name for name, _ in self._pods}
        if pod not in names:
            raise CaseError(f"no pod {pod} has a device: {nearest(pod, names)}")
        self._pods = [(name, held) for name, held in self._pods if name != pod]
