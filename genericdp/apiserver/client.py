"""A client for the few requests to the Kubernetes API that DRA needs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import ssl
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2

from genericdp import __version__
from genericdp.backoff import delay_after, jittered
from genericdp.errors import GenericdpError, reason_of
from genericdp.host.workers import in_worker
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

    from genericdp.apiserver.access import Access

    Json = dict[str, Any]
    Objects = list[Json]
    Event = tuple[str, Json]

# It logs each request as info.
logging.getLogger("httpx2").setLevel(logging.WARNING)

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
"""The collection of all ResourceSlices."""
_CONNECT_SECONDS = 5.0
_WATCH_SECONDS = (300.0, 600.0)
"""The server is asked to end a watch after a random time between these."""
_LONGEST_PAUSE = 30.0
_MAX_RETRY_AFTER = 300.0
_MAX_MESSAGE = 500
_METHODS = {"create": "POST", "update": "PUT", "delete": "DELETE"}


class ApiError(GenericdpError):
    """A request to the API server has failed; the text says why, and what to do."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; None: there was no answer, or none that can be read."""
        self.reason = reason
        """Of the Status: ``Conflict``, ``AlreadyExists`` or ``Expired``, say; may be empty."""
        self.retry_after = retry_after
        """Seconds to wait before the next request; 0: the server did not say."""


def pause_after(failures: int, first: float, retry_after: float = 0.0) -> float:
    """Return the seconds to wait after failures in a row: with jitter, so that nodes spread out."""
    return max(jittered(delay_after(failures, first, _LONGEST_PAUSE)), retry_after)


def node_path(name: str) -> str:
    """Return the path of a Node."""
    return f"/api/v1/nodes/{quote(name, safe='')}"


def claim_path(namespace: str, name: str) -> str:
    """Return the path of a ResourceClaim."""
    claims = f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, safe='')}/resourceclaims"
    return f"{claims}/{quote(name, safe='')}"


class ApiClient:
    """Sends requests to an API server; each may raise ApiError, and none is tried again."""

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
        self._access: Access | None = None
        """What the TLS context has been made for."""
        self._count = count
        self._answer_seconds = answer_seconds
        self._silence_seconds = silence_seconds
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # As in Go: a CA need not be a root.
        self._context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        agent = {"user-agent": f"genericdp/{__version__}"}
        self._http = httpx2.AsyncClient(verify=self._context, trust_env=False, headers=agent)

    async def __aenter__(self) -> ApiClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def get(self, path: str) -> Json:
        """Return an object."""
        return _valid(await self._call("get", path))

    async def list(self, path: str, field_selector: str = "") -> tuple[Objects, str]:
        """Return all objects of a collection, and the resourceVersion to watch from.

        Unlike others, these objects are without kind and version.
        """
        answer = _valid(await self._call("list", path, fieldSelector=field_selector))
        if not isinstance(items := answer.get("items"), list):
            raise ApiError("the API server's answer is not a list")
        version = str(answer["metadata"].get("resourceVersion", ""))
        return [_valid(item) for item in items], version

    async def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection; return it as it was stored."""
        return _valid(await self._call("create", path, body))

    async def update(self, path: str, body: Json) -> Json:
        """Replace an object if it still has the body's resourceVersion; return what was stored."""
        return _valid(await self._call("update", path, body))

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

        The iterator ends when the server ends the watch, as it does every few minutes. Some events
        are bookmarks, whose object has nothing but a resourceVersion.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(round(random.uniform(*_WATCH_SECONDS))),  # noqa: S311
            "fieldSelector": field_selector,
        }
        async with (
            self._response("watch", path, params) as response,
            aclosing(_events(response)) as events,
        ):
            yield events

    async def _call(self, verb: str, path: str, body: Json | None = None, **params: str) -> Json:
        within = self._answer_seconds
        async with self._response(verb, path, params, body, within=within) as response:
            return _parsed(await response.aread())

    @asynccontextmanager
    async def _response(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str],
        body: Json | None = None,
        *,
        within: float | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Yield a successful response, before its content is read, and count the request.

        Raise ApiError for any other response, and for whatever goes wrong.
        """
        server = ""
        try:
            async with asyncio.timeout(within):
                access = await in_worker(self._read_access)
                server = access.server
                if access != self._access:
                    access.load_into(self._context)
                    self._access = access
                async with self._http.stream(
                    _METHODS.get(verb, "GET"),
                    f"{server}{path}",
                    params=params,
                    json=body,
                    headers=access.headers(),
                    timeout=httpx2.Timeout(self._silence_seconds, connect=_CONNECT_SECONDS),
                    extensions={"sni_hostname": name} if (name := access.server_name) else None,
                ) as response:
                    if not response.is_success:
                        raise _refusal(response, await response.aread())
                    yield response
        except ApiError as error:
            self._count(verb, str(error.status or "unreachable"))
            raise
        except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            self._count(verb, "unreachable")
            raise ApiError(f"the API server {server} {_why(error)}") from error
        self._count(verb, "success")


async def _events(response: httpx2.Response) -> AsyncGenerator[Event]:
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                event = _parsed(line)
                kind, item = str(event.get("type")), event.get("object")
                if kind == "ERROR" and isinstance(item, dict):
                    raise _error(item.get("code"), item)
                yield kind, _valid(item)
    if rest.strip():
        raise ApiError("the API server sends a watch event that does not end")


def _parsed(content: bytes) -> Json:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ApiError("the API server's answer is not a JSON object")
    return value


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
    wait = float(seconds) if seconds.isascii() and seconds.isdecimal() else 0.0
    return _error(response.status_code, status, min(wait, _MAX_RETRY_AFTER))


def _error(code: object, status: Json, retry_after: float = 0.0) -> ApiError:
    """Return the error for a Status, the object by which the API server says what is wrong."""
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
        case _:
            text = f"the API server answers {number or 'with an error'}: {message}"
    return ApiError(text, status=number, reason=reason, retry_after=retry_after)


def _why(error: Exception) -> str:
    """Return what is wrong with a connection, in the words of the system if it has any."""
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
