"""Attack the memory of a daemon that has as much of it as the shipped pod.

``python -m bench.attacks [NAME…]`` plays all attacks, or those whose names begin so, as root, and
prints a table: none may have the daemon killed, nor hinder the device plugin next to it. The limit
is that of a cgroup, so what the kernel would kill in a pod is killed here, too.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import tempfile
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import yaml

from bench.bare import serve
from bench.calls import allocating
from bench.dra import NODE, lay_out
from bench.kubelet import kubelet
from bench.nodes import DIRECTORY, nodes
from bench.processes import REPOSITORY, free_port
from bench.runner import config_text, environment
from genericdp.kubelet.api import podresources_pb2 as pods_api
from genericdp.settings import DRIVER
from tests.apiserver.scenarios import slice_of
from tests.apiserver.server import ApiServer
from tests.dra.kubelet import DraKubelet
from tests.process.cgroups import cgroup

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    Attack: TypeAlias = Callable[["Node"], AbstractContextManager[None]]

MIB = 2**20
PLUGIN, DRA = "bench.example.com/thing-0", "bench.example.com/thing-1"
_DAEMON_SET = REPOSITORY / "deploy/kustomize/base/daemonset.yaml"
_JOIN = 'for f; do [ "$f" = -- ] && break; echo $$ > "$f"; shift; done; shift; exec "$@"'
_START_SECONDS, _SECONDS, _POD_SECONDS = 60.0, 30.0, 140.0
"""The daemon lists pods once its kubelet is a minute old, and a minute later again."""
_LIST = b'{"metadata":{"resourceVersion":"1"},"items":['
_SLICE = b'{"metadata":{"name":"a","uid":"b","resourceVersion":"1"},"spec":{}},'
_EVENT = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
_WIDE = '{"metadata":{"name":"😀%s"}}'.encode()
_ALMOST = 4 * MIB - 2**15
"""Nearly as many bytes as an answer of an API server can have."""
_CONTENTS = {
    "sparse": "",
    "objects": "[" + "{}," * ((4 * MIB - 100) // 3) + "{}]",
    "wide": f'["😀{"a" * (16 * MIB - 100)}"]',
    "aliases": "a0: &a0 [x]\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
    "nested": "[" * 500_000,
    "many": "[" + "{}," * 300_000 + "]",
}
"""Hostile files by name; the sparse one has 8 GiB."""


@dataclass(kw_only=True)
class Node:
    """The parts that an attack can change before the daemon starts, and reach while it runs."""

    directory: Path
    server: ApiServer
    tasks: asyncio.TaskGroup


def api_answer(node: Node, **fault: Any) -> AbstractContextManager[Any]:
    """Have lists of the API server, or whatever the fault is about, fail."""
    made = {key: value() if callable(value) else value for key, value in fault.items()}
    return node.server.failing(**{"verbs": {"list"}, **made})


def slices(count: int, node_name: str) -> bytes:
    """Return the answer to a list, with this many slices of a node."""
    made = []
    for i in range(count):
        item = slice_of(node=node_name, pool=f"{node_name}/example.com/invented-{i}")
        names = {"name": f"slice-{i}", "uid": f"uid-{i}", "resourceVersion": str(i + 1)}
        made.append(item | {"metadata": names})
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": made}).encode()


@contextmanager
def pods(node: Node, count: int, pod: Callable[[], pods_api.PodResources]) -> Iterator[None]:
    """Have the kubelet list this many pods."""
    content = pods_api.ListPodResourcesResponse(pod_resources=[pod()] * count).SerializeToString()
    # The daemon asks before it serves what it did not serve before, and then each minute.
    (node.directory / _PLACES["served.json"]).unlink()

    async def answer(_request: bytes, _context: object) -> bytes:
        return content

    async def listen() -> None:
        method: Any = grpc.unary_unary_rpc_method_handler(answer)
        server = await serve(f"{node.directory}/pods.sock", "v1.PodResourcesLister", List=method)
        await server.wait_for_termination()

    task = node.tasks.create_task(listen())
    yield
    task.cancel()


def with_devices(count: int, *ids: str) -> pods_api.PodResources:
    """Return a pod with this many entries of devices, each with these IDs."""
    devices = [pods_api.ContainerDevices(resource_name="a/b" if ids else "", device_ids=ids)]
    return pods_api.PodResources(containers=[pods_api.ContainerResources(devices=devices * count)])


@contextmanager
def files(node: Node, where: str, kind: str) -> Iterator[None]:
    """Have something hostile at a path."""
    path = node.directory / where
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    else:
        path.write_text(_CONTENTS[kind])
        if kind == "sparse":
            os.truncate(path, 8 << 30)
    yield


def of(make: Callable[..., AbstractContextManager[None]], *args: Any, **keys: Any) -> Attack:
    """Return an attack of a kind."""
    return lambda node: make(node, *args, **keys)


_PLACES = {
    "record": f"kubelet/plugins/{DRIVER}/claims/8f0d6c52-5a01-4b4e-9c1e-0d3a5c8f8d11.json",
    "served.json": f"kubelet/plugins/{DRIVER}/served.json",
    "ledger": "ledger.json",
    "claim's CDI spec": f"cdi/genericdp-claim_{DRIVER}_8f0d.json",
    "other CDI spec": "cdi/vendor.json",
}
ATTACKS: dict[str, Attack] = {
    "a baseline": lambda _node: nullcontext(),
    "b list of 600 MB": of(api_answer, content=lambda: _LIST + _SLICE * 8_800_000 + b"{}]}"),
    "b gzip bomb": of(
        api_answer, encoding="gzip", content=lambda: gzip.compress(bytes(512 * MIB), 1)
    ),
    "b endless list": of(api_answer, endless=_SLICE * 900),
    "c endless watch line": of(api_answer, verbs={"watch"}, endless=b"x" * 2**16),
    "c endless small events": of(api_answer, verbs={"watch"}, endless=_EVENT * 800),
    "d 4 MiB of {}": of(api_answer, content=lambda: _LIST + b"{}," * (_ALMOST // 3) + b"{}]}"),
    "d nested 4 MiB": of(api_answer, content=lambda: b"[" * _ALMOST),
    "d string of 3.9 MiB": of(api_answer, verbs={"get"}, content=lambda: _WIDE % (b"a" * _ALMOST)),
    "e 20,000 slices of others": of(api_answer, content=partial(slices, 20_000, "other")),
    "e 4,000 own slices in each list": of(api_answer, content=partial(slices, 4_000, NODE)),
    "f pods of 60 MB": of(pods, 1_000_000, partial(pods_api.PodResources, name="x" * 60)),
    "f 8 MB of empty pods": of(pods, 4_000_000, pods_api.PodResources),
    "f 8 MB of empty devices": of(pods, 1, partial(with_devices, 4_000_000)),
    "f 1,000,000 device IDs": of(
        pods, 1, lambda: with_devices(1, *(f"{i:x}" for i in range(1_000_000)))
    ),
    **{
        f"g {name} is {kind}": of(files, where, kind)
        for name, where in _PLACES.items()
        for kind in ("fifo", "zero", "sparse", "objects", "wide")
    },
    **{
        f"h kubeconfig is {kind}": of(files, "kubeconfig", kind)
        for kind in ("sparse", "aliases", "nested", "many")
    },
}  # fmt: skip


async def play(name: str, directory: Path, joining: list[Path]) -> tuple[int | None, list[float]]:
    """Run a daemon in a cgroup under an attack.

    Return its exit code, if it has not run to the end, and how many milliseconds the calls of
    Allocate took meanwhile.
    """
    options, calls = lay_out(directory, DRA), list[float]()
    seconds = _POD_SECONDS if name.startswith("f ") else _SECONDS
    async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer())
        server.add_node(NODE)
        server.kubeconfig(directory / "kubeconfig")
        node = Node(directory=directory, server=server, tasks=tasks)
        config = config_text(
            {name: f"{DIRECTORY}/{name.rpartition('/')[2]}" for name in (PLUGIN, DRA)}
        )
        (directory / "config.yaml").write_text(f"{config}    servedBy: dra\n")
        listening = await stack.enter_async_context(kubelet(directory / "device-plugins"))
        dra = DraKubelet(directory / "kubelet", wipe=lambda name: server.wipe(NODE, driver=name))
        await stack.enter_async_context(dra)
        stack.enter_context(ATTACKS[name](node))
        log = stack.enter_context((directory / "log").open("wb"))
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", _JOIN, "sh", *map(str, joining), "--"),
            *(sys.executable, "-m", "genericdp", "run", *options),
            f"--config={directory}/config.yaml",
            f"--kubelet-dir={directory}/device-plugins",
            f"--state-dir={directory}",
            f"--pod-resources={directory}/pods.sock",
            f"--listen=127.0.0.1:{free_port()}",
            cwd=REPOSITORY, env=environment(), stdin=asyncio.subprocess.DEVNULL,
            stdout=log, stderr=log,
        )  # fmt: skip
        with suppress(TimeoutError, RuntimeError):
            async with asyncio.timeout(_START_SECONDS):
                lists = await listening.first_lists([PLUGIN])
            async with allocating(lists[PLUGIN]) as calling:
                await calling.begin(pause_seconds=0.1)
                await _ended(process, seconds)
                calls = await calling.end()
        code = process.returncode
        if code is None:
            process.kill()
        await process.wait()
    return code, calls


def report(name: str, directory: Path) -> bool:
    """Play an attack and print a row about it; return whether the daemon was well to the end."""
    with cgroup(memory=_shipped_limit()) as joining:
        code, calls = asyncio.run(play(name, directory, joining))
        group = joining[0].parent
        old = group / "memory.max_usage_in_bytes"
        peak = int((old if old.exists() else group / "memory.peak").read_text()) / MIB
        counts = group / ("memory.oom_control" if old.exists() else "memory.events")
        killed = "oom_kill 0" not in counts.read_text().splitlines()
    lines = (directory / "log").read_text(encoding="utf-8", errors="replace").splitlines()
    warnings = [line for line in lines if " warning " in line or " error " in line]
    says = " ".join((warnings or lines or [""])[-1].split())[:220]
    ended = "yes" if killed else "no" if code is None else f"ended ({code})"
    served = f"{len(calls)}, {max(calls):.0f} ms" if calls else "no"
    print(f"| {name} | {peak:.0f} | {ended} | {served} | {says} |", flush=True)
    return code is None and not killed


async def _ended(process: Process, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()


def _shipped_limit() -> int:
    """Return the memory limit of the shipped pod, in bytes."""
    daemon_set = yaml.safe_load(_DAEMON_SET.read_text(encoding="utf-8"))
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    limit: str = container["resources"]["limits"]["memory"]
    return int(limit.removesuffix("Mi")) * MIB


def main(*names: str) -> int:
    """Play them; return 1 if the daemon was killed or has ended in any."""
    print(
        "| attack | cgroup, MiB | killed | Allocate, worst | last warning |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(prefix="gdp") as scratch, nodes(2):
        chosen = [name for name in ATTACKS if name.startswith(names or "")]
        well = [report(name, Path(scratch, str(number))) for number, name in enumerate(chosen)]
    return int(not all(well))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
