"""A real kubelet as a node of the scenarios, with the daemon as a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.bench import PREFIX
from tests.e2e.cluster import loop
from tests.e2e.cluster.counted import Counted
from tests.e2e.cluster.daemon import Daemon
from tests.e2e.cluster.listing import CHECKPOINT, PodResources, lists
from tests.e2e.cluster.sweep import DEVICE_PLUGINS, remove_device_plugins
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, LOOP, Calls, Given, holders_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from tests.e2e.bench import Bench
    from tests.e2e.cluster.node import Node
    from tests.e2e.cluster.pods import Pod

_ADDRESS = "127.0.0.1:10276"
"""Where the daemon listens."""
_HOST_PATHS = {(10, 229): "/dev/fuse"} | {
    (7, number): f"/dev/loop{number}" for number in range(60, 80)
}


def await_age() -> None:
    """Wait until the daemon's sockets are some seconds old.

    Of two instances that begin within two seconds, either may have registered later, so the newer
    one registers again when the older one leaves.
    """

    def age() -> float:
        youngest = max(path.lstat().st_ctime for path in DEVICE_PLUGINS.glob("*-*.sock"))
        return time.time() - youngest  # noqa: TID251 -- as the times of files

    eventually(age, lambda seconds: seconds > 3, what="the sockets are some seconds old")


class RealPod:
    """A static pod."""

    def __init__(self, bench: Bench, pod: Pod) -> None:
        self._bench = bench
        self._pod = pod
        self.name = pod.name
        self._container = pod.container()
        self._process_id = self._container.process_id()
        self.held = held(bench.resources, pod.name)

    async def given(self) -> Given:
        spec = self._container.spec()
        env = dict(text.split("=", 1) for text in spec["process"]["env"])
        ours = {name: env[name] for name in env if name in {"FUSE_ID", "LOOP_DEVICES"}}
        annotations = spec["annotations"].items()
        return Given(
            _nodes(spec),
            ours,
            {name: text for name, text in annotations if name.startswith(PREFIX)},
        )

    async def check(self) -> None:
        assert self._pod.container().id == self._container.id
        assert self._container.process_id() == self._process_id
        eventually(
            lambda: held(self._bench.resources, self.name), self.held.__eq__, what="its devices"
        )
        # Who opens the node of a loop device that has gone plugs it in.
        nodes = [Path("/dev", device.partition("::")[0]) for _, device in self.held]
        if all(node.exists() for node in nodes):
            assert "end" in self._container.look().text

    async def end(self) -> None:
        self._pod.end()
        eventually(self._pod.state, lambda state: not state, what=f"{self.name} is missing")


def held(resources: PodResources, pod: str) -> frozenset[tuple[str, str]]:
    """Return resource and ID of what a pod has."""
    return frozenset(
        (name, device_id) for name, ids in resources.held(pod).items() for device_id in ids
    )


def _nodes(spec: Mapping[str, Any]) -> dict[str, str]:
    access = {
        (rule["major"], rule["minor"]): rule["access"]
        for rule in spec["linux"]["resources"]["devices"]
        if rule["allow"] and "minor" in rule
    }
    numbers = {node["path"]: (node["major"], node["minor"]) for node in spec["linux"]["devices"]}
    return {path: f"{_HOST_PATHS[number]} {access[number]}" for path, number in numbers.items()}


class OnKubelet:
    """The common part of all nodes with a real kubelet."""

    directory = DEVICE_PLUGINS
    storm = 6

    def __init__(self, node: Node) -> None:
        self.generation = node.generation
        self._node = node
        self.resources = PodResources(node.directory)

    async def plug(self, *numbers: int) -> None:
        for number in numbers:
            loop.add(number)

    async def unplug(self, *numbers: int) -> None:
        for number in numbers:
            loop.remove(number)

    async def has(self, resource: str, *devices: str) -> None:
        what = f"{resource}: {devices}"
        # Not its checkpoint: of two lists in one moment it may write the older one last.
        eventually(lambda: self._healthy(resource), frozenset(devices).__eq__, what=what)

    def _healthy(self, resource: str) -> frozenset[str]:
        return self.resources.allocatable().get(resource, frozenset())

    def _lists(self, resource: str) -> list[tuple[int, int]]:
        return lists(self._node.log("kubelet"), resource)

    async def counts(self, resource: str, total: int, healthy: int) -> None:
        eventually(
            lambda: self._lists(resource)[-1:],
            [(total, healthy)].__eq__,
            what=f"{healthy} of {total} devices of {resource} are healthy",
        )

    async def calls(self, resource: str) -> Calls:
        count = len(self._healthy(resource))

        def reported() -> list[tuple[int, int]]:
            return self._lists(resource)

        # It logs that it has done with a list after it offers what is in there.
        seen = eventually(
            reported,
            lambda seen: not count or seen[-1:] == [(count, count)],
            what=f"list of {resource}",
        )
        return Calls(self._node.registrations().get(resource, 0), len(seen))

    async def restart_kubelet(self) -> None:
        self._node.stop_kubelet()
        self._node.start_kubelet()

    async def kill_kubelet(self) -> None:
        self._node.kill_kubelet()
        self._node.start_kubelet()

    async def lose_checkpoint(self) -> None:
        self._node.stop_kubelet()
        CHECKPOINT.unlink()
        self._node.start_kubelet()

    async def remove_directory(self) -> None:
        remove_device_plugins()

    @asynccontextmanager
    async def never_without(self, wanted: Mapping[str, tuple[str, ...]]) -> AsyncIterator[None]:
        def has_all() -> bool:
            seen = self.resources.allocatable()
            return all(
                {*devices} <= seen.get(name, frozenset()) for name, devices in wanted.items()
            )

        counted = Counted(has_all)
        with counted:
            yield
        assert counted.values == {True}


class RealNode(OnKubelet):
    """A node without a control plane."""

    def __init__(self, bench: Bench, program: Path, directory: Path) -> None:
        super().__init__(bench.node)
        self._bench = bench
        self._daemon = bench.daemon
        self._program = program
        self._directory = directory

    def _healthy(self, resource: str) -> frozenset[str]:
        self._daemon.check_alive()
        return super()._healthy(resource)

    async def edit(self, config: str) -> None:
        already = len(self._daemon.log())
        self._daemon.reload(config)
        said = "active config: "
        eventually(lambda: said in self._daemon.log()[already:], what=said)

    async def pod(self, limits: Mapping[str, int]) -> RealPod:
        return RealPod(self._bench, self._bench.pod("pod", dict(limits)))

    async def refusal(self, limits: Mapping[str, int]) -> str:
        # The kubelet puts these words before what admission said, for the pod's status alone.
        return self._bench.pod("refused", dict(limits)).refusal().replace("Pod was rejected: ", "")

    async def restart_daemon(self) -> None:
        self._daemon.stop()
        self._start_daemon()

    async def kill_daemon(self) -> None:
        self._daemon.kill()
        self._start_daemon()

    async def replace(self, config: str) -> None:
        self._daemon.kill()
        self._daemon.config = config
        self._start_daemon()

    def _start_daemon(self) -> None:
        what = "the kubelet notices that the daemon has gone"
        for name in (FUSE, LOOP):
            eventually(partial(super()._healthy, name), frozenset().__eq__, what=what)
        self._daemon.start()

    async def update(self) -> None:
        await_age()
        already = len(self._daemon.log())
        self._daemon.start_beside()
        self._bench.await_registered(FUSE, LOOP, since=already)
        self._daemon.stop_older()
        if self.generation == "A":
            self._bench.await_registered(FUSE, LOOP, since=already, times=2)

    async def track_pods(self) -> None:
        self._daemon.program = (sys.executable, "-m", "tests.e2e.prompt")
        self._daemon.options = (
            *self._daemon.options,
            f"--pod-resources={self.resources.socket}",
            f"--state-dir={self._directory}/state",
            f"--listen={_ADDRESS}",
        )
        await self.restart_daemon()

    async def holders(self) -> dict[str, str]:
        return await asyncio.to_thread(self._holders)

    def _holders(self) -> dict[str, str]:
        words = (self._program, "status", f"--address={_ADDRESS}", "--output=json")
        asked = subprocess.run(words, capture_output=True, text=True, check=False)
        if asked.returncode:
            return {"unknown": asked.stderr}
        return holders_in(json.loads(asked.stdout))

    async def says(self, text: str) -> None:
        eventually(lambda: text in self._daemon.log(), what=f"log: {text}")

    @asynccontextmanager
    async def second(self, config: str) -> AsyncIterator[None]:
        directory = self._directory / "second"
        directory.mkdir()
        with Daemon(self._program, directory, config, self.directory) as second:
            yield
            eventually(
                lambda: "another instance of genericdp" in self._daemon.log(),
                what="the first one says that it is not alone",
            )
            second.kill()
