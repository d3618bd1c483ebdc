"""What is compared: configs and the machines on which they are tried."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.fixtures.topologies import TOPOLOGIES
from tests.hosts.hosts import EXAMPLES, all_hosts
from tests.testbeds import loading
from tools.compare.generating import Facts, config_for, facts_of
from tools.compare.sides import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = ("hosts", "configs", "generated")
_MAX_EXPLAINED = 12
_MAX_SHARES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One config on one machine."""

    name: str
    config: Path
    root: Path
    explained: tuple[str, ...]
    """What ``explain`` is asked for."""
    requests: tuple[tuple[str, ...], ...] = ()
    """Arguments of ``allocate``, beside those that follow from what is offered."""

    def first(self) -> list[list[str]]:
        """Return the commands that are known at once; the second one is ``discover``."""
        return [
            ["validate", "-o", "json", str(self.config)],
            ["discover", *self._where()],
            *(["explain", *self._where(), one] for one in self.explained),
            *(["allocate", *self._where(), *one] for one in self.requests),
        ]

    def second(self, discovered: Any) -> list[list[str]]:  # noqa: ANN401  # parsed JSON
        """Return the commands that ask for what is offered."""
        resources = discovered["resources"] if isinstance(discovered, dict) else ()
        if isinstance(resources, dict):  # a base that has them by name
            resources = [{"name": name, **resource} for name, resource in resources.items()]
        return [
            ["allocate", *self._where(), *request]
            for resource in resources
            for request in _requests(resource["name"], resource["devices"])
        ]

    def _where(self) -> tuple[str, ...]:
        config, root = str(self.config), str(self.root)
        return ("--config", config, "--root", root, "--node-name", "node-1", "-o", "json")


def _requests(name: str, devices: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    shares = [share for device in devices for share in _shares(device)]
    yield (f"{name}=1",)
    if len(shares) > 1:
        yield (f"{name}={min(len(shares), _MAX_SHARES)}",)
        yield (f"{name}=1", "--id", shares[-1])


def _shares(device: dict[str, Any]) -> list[str]:
    if isinstance(listed := device["shares"], list):  # of a base that lists them
        return listed or [device["id"]]
    return [device["id"], *(f"{device['id']}::{number}" for number in range(1, listed))]


class Machines:
    """Copied machines, each built when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._hosts = {f"host {host}": host for host in all_hosts()}
        self._facts: dict[str, list[Facts]] = {}
        self.testbeds = [f"testbed {name}" for name in loading.NAMES]
        topologies = [f"topology {name}" for name in TOPOLOGIES]
        self.names = [*self._hosts, *self.testbeds, *topologies, "laptop"]

    def root(self, name: str) -> Path:
        """Return the directory of a machine."""
        root = self.directory / name.replace(" ", "-")
        if root.exists():
            return root if name not in self._hosts else root / "root"
        kind, _, of_kind = name.partition(" ")
        if kind == "host":
            root.mkdir()
            return self._hosts[name].build(root)
        if kind == "testbed":
            loading.build(loading.path_of(of_kind), root)
            nodes = root / "sys/devices/system/node"
            nodes.mkdir(parents=True)
            (nodes / "online").write_text("0-1\n")
        elif kind == "topology":
            TOPOLOGIES[of_kind]().build(root)
        else:
            shutil.copytree(ROOT / "tests/fixtures/laptop", root, symlinks=True)
        return root

    def facts(self, name: str) -> list[Facts]:
        """Return the devices of a machine."""
        if name not in self._facts:
            self._facts[name] = facts_of(self.root(name))
        return self._facts[name]

    def explained(self, name: str) -> tuple[str, ...]:
        """Return some device files and links, and some devices without a file."""
        root = self.root(name)
        found = [
            f"/{os.path.relpath(Path(directory, name), root)}"
            for directory, _, names in os.walk(root / "dev")
            for name in names
        ]
        asked = sorted(found) + [one.syspath for one in self.facts(name) if not one.node]
        return tuple(asked[:: max(1, len(asked) // _MAX_EXPLAINED)])


def all_jobs(parts: tuple[str, ...], pairs: int, seed: int, scratch: Path) -> Iterator[Job]:
    """Yield the jobs of these parts; machines are built below a directory."""
    machines = Machines(scratch)
    if "hosts" in parts:
        yield from _host_jobs(machines)
    if "configs" in parts:
        yield from _config_jobs(machines)
    if "generated" in parts:
        yield from _generated(machines, pairs, seed)


def _host_jobs(machines: Machines) -> Iterator[Job]:
    for host in all_hosts():
        key = f"host {host}"
        yield Job(
            name=f"{key} with its example",
            config=host.config,
            root=machines.root(key),
            explained=machines.explained(key),
            requests=tuple(map(tuple, host.requests())),
        )
    for name in loading.NAMES:
        key = f"testbed {name}"
        yield Job(
            name=f"{key} with its config",
            config=ROOT / f"tests/hardware/configs/{name.removesuffix('-replugged')}.yaml",
            root=machines.root(key),
            explained=machines.explained(key),
        )


def _config_jobs(machines: Machines) -> Iterator[Job]:
    for config in sorted(EXAMPLES.iterdir()):
        for key in machines.testbeds:
            yield Job(
                name=f"{config.stem} on {key}",
                config=config,
                root=machines.root(key),
                explained=machines.explained(key)[:2],
            )
    for kind in ("valid", "invalid"):
        for config in sorted((ROOT / "tests/configs" / kind).iterdir()):
            if config.suffix == ".yaml" or config.is_dir():
                yield Job(
                    name=f"{kind}/{config.name}",
                    config=config,
                    root=machines.root("testbed serial-adapters"),
                    explained=("/dev/ttyUSB0",),
                )


def _generated(machines: Machines, pairs: int, seed: int) -> Iterator[Job]:
    directory = machines.directory / "configs"
    directory.mkdir()
    for number in range(pairs):
        # A generator of its own for each: pair 7 is the same in any run with this seed.
        dice = Random(f"{seed}/{number}")
        key = dice.choice(machines.names)
        while not (facts := machines.facts(key)):
            key = dice.choice(machines.names)
        config = directory / f"{number}.yaml"
        config.write_text(json.dumps(config_for(dice, facts), indent=1) + "\n")
        asked = dice.choice(facts)
        yield Job(
            name=f"generated {seed}/{number} on {key}",
            config=config,
            root=machines.root(key),
            explained=(f"/dev/{asked.node}" if asked.node else asked.syspath,),
        )
