"""Any bytes as a kubeconfig: an ApiAccessError, or access whose certificates can be read or not."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.apiserver import of_kubeconfig
from genericdp.errors import ApiAccessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDS = (
    *(b"clusters:", b"users:", b"contexts:", b"current-context:", b"name:", b"cluster:", b"user:"),
    *(b"certificate-authority-data:", b"client-key-data:", b"tokenFile:", b"token:", b"exec:"),
    *(b"null", b"[", b"]", b"{", b"}", b"- ", b"\n  ", b"&a", b"*a", b"!!binary ", b"2001-01-01"),
    *(b"/dev/null", b"\\0", b"\xff", b"1", b"true", b"https://h", b"====", b"Zm9v"),
)


def seeds() -> Iterator[bytes]:
    cluster = {"server": "https://h", "certificate-authority-data": "Zm9v"}
    user = {"token": "x", "client-certificate-data": "Zm9v", "client-key": "key.pem"}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    yield json.dumps(config).encode()
    yield json.dumps({**config, "users": [{"name": "u", "user": {"tokenFile": "token"}}]}).encode()
    yield b"clusters: &a [*a]"


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "kubeconfig")

        def run(data: bytes) -> None:
            path.write_bytes(data)
            with suppress(ApiAccessError):
                access = of_kubeconfig(path)
                with suppress(ApiAccessError):
                    access.headers()
                access.context()

        yield run
