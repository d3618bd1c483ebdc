"""``genericdp status``."""

from __future__ import annotations

import argparse
import json
import os
import pty
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from genericdp.address import Address
from genericdp.cli import main
from genericdp.cli.fetching import fetch
from genericdp.cli.status import daemon_at
from genericdp.errors import GenericdpError
from genericdp.status.codec import encode
from tests.status.samples import EMPTY, RICH

if TYPE_CHECKING:
    from collections.abc import Iterator

Capture = pytest.CaptureFixture[str]


def http(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *more, "", ""]
    return "\r\n".join(lines).encode() + body


@contextmanager
def answering(
    answer: bytes, *, family: int = socket.AF_INET, stays: bool = False
) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one answer to whoever comes; gives the address, and what was asked."""
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    asked: list[bytes] = []
    over = threading.Event()
    with socket.create_server((host, 0), family=socket.AddressFamily(family)) as server:

        def serve() -> None:
            while not over.is_set():
                one, _ = server.accept()
                with one:
                    asked.append(one.recv(65_536))
                    one.sendall(answer)
                    if stays:
                        over.wait()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        yield (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"), asked
        over.set()
        with socket.create_connection((host, port)) as last:
            last.sendall(b"x")
            thread.join(10)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_it_prints_what_the_daemon_says(family: int, capsys: Capture) -> None:
    if family == socket.AF_INET6 and not _has_v6():
        pytest.skip("no IPv6 on this machine")
    with answering(http(encode(RICH)), family=family) as (address, asked):
        assert main(["status", f"--address={address}"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("edge-worker-07.rack-2.example.com: NOT READY\n")
    assert "\033" not in printed.out
    assert asked[0].startswith(b"GET /status HTTP/1.1\r\n")
    assert f"Host: {address}\r\n".encode() in asked[0]


def _has_v6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_as_json_it_prints_what_came(capsys: Capture) -> None:
    with answering(http(encode(EMPTY))) as (address, _):
        assert main(["status", f"--address={address}", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(encode(EMPTY))


def test_the_address_comes_from_the_environment_and_proxies_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    with answering(http(encode(EMPTY))) as (address, _):
        monkeypatch.setenv("GENERICDP_ADDRESS", address)
        assert main(["status"]) == 0
    assert capsys.readouterr().out.startswith("edge-1: NOT READY\n")


def test_where_nothing_listens_it_asks_for_listen(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main(["status", f"--address=127.0.0.1:{port}"]) == 1
    assert capsys.readouterr().err == (
        f"genericdp: nothing listens at 127.0.0.1:{port}: is the daemon run with --listen?\n"
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(b"off (--no-status)\n", "404 Not Found"), "it is run with --no-status"),
        (http(b"", "404 Not Found"), "answers 404: is that a genericdp?\n"),
        (http(b"no\x1b[2J", "500 Oops"), "a genericdp? (it says: no\\x1b[2J)"),
        (http(b"<html>"), "is no genericdp of this version"),
        (http(b"{}"), "is no genericdp of this version"),
        (http(b"[" * 100_000), "is no genericdp of this version"),
        (http(b"\xff\xfe"), "is no genericdp of this version"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP: it ends the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}", "ends too early"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000, "does not speak HTTP"),
        (http(b"", "302 Found", "location: http://127.0.0.1:9/"), "answers 302"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else None,
)
def test_what_is_no_daemon_of_ours_is_one_line_and_exit_code_1(
    answer: bytes, said: str, capsys: Capture
) -> None:
    with answering(answer) as (address, _):
        assert main(["status", f"--address={address}"]) == 1
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_an_answer_without_end_is_cut() -> None:
    """By its size, and by its time, however it dribbles."""
    long = "longer than 1000 bytes"
    with answering(http(b"x" * 2000)) as (at, _), pytest.raises(GenericdpError, match=long):
        fetch(daemon_at(at), "/status", most_bytes=1000)
    slow = answering(b"HTTP/1.1 200 OK\r\nx: ", stays=True)
    with slow as (at, _), pytest.raises(GenericdpError, match="does not answer"):
        fetch(daemon_at(at), "/status", seconds=0.2)


def test_one_that_ends_the_connection_is_cut_while_it_dribbles() -> None:
    """With ``connection.sock`` in ``_cut_after`` it is read to its end: there is none by then."""
    left = 200  # 10 s of them

    def dribble(server: socket.socket) -> None:
        nonlocal left
        one, _ = server.accept()
        with one, suppress(OSError):
            one.recv(65_536)
            one.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 200\r\n\r\n")
            while left:
                time.sleep(0.05)
                one.sendall(b"x")
                left -= 1

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=dribble, args=(server,), daemon=True)
        thread.start()
        with pytest.raises(GenericdpError, match="does not answer"):
            fetch(Address(host="127.0.0.1", port=server.getsockname()[1]), "/status", seconds=0.2)
        thread.join(30)
    assert left


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("127.0.0.1:9733", ("127.0.0.1", 9733)),
        (":80", ("127.0.0.1", 80)),
        ("[::1]:9733", ("::1", 9733)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("node-7.example.com:00080", ("node-7.example.com", 80)),
    ],
)
def test_an_address_is_taken_apart(text: str, taken: tuple[str, int]) -> None:
    address = daemon_at(text)
    assert (address.host, address.port) == taken


@pytest.mark.parametrize(
    "text",
    [
        *("", "9733", "host", "host:", "host:0", "host:65536", "::1:80", "[::1]", "a b:1"),
        *("http://h:1", "u@h:1", "h:-1", "h:\u0661", "[h]:1", "h:1/x", "h:" + "9" * 5000),
    ],
)
def test_an_address_that_is_none_is_bad_usage(text: str, capsys: Capture) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not of the form HOST:PORT"):
        daemon_at(text)
    assert main(["status", f"--address={text}"]) == 2


@pytest.mark.parametrize(
    ("more", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    ids=["terminal", "no-color", "dumb"],
)
def test_colour_is_for_terminals_and_never_with_no_color(
    more: dict[str, str], coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **more}
    if "NO_COLOR" not in more:
        environment.pop("NO_COLOR", None)
    with answering(http(encode(EMPTY))) as (address, _), os.fdopen(ours, "rb", 0) as terminal:
        ended = subprocess.run(
            [sys.executable, "-m", "genericdp", "status", f"--address={address}"],
            stdout=theirs,
            env=environment,
            timeout=60,
            check=False,
        )
        os.close(theirs)
        assert ended.returncode == 0
        assert (b"\033[1;31m" in terminal.read(65_536)) == coloured
