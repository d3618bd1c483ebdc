"""The API server: access to it, from a pod or a kubeconfig, and the few requests that DRA needs."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import random
import re
import ssl
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2

from genericdp import __version__
from genericdp.errors import DAMAGE, ApiAccessError, ApiError, reason_of
from genericdp.host.pathwalk import opened, read
from genericdp.host.workers import in_worker
from genericdp.jsonvalues import count_values
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterator,
        Mapping,
    )

    Json = dict[str, Any]
    Objects = list[Json]
    Event = tuple[str, Json]

# It logs each request as info.
logging.getLogger("httpx2").setLevel(logging.WARNING)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MAX_FILE_BYTES = 1024 * 1024
_MAX_DEPTH = 32
_MAX_EVENTS = 20_000
"""Limit of the entries of a kubeconfig: each needs about a kilobyte while it is read. A file for
one cluster has about 50.
"""
_UNSUPPORTED = ("proxy-url", "exec", "auth-provider", "username", "as")
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
"""The collection of all ResourceSlices."""
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Limit of one answer, of one event, and of the events of one watch. An object has at most 1.5 MiB
in etcd, and the ResourceSlices of 6,000 devices, with a dozen attributes each, have 4 MiB.
"""
MAX_ANSWER_VALUES = 200_000
"""Limit of one answer's braces, brackets and commas. Such an answer needs about 30 MiB when parsed;
4 MiB of empty objects would need 120.
"""
_CHUNK_BYTES = 256
"""Bytes that each chunk counts in addition, because reading a chunk has a fixed cost."""
_CONNECT_SECONDS = 5.0
_WATCH_SECONDS = (300.0, 600.0)
"""The server is asked to end a watch after a random time between these."""
_GRACE_SECONDS = 60.0
"""How much later than that we end it ourselves."""
_MAX_RETRY_AFTER = 300.0
_MAX_MESSAGE = 500
_MAX_TEXT = 2000
_METHODS = {"create": "POST", "update": "PUT", "delete": "DELETE"}
_JSON = {"content-type": "application/json"}
_STATUSES = range(100, 600)
_VERSION = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """The address of an API server, and the credentials."""

    server: str
    """Its URL, without a slash at the end."""
    ca: bytes | None = None
    """The CA certificates, as PEM; None for those that the system trusts."""
    verify: bool = True
    server_name: str = ""
    """The name in its certificate, if it is not the host of the URL."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a request; raise ApiAccessError."""
        if not (self.token.isascii() and self.token.isprintable()):
            raise ApiAccessError(
                "the token for the API server cannot be used: it has characters that no token has"
            )
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for connections, with CA and client certificate; raise
        ApiAccessError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # As in Go: a CA need not be a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.verify and self.ca is None:
            context.load_default_certs()
        if self.verify and self.ca is not None:
            with _reasons("the CA of the API server"), _file(self.ca) as ca:
                context.load_verify_locations(ca)
        if self.certificate is not None and self.key is not None:
            with (
                _reasons("the client certificate for the API server"),
                _file(self.certificate) as certificate,
                _file(self.key) as key,
            ):
                # Else OpenSSL would request a password at the terminal.
                context.load_cert_chain(certificate, key, password="")
        return context


def in_cluster(
    directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ
) -> Access:
    """Return the current access that a pod's service account provides; raise ApiAccessError."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not (host and port):
        raise ApiAccessError(
            "there is no KUBERNETES_SERVICE_HOST and _PORT in the environment, as in a pod:"
            " outside a cluster, name a kubeconfig with --kubeconfig"
        )
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=_read_file("the CA of the API server", directory / "ca.crt"),
        token=_token(directory / "token"),
    )


def of_kubeconfig(path: Path) -> Access:
    """Return the access that the current context of a kubeconfig provides; raise ApiAccessError."""
    content = _read_file("kubeconfig", path)
    with _reasons(f"kubeconfig {path}"):
        config = _parsed_kubeconfig(content)
        context = _named(config, "context", config.get("current-context"))
        cluster = _named(config, "cluster", context.get("cluster"))
        user = _named(config, "user", context.get("user"))
        server = str(cluster["server"]).rstrip("/")
        if not server.startswith(("https://", "http://")):
            raise ValueError(f"the server {server!r} is not an http or https URL")
        if used := [key for key in _UNSUPPORTED if cluster.get(key) or user.get(key)]:
            raise ValueError(f"{used[0]} is not supported: use a token, tokenFile or certificate")
        file = user.get("tokenFile")
        return Access(
            server=server,
            ca=_pem(cluster, "certificate-authority", path.parent),
            verify=not cluster.get("insecure-skip-tls-verify"),
            server_name=str(cluster.get("tls-server-name") or ""),
            certificate=_pem(user, "client-certificate", path.parent),
            key=_pem(user, "client-key", path.parent),
            token=_token(path.parent / file) if file else str(user.get("token") or ""),
        )


@lru_cache(maxsize=1)  # it is read for each request, and parsing it takes longer than all the rest
def _parsed_kubeconfig(content: bytes) -> Mapping[str, Any]:
    """Return a kubeconfig; raise ValueError or TypeError."""
    import yaml  # here, since pods need none

    depth = 0
    try:
        for number, event in enumerate(yaml.parse(content, Loader=yaml.CSafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            is_odd = number > _MAX_EVENTS or isinstance(event, yaml.AliasEvent)
            if depth > _MAX_DEPTH or is_odd:
                raise TypeError  # deep nesting crashes PyYAML's composer
        config: Mapping[str, Any] = yaml.load(content, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(error) from error
    return config


def _named(config: Mapping[str, Any], kind: str, name: object) -> Mapping[str, Any]:
    """Return the context, cluster or user of this name in a kubeconfig; raise ValueError."""
    for entry in config.get(f"{kind}s") or ():
        if entry.get("name") == name:
            found: Mapping[str, Any] = entry[kind] or {}
            return found
    raise ValueError(f"it has no {kind} {name!r}")


def _pem(entry: Mapping[str, Any], key: str, directory: Path) -> bytes | None:
    """Return PEM data: the data itself, or that of a file, whose path may be relative to the
    kubeconfig.
    """
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(data, validate=True)
    file = entry.get(key)
    return _read_file(f"the {key} for the API server", directory / file) if file else None


def _token(path: Path) -> str:
    return _read_file("the token for the API server", path).decode(errors="replace").strip()


@contextmanager
def _reasons(what: str) -> Iterator[None]:
    """Turn any error in the block into an ApiAccessError that names the unusable part and the
    reason.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        reason = " ".join(reason_of(error).split())
        raise ApiAccessError(f"{what} cannot be used: {reason}") from error
    except DAMAGE as error:
        raise ApiAccessError(f"{what} cannot be used: it is not what kubectl writes") from error


def _read_file(what: str, path: Path) -> bytes:
    """Return the content of a regular file; raise ApiAccessError."""
    with _reasons(f"{what} {path}"), opened(str(path.absolute())) as (descriptor, _):
        content = read(descriptor, _MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            raise ValueError("it is larger than 1 MiB")
        return content


@contextmanager
def _file(pem: bytes) -> Iterator[str]:
    """Yield the path of an in-memory copy: OpenSSL reads only files."""
    with open(os.memfd_create("pem"), "wb", buffering=0) as file:  # noqa: PTH123
        file.write(pem)
        yield f"/proc/self/fd/{file.fileno()}"


def node_path(name: str) -> str:
    """Return the path of a Node."""
    return f"/api/v1/nodes/{quote(name, safe='')}"


def slice_path(name: str) -> str:
    """Return the path of a ResourceSlice."""
    return f"{SLICES}/{quote(name, safe='')}"


def claim_path(namespace: str, name: str) -> str:
    """Return the path of a ResourceClaim."""
    claims = f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, safe='')}/resourceclaims"
    return f"{claims}/{quote(name, safe='')}"


class ApiClient:
    """Sends requests to an API server; each may raise ApiError, and none is retried."""

    def __init__(
        self,
        read_access: Callable[[], Access],
        *,
        count: Callable[[str, str], None] = lambda verb, result: None,  # noqa: ARG005
        answer_seconds: float = 15.0,
        silence_seconds: float = 90.0,
    ) -> None:
        """Wait ``answer_seconds`` for an answer, ``silence_seconds`` for the next data of a watch.

        ``read_access`` is called in a thread before each request, as files may be replaced.
        ``count`` is called after each request with its verb and its result: ``success``, the
        status, or ``unreachable``; a watch counts when it ends.
        """
        self._read_access = read_access
        self._trust: Access | None = None
        """The access used for the open connections, without the token; None before the first
        connection.
        """
        self._choosing = asyncio.Lock()
        """Held while the access is read, so that an older result cannot replace a newer one."""
        self._count = count
        self._answer_seconds = answer_seconds
        self._silence_seconds = silence_seconds
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> ApiClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def get(self, path: str, *, kind: str = "") -> Json:
        """Return an object, of this kind if one is given."""
        return _valid(await self._call("get", path), kind)

    async def find(self, path: str) -> Json | None:
        """Return an object; None if the API server says that there is no such object."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.reason == "NotFound":  # otherwise something else is missing
                return None
            raise

    async def list(self, path: str, field_selector: str = "") -> tuple[Objects, str]:
        """Return all objects of a collection, and the resourceVersion to watch from.

        Unlike others, these objects are without kind and version.
        """
        answer = _valid(await self._call("list", path, fieldSelector=field_selector))
        if not isinstance(items := answer.get("items"), list):
            raise ApiError("the API server's answer is not a list")
        return [_valid(item) for item in items], version_of(answer)

    async def create(self, path: str, body: Json, **params: str) -> Json:
        """Create an object in a collection; return it as it was stored."""
        return _valid(await self._call("create", path, body, **params), body.get("kind"))

    async def update(self, path: str, body: Json, **params: str) -> Json:
        """Replace an object if it still has the body's resourceVersion; return what was stored."""
        return _valid(await self._call("update", path, body, **params), body.get("kind"))

    async def delete(self, path: str, *, uid: str, resource_version: str) -> None:
        """Delete an object if it still has this UID and resourceVersion."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        await self._call("delete", path, options)

    @asynccontextmanager
    async def watch(
        self, path: str, *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Watch a collection: yield an iterator of event types and objects, once the server agrees.

        The iterator ends when the server ends the watch, as it does every few minutes, and once
        there were too many events, so a new list is better. Some events are bookmarks, whose object
        has only a resourceVersion.
        """
        seconds = round(random.uniform(*_WATCH_SECONDS))  # noqa: S311
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            "fieldSelector": field_selector,
        }
        async with (
            self._response("watch", path, params, within=seconds + _GRACE_SECONDS) as response,
            aclosing(_events(response)) as events,
        ):
            yield events

    async def _call(self, verb: str, path: str, body: Json | None = None, **params: str) -> Json:
        within = self._answer_seconds
        async with self._response(verb, path, params, body, within=within) as response:
            return _parsed(await _read(response))

    async def _connect(self) -> tuple[Access, httpx2.AsyncClient]:
        """Return the current access, and connections that are made for it; raise ApiAccessError.

        If the CA, the certificate or the server's name has changed, old connections are closed: no
        token must go to a server that is no longer trusted.
        """
        async with self._choosing:
            access = await in_worker(self._read_access)
            trust = replace(access, token="")
            if self._http is None or trust != self._trust:
                context = await in_worker(trust.context)
                headers = {
                    "user-agent": f"genericdp/{__version__}",
                    "accept-encoding": "identity",
                }
                before, self._trust = self._http, trust
                self._http = httpx2.AsyncClient(verify=context, trust_env=False, headers=headers)
                if before is not None:
                    await before.aclose()
            return access, self._http

    @asynccontextmanager
    async def _response(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str],
        body: Json | None = None,
        *,
        within: float,
    ) -> AsyncIterator[httpx2.Response]:
        """Yield a successful response, before its content is read, and count the request.

        Raise ApiError for any other response, and for any other error.
        """
        server = ""
        try:
            async with asyncio.timeout(within):
                access, http = await self._connect()
                server = access.server
                name = {"sni_hostname": access.server_name} if access.server_name else {}
                async with http.stream(
                    _METHODS.get(verb, "GET"),
                    f"{server}{path}",
                    params=params or None,  # else the URL is parsed again
                    content=None if body is None else _encoded(body),
                    headers=access.headers() | (_JSON if body is not None else {}),
                    timeout=httpx2.Timeout(self._silence_seconds, connect=_CONNECT_SECONDS),
                    extensions={"trace": _closing(), **name},
                ) as response:
                    if not response.is_success:
                        raise await _refusal(response)
                    yield response
        except ApiError as error:
            self._count(verb, str(error.status or "unreachable"))
            raise
        except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            self._count(verb, "unreachable")
            raise ApiError(f"the API server {server} {_why(error)}", is_lost=True) from error
        self._count(verb, "success")


def _closing() -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    """Return the trace function of a request, which closes the connection of a canceled TLS
    handshake.

    The library closes the connection if the handshake fails, but not if it is canceled.
    """
    connections = []

    async def trace(step: str, about: dict[str, Any]) -> None:
        if step == "connection.connect_tcp.complete":
            connections.append(about["return_value"])
        elif step == "connection.start_tls.failed":
            await connections.pop().aclose()

    return trace


async def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the content in small pieces as it comes; raise ApiError if it is compressed."""
    # Nothing is decompressed: a few bytes can become gigabytes.
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise ApiError(
            f"the API server's answer is compressed ({shortened(encoding, 20)}), which was not"
            " requested: a proxy in between may do that"
        )
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            yield chunk


async def _read(response: httpx2.Response) -> bytearray:
    """Return the content; raise ApiError as soon as it is too long."""
    content, size = bytearray(), 0
    async with aclosing(_chunks(response)) as chunks:
        async for chunk in chunks:
            size += len(chunk) + _CHUNK_BYTES
            _check_size("answer", size)
            content += chunk
    return content


def _check_size(what: str, size: int) -> None:
    if size > MAX_ANSWER_BYTES:
        raise ApiError(f"the API server's {what} has more than {MAX_ANSWER_BYTES >> 20} MiB")


async def _events(response: httpx2.Response) -> AsyncGenerator[Event]:
    """Yield the events of a watch, one for each line, until there were too many; raise ApiError."""
    line, size, begun_at = bytearray(), 0, 0
    async with aclosing(_chunks(response)) as chunks:
        async for chunk in chunks:
            size += len(chunk) + _CHUNK_BYTES
            _check_size("watch event", size - begun_at)
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line += end
                if line.strip():
                    yield _event(line)
                line.clear()
                begun_at = size
            if ends and size > MAX_ANSWER_BYTES:
                return
            line += rest
    if line.strip():
        raise ApiError("the API server sends a watch event that does not end")


def _event(line: bytearray) -> Event:
    event = _parsed(line)
    kind, item = str(event.get("type")), event.get("object")
    if kind == "ERROR" and isinstance(item, dict):
        raise _error(item.get("code"), item)
    return kind, _valid(item)


def _parsed(content: bytearray) -> Json:
    if count_values(content) > MAX_ANSWER_VALUES:
        raise ApiError(f"the API server's answer has more than {MAX_ANSWER_VALUES:,} values")
    try:
        # Numbers that JSON does not have, and those that only Python has, do not count.
        value = json.loads(content, parse_constant=_nothing, parse_float=_finite)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ApiError("the API server's answer is not a JSON object")
    return value


def _nothing(_name: str) -> None:
    """Return the replacement for NaN and Infinity."""


def _finite(text: str) -> float | None:
    number = float(text)
    return number if isfinite(number) else None


def _encoded(body: Json) -> bytes:
    """Return a body as JSON, in ASCII: a server may have sent half of a surrogate pair."""
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    except RecursionError:  # what could just be parsed
        raise ApiError("the API server has an object that is nested too deeply") from None


def _valid(item: object, kind: object = "") -> Json:
    """Return an object of the API; raise ApiError if it has no metadata or is of the wrong kind."""
    if not (isinstance(item, dict) and isinstance(item.get("metadata"), dict)):
        raise ApiError("the API server's answer has an object without metadata")
    if kind and item.get("kind", kind) != kind:
        raise ApiError(f"the API server's answer is not a {kind}")
    return item


def version_of(item: Json) -> str:
    """Return the resourceVersion of an object; empty if it has none."""
    version = item["metadata"].get("resourceVersion")
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else ""


async def _refusal(response: httpx2.Response) -> ApiError:
    content = bytearray()
    try:
        content = await _read(response)
        status = _parsed(content)
    except ApiError as error:
        text = content[:_MAX_TEXT].decode(errors="replace").strip()
        status = {"message": text or str(error)}
    seconds = response.headers.get("retry-after", "")
    wait = float(seconds) if seconds.isascii() and seconds.isdecimal() else 0.0
    return _error(response.status_code, status, min(wait, _MAX_RETRY_AFTER))


def _error(code: object, status: Json, retry_after: float = 0.0) -> ApiError:
    """Return the error for a Status, the object in which the API server reports an error."""
    number = code if type(code) is int and code in _STATUSES else None
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    message = shortened(" ".join(message.split()) or reason or "without a reason", _MAX_MESSAGE)
    match number:
        case 401:
            text = f"the API server does not accept the token or certificate (401): {message}"
        case 403:
            text = (
                f"the API server refuses (403): {message};"
                " the ClusterRole of components/dra (chart: dra.enabled) allows what is needed"
            )
        case 404 if not reason or "could not find the requested resource" in message:
            text = f"the API server is older than Kubernetes 1.34, or has no such API: {message}"
            reason = ""  # NotFound is for an object that does not exist
        case _:
            text = f"the API server answers {number or 'with an error'}: {message}"
    return ApiError(text, status=number, reason=reason, retry_after=retry_after)


def _why(error: Exception) -> str:
    """Return why a connection failed, in the words of the system if there are any."""
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return "does not answer in time"
    cause: BaseException | None = error
    while not (cause is None or (isinstance(cause, OSError) and cause.errno)):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"has a certificate that is not accepted: {cause.verify_message}"
    if isinstance(cause, ConnectionError):
        return f"does not answer: {os.strerror(cause.errno or 0)}"  # asyncio has other words
    return f"does not answer: {reason_of(cause or error) or type(error).__name__}"
