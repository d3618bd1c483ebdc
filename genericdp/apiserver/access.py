"""Access to an API server: its address, its CA and credentials, from a pod or a kubeconfig."""

from __future__ import annotations

import base64
import os
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.durable import read_regular
from genericdp.errors import DAMAGE, ApiAccessError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MAX_BYTES = 1024 * 1024
_MAX_DEPTH = 32
_MAX_EVENTS = 20_000
"""Of a kubeconfig: each takes about a kilobyte while it is read. One cluster has about 50."""
_UNSUPPORTED = ("proxy-url", "exec", "auth-provider", "username", "as")


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """How to reach an API server, and as whom."""

    server: str
    """Its URL, without a slash at the end."""
    ca: bytes | None = None
    """The CA certificates, as PEM; None: those that the system trusts."""
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
        """Return what connections need, with CA and client certificate; raise ApiAccessError."""
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
                # Else a password would be asked for at the terminal.
                context.load_cert_chain(certificate, key, password="")
        return context


def in_cluster(folder: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> Access:
    """Return the access that a pod has by its service account now; raise ApiAccessError."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not (host and port):
        raise ApiAccessError(
            "there is no KUBERNETES_SERVICE_HOST and _PORT in the environment, as in a pod:"
            " outside a cluster, name a kubeconfig with --kubeconfig"
        )
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=_read("the CA of the API server", folder / "ca.crt"),
        token=_token(folder / "token"),
    )


def of_kubeconfig(path: Path) -> Access:
    """Return what the current context of a kubeconfig gives access to now; raise ApiAccessError."""
    import yaml  # here, since pods need none

    content, depth = _read("kubeconfig", path), 0
    with _reasons(f"kubeconfig {path}"):
        try:
            for number, event in enumerate(yaml.parse(content, Loader=yaml.CSafeLoader)):
                depth += isinstance(event, yaml.CollectionStartEvent)
                depth -= isinstance(event, yaml.CollectionEndEvent)
                is_odd = number > _MAX_EVENTS or isinstance(event, yaml.AliasEvent)
                if depth > _MAX_DEPTH or is_odd:
                    raise TypeError  # deep nesting crashes PyYAML's composer
            config = yaml.load(content, Loader=yaml.CSafeLoader)
        except yaml.YAMLError as error:
            raise ValueError(error) from error
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


def _named(config: Mapping[str, Any], kind: str, name: object) -> Mapping[str, Any]:
    """Return the context, cluster or user of this name in a kubeconfig; raise ValueError."""
    for entry in config.get(f"{kind}s") or ():
        if entry.get("name") == name:
            found: Mapping[str, Any] = entry[kind] or {}
            return found
    raise ValueError(f"it has no {kind} {name!r}")


def _pem(entry: Mapping[str, Any], key: str, folder: Path) -> bytes | None:
    """Return a PEM text, or that of a file, whose path may be relative to the kubeconfig."""
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(data, validate=True)
    return _read(f"the {key} for the API server", folder / entry[key]) if entry.get(key) else None


def _token(path: Path) -> str:
    return _read("the token for the API server", path).decode(errors="replace").strip()


@contextmanager
def _reasons(what: str) -> Iterator[None]:
    """Raise ApiAccessError, with what cannot be used and why, for any error in the block."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = " ".join(reason_of(error).split())
        raise ApiAccessError(f"{what} cannot be used: {reason}") from error
    except DAMAGE as error:
        raise ApiAccessError(f"{what} cannot be used: it is not what kubectl writes") from error


def _read(what: str, path: Path) -> bytes:
    """Return the content of a regular file; raise ApiAccessError."""
    with _reasons(f"{what} {path}"):
        return read_regular(path, _MAX_BYTES)


@contextmanager
def _file(pem: bytes) -> Iterator[str]:
    """Yield the path of an in-memory copy: OpenSSL reads only files."""
    with open(os.memfd_create("pem"), "wb", buffering=0) as file:  # noqa: PTH123
        file.write(pem)
        yield f"/proc/self/fd/{file.fileno()}"
