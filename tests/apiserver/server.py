"""A simulated API server: HTTP, watches, faults.

It serves ``resourceslices``, ``resourceclaims`` and ``nodes``: get, list (field selectors,
``limit`` and ``continue``), watch, create, update and delete, with the status, reason and
preconditions of the real server, and refuses what that would refuse (``validation.py``)::

    async with ApiServer() as server:
        node = server.add_node("node-1", kubelet_version="v1.37.0")
        with server.failing(status=503, verbs={"list"}, times=2):
            ApiClient(server.access)  # or of a file: server.kubeconfig(path)
        assert [one.verb for one in server.writes] == ["create"]
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from genericdp.apiserver import Access
from genericdp.observed import Signal

from tests.apiserver.store import KINDS, Change, Refusal, Store, check_fields, fits

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from tests.apiserver.store import Json, Key

_WRITES = frozenset({"create", "update", "delete"})
_VERBS = {"DELETE": "delete", "POST": "create", "PUT": "update"}
_END, _CUT = "end", "cut"
"""What a watch gets instead of a line."""
_BOOKMARK_SECONDS = 60.0
_CLOSE_SECONDS = 1.0
_ENDLESS_BYTES = 256 * 1024 * 1024
"""After so much even an endless answer ends: anyone who takes it must not end the tests."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was answered, or is being."""

    verb: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]
    target: str


@dataclass(kw_only=True, slots=True)
class _Fault:
    verbs: Collection[str] = ()
    """Of the requests that fail; empty: all."""
    target: str = ""
    """A string in the path and query of these."""
    times: float = float("inf")
    status: int = 0
    reason: str = ""
    message: str = "as the test wants it"
    retry_after: int | None = None
    hangs: bool = False
    cut: bool = False
    """Half of the answer is sent."""
    content: bytes | Callable[[], bytes] | None = None
    """Sent in place of an answer; of a watch, all that it has before it ends."""
    encoding: str = ""
    endless: bytes | None = None
    """Sent over and over, until the client has closed the connection."""
    held: asyncio.Event | None = None
    """The answer is made at once, and sent when this is set."""

    def check(self) -> None:
        if self.status:
            reason = self.reason or HTTPStatus(self.status).phrase.replace(" ", "")
            raise Refusal(self.status, reason, self.message)


@dataclass(eq=False, slots=True)
class _Watch:
    resource: str
    namespace: str
    fields: dict[str, str]
    after: int
    lines: asyncio.Queue[bytes | str] = field(default_factory=asyncio.Queue)

    def tell(self, change: Change) -> None:
        if (
            change.resource == self.resource
            and change.version > self.after
            and self.namespace in ("", change.object["metadata"].get("namespace"))
            and fits(change.object, self.fields)
        ):
            self.lines.put_nowait(_event(change.type, change.object))

    def bookmark(self, version: int) -> None:
        kind, metadata = KINDS[self.resource], {"resourceVersion": str(version)}
        item = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata}
        self.lines.put_nowait(_event("BOOKMARK", item))


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: a CA, and what it vouches for as 127.0.0.1 and as a client."""

    ca: Path
    certificate: Path
    key: Path
    client_certificate: Path
    client_key: Path


class ApiServer:
    """Serves from ``async with`` on, at a port of its own on loopback."""

    def __init__(self, *, certificates: Certificates | None = None, token: str = "") -> None:
        self.selects = True
        """Whether it heeds field selectors."""
        self.token = token
        """The only one that is accepted; empty: no token is needed."""
        self.requests: list[Request] = []
        self.changes = Signal()
        """Sent when an object has been created, changed or deleted."""
        self._certificates = certificates
        self._store = Store(self._announce)
        self._watches: set[_Watch] = set()
        self._faults: list[_Fault] = []
        self._pages: dict[str, list[Json]] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._port = 0

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, at the port of before."""
        context = None
        if self._certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificates.certificate, self._certificates.key)
            context.load_verify_locations(self._certificates.ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self._port, ssl=context, backlog=1024
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        while self._connections:
            for task in self._connections:
                task.cancel()
            await asyncio.wait(self._connections)

    @property
    def url(self) -> str:
        scheme = "https" if self._certificates else "http"
        return f"{scheme}://127.0.0.1:{self._port}"

    @property
    def writes(self) -> list[Request]:
        """Requests that change something, whether they succeeded or not."""
        return [
            request
            for request in self.requests
            if request.verb in _WRITES and "dryRun" not in request.query
        ]

    @property
    def watching(self) -> int:
        """Return how many watches are open."""
        return len(self._watches)

    @property
    def version(self) -> int:
        """The resourceVersion of the latest change."""
        return self._store.version

    @property
    def dropped(self) -> frozenset[str]:
        """Fields that are not stored, as ``spec.devices.taints``."""
        return self._store.dropped

    @dropped.setter
    def dropped(self, paths: Collection[str]) -> None:
        self._store.dropped = frozenset(paths)

    # What others do.

    def objects(self, resource: str, **fields: str) -> list[Json]:
        """Return what there is, as ``objects("resourceslices")``."""
        return self._store.select(resource, "", fields)

    def put(self, resource: str, item: Json) -> Json:
        """Create or replace an object, whatever its resourceVersion."""
        metadata = item["metadata"]
        namespace = metadata.get("namespace", "")
        key = (resource, namespace, metadata.get("name", ""))
        item = {**item, "metadata": {**metadata, "resourceVersion": ""}}
        if key in self._store.objects:
            return self._store.update(key, item)
        return self._store.create(resource, namespace, item)

    def remove(self, resource: str, name: str, namespace: str = "") -> None:
        self._store.delete((resource, namespace, name), {})

    def add_node(self, name: str, *, kubelet_version: str = "v1.37.0") -> Json:
        """Create or replace a Node; return it."""
        info = {"kubeletVersion": kubelet_version}
        return self.put("nodes", {"metadata": {"name": name}, "status": {"nodeInfo": info}})

    def wipe(self, node: str, *, driver: str = "") -> None:
        """Delete the slices of a node, as its kubelet does when it starts or loses a driver."""
        for item in self._store.select("resourceslices", "", {"spec.nodeName": node}):
            if driver in ("", item["spec"]["driver"]):
                self.remove("resourceslices", item["metadata"]["name"])

    def collect_garbage(self) -> None:
        """Delete slices that name an owner which is no longer there."""
        uids = {item["metadata"]["uid"] for item in self._store.objects.values()}
        for item in self.objects("resourceslices"):
            owners = item["metadata"].get("ownerReferences") or []
            if owners and not any(owner["uid"] in uids for owner in owners):
                self.remove("resourceslices", item["metadata"]["name"])

    # Faults.

    @contextmanager
    def failing(self, **fault: Any) -> Iterator[None]:
        """Fail requests as ``_Fault`` says."""
        added = _Fault(**fault)
        self._faults.append(added)
        try:
            yield
        finally:
            self._faults.remove(added)

    def compact(self) -> None:
        """Forget all changes so far, and lists that were not read to their end."""
        self._store.compacted = self._store.version + 1
        self._store.version += 1
        self._store.changes.clear()
        self._pages.clear()

    def bookmark(self) -> None:
        for watch in self._watches:
            watch.bookmark(self._store.version)

    def end_watches(self) -> None:
        """End all watches as the server does after a while."""
        self.tell_watches(_END)

    def cut_watches(self) -> None:
        """Close the connections of all watches in the middle of a line."""
        self.tell_watches(b'{"type":"ADDED","obj')
        self.tell_watches(_CUT)

    def tell_watches(self, line: bytes | str) -> None:
        """Send any bytes to all watches."""
        for watch in self._watches:
            watch.lines.put_nowait(line)

    # Access.

    def access(self) -> Access:
        """Return what a kubeconfig says of a server without certificates."""
        return Access(server=self.url, verify=False)

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig."""
        cluster: Json = {"server": self.url}
        if self._certificates:
            ca = base64.b64encode(self._certificates.ca.read_bytes()).decode()
            cluster["certificate-authority-data"] = ca
        else:
            # To load all that the system trusts takes 20 ms, for each client.
            cluster["insecure-skip-tls-verify"] = True
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "me", "user": {"token": self.token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        path.write_text(json.dumps(content))
        return path

    def service_account(self, directory: Path) -> dict[str, str]:
        """Write what a pod finds; return its environment."""
        (directory / "token").write_text(self.token)
        if self._certificates:
            (directory / "ca.crt").write_bytes(self._certificates.ca.read_bytes())
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self._port)}

    # HTTP.

    def _announce(self, change: Change) -> None:
        for watch in self._watches:
            watch.tell(change)
        self.changes.send()

    async def _connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            is_open = True
            while is_open:
                request = await _received(reader)
                self.requests.append(request)
                is_open = await self._respond(request, reader, writer)
            writer.close()
            async with asyncio.timeout(_CLOSE_SECONDS):
                await writer.wait_closed()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass  # no one waits for this task
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _respond(self, request: Request, reader: StreamReader, writer: StreamWriter) -> bool:
        """Answer a request; return whether another one may follow."""
        fault = self._fault_for(request)
        if fault.hangs:
            await reader.read()
            return False
        try:
            self._authenticate(request, writer)
            fault.check()
            if fault.endless is not None:
                await _flood(writer, fault.endless)
                return False
            key = _key(request.path)
            if request.verb == "watch" and fault.content is None:
                return await self._watch(request, key, reader, writer, cut=fault.cut)
            status = 201 if request.verb == "create" else 200
            answer = {} if request.verb == "watch" else self._answer(request, key)
        except Refusal as refusal:
            status, answer = refusal.status["code"], refusal.status
        made = fault.content() if callable(fault.content) else fault.content
        await _send(writer, status, json.dumps(answer).encode() if made is None else made, fault)
        return not fault.cut

    def _fault_for(self, request: Request) -> _Fault:
        """Return what is to go wrong with a request, which counts."""
        for fault in self._faults:
            if (
                fault.times > 0
                and (not fault.verbs or request.verb in fault.verbs)
                and fault.target in request.target
            ):
                fault.times -= 1
                return fault
        return _Fault()

    def _authenticate(self, request: Request, writer: StreamWriter) -> None:
        transport = writer.get_extra_info("ssl_object")
        if transport is not None and transport.getpeercert():
            return
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            raise Refusal(401, "Unauthorized", "Unauthorized")

    def _answer(self, request: Request, key: Key) -> Json:
        resource, namespace, _ = key
        is_dry_run = "dryRun" in request.query
        match request.verb:
            case "get":
                return self._store.get(key)
            case "list":
                return self._page(resource, namespace, request.query)
            case "create":
                return self._store.create(resource, namespace, request.body, is_dry_run=is_dry_run)
            case "update":
                return self._store.update(key, request.body, is_dry_run=is_dry_run)
            case "delete":
                return self._store.delete(key, (request.body or {}).get("preconditions") or {})
            case _:
                raise Refusal(405, "MethodNotAllowed", "it does not do that")

    def _fields(self, query: dict[str, str]) -> dict[str, str]:
        pairs = (part.partition("=") for part in query.get("fieldSelector", "").split(",") if part)
        return {n: value.removeprefix("=") for n, _, value in pairs} if self.selects else {}

    def _page(self, resource: str, namespace: str, query: dict[str, str]) -> Json:
        version = str(self._store.version)
        if token := query.get("continue"):
            if token not in self._pages:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            items, version = self._pages[token], token.partition(":")[0]
        else:
            items = self._store.select(resource, namespace, self._fields(query))
        limit = int(query.get("limit") or 0) or len(items)
        metadata = {"resourceVersion": version}
        if len(items) > limit:
            token = f"{version}:{len(self._pages)}"
            self._pages[token] = items[limit:]
            metadata["continue"] = token
        kind = KINDS[resource]
        return {
            "kind": f"{kind.name}List",
            "apiVersion": kind.api_version,
            "metadata": metadata,
            "items": [
                {name: part for name, part in item.items() if name not in ("kind", "apiVersion")}
                for item in items[:limit]
            ],
        }

    @contextmanager
    def _watch_of(self, key: Key, query: dict[str, str]) -> Iterator[_Watch]:
        """Register a watch, with what happened since the version it starts from."""
        resource, namespace, _ = key
        fields = self._fields(query)
        check_fields(resource, fields)
        version = int(query.get("resourceVersion") or 0)
        watch = _Watch(resource, namespace, fields, version)
        try:
            if version:
                for change in self._store.since(version):
                    watch.tell(change)
            else:
                for item in self._store.select(resource, namespace, fields):
                    watch.lines.put_nowait(_event("ADDED", item))
        except Refusal as refusal:
            watch.lines.put_nowait(_event("ERROR", refusal.status))
            watch.lines.put_nowait(_END)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    async def _watch(
        self, request: Request, key: Key, reader: StreamReader, writer: StreamWriter, *, cut: bool
    ) -> bool:
        async def notice_the_end() -> None:
            with suppress(ConnectionError):
                await reader.read(1)
            watch.lines.put_nowait(_CUT)

        with self._watch_of(key, request.query) as watch:
            await _begin_chunks(writer)
            if cut:
                return False
            seconds = float(request.query.get("timeoutSeconds", 1800))
            ending = asyncio.get_running_loop().call_later(seconds, watch.lines.put_nowait, _END)
            async with asyncio.TaskGroup() as tasks:
                gone = tasks.create_task(notice_the_end())
                is_whole = await self._follow(watch, writer)
                gone.cancel()
                ending.cancel()
        return is_whole

    async def _follow(self, watch: _Watch, writer: StreamWriter) -> bool:
        """Send the lines of a watch; return whether it was ended in good order."""
        while True:
            try:
                async with asyncio.timeout(_BOOKMARK_SECONDS):
                    line = await watch.lines.get()
            except TimeoutError:
                watch.bookmark(self._store.version)
                continue
            if isinstance(line, bytes):
                await _write_chunk(writer, line)
                continue
            if line == _END:
                await _write_chunk(writer, b"", is_last=True)
            return line == _END


async def _received(reader: StreamReader) -> Request:
    """Read a request; raise IncompleteReadError if there is none any more."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(url.query).items()}
    has_name = False
    with suppress(Refusal):
        has_name = bool(_key(url.path)[2])
    reading = "get" if has_name else "watch" if query.get("watch") == "true" else "list"
    verb = reading if method == "GET" else _VERBS.get(method, method)
    body = json.loads(content) if content else None
    return Request(verb, url.path, query, body, headers, target)


def _head(status: int, **headers: object) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "content-type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def _send(writer: StreamWriter, status: int, content: bytes, fault: _Fault) -> None:
    if fault.held is not None:
        await fault.held.wait()
    headers: dict[str, object] = {"content_length": len(content)}
    if fault.encoding:
        headers["content_encoding"] = fault.encoding
    if fault.retry_after is not None:
        headers["retry_after"] = fault.retry_after
    writer.write(_head(status, **headers))
    writer.write(content[: len(content) // 2] if fault.cut else content)
    await writer.drain()


async def _begin_chunks(writer: StreamWriter) -> None:
    writer.write(_head(200, transfer_encoding="chunked"))
    await writer.drain()


async def _write_chunk(writer: StreamWriter, data: bytes, *, is_last: bool = False) -> None:
    if data or is_last:
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await writer.drain()


async def _flood(writer: StreamWriter, content: bytes) -> None:
    await _begin_chunks(writer)
    for _ in range(_ENDLESS_BYTES // len(content)):
        await _write_chunk(writer, content)


def _key(path: str) -> Key:
    """Return resource, namespace and name of a path; the latter may be empty."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    prefix, rest = (parts[:2], parts[2:]) if parts[0] == "api" else (parts[:3], parts[3:])
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = KINDS.get(rest[0]) if rest else None
    wanted = kind and (["apis", kind.group, "v1"] if kind.group else ["api", "v1"])
    if kind is None or prefix != wanted or len(rest) > 2:
        raise Refusal(404, "NotFound", "the server could not find the requested resource")
    return rest[0], namespace, rest[1] if len(rest) == 2 else ""


def _event(kind: str, item: Json) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def make_certificates(directory: Path) -> Certificates:
    """Make a CA, and certificates for 127.0.0.1 and a client, with openssl."""
    names = [f"{name}.{kind}" for name in ("ca", "server", "client") for kind in ("crt", "key")]
    ca, ca_key, certificate, key, client_certificate, client_key = map(directory.joinpath, names)
    issuer = ("-CA", str(ca), "-CAkey", str(ca_key))
    for name, target, target_key, extra in (
        ("test CA", ca, ca_key, ()),
        ("server", certificate, key, (*issuer, "-addext", "subjectAltName=IP:127.0.0.1")),
        ("client", client_certificate, client_key, issuer),
    ):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
             "-nodes", "-days", "2", "-subj", f"/CN={name}", "-out", str(target),
             "-keyout", str(target_key), *extra],
            check=True, capture_output=True,
        )  # fmt: skip
    return Certificates(ca, certificate, key, client_certificate, client_key)
