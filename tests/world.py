"""A host in a directory, a kubelet in another, and the daemon between them.

A test says what it wants as a config does, and sees what users see: the kubelet's lists and
answers, the log, the endpoints, files and sockets.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from genericdp.config.files import Loaded
from genericdp.config.load import load
from genericdp.daemon import serve
from genericdp.devices.device import ContainerEdits
from genericdp.health.health import Health
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from genericdp.kubelet.lifecycle import RegistrationTiming
from genericdp.logs import add_subject
from genericdp.observed import Signal
from genericdp.process.run import Commands
from genericdp.settings import Address, Settings
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from prometheus_client.parser import text_string_to_metric_families

from tests.cases.machine import Machine
from tests.polling import ask_until

FAST = RegistrationTiming(register=5.0, stream=5.0, first_retry=0.01, last_retry=0.05)
PATIENCE_SECONDS = 30.0
"""The machine may be busy with something else."""
_TAKEN = ("active config: ", "the config on disk is active", "until it is corrected")
"""What the log says when a config has been read."""


def config(*resources: Mapping[str, object]) -> str:
    """Return a config of these resources; JSON is YAML."""
    head = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DevicePluginConfig"}
    return json.dumps({**head, "resources": resources}, indent=1)


def resource(name: str, *globs: str, **keys: object) -> dict[str, object]:
    """Return a resource of paths, with more keys as a config has them."""
    return {"name": name, "match": [{"path": glob_} for glob_ in globs], **keys}


def serial(name: str = "example.com/serial", **keys: object) -> dict[str, object]:
    """Return a resource of serial adapters, several of which fit into one container."""
    inject = {
        "devices": [{"path": "$(device.path)", "containerPath": "/dev/serial$(allocation.index)"}],
        "env": {"SERIAL": "$(device.name)"},
    }
    return resource(name, "/dev/ttyUSB*", inject=inject, **keys)


def counts(kubelet: Kubelet, name: str) -> tuple[int, int, tuple[str, ...]]:
    """Return how often it was registered and sent a list, and at which sockets it is."""
    return kubelet.observed.registrations[name], kubelet.observed.lists[name], kubelet.paths(name)


class Host(Machine):
    """A copied tree whose devices come and go."""

    def plug(self, name: str, *, major: int = 188, minor: int | None = None) -> Path:
        """Add a character device; its minor number is the number in its name."""
        if minor is None:
            minor = int("".join(filter(str.isdigit, name)) or 0)
        kernel_name = name.replace("/", "!")
        return self.node(name, f"{major}:{minor}", at="virtual/tty", kernel_name=kernel_name)

    def unplug(self, name: str) -> None:
        """Remove a device file."""
        self.remove(f"dev/{name}")


_own: ContextVar[Log | None] = ContextVar("own", default=None)
"""The log of the daemon that runs here: others may run next to it."""


class Log(logging.Handler):
    """The lines that were logged, ``level subject: message``; those to come can be awaited."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.addFilter(add_subject)
        self.lines: list[str] = []
        self.port = 0
        """Where the endpoints of the daemon are whose log this is."""
        self._more = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        subject = record.__dict__["resource"]
        text = f"{subject}: {record.getMessage()}" if subject else record.getMessage()
        self.lines.append(f"{record.levelname.lower()} {text}")
        if _own.get() is self and text.startswith("endpoints at "):
            self.port = int(text.rstrip("/").rpartition(":")[2])
        self._loop.call_soon_threadsafe(self._more.set)

    def count(self, text: str) -> int:
        """Return how many lines hold the text."""
        return sum(text in line for line in self.lines)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the lines are such that something holds."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError("never said:\n" + "\n".join(self.lines)) from None

    async def says(self, text: str, *, times: int = 1) -> str:
        """Wait for a line that holds the text, the first or one of more, and return it."""
        await self.until(lambda: self.count(text) >= times)
        return [line for line in self.lines if text in line][times - 1]


@contextmanager
def _logged() -> Iterator[Log]:
    """Take what is logged meanwhile, of all daemons that run; the root logger stays as it was."""
    root, log = logging.getLogger(), Log()
    level = root.level
    root.addHandler(log)
    root.setLevel(min(level, logging.INFO))
    try:
        yield log
    finally:
        root.removeHandler(log)
        root.setLevel(level)


class Daemon:
    """A daemon that runs in this process."""

    def __init__(self, config: Path, policy: Path | None, log: Log) -> None:
        self.config = config
        self.policy = policy
        self.log = log
        self.reload = Signal()
        """As SIGHUP sets it."""

    async def takes(
        self, *resources: Mapping[str, object] | str, policy: str | None = None
    ) -> None:
        """Replace config and policy, and wait until the daemon has said what becomes of them."""
        before = self._taken()
        if policy is not None:
            assert self.policy is not None
            _replace(self.policy, policy)
        _replace(self.config, _text(resources))
        self.reload.send()
        await self.log.until(lambda: self._taken() > before)

    def _taken(self) -> int:
        return sum(self.log.count(text) for text in _TAKEN)

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Return the status and the body of an answer of the endpoints."""
        head, body = await self.answer(path, **headers)
        return int(head.split()[1]), body

    async def answer(self, path: str, **headers: str) -> tuple[str, str]:
        """Return the head and the body of an answer."""
        lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close"]
        lines += [f"{key}: {value}" for key, value in headers.items()]
        await self.log.until(lambda: self.log.port > 0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.log.port)
            writer.write("\r\n".join([*lines, "", ""]).encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
        return head.decode(), body.decode()

    async def status(self) -> dict[str, Any]:
        """Return what ``/status`` shows."""
        code, body = await self.get("/status")
        assert code == 200, body
        return dict(json.loads(body))

    async def resource(self, name: str) -> dict[str, Any]:
        """Return what ``/status`` reports a resource."""
        found = [
            each_resource
            for each_resource in (await self.status())["resources"]
            if each_resource["name"] == name
        ]
        return found[0] if found else {}

    async def metrics(self) -> dict[str, float]:
        """Return the samples of ``/metrics``: ``name{value,…}``, by the labels' names."""
        _, body = await self.get("/metrics")
        return {
            f"{s.name.removeprefix('genericdp_')}{{{','.join(s.labels.values())}}}": s.value
            for metric in text_string_to_metric_families(body)
            for s in metric.samples
        }

    async def counts_so(self, condition: Callable[[dict[str, float]], object]) -> None:
        """Wait until the metrics are so."""
        await _until(self.metrics, condition)

    async def shows(self, name: str, condition: Callable[[dict[str, Any]], object]) -> None:
        """Wait until what ``/status`` reports a resource is so."""
        await _until(partial(self.resource, name), lambda found: found and condition(found))

    async def offers(self, name: str, **devices: str) -> None:
        """Wait until ``/status`` has exactly these devices, each with its reason, "" if Healthy."""

        def are(found: dict[str, Any]) -> bool:
            return {device["id"]: device["reason"] for device in found["devices"]} == devices

        await self.shows(name, are)

    async def counts(self, name: str, count: int) -> None:
        """Wait until ``/status`` has this many devices, Healthy or not."""
        await self.shows(name, lambda found: len(found["devices"]) == count)

    async def registered(self, name: str) -> None:
        """Wait until ``/status`` has the resource registered."""
        await self.shows(name, lambda found: found["registered"])


async def _until(
    ask: Callable[[], Awaitable[dict[str, Any]]], condition: Callable[[dict[str, Any]], object]
) -> None:
    """Ask until the answer is so; no one shows when it would be another one."""
    await ask_until(ask, condition, seconds=PATIENCE_SECONDS)


def _replace(file: Path, text: str) -> None:
    """Write a file at once, as a person's editor or a mounted ConfigMap does."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.rename(file)


def _text(resources: Sequence[Mapping[str, object] | str]) -> str:
    match resources:
        case [str(text)]:
            return text
        case _:
            return config(*(resource for resource in resources if not isinstance(resource, str)))


async def _load(paths: Sequence[Path], *, policy: Path | None = None) -> Loaded:
    """Load without a child, which takes its time; its own tests show that both give the same."""
    return load(paths, policy=policy)


class World:
    """Host, kubelet and daemon of a test; the kubelet has these settings and does not run yet."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.host = Host(directory / "host")
        (directory / "k").mkdir()
        self.kubelet = Kubelet(directory / "k", **settings)
        self._daemons = 0
        self._commands = Commands()
        self._commands_users = 0

    @asynccontextmanager
    async def serving(
        self,
        *resources: Mapping[str, object] | str,
        policy: str | None = None,
        timing: RegistrationTiming = FAST,
        health: Callable[..., Health] | None = None,
        **settings: Any,
    ) -> AsyncIterator[Daemon]:
        """Run the daemon for these resources, or for the text of one config.

        ``health``: as the daemon takes it, for another kernel's log or other probes.
        """
        self._daemons += 1
        directory = self.directory / f"config-{self._daemons}"
        directory.mkdir()
        file, bounds = directory / "config.yaml", None
        _replace(file, _text(resources))
        if policy is not None:
            bounds = directory.with_name(f"policy-{self._daemons}.yaml")
            _replace(bounds, policy)
        chosen: dict[str, Any] = {
            "configs": (file,),
            "kubelet_directory": self.kubelet.directory,
            "cdi_directory": self.directory / "cdi",
            "root": self.host.directory,
            "node_name": "node-1",
            "policy": bounds,
            "timing": timing,
            "listen": Address(host="127.0.0.1", port=0),
            **settings,
        }
        with _logged() as log:
            daemon = Daemon(file, bounds, log)
            async with self._run_commands() as commands, asyncio.TaskGroup() as tasks:
                work = serve(
                    Settings(**chosen),
                    reload=daemon.reload,
                    commands=commands,
                    load=_load,
                    health=health,
                )
                context = copy_context()
                context.run(_own.set, log)
                running = tasks.create_task(work, context=context)
                yield daemon
                running.cancel()

    @asynccontextmanager
    async def _run_commands(self) -> AsyncIterator[Commands]:
        """Give what runs commands: there is one in a process, for all daemons in it."""
        if not self._commands_users:
            await self._commands.__aenter__()
        self._commands_users += 1
        try:
            yield self._commands
        finally:
            self._commands_users -= 1
            if not self._commands_users:
                await self._commands.__aexit__()

    async def listed(self, name: str, *healthy: str) -> None:
        """Wait until the kubelet has a list, and its healthy devices are exactly these."""

        def as_wanted() -> bool:
            devices = self.kubelet.devices(name)
            theirs = {device for device, health in devices.items() if health == "Healthy"}
            return bool(self.kubelet.observed.lists[name]) and theirs == set(healthy)

        await self.kubelet.wait_for(as_wanted)

    async def listed_once(self, name: str) -> None:
        """Wait until the kubelet has a list."""
        await self.kubelet.wait_for(lambda: self.kubelet.observed.lists[name])

    @asynccontextmanager
    async def plugin(self, name: str) -> AsyncIterator[rpc.DevicePluginAsyncStub]:
        """Call a resource as its kubelet does, whatever the kubelet itself does meanwhile."""
        (path,) = self.kubelet.paths(name)
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            yield rpc.DevicePluginStub(channel)

    async def allocated(self, name: str, *containers: Sequence[str]) -> api.AllocateResponse:
        """Return what Allocate gives for the IDs of each container; raises AioRpcError."""
        async with self.plugin(name) as plugin:
            asked = [api.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
            return await plugin.Allocate(api.AllocateRequest(container_requests=asked))

    async def container(self, uid: str = "pod", **amounts: int) -> ContainerEdits:
        """Admit a pod for example.com/KEY=N and return what its container gets.

        Waits, as a scheduler does, until the node has something of each resource: a kubelet that
        has not read the first list yet admits the pod and requests nothing.
        """
        limits = {f"example.com/{name}": count for name, count in amounts.items()}
        await self.kubelet.wait_for(lambda: all(map(self.kubelet.allocatable, limits)))
        container = Container(name="main", limits=limits)
        pod = Pod(uid=uid, containers=(container,))
        admission = await self.kubelet.admit(pod)
        assert admission.admitted, admission.message
        given = (await self.kubelet.start_container(pod, container)).given
        assert given is not None
        return given

    async def refusal(self, uid: str = "pod", **amounts: int) -> str:
        """Admit a pod that must be refused and return the message."""
        limits = {f"example.com/{name}": count for name, count in amounts.items()}
        pod = Pod(uid=uid, containers=(Container(name="main", limits=limits),))
        admission = await self.kubelet.admit(pod)
        assert not admission.admitted
        return admission.message
