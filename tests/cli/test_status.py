"""``genericdp status``."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp import __version__
from genericdp.cli.status import daemon_at, fetch, lines, span
from genericdp.errors import GenericdpError
from genericdp.settings import Address

from tests.status.samples import (
    EMPTY,
    NOW,
    RICH,
    at,
    config,
    device,
    expected,
    resource,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.asking import Ask
    from tests.status.samples import Document


def http(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *more, "", ""]
    return "\r\n".join(lines).encode() + body


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one connection; gives the port."""

    def accept(server: socket.socket) -> None:
        client, _ = server.accept()
        with client, suppress(OSError):
            serve(client)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(60)


@contextmanager
def answering(answer: bytes | Document) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one answer; gives the address, and what was asked."""
    data = answer if isinstance(answer, bytes) else http(json.dumps(answer).encode())
    asked: list[bytes] = []

    def serve(client: socket.socket) -> None:
        asked.append(client.recv(65_536))
        client.sendall(data)

    with serving(serve) as port:
        yield f"127.0.0.1:{port}", asked


def printed(answer: bytes | Document, ask: Ask, words: str = "", code: int = 0) -> str:
    """Ask who answers so, and return what is printed: of a failure, the one line."""
    with answering(answer) as (address, _):
        out, err = ask(f"status --address={address} {words}", code=code)
    if not code:
        assert err == ""
        return out
    assert (out, err.count("\n")) == ("", 1)
    return err.replace(address, "ADDRESS")


def test_it_prints_what_the_daemon_says(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies have no part in it."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    with answering(RICH) as (address, asked):
        monkeypatch.setenv("GENERICDP_ADDRESS", address)
        out, err = ask("status")
    assert err == ""
    assert out.startswith("edge-worker-07.rack-2.example.com: NOT READY\n")
    assert "\033" not in out
    assert asked[0].startswith(b"GET /status HTTP/1.1\r\n")
    assert f"Host: {address}\r\n".encode() in asked[0]
    assert yaml.safe_load(printed(RICH, ask, "-o yaml")) == RICH


def test_where_nothing_listens_it_asks_for_listen(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    said = f"genericdp: nothing listens at {address}: is the daemon run with --listen?\n"
    assert ask(f"status --address={address}", code=1).err == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(b"off (--no-status)\n", "404 Not Found"), "it is run with --no-status"),
        (http(b"no\x1b[2J", "500 Oops"), "a genericdp? (it says: no\\x1b[2J)"),
        (http(b"{}"), "is not genericdp: "),
        (http(b"[" * 100_000), "is not genericdp: "),
        (http(b"\xff\xfe"), "is not genericdp: "),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP: Remote end closed connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}", "ends too early"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000, "does not speak HTTP"),
        (http(b"", "302 Found", "location: http://127.0.0.1:9/"), "answers 302"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else None,
)
def test_what_is_no_daemon_of_ours_is_one_line_and_exit_code_1(
    answer: bytes, said: str, ask: Ask
) -> None:
    assert said in printed(answer, ask, code=1)


@pytest.mark.parametrize(
    ("version", "why"),
    [("9.9", f" by this one, {__version__}: "), (__version__, ", which is a fault of it: ")],
)
def test_a_genericdp_that_says_what_is_not_understood_is_one_all_the_same(
    version: str, why: str, ask: Ask
) -> None:
    odd = {**RICH, "version": version, "resources": 5}
    start = f"genericdp: what genericdp {version} says at ADDRESS cannot be shown{why}"
    assert printed(odd, ask, code=1).startswith(start)
    assert json.loads(printed(odd, ask, "-o json")) == odd


def test_an_answer_without_end_is_cut_by_its_size() -> None:
    long = "longer than 1000 bytes"
    with answering(http(b"x" * 2000)) as (at, _), pytest.raises(GenericdpError, match=long):
        fetch(daemon_at(at), "/status", max_bytes=1000)


def test_one_that_dribbles_is_cut_by_its_time() -> None:
    """The time is for all of it, not for each piece."""
    over = threading.Event()

    def dribble(client: socket.socket) -> None:
        client.recv(65_536)
        client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n")
        for _ in range(200):  # 10 s
            if not over.wait(0.05):
                client.sendall(b"x")

    with serving(dribble) as port:
        with pytest.raises(GenericdpError, match="does not answer"):
            fetch(Address(host="127.0.0.1", port=port), "/status", seconds=0.2)
        assert not over.is_set()
        over.set()


def test_an_address_where_nobody_answers_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as silent,
        socket.create_connection(silent.getsockname()),  # its queue is full
        answering(http(b"{}")) as (at, _),
    ):
        addresses = (silent.getsockname(), ("127.0.0.1", daemon_at(at).port))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert fetch(Address(host="node-7", port=9733), "/status", seconds=4) == b"{}"


@pytest.mark.parametrize(
    ("name", "text", "colored"),
    [("TERM", "xterm", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)],
)
def test_colour_is_for_terminals_and_never_with_no_color(
    name: str, text: str, colored: bool, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, text)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0) as terminal, os.fdopen(theirs, "w") as stdout:
        with answering(EMPTY) as (address, _), monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            ask(f"status --address={address}")
        stdout.flush()
        assert (b"\033[1;31m" in terminal.read(65_536)) == colored


def plain(document: Document) -> list[str]:
    return list(lines(document, colors=False))


def section(document: Document, title: str, *, wide: bool = False) -> list[list[str]]:
    """Return the cells of each line below a title."""
    shown = [*lines(document, colors=False, wide=wide), ""]
    start = shown.index(f"{title}:") + 1
    return [re.split("  +", line.strip()) for line in shown[start : shown.index("", start)]]


def test_what_is_wrong_comes_first() -> None:
    shown = plain(RICH)
    assert shown[0] == "edge-worker-07.rack-2.example.com: NOT READY"
    titles = [entry for entry in shown if entry.endswith(":") and not entry.startswith(" ")]
    assert titles == [
        "Not ready:",
        "Not as expected:",
        "The config on disk has been REFUSED since 2026-11-21 18:58:25 UTC:",
        "Warnings of the config:",
        "Never reloaded:",
        "Resources:",
        "Devices:",
        "Without devices:",
        "Matched, but not offered:",
        "Last events (UTC):",
    ]
    first = [row[1] for row in section(RICH, "Devices")[:5]]
    assert first == ["ID", "ttyUSB1", "ttyUSB2", "ttyUSB5", "loop40"]


def test_without_any_config_it_is_short() -> None:
    assert plain(EMPTY) == [
        "edge-1: NOT READY",
        "No config is active: nothing is served.",
        "",
        "Not ready:",
        "  no config is active",
        "  there is no kubelet.sock",
        "",
        "The config on disk has been REFUSED since 2026-11-21 18:59:49 UTC:",
        "  /etc/genericdp/devices.yaml:1:1: it does not exist",
        "",
        "Daemon:   genericdp 0.1.0, for 12 s",
        "Config:   none is active",
        "Kubelet:  MISSING: there is no /var/lib/kubelet/device-plugins/kubelet.sock",
    ]


WELL = status(resource("example.com/a", device(0)))
OLD = config(digest="ab" * 32, since=at(NOW), files=["/etc/a.yaml"], fromStateDir=True)
UNKNOWN = {"known": False, "reason": "start with --pod-resources"}


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (WELL, "1 resource registered, 1 device Healthy."),
        (WELL, "Policy:   none (configs are not restricted)"),
        (RICH, "4 of 5 resources registered, 71 of 75 devices Healthy."),
        (RICH, "Policy:   /etc/genericdp-policy/policy.yaml (4fb8a80745d3)"),
        (status(), "The config has no resource for this node."),
        (
            status(config=OLD),
            "Config:   active, since 2026-11-21 19:00:00 UTC, the last good one of the"
            " state directory (abababababab; /etc/a.yaml)",
        ),
        (status(resource("a", empty="x" * 3000)), f"  a: {'x' * 1996}…"),
        (status(apiServerLacks="taints"), "Lacking:  taints"),
        (status(holders=UNKNOWN), f"Holders:  unknown ({UNKNOWN['reason']})"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_the_state_is_told_in_lines(document: Document, line: str) -> None:
    assert line in plain(document)


def test_resources_have_columns_for_what_is_known() -> None:
    late = "the kubelet has not registered the DRA driver yet"
    why = "1 device Healthy, expected 8; forgotten: ttyUSB1"
    lacking = resource("a", device(0), expected=expected(8, "too_few", why))
    dra = resource("b", servedBy="dra", registered=False, reason=late, since=None)
    at_least = {**dra, "expected": {**expected(1), "max": None}, "allocated": None}
    document = status(lacking, at_least, resource("c", device(2), allocated=1))
    assert section(document, "Not as expected") == [[f"a: {why}"]]
    columns = ["HEALTHY", "EXPECTED", "ALLOCATABLE", "CAPACITY", "IN USE"]
    assert section(document, "Resources") == [
        ["RESOURCE", "REGISTERED", "FOR", *columns, "WHY"],
        ["a", "yes", "3 d 3 h", "1 of 1", "8", "1", "1", "0", "-"],
        ["b", "NO, DRA", "-", "0 of 0", "at least 1", "0", "0", "-", late],
        ["c", "yes", "3 d 3 h", "1 of 1", "-", "1", "1", "1", "-"],
    ]


def test_wide_has_hardware_and_the_names_that_a_rule_for_taints_needs() -> None:
    dra = {"driver": "acme.example", "pool": "edge-1/example.com/a"}
    names = [f"usb0-{number}" for number in range(4)]
    known = {"model": "FT232R", "serial": "A50285BI", "driver": "ftdi_sio"}
    sample = device(0, shares=4, dra={"devices": names, "attributes": {}, "notes": {}}, **known)
    of_plugin = resource("example.com/b", device(1, dra=None), dra=None)
    document = status(resource("example.com/a", sample, dra=dra), of_plugin, claims=2)
    assert "Claims:   2 prepared by the DRA driver acme.example" in plain(document)
    heading, first, second = section(document, "Devices", wide=True)
    assert heading[6:] == ["PATH", "MODEL", "SERIAL", "DRIVER", "POOL", "DEVICE", "WHY"]
    names_shown = "usb0-0, usb0-1, usb0-2 and 1 more"
    assert first[6:] == ["/dev/ttyUSB0", *known.values(), dra["pool"], names_shown, "-"]
    assert second[6:] == ["/dev/ttyUSB1", *"------"]


def test_the_holders_of_a_device_are_shown() -> None:
    holders = [{"share": f"ttyUSB0::{n}", "holder": f"pod home/p{n}"} for n in range(1, 6)]
    sample = device(0, shares=6, holders=holders)
    stick = {"share": "ttyUSB1", "holder": "claim home/stick", "since": at(NOW - 7200)}
    other = device(1, holders=[stick | {"pods": ["home/a", "home/b"]}])
    document = status(resource("example.com/a", sample, other, device(2)))
    assert [row[-2] for row in section(document, "Devices")] == [
        "HELD BY",
        "pod home/p1 (ttyUSB0::1), pod home/p2 (ttyUSB0::2), pod home/p3 (ttyUSB0::3) and 2 more",
        "claim home/stick of pod home/a, home/b (2 h)",
        "-",
    ]
    assert "HELD BY" not in section(WELL, "Devices")[0]


def test_colors_are_beside_the_text_and_never_instead() -> None:
    colored = list(lines(RICH, colors=True))
    assert [re.sub(r"\033\[[\d;]*m", "", line) for line in colored] == plain(RICH)
    (sick,) = (line for line in colored if "Unhealthy " in line and "ttyUSB2" in line)
    assert sick.startswith("\033[1;31m")
    assert sick.endswith("\033[0m")


def test_what_an_older_or_newer_daemon_says_is_printed() -> None:
    """``former.json`` is never changed: a key that it lacks is a new one."""
    former = Path(__file__).parents[1] / "status/former.json"
    shown = "\n".join(plain(json.loads(former.read_text())))
    assert "renderD120 (4 shares)" in shown
    assert "Policy:   none" in shown
    later = deepcopy(RICH)
    later["later"] = later["kubelet"]["later"] = {"a": 1}
    assert plain(later) == plain(RICH)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, entry in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
        yield value, key
        if isinstance(entry, dict | list):
            yield from _places(entry)


def test_whatever_else_a_daemon_says_is_printed_or_refused_in_one_line(ask: Ask) -> None:
    """And moves no cursor."""
    small = {**RICH, "resources": RICH["resources"][1:2], "events": RICH["events"][:2]}
    odds: list[Any] = [None, True, -1, 1.5, "\x1b[2J\n\u202e\ud800", [], {}, [[]], [None], {"a": 1}]
    for number, odd in enumerate(odds):
        for index in range(number % 7, len([*_places(deepcopy(small))]), 7):
            document = deepcopy(small)
            holder, key = [*_places(document)][index]
            holder[key] = odd
            try:
                assert all(entry.isprintable() for entry in plain(document))
            except (LookupError, TypeError, ValueError, AttributeError):
                printed(document, ask, code=1)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3660, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (86_400 * 4000, "4,000 d"),
    ],
)
def test_a_duration_has_its_largest_units(seconds: float, said: str) -> None:
    assert span(at(NOW), at(NOW + seconds)) == said
