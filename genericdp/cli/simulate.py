"""``genericdp simulate``: the daemon with a simulated kubelet, shown live."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sys
import tempfile
from collections import defaultdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli.allocate import amounts_of, edits_as_json, edits_as_text
from genericdp.cli.loading import load_config, read_pipes
from genericdp.cli.options import LOG_LEVEL, ROOT
from genericdp.cli.output import DATA, print_data, print_lines, shell_words
from genericdp.cli.parser import Append, argument, choice, flag, path_option
from genericdp.cli.root import node_name_of, root_of, root_option, suggestion
from genericdp.config.files import STDIN
from genericdp.config.schema import shipped
from genericdp.devices.matching import why_none
from genericdp.errors import GenericdpError
from genericdp.host import descriptors
from genericdp.kubelet.directory import LONGEST_NAME, check_length
from genericdp.logs import LEVELS
from genericdp.printing import plural
from genericdp.process.signals import deferred, until_signaled
from genericdp.settings import Settings
from genericdp.simulator.simulation import RETRY_SECONDS, Simulation
from genericdp.status import view

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.config.files import Loaded
    from genericdp.simulator.pods import Start
    from genericdp.simulator.simulation import NodeResource

    Picture = Mapping[str, NodeResource]
    """The numbers that the node shows, by resource."""

log = logging.getLogger(__name__)

_SCREEN = 23
"""Lines of a picture, if possible: a terminal has 24, including the line of the cursor."""
_COLUMNS = 80
_MIN_LINES = 3
"""Lines that each section shows, however many sections there are."""
_MAX_EMPTY = 5
"""How many resources without devices are shown with the reason."""
_NOT_RUN = "of a copy, hooks and all probes but file are not run, and count as passed"
EXAMPLE = (
    "  genericdp simulate examples/configs/this-machine.yaml\n"
    "  genericdp simulate examples/configs/fuse.yaml --once --allocate example.com/fuse=1"
)
ARGUMENTS = {
    "--once": flag(
        "exit after the first complete state; exit 1 if there is none or the container could not"
        " start"
    ),
    "--allocate": argument(
        "let a container request devices and show what it gets; may be repeated; the config's hooks"
        " really run, on this machine",
        metavar="RESOURCE=N",
        dest="amounts",
        action=Append,
        default=(),
    ),
    "--root": path_option(f"{ROOT}; {_NOT_RUN}", default=Path("/")),
    "--log-level": choice(LOG_LEVEL, LEVELS, default="warning"),
}


def execute(arguments: argparse.Namespace) -> int:
    """Simulate until Ctrl-C, or print one picture."""
    descriptors.raise_limit()
    amounts = amounts_of(arguments.amounts)
    # The daemon would wait for a valid config; here a person is waiting.
    pipes = read_pipes(arguments.config)
    config = load_config(arguments, pipes)  # of which the daemon warns, in its log
    resources = config.resources
    if reason := why_none(resources, node_name_of(arguments)):
        raise GenericdpError(reason)
    root = root_of(arguments)
    if not root.is_machine and any(resource.health or resource.hooks for resource in resources):
        log.warning("--root %s: %s", arguments.root, _NOT_RUN)
    with deferred():
        temporary = tempfile.TemporaryDirectory(prefix="genericdp-")
    with temporary as name:
        directory = Path(name)
        simulation = Simulation(
            Settings(
                configs=_files(arguments.config, pipes, config, directory),
                kubelet_directory=_checked(directory),
                cdi_directory=directory,
                policy=_policy(arguments.policy, config, directory),
                root=Path(root.real("/")),
                node_name=node_name_of(arguments),
            ),
            driver=arguments.dra_driver,
            amounts=amounts,
            once=arguments.once,
            show=partial(_show_data, arguments.output)
            if arguments.output in DATA
            else _Screen(arguments).show,
        )
        asyncio.run(until_signaled(simulation.run))
    return 0


def _checked(directory: Path) -> Path:
    check_length(directory / LONGEST_NAME, "set TMPDIR to a shorter path")
    return directory


def _files(
    configs: Sequence[Path], pipes: Mapping[Path, bytes], config: Loaded, directory: Path
) -> tuple[Path, ...]:
    """Return paths that the daemon can read, which loads its config by itself."""
    if config.config_map:
        mount = directory / "config"
        mount.mkdir()
        for number, (name, text) in enumerate(config.texts):
            # Of several ConfigMaps, names can be equal.
            (mount / f"{number:04}-{name}").write_bytes(text)
        return (mount,)
    copies = {}
    for number, (path, text) in enumerate(pipes.items()):
        copies[path] = directory / ("stdin.yaml" if path == STDIN else f"pipe-{number}.yaml")
        copies[path].write_bytes(text)
    return tuple(copies.get(path, path) for path in configs)


def _policy(given: Path | None, config: Loaded, directory: Path) -> Path | None:
    if given is not None or not config.policy_text:
        return given
    policy = directory / "policy.yaml"
    policy.write_text(config.policy_text)
    return policy


def _show_data(output: str, picture: Picture, start: Start | None, news: str) -> None:
    given = None if start is None else start.given
    document = {
        "resources": [resource.document for resource in picture.values()],
        "resourceSlices": [spec for resource in picture.values() for spec in resource.slices],
        "container": None if given is None else edits_as_json(given),
        "error": "" if start is None or given is not None else _why_it_waits(start),
        "news": news,
    }
    print_data(document, output, is_stream=True)


class _Screen:
    """Prints the node as ``kubectl describe node`` would, again at each change."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._once: bool = arguments.once
        self._shown: Picture | None = None
        self._reasons: defaultdict[str, list[str]] = defaultdict(list)
        """The reasons that were shown last, by title."""

    def show(self, picture: Picture, start: Start | None, news: str) -> None:
        """Print the current state of the node, and what a container got or is waiting for."""
        print_lines(self._lines(picture, start, news))
        self._shown = picture

    def _lines(self, picture: Picture, start: Start | None, news: str) -> Iterator[str]:
        title = f"{news}; the node shows:" if news else "the node shows:"
        head = [f"{datetime.now().astimezone():%H:%M:%S}  {title}"]  # noqa: TID251
        if self._shown is not None:
            head.insert(0, "")
        end = list(self._end(picture, start))
        yield from head
        yield from _fitted(self._sections(picture), _SCREEN - len(head) - len(end))
        yield from end

    def _sections(self, picture: Picture) -> dict[str, list[str]]:
        """Return lines by title, without the reasons that have been shown already."""
        documents = [resource.document for resource in picture.values()]
        without = view.without_devices(documents)
        if len(without) > _MAX_EMPTY:
            command = shell_words(["genericdp", *suggestion("discover", self._arguments)])
            without = [f"{len(without)} resources; why: {command}"]
        reasons = {
            "ResourceSlices:": [
                line for resource in picture.values() for line in _slices_as_text(resource)
            ],
            "No devices:": without,
            "Not offered:": view.not_offered(documents),
            "Not as expected:": view.not_as_expected(documents),
        }
        unseen = {title: part for title, part in reasons.items() if part != self._reasons[title]}
        self._reasons.update(reasons)
        unhealthy = [
            f"{name}: {device['id']}: {device['reason']}"
            for name, resource in picture.items()
            for device in resource.unhealthy
        ]
        return {**self._amounts(picture), **unseen, "Unhealthy:": unhealthy}

    def _end(self, picture: Picture, start: Start | None) -> Iterator[str]:
        if start is not None and start.given is not None:
            yield "The container gets:"
            yield from edits_as_text(start.given)
        elif start is not None and not self._once:  # then everything ends with this error
            yield f"The container waits, and is started again every {RETRY_SECONDS:g} s:"
            yield f"  {_why_it_waits(start)}"
        if self._shown is None and not self._once:
            yield "(Ctrl-C ends it; plug or unplug something and look)"
            yield from self._next_steps(picture)

    def _next_steps(self, picture: Picture) -> Iterator[str]:
        available = next((name for name, resource in picture.items() if resource.allocatable), None)
        if _is_example(self._arguments.config):
            steps = {
                "a config for this machine": ["init", "my.yaml"],
                "what it offers, and why not more": ["discover", "my.yaml"],
            }
        elif available is not None:
            words = suggestion("allocate", self._arguments, f"{available}=1")
            steps = {"what a container gets": words}
        elif any(resource.unhealthy for resource in picture.values()):
            steps = {"what its probes say": suggestion("probe", self._arguments)}
        else:
            steps = {"what this machine has": ["hardware", *root_option(self._arguments)]}
        for number, (what, words) in enumerate(steps.items()):
            line = f"{' ' * 6 if number else 'Next: '}{shell_words([_program(), *words])}"
            explained = f"{line}   # {what}"
            yield explained if len(explained) <= _COLUMNS else line

    def _is_worth_a_line(self, name: str, resource: NodeResource) -> bool:
        before = (self._shown and self._shown.get(name)) or resource
        return any((resource.capacity, resource.allocatable, before.capacity, before.allocatable))

    def _amounts(self, picture: Picture) -> dict[str, list[str]]:
        listed = [
            name for name, resource in picture.items() if self._is_worth_a_line(name, resource)
        ]
        capacity, allocatable = (
            self._amount_lines(picture, listed, part) for part in ("capacity", "allocatable")
        )
        if capacity == allocatable:
            return {"Capacity and Allocatable:": capacity}
        return {"Capacity:": capacity, "Allocatable:": allocatable}

    def _amount_lines(self, picture: Picture, listed: list[str], part: str) -> list[str]:
        """Return a line for each resource, changed ones first."""
        width = max(map(len, listed), default=0) + 1
        changed, others = [], []
        for name in listed:
            amount = getattr(picture[name], part)
            before = self._shown and self._shown.get(name)
            was = getattr(before, part) if before else amount
            line = f"{name + ':':{width}}  {amount}"
            if was == amount:
                others.append(_with_models(line, picture[name].document))
            else:
                changed.append(f"{line}   (was {was})")
        return [*changed, *others]


def _with_models(line: str, document: view.Document) -> str:
    """Add what the devices of a resource are, as far as it fits."""
    models = dict.fromkeys(device["model"] for device in document["devices"] if device["model"])
    named = f"{line}   {', '.join(models)}"
    return named if models and len(named) <= _COLUMNS - 2 else line


def _fitted(sections: Mapping[str, Sequence[str]], room: int) -> Iterator[str]:
    """Yield the titles with their lines, cutting the longest sections until all fit."""

    def size(most: int) -> int:
        return sum(1 + min(len(lines), most + 1) for lines in sections.values() if lines)

    most = next((most for most in range(room, _MIN_LINES, -1) if size(most) <= room), _MIN_LINES)
    for title, lines in sections.items():
        if lines:
            yield from (title, *(f"  {line}" for line in lines[:most]))
        if len(lines) > most:
            yield f"  and {len(lines) - most} more: -o json has all"


def _is_example(configs: Sequence[Path]) -> bool:
    examples = shipped("examples/configs/this-machine.yaml").parent
    return any(path.absolute().is_relative_to(examples) for path in configs)


def _program() -> str:
    """Return the name to call genericdp by: ``make run`` starts it without adding it to PATH."""
    called = sys.argv[0]
    is_there = called.endswith("/genericdp") and not shutil.which("genericdp")
    return called if is_there else "genericdp"


def _slices_as_text(resource: NodeResource) -> Iterator[str]:
    slices = resource.slices
    for number, spec in enumerate(slices, 1):
        devices = spec.get("devices", ())
        which = f"{spec['pool']['name']}, slice {number} of {len(slices)}"
        yield f"{which}: {plural(len(devices), 'device')}"
        for device in devices:
            texts = [
                f"{name} {json.dumps(value, ensure_ascii=False)}"
                for name, typed in device["attributes"].items()
                for value in typed.values()
                if value != "" and name not in {"resource", "extendedResource"}
            ]
            capacity = device.get("capacity", {}).items()
            texts += (f"{amount['value']} of {name}" for name, amount in capacity)
            texts += ["shared by capacity"] * ("allowMultipleAllocations" in device)
            texts += (
                f"taint {taint['key']}={taint['value']}:{taint['effect']}"
                for taint in device.get("taints", ())
            )
            yield f"  {device['name']}: {', '.join(texts)}"
    if slices and any(device["dra"]["metadata"] for device in resource.document["devices"]):
        yield "  containers can read these attributes in a file"


def _why_it_waits(start: Start) -> str:
    return f"{start.reason}: {start.message}"
