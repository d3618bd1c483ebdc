"""What is asked and answered over HTTP, and the bytes of it: no connection is touched here."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus

import h11

SECURITY = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every answer; the answer's own come before them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpRequest:
    """What is asked for, by GET or HEAD."""

    path: str
    """Without its query, and as it was written: nothing is decoded. Empty: it was none."""
    accept: str = ""
    """That header."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


def refusal(request: h11.Request, http: h11.Connection) -> Answer | None:
    """Return what is answered to a request that is none of ours; raises h11.RemoteProtocolError."""
    if not request.http_version.startswith(b"1."):
        return Answer(status=505, body=b"only HTTP/1 is spoken here\n")
    if request.method not in {b"GET", b"HEAD"}:
        text = b"only GET and HEAD are answered here\n"
        return Answer(status=405, body=text, headers={"allow": "GET, HEAD"})
    has_chunks = any(name == b"transfer-encoding" for name, _ in request.headers)
    if has_chunks or not isinstance(http.next_event(), h11.EndOfMessage):
        return Answer(status=413, body=b"no request may have a body here\n")
    return None


def asked(request: h11.Request) -> HttpRequest:
    """Return what is asked for."""
    target = request.target.decode("latin-1")
    scheme, separator, rest = target.partition("://")
    if separator and scheme.lower() in {"http", "https"}:  # as proxies are asked
        target = f"/{rest.partition('/')[2]}"
    accept = b", ".join(value for name, value in request.headers if name == b"accept")
    path = target.partition("?")[0].partition("#")[0]
    return HttpRequest(path=path, accept=accept.decode("latin-1"))


def written(http: h11.Connection, answer: Answer, *, wants_body: bool) -> tuple[bytes, bytes]:
    """Return the bytes of an answer, as headers and body.

    After a request that is not at its end, the connection is over.
    """
    headers = {
        "date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
        "content-type": answer.content_type,
        "content-length": str(len(answer.body)),
        **SECURITY,
        **answer.headers,
    }
    if http.their_state is not h11.DONE:
        headers["connection"] = "close"
    reason = HTTPStatus(answer.status).phrase.encode()
    response = h11.Response(status_code=answer.status, headers=list(headers.items()), reason=reason)
    head = http.send(response) or b""
    body = http.send(h11.Data(data=answer.body)) if wants_body else b""
    http.send(h11.EndOfMessage())
    return head, body or b""


def goes_on(http: h11.Connection) -> bool:
    """Be ready for the next request, if there may be one."""
    if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
        return False
    http.start_next_cycle()
    return True
