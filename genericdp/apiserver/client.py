"""A client for the few requests to the Kubernetes API that DRA needs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import ssl
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx2

from genericdp import __version__
from genericdp.apiserver.access import ApiAccessError
from genericdp.errors import GenericdpError, reason_of
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
    from types import TracebackType

    from genericdp.apiserver.access import Access

    Json = dict[str, Any]
    Objects = list[Json]
    Event = tuple[str, Json]

T = TypeVar("T")

# It tells of each request.
logging.getLogger("httpx2").setLevel(logging.WARNING)

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
"""The collection of all ResourceSlices."""
_PAGE = 100
_MAX_BYTES = 64 * 1024 * 1024
_MAX_LINE = 4 * 1024 * 1024
"""An API server takes objects of at most 3 MiB."""
_MAX_MESSAGE = 500
_METHODS = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT"}


class ApiError(GenericdpError):
    """The API server does not do what it was asked for; the text says why, and what to do."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; None: there was no answer, or none that can be read."""
        self.reason = reason
        """A word such as ``Conflict``, ``AlreadyExists`` or ``Expired``; may be empty."""
        self.retry_after = retry_after
        """Seconds to wait before the next request, if the server said so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientTiming:
    """What a client waits for, in seconds."""

    connect: float = 5.0
    request: float = 15.0
    """For the whole answer, but for that to a watch."""
    watch_silence: float = 90.0
    """The server sends a bookmark about every minute."""
    watch: tuple[float, float] = (300.0, 600.0)
    """After how long the server is to end a watch: somewhere between these."""


def node_path(name: str) -> str:
    """Return the path of a Node."""
    return f"/api/v1/nodes/{quote(name, safe='')}"


def claim_path(namespace: str, name: str) -> str:
    """Return the path of a ResourceClaim."""
    claims = f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, safe='')}/resourceclaims"
    return f"{claims}/{quote(name, safe='')}"


class ApiClient:
    """Sends requests to one API server; each may raise ApiError, and nothing is tried again.

    ``count`` is called after each request with its verb and its result: ``success``, the status,
    or ``unreachable``; a watch counts when it ends.
    """

    def __init__(
        self,
        access: Access,
        *,
        timing: ClientTiming | None = None,
        count: Callable[[str, str], None] = lambda verb, result: None,  # noqa: ARG005
    ) -> None:
        self._access = access
        self._timing = timing or ClientTiming()
        self._count = count
        self._context: ssl.SSLContext | None = None
        self._http: httpx2.AsyncClient | None = None
        self._is_stale = False
        """Whether certificates may have been replaced."""

    async def __aenter__(self) -> ApiClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def get(self, path: str) -> Json:
        """Return an object."""
        return await self._call("get", path)

    async def list(self, path: str, field_selector: str = "") -> tuple[Objects, str]:
        """Return all objects of a collection, and the resourceVersion to watch from."""
        items: Objects = []
        params = {"limit": str(_PAGE)}
        if field_selector:
            params["fieldSelector"] = field_selector
        while True:
            page = await self._call("list", path, params=params)
            kind, version = str(page.get("kind", "")).removesuffix("List"), page.get("apiVersion")
            for item in _part(page, "items", list):
                # Those of a list are without, those of a watch are not.
                items.append({"apiVersion": version, "kind": kind, **_valid(item)})
            metadata = _part(page, "metadata", dict)
            if not metadata.get("continue"):
                return items, str(metadata.get("resourceVersion", ""))
            params["continue"] = metadata["continue"]

    async def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection; return it as it was stored."""
        return _valid(await self._call("create", path, body=body))

    async def update(self, path: str, body: Json) -> Json:
        """Replace an object if it still has the body's resourceVersion; return what was stored."""
        return _valid(await self._call("update", path, body=body))

    async def delete(self, path: str, *, uid: str, resource_version: str) -> None:
        """Delete an object if it is still this one and as it was; one that is gone is no error."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        try:
            await self._call("delete", path, body=options)
        except ApiError as error:
            if error.status != httpx2.codes.NOT_FOUND:
                raise

    @asynccontextmanager
    async def watch(
        self, path: str, *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Watch a collection: yield an iterator of types and objects, once the server agreed.

        The iterator ends when the server ends the watch, as it does every few minutes. There are
        bookmarks in between: objects with nothing but a resourceVersion.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(round(random.uniform(*self._timing.watch))),  # noqa: S311
        }
        if field_selector:
            params["fieldSelector"] = field_selector
        with self._reported("watch"):
            async with (
                self._response(
                    "watch", path, params=params, silence=self._timing.watch_silence
                ) as response,
                aclosing(_events(response)) as events,
            ):
                yield events

    async def _call(
        self,
        verb: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
    ) -> Json:
        seconds = self._timing.request
        with self._reported(verb):
            async with (
                asyncio.timeout(seconds),
                self._response(verb, path, params=params, body=body, silence=seconds) as response,
            ):
                return _parsed(await _content(response))

    @asynccontextmanager
    async def _response(
        self,
        verb: str,
        path: str,
        *,
        params: Mapping[str, str] | None,
        body: Json | None = None,
        silence: float,
    ) -> AsyncIterator[httpx2.Response]:
        """Yield a response that grants the request, before its content is read."""
        name = self._access.server_name
        async with self._opened().stream(
            _METHODS.get(verb, "DELETE"),
            f"{self._access.server}{path}",
            params=params,
            json=body,
            headers=self._access.headers(),
            timeout=httpx2.Timeout(silence, connect=self._timing.connect),
            extensions={"sni_hostname": name} if name else None,
        ) as response:
            if not response.is_success:
                raise _refusal(response, await _content(response))
            yield response

    def _opened(self) -> httpx2.AsyncClient:
        """Return the client of HTTP; what it needs of files may come later, or change."""
        if self._context is None:
            self._context = self._access.ssl_context()
        elif self._is_stale:
            self._access.load_into(self._context)
        self._is_stale = False
        if self._http is None:
            self._http = httpx2.AsyncClient(
                verify=self._context,
                trust_env=False,
                headers={"user-agent": f"genericdp/{__version__}", "accept": "application/json"},
            )
        return self._http

    @contextmanager
    def _reported(self, verb: str) -> Iterator[None]:
        """Count a request, and raise whatever goes wrong with it as ApiError."""
        try:
            yield
        except ApiError as error:
            self._is_stale |= error.status == httpx2.codes.UNAUTHORIZED
            self._count(verb, str(error.status or "unreachable"))
            raise
        except ApiAccessError as error:
            self._count(verb, "unreachable")
            raise ApiError(str(error)) from error
        except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            self._is_stale |= isinstance(error, httpx2.ConnectError)
            self._count(verb, "unreachable")
            why = _why(error)
            raise ApiError(f"the API server {self._access.server} {why}") from error
        self._count(verb, "success")


async def _content(response: httpx2.Response) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _MAX_BYTES:
            raise ApiError("the API server's answer is longer than 64 MiB")
    return bytes(content)


async def _events(response: httpx2.Response) -> AsyncGenerator[Event]:
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            break
        for line in lines:
            if line.strip():
                yield _event(line)
    if rest.strip():
        raise ApiError("the API server sends a watch event that does not end")


def _event(line: bytes) -> Event:
    event = _parsed(line)
    kind, item = _part(event, "type", str), _part(event, "object", dict)
    if kind == "ERROR":
        raise _error(item.get("code"), item)
    return kind, _valid(item)


def _parsed(content: bytes) -> Json:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ApiError("the API server's answer is not a JSON object")
    return value


def _part(value: Json, key: str, kind: type[T]) -> T:
    if not isinstance(part := value.get(key), kind):
        raise ApiError(f"the API server's answer has no proper {key!r}")
    return part


def _valid(item: object) -> Json:
    """Return an object of the API that has metadata; raise ApiError."""
    if not (isinstance(item, dict) and isinstance(item.get("metadata"), dict)):
        raise ApiError("the API server's answer has an object without metadata")
    return item


def _refusal(response: httpx2.Response, content: bytes) -> ApiError:
    try:
        status = _parsed(content)
    except ApiError:
        status = {"message": content.decode(errors="replace").strip()}
    seconds = response.headers.get("retry-after", "")
    return _error(response.status_code, status, float(seconds) if seconds.isdecimal() else None)


def _error(code: object, status: Json, retry_after: float | None = None) -> ApiError:
    """Make an error of a Status, the API server's own word for what is wrong."""
    number = code if isinstance(code, int) else None
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
        case 429:
            text = f"the API server is busy (429): {message}"
        case _:
            text = f"the API server answers {number or 'with an error'}: {message}"
    return ApiError(text, status=number, reason=reason, retry_after=retry_after)


def _why(error: BaseException) -> str:
    """Return what went wrong with a connection: the cause that the system names, if any does."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"has a certificate that is not accepted: {cause.verify_message}"
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
            continue
        if isinstance(cause, ConnectionError) and cause.errno:
            return f"does not answer: {os.strerror(cause.errno)}"  # asyncio has other words
        if isinstance(cause, OSError) and cause.strerror:
            return f"does not answer: {reason_of(cause)}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return "does not answer in time"
    return f"does not answer: {str(error) or type(error).__name__}"
