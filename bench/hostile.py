"""A node on which something is hostile, and a daemon with as much memory as the shipped pod.

The memory limit is that of a cgroup, so what the kernel would kill in a pod is killed here, too.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from bench.client import client
from bench.cluster import NODE
from bench.kubelet import kubelet
from bench.memory import free_port
from bench.nodes import FOLDER
from bench.processes import REPOSITORY, cpu_seconds
from bench.runner import environment
from genericdp.settings import DRIVER
from tests.apiserver.server import ApiServer
from tests.dra.kubelet import DraKubelet
from tests.process.cgroups import cgroup

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from typing import Any

    from bench.kubelet import List

PLUGIN, DRA, EXTRA = (f"bench.example.com/thing-{i}" for i in range(3))
_LAUNCH = 'for f; do [ "$f" = -- ] && break; echo $$ > "$f"; shift; done; shift; exec "$@"'
_START_SECONDS = 15.0
_WARM_UP_SECONDS = 3.0
_END_SECONDS = 20.0
_DAEMON_SET = REPOSITORY / "deploy/kustomize/base/daemonset.yaml"


class HostileServer(ApiServer):
    """An API server whose watches can begin with anything."""

    greeting: Callable[[], list[bytes | str]] | None = None

    @contextmanager
    def watch_of(self, resource: str, namespace: str, query: dict[str, str]) -> Iterator[Any]:
        """Register a watch; it begins with the greeting."""
        with super().watch_of(resource, namespace, query) as watch:
            for line in self.greeting() if self.greeting else ():
                watch.lines.put_nowait(line)
            yield watch


@dataclass(kw_only=True)
class Node:
    """What an attack can change before the daemon starts, and reach while it runs."""

    folder: Path
    server: HostileServer
    tasks: asyncio.TaskGroup
    seconds: float
    port: int = field(default_factory=free_port)
    options: dict[str, str] = field(default_factory=dict)
    awaited: list[str] = field(default_factory=lambda: [PLUGIN])
    """The resources of device plugins that have a healthy device."""
    lists: Mapping[str, List] = field(default_factory=dict)
    """The first lists of these."""
    served: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        for name in ("cdi", "state", "device-plugins", "config", "kubelet/pod-resources"):
            (self.folder / name).mkdir(parents=True)
        self.claims.mkdir(parents=True)
        self.plugin_state.chmod(0o700)
        (self.plugin_state / "served.json").write_text(json.dumps({"resources": [DRA]}))
        self.options |= {
            "--config": f"{self.folder}/config/config.yaml",
            "--kubelet-dir": f"{self.folder}/device-plugins",
            "--kubelet-root": f"{self.folder}/kubelet",
            "--kubeconfig": f"{self.folder}/kubeconfig",
            "--cdi-dir": f"{self.folder}/cdi",
            "--state-dir": f"{self.folder}/state",
            "--pod-resources": f"{self.folder}/kubelet/pod-resources/kubelet.sock",
            "--node-name": NODE,
            "--listen": f"127.0.0.1:{self.port}",
        }
        self.configure()

    @property
    def plugin_state(self) -> Path:
        """The directory of the DRA driver."""
        return self.folder / f"kubelet/plugins/{DRIVER}"

    @property
    def claims(self) -> Path:
        """The directory of the records of claims."""
        return self.plugin_state / "claims"

    def configure(self, **extra: object) -> None:
        """Write the config; with keys, a third resource has them."""
        resources: list[dict[str, object]] = [
            {"name": name, "match": [{"path": f"/dev/{FOLDER}/{name.rpartition('/')[2]}"}]}
            for name in (PLUGIN, DRA, *([EXTRA] if extra else ()))
        ]
        resources[1]["servedBy"] = "dra"
        resources[-1] |= extra
        head = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DevicePluginConfig"}
        Path(self.options["--config"]).write_text(yaml.safe_dump(head | {"resources": resources}))


@dataclass(kw_only=True)
class Row:
    """What an attack has come to."""

    attack: str
    seconds: float = 0.0
    peak_mb: float = 0.0
    """Of the daemon's resident memory (VmHWM)."""
    cgroup_mb: float = 0.0
    """Of the cgroup: with children, page cache and kernel memory."""
    kills: int = 0
    code: int | None = None
    """The exit code, if the daemon has not run to the end."""
    cpu: float = 0.0
    """Seconds a minute."""
    requests: float = 0.0
    """To the API server, a second."""
    verbs: str = ""
    calls: int = 0
    """Of Allocate that the device plugin has answered."""
    worst_ms: float = 0.0
    slices: int = 0
    ready: str = ""
    log: str = ""
    log_lines: int = 0
    end_seconds: float = 0.0
    """From SIGTERM to the end."""


def shipped_limit() -> int:
    """Return the memory limit of the shipped pod, in bytes."""
    daemon_set = yaml.safe_load(_DAEMON_SET.read_text(encoding="utf-8"))
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    limit: str = container["resources"]["limits"]["memory"]
    return int(limit.removesuffix("Mi")) * 2**20


async def play(
    name: str, attack: Callable[[Node], Any], folder: Path, *, seconds: float, limit: int
) -> Row:
    """Run a daemon under an attack for so many seconds; return what it has come to."""
    row = Row(attack=name, seconds=seconds)
    with cgroup(memory=limit) as joining:
        async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
            server = HostileServer()
            await stack.enter_async_context(server)
            server.add_node(NODE)
            node = Node(folder=folder, server=server, tasks=tasks, seconds=seconds)
            server.kubeconfig(folder / "kubeconfig")
            made = await stack.enter_async_context(kubelet(folder / "device-plugins"))
            await stack.enter_async_context(
                DraKubelet(folder / "kubelet", wipe=lambda one: server.wipe(NODE, driver=one))
            )
            stack.enter_context(attack(node))
            process = await stack.enter_async_context(_daemon(node, joining))
            watching = tasks.create_task(_watch(process.pid, row))
            await _measure(node, made, process, row)
            watching.cancel()
            await _end(process, row)
        _read_cgroup(joining[0].parent, row)
    text = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
    warnings = [line for line in text if " warning " in line or " error " in line]
    row.log, row.log_lines = (warnings or text or [""])[-1], len(text)
    return row


@asynccontextmanager
async def _daemon(node: Node, joining: list[Path]) -> AsyncIterator[Process]:
    options = (f"{key}={value}" for key, value in node.options.items())
    command = [sys.executable, "-m", "genericdp", "run", *options]
    with (node.folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", _LAUNCH, "sh", *map(str, joining), "--", *command),
            cwd=REPOSITORY, env=environment(), stdin=asyncio.subprocess.DEVNULL,
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _measure(node: Node, made: Any, process: Process, row: Row) -> None:
    ends = time.monotonic() + node.seconds
    await asyncio.sleep(_WARM_UP_SECONDS)
    since, cpu, requests = time.monotonic(), _cpu(process), len(node.server.requests)
    latencies: list[float] = []
    with suppress(TimeoutError, RuntimeError, ProcessLookupError):
        async with asyncio.timeout(_START_SECONDS):
            node.lists = await made.first_lists(node.awaited)
            node.served.set()
        async with client(node.lists[PLUGIN]) as calling:
            await calling.begin(pause_seconds=0.1)
            await _wait_until(ends, process)
            latencies = await calling.end()
    await _wait_until(ends, process)
    row.calls, row.worst_ms = len(latencies), max(latencies, default=0.0)
    minutes = (time.monotonic() - since) / 60
    row.cpu = max(0.0, _cpu(process) - cpu) / minutes
    sent = node.server.requests[requests:]
    row.requests = len(sent) / minutes / 60
    counts = Counter(one.verb for one in sent).most_common()
    row.verbs = ", ".join(f"{verb} {number}" for verb, number in counts)
    row.slices = len(node.server.objects("resourceslices"))
    row.ready = await asyncio.to_thread(_ready, node.port)
    row.code = process.returncode


async def _wait_until(moment: float, process: Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0, moment - time.monotonic())):
            await process.wait()


def _cpu(process: Process) -> float:
    try:
        return cpu_seconds(process.pid) if process.returncode is None else 0.0
    except OSError:
        return 0.0


def _ready(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return f"200 {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return f"no answer: {error}"


async def _watch(pid: int, row: Row) -> None:
    """Keep the peak: a process that was killed shows none."""
    while True:
        with suppress(OSError, ValueError):
            row.peak_mb = max(row.peak_mb, _peak_mb(pid))
        await asyncio.sleep(0.1)


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kilobytes) / 1024


def _read_cgroup(folder: Path, row: Row) -> None:
    old = folder / "memory.max_usage_in_bytes"
    row.cgroup_mb = int((old if old.exists() else folder / "memory.peak").read_text()) / 2**20
    events = folder / ("memory.oom_control" if old.exists() else "memory.events")
    counts = dict(line.split() for line in events.read_text().splitlines())
    row.kills = int(counts["oom_kill"])


async def _end(process: Process, row: Row) -> None:
    if process.returncode is not None:
        return
    since = time.monotonic()
    process.send_signal(signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()
    row.end_seconds = time.monotonic() - since
