"""What attacks cost a daemon that has as much memory as the shipped pod.

``python -m bench.attacks [NAME…]`` plays all attacks, or those whose names begin so, as root, and
prints a table: nothing may have the daemon killed, nor hinder the device plugin next to it.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from bench.hostile import EXTRA, Node, Row, play, shipped_limit
from bench.nodes import nodes
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import podresources_pb2 as pods_api
from genericdp.settings import DRIVER
from tests.apiserver.scenarios import NODE, slice_of
from tests.hanging import hanging_mount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any, TypeAlias

    Attack: TypeAlias = Callable[[Node], AbstractContextManager[None]]

MIB = 2**20
_LIST = b'{"metadata":{"resourceVersion":"1"},"items":['
_SLICE = b'{"metadata":{"name":"a","uid":"b","resourceVersion":"1"},"spec":{}},'
_EVENT = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
_WIDE = '{"metadata":{"name":"😀%s"}}'.encode()
_GONE = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}\n'
_BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}\n'
_ALMOST = 4 * MIB - 2**15
"""Nearly as many bytes as an answer of an API server can have."""
_MAX_CELL = 220
_HEAD = """\
| attack | VmHWM, MiB | cgroup, MiB | killed | CPU s/min | requests/s | Allocate, worst | slices \
| s to end | /readyz | log lines, last warning |
|---|---|---|---|---|---|---|---|---|---|---|"""
_ABOUT_PODS = ("f ", "k PodResources")
_POD_SECONDS = 140.0
"""The daemon asks for pods once its kubelet is a minute old, and a minute later again."""
_YAML = {
    "sparse": "",
    "aliases": "a0: &a0 [x]\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
    "nested": "[" * 500_000,
    "many": "[" + "{}," * 300_000 + "]",
}
"""Hostile YAML by name."""


def of(make: Callable[..., AbstractContextManager[None]], *args: Any, **keys: Any) -> Attack:
    """Return an attack of a kind."""
    return lambda node: make(node, *args, **keys)


@contextmanager
def nothing(_node: Node) -> Iterator[None]:
    yield


@contextmanager
def api_answer(node: Node, **fault: Any) -> Iterator[None]:
    """Have lists of the API server, or whatever the fault is about, fail."""
    made = {key: value() if callable(value) else value for key, value in fault.items()}
    with node.server.failing(**{"verbs": {"list"}, **made}):
        yield


@contextmanager
def watches(node: Node, *greeting: bytes | str) -> Iterator[None]:
    """Have each watch begin with this; bookmarks have the latest version."""

    def lines() -> list[bytes | str]:
        version = node.server.version
        return [_BOOKMARK % version if one is _BOOKMARK else one for one in greeting]

    node.server.greeting = lines
    yield


@contextmanager
def deleted(node: Node) -> Iterator[None]:
    """Tell the watches all the time that each slice is deleted."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(0.01)
            for item in node.server.objects("resourceslices"):
                line = json.dumps({"type": "DELETED", "object": item})
                node.server.tell_watches(f"{line}\n".encode())

    task = node.tasks.create_task(tell())
    yield
    task.cancel()


@contextmanager
def stored(node: Node) -> Iterator[None]:
    """Have slices of this driver and node, for pools that it does not know."""

    async def store() -> None:
        await node.served.wait()  # before, the kubelet deletes all
        for i in range(1_000):
            node.server.put("resourceslices", slice_of(pool=f"{NODE}/example.com/invented-{i}"))

    task = node.tasks.create_task(store())
    yield
    task.cancel()


def slices(count: int, node_name: str) -> bytes:
    """Return the answer to a list, with so many slices of a node."""
    made = []
    for i in range(count):
        one = slice_of(node=node_name, pool=f"{node_name}/example.com/invented-{i}")
        names = {"name": f"slice-{i}", "uid": f"uid-{i}", "resourceVersion": str(i + 1)}
        made.append(one | {"metadata": names})
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": made}).encode()


@contextmanager
def pods(node: Node, count: int, pod: Callable[[], pods_api.PodResources]) -> Iterator[None]:
    """Have the kubelet answer with so many pods when it is asked for them."""
    listed = pods_api.ListPodResourcesResponse(pod_resources=[pod()] * count)
    # It asks before it serves what it did not serve before, and then each minute.
    (node.plugin_state / "served.json").unlink()
    task = node.tasks.create_task(_serve_pods(node, listed.SerializeToString()))
    yield
    task.cancel()


async def _serve_pods(node: Node, content: bytes) -> None:
    async def answer(_request: bytes, _context: object) -> bytes:
        return content

    server = grpc.aio.server(options=(("grpc.max_send_message_length", -1),))
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "List": grpc.unary_unary_rpc_method_handler(answer)
    }
    handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{node.options['--pod-resources']}")
    await server.start()
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop(None)


def with_devices(count: int, *ids: str) -> pods_api.PodResources:
    """Return a pod with so many entries of devices, each with these IDs."""
    devices = [pods_api.ContainerDevices(resource_name="a/b" if ids else "", device_ids=ids)]
    return pods_api.PodResources(containers=[pods_api.ContainerResources(devices=devices * count)])


def with_ids(count: int) -> pods_api.PodResources:
    """Return a pod with so many devices."""
    return with_devices(1, *(f"{i:x}" for i in range(count)))


def with_containers(count: int) -> pods_api.PodResources:
    """Return a pod with so many containers."""
    return pods_api.PodResources(containers=[pods_api.ContainerResources()] * count)


@contextmanager
def files(node: Node, where: Callable[[Node], Path], kind: str) -> Iterator[None]:
    """Have something else than a file with content at a path."""
    path = where(node)
    path.unlink(missing_ok=True)
    put(path, kind)
    yield


def put(path: Path, kind: str) -> None:
    """Make something hostile at a path."""
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "sparse":
            path.touch()
            os.truncate(path, 8 << 30)
        case "objects":
            path.write_text("[" + "{}," * ((4 * MIB - 100) // 3) + "{}]")
        case "many objects":
            path.write_text("[" + "{}," * ((32 * MIB - 100) // 3) + "{}]")
        case "wide":
            path.write_text(f'["😀{"a" * (16 * MIB - 100)}"]')
        case _:
            path.write_text(_YAML[kind])


_PLACES: dict[str, Callable[[Node], Path]] = {
    "kubeconfig": lambda node: node.folder / "kubeconfig",
    "record": lambda node: node.claims / "8f0d6c52-5a01-4b4e-9c1e-0d3a5c8f8d11.json",
    "served.json": lambda node: node.plugin_state / "served.json",
    "ledger": lambda node: node.folder / "state/ledger.json",
    "claim's CDI spec": lambda node: node.folder / f"cdi/genericdp-claim_{DRIVER}_8f0d.json",
    "other CDI spec": lambda node: node.folder / "cdi/vendor.json",
}


@contextmanager
def config(node: Node, kind: str) -> Iterator[None]:
    """Replace the config once the first is served."""

    async def replace() -> None:
        await node.served.wait()
        path = Path(node.options["--config"])
        put(new := path.with_name("new"), kind)
        new.rename(path)

    task = node.tasks.create_task(replace())
    yield
    task.cancel()


@contextmanager
def resource(node: Node, **keys: Any) -> Iterator[None]:
    """Serve one more resource; HANGING is a directory on a mount that hangs."""
    with hanging_mount(node.folder / "hanging") as hanging:
        node.configure(**json.loads(json.dumps(keys).replace("HANGING", str(hanging))))
        yield


@contextmanager
def allocating(node: Node, attack: Attack) -> Iterator[None]:
    """Allocate the device of the one more resource again and again."""
    node.awaited.append(EXTRA)
    task = node.tasks.create_task(_allocate(node))
    with attack(node):
        yield
    task.cancel()


async def _allocate(node: Node) -> None:
    await node.served.wait()
    plugin = node.lists[EXTRA]
    container = api.ContainerAllocateRequest(devices_ids=[plugin.device])
    request = api.AllocateRequest(container_requests=[container]).SerializeToString()
    async with grpc.aio.insecure_channel(f"unix:{plugin.socket}") as channel:
        call: Any = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
        while True:
            with suppress(grpc.aio.AioRpcError):
                await call(request, timeout=30)
            await asyncio.sleep(0.1)


@contextmanager
def clients(node: Node, count: int, sent: bytes, again: bytes = b"") -> Iterator[None]:
    """Connect so often at once, send something, perhaps more each 100 ms, and read nothing."""

    async def connect() -> None:
        await asyncio.sleep(2)  # until it listens
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", node.port, limit=1)
                with suppress(OSError, TimeoutError):
                    writer.write(sent)
                    for _ in range(50):
                        await asyncio.sleep(0.1)
                        writer.write(again)
                        async with asyncio.timeout(5):  # wait_for may lose a cancellation
                            await writer.drain()
                writer.transport.abort()
            await asyncio.sleep(0.2)

    tasks = [node.tasks.create_task(connect()) for _ in range(count)]
    yield
    for task in tasks:
        task.cancel()


@contextmanager
def hangs(node: Node, option: str, below: str = "") -> Iterator[None]:
    """Have a directory of the daemon on a mount that hangs."""
    with hanging_mount(node.folder / "hanging") as hanging:
        node.options[option] = f"{hanging}{below}"
        yield


@contextmanager
def claims_hang(node: Node) -> Iterator[None]:
    """Have only the directory of records hang."""
    with hanging_mount(node.claims):
        yield


def exec_probe(*command: str) -> dict[str, Any]:
    exec_ = {"exec": {"command": command}}
    return {"health": [{**exec_, "timeoutSeconds": 2, "periodSeconds": 2}]}


def hook(*command: str) -> dict[str, Any]:
    return {"hooks": {"allocate": {"exec": {"command": command}, "timeoutSeconds": 2}}}


_GET = b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n"
ATTACKS: dict[str, Attack] = {
    "a baseline": nothing,
    "b list of 600 MB": of(api_answer, content=lambda: _LIST + _SLICE * 8_800_000 + b"{}]}"),
    "b gzip bomb": of(
        api_answer, encoding="gzip", content=lambda: gzip.compress(bytes(512 * MIB), 1)
    ),
    "b endless list": of(api_answer, endless=_SLICE * 900),
    "c endless watch line": of(api_answer, verbs={"watch"}, endless=b"x" * 2**16),
    "c endless small events": of(api_answer, verbs={"watch"}, endless=_EVENT * 800),
    "c watch ends at once": of(watches, "end"),
    "c watch is cut at once": of(api_answer, verbs={"watch"}, cut=True),
    "c 410 at once": of(watches, _GONE, "end"),
    "c bookmark, then 410": of(watches, _BOOKMARK, _GONE, "end"),
    "c each slice DELETED": deleted,
    "d 4 MiB of {}": of(api_answer, content=lambda: _LIST + b"{}," * (_ALMOST // 3) + b"{}]}"),
    "d 199,000 of {}": of(api_answer, content=lambda: _LIST + b"{}," * 99_000 + b"{}]}"),
    "d nested 4 MiB": of(api_answer, content=lambda: b"[" * _ALMOST),
    "d string of 3.9 MiB": of(api_answer, verbs={"get"}, content=lambda: _WIDE % (b"a" * _ALMOST)),
    "e 20,000 slices of others": of(api_answer, content=partial(slices, 20_000, "other")),
    "e 4,000 slices of others": of(api_answer, content=partial(slices, 4_000, "other")),
    "e 1,000 own slices are stored": stored,
    "e 4,000 own slices in each list": of(api_answer, content=partial(slices, 4_000, NODE)),
    "f pods of 60 MB": of(pods, 1_000_000, partial(pods_api.PodResources, name="x" * 60)),
    "f 8 MB of empty pods": of(pods, 4_000_000, pods_api.PodResources),
    "f 8 MB of empty containers": of(pods, 1, partial(with_containers, 4_000_000)),
    "f 8 MB of empty devices": of(pods, 1, partial(with_devices, 4_000_000)),
    "f 1,000,000 device IDs": of(pods, 1, partial(with_ids, 1_000_000)),
    "f 149,000 device IDs": of(pods, 1, partial(with_ids, 149_000)),
    **{
        f"g {name} is {kind}": of(files, where, kind)
        for name, where in _PLACES.items()
        if name != "kubeconfig"
        for kind in ("fifo", "zero", "sparse", "objects")
    },
    **{
        f"g ledger is {kind}": of(files, _PLACES["ledger"], kind)
        for kind in ("many objects", "wide")
    },
    **{f"h kubeconfig is {kind}": of(files, _PLACES["kubeconfig"], kind) for kind in _YAML},
    **{f"h config is {kind}": of(config, kind) for kind in (*_YAML, "fifo", "zero")},
    "i probe hangs": of(resource, **exec_probe("HANGING/check")),
    "i probe's output is endless": of(resource, **exec_probe("/usr/bin/yes")),
    "i hook's output is endless": of(allocating, of(resource, **hook("/usr/bin/yes"))),
    "j 500 slow /status": of(clients, 500, _GET % b"/status"),
    "j 500 slow /metrics": of(clients, 500, _GET % b"/metrics"),
    "j 500 with endless headers": of(clients, 500, b"GET / HTTP/1.1\r\n", again=b"x: y\r\n" * 5000),
    "j 2,000 silent": of(clients, 2_000, b""),
    "k state hangs": of(hangs, "--state-dir", "/state"),
    "k claims hang": claims_hang,
    "k CDI directory hangs": of(hangs, "--cdi-dir", "/cdi"),
    "k PodResources socket hangs": of(hangs, "--pod-resources", "/kubelet.sock"),
    "k kubelet root hangs": of(hangs, "--kubelet-root"),
    "k kubelet directory hangs": of(hangs, "--kubelet-dir"),
}  # fmt: skip


def main() -> int:
    """Play them; return 1 if the daemon was killed or has ended in any."""
    parser = argparse.ArgumentParser(prog="python -m bench.attacks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each (default: 30)")
    parser.add_argument("--limit", type=int, default=shipped_limit() // MIB, metavar="MIB")
    options = parser.parse_args()
    chosen = [one for one in ATTACKS if not options.names or one.startswith(tuple(options.names))]
    rows = []
    print(_HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="gdp") as scratch, nodes(3, Path(scratch)):
        for number, name in enumerate(chosen):
            folder = Path(scratch) / str(number)
            seconds = max(options.seconds, _POD_SECONDS if name.startswith(_ABOUT_PODS) else 0)
            run = partial(play, name, ATTACKS[name], folder, seconds=seconds)
            rows.append(asyncio.run(run(limit=options.limit * MIB)))
            print(_line(rows[-1]), flush=True)
    return int(any(row.kills or row.code is not None for row in rows))


def _line(row: Row) -> str:
    cells = (
        row.attack,
        f"{row.peak_mb:.0f}",
        f"{row.cgroup_mb:.0f}",
        "yes" if row.kills else "no" if row.code is None else f"ended ({row.code})",
        f"{row.cpu:.1f}",
        f"{row.requests:.2f} {row.verbs}",
        f"{row.calls}, {row.worst_ms:.0f} ms" if row.calls else "no",
        str(row.slices),
        f"{row.end_seconds:.1f}",
        row.ready,
        f"{row.log_lines}: {row.log}",
    )
    return "| " + " | ".join(" ".join(cell.split())[:_MAX_CELL] for cell in cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
