"""``genericdp status``."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp import __version__
from genericdp.cli import main
from genericdp.cli.status import daemon_at, fetch, lines, span
from genericdp.errors import GenericdpError
from genericdp.settings import Address

from tests.status.samples import (
    EMPTY,
    NOW,
    RICH,
    SCRIPT,
    at,
    config,
    device,
    expected,
    many,
    resource,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.asking import Ask
    from tests.status.samples import Document

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
NODE = Address(host="node-7.example.com", port=9733)


def http(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *more, "", ""]
    return "\r\n".join(lines).encode() + body


@contextmanager
def answering(
    answer: bytes | Document, *, family: int = socket.AF_INET
) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one answer to anyone who comes; gives the address, and what was asked."""
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    data = answer if isinstance(answer, bytes) else http(json.dumps(answer).encode())
    asked: list[bytes] = []
    over = threading.Event()
    with socket.create_server((host, 0), family=socket.AddressFamily(family)) as server:

        def serve() -> None:
            while not over.is_set():
                client, _ = server.accept()
                with client:
                    asked.append(client.recv(65_536))
                    client.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        yield (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"), asked
        over.set()
        with socket.create_connection((host, port)) as last:
            last.sendall(b"x")
            thread.join(10)


def printed(answer: bytes | Document, ask: Ask, words: str = "", code: int = 0) -> str:
    """Ask who answers so, and return what is printed: of a failure, the one line."""
    with answering(answer) as (address, _):
        out, err = ask(f"status --address={address} {words}", code=code)
    if not code:
        assert err == ""
        return out
    assert (out, err.count("\n")) == ("", 1)
    return err.replace(address, "ADDRESS")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_it_prints_what_the_daemon_says(family: int, ask: Ask) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        if family == socket.AF_INET6:
            pytest.skip("no IPv6 on this machine")
    with answering(RICH, family=family) as (address, asked):
        out, err = ask(f"status --address={address}")
    assert err == ""
    assert out.startswith("edge-worker-07.rack-2.example.com: NOT READY\n")
    assert "\033" not in out
    assert asked[0].startswith(b"GET /status HTTP/1.1\r\n")
    assert f"Host: {address}\r\n".encode() in asked[0]


def test_wide_adds_what_the_hardware_is_called(ask: Ask) -> None:
    lines = printed(RICH, ask, "-o wide").splitlines()
    heading = lines[lines.index("Devices:") + 1]
    columns = ["RESOURCE", "ID", "STATE", "FOR", "NODES", "NUMA"]
    more = ["PATH", "MODEL", "SERIAL", "DRIVER", "HELD", "BY", "WHY"]
    assert heading.split() == [*columns, *more]
    (row,) = (line for line in lines if "ttyUSB0" in line and " Healthy " in line)
    texts = ["/dev/ttyUSB0", "FT232R USB UART", "A50285BI", "ftdi_sio"]
    for column, text in zip(more, texts, strict=False):
        assert row[heading.index(column) :].split("  ")[0] == text


def test_as_data_it_prints_what_came(ask: Ask) -> None:
    assert yaml.safe_load(printed(RICH, ask, "-o yaml")) == RICH
    assert json.loads(printed(EMPTY, ask, "-o json")) == EMPTY


def test_the_address_comes_from_the_environment_and_proxies_do_not(
    monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    with answering(EMPTY) as (address, _):
        monkeypatch.setenv("GENERICDP_ADDRESS", address)
        assert ask("status").out.startswith("edge-1: NOT READY\n")


def test_where_nothing_listens_it_asks_for_listen(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    said = f"genericdp: nothing listens at {address}: is the daemon run with --listen?\n"
    assert ask(f"status --address={address}", code=1).err == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(b"off (--no-status)\n", "404 Not Found"), "it is run with --no-status"),
        (http(b"", "404 Not Found"), "answers 404: is that a genericdp?\n"),
        (http(b"no\x1b[2J", "500 Oops"), "a genericdp? (it says: no\\x1b[2J)"),
        (http(b"<html>"), "is not genericdp: it is not JSON at line 1"),
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


BEGIN = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 200\r\n\r\n"


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nx: ", BEGIN], ids=["head", "body"])
def test_one_that_dribbles_is_cut_by_its_time(begin: bytes) -> None:
    """The time is for all of it, not for each piece."""
    left = 200  # 10 s of them

    def dribble(server: socket.socket) -> None:
        nonlocal left
        client, _ = server.accept()
        with client, suppress(OSError):
            client.recv(65_536)
            client.sendall(begin)
            while left:
                time.sleep(0.05)  # noqa: TID251 -- a slow server
                client.sendall(b"x")
                left -= 1

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=dribble, args=(server,), daemon=True)
        thread.start()
        with pytest.raises(GenericdpError, match="does not answer"):
            fetch(Address(host="127.0.0.1", port=server.getsockname()[1]), "/status", seconds=0.2)
        assert left
        left = 1
        thread.join(30)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9733", "127.0.0.1", 9733),
        (":80", "127.0.0.1", 80),
        ("[::1]:9733", "::1", 9733),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ("node-7.example.com:00080", "node-7.example.com", 80),
    ],
)
def test_an_address_is_taken_apart(text: str, host: str, port: int) -> None:
    assert daemon_at(text) == Address(host=host, port=port)


@pytest.mark.parametrize(
    ("more", "colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    ids=["terminal", "no-color", "dumb"],
)
def test_colour_is_for_terminals_and_never_with_no_color(
    more: dict[str, str], colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, text in {"TERM": "xterm", **more}.items():
        monkeypatch.setenv(name, text)
    ours, theirs = pty.openpty()
    with (
        answering(EMPTY) as (address, _),
        os.fdopen(ours, "rb", 0) as terminal,
        os.fdopen(theirs, "w") as stdout,
        monkeypatch.context() as patched,
    ):
        patched.setattr(sys, "stdout", stdout)
        assert main(["status", f"--address={address}"]) == 0
        stdout.flush()
        assert (b"\033[1;31m" in terminal.read(65_536)) == colored


@contextmanager
def unanswered() -> Iterator[int]:
    """Give a port of 127.0.0.1 where connecting takes forever: its queue is full."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.create_connection(server.getsockname()),
    ):
        yield server.getsockname()[1]


def let_it_mean(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let every name have these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_many_addresses_have_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with unanswered() as port:
        let_it_mean(monkeypatch, *[port] * 20)
        begun = time.monotonic()
        with pytest.raises(GenericdpError, match=r"^node-7\.example\.com:9733 does not answer$"):
            fetch(NODE, "/status", seconds=0.5)
        assert time.monotonic() - begun < 50


def test_an_address_where_nobody_answers_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(ANSWER)

    with unanswered() as silent, socket.create_server(("127.0.0.1", 0)) as server:
        let_it_mean(monkeypatch, silent, server.getsockname()[1])
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        assert fetch(NODE, "/status", seconds=4) == b"{}"
        thread.join(60)


def test_a_name_server_that_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()

    def ask(*_: object, **__: object) -> list[object]:
        over.wait(60)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    with pytest.raises(GenericdpError, match="does not answer"):
        fetch(NODE, "/status", seconds=0.2)
    over.set()


def plain(document: Document) -> list[str]:
    return list(lines(document, colors=False))


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
    rows = shown[shown.index("Devices:") + 1 :][:75]
    assert [each_row.split()[1] for each_row in rows[:5]] == [
        "ID",
        "ttyUSB1",
        "ttyUSB2",
        "ttyUSB5",
        "loop40",
    ]
    assert "/dev/ttyUSB2 does not exist" in rows[2]
    assert any(SCRIPT in row for row in rows)


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
LATE = "the kubelet has not registered the DRA driver yet"
DRA = resource("example.com/a", servedBy="dra", registered=False, reason=LATE, since=None)
UNKNOWN = {"known": False, "reason": "start with --pod-resources"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (WELL, ["edge-1: ready", "1 resource registered, 1 device Healthy."]),
        (WELL, ["Policy:   none (configs are not restricted)"]),
        (RICH, ["4 of 5 resources registered, 71 of 75 devices Healthy."]),
        (RICH, ["Policy:   /etc/genericdp-policy/policy.yaml (4fb8a80745d3)"]),
        (status(), ["The config has no resource for this node."]),
        (
            status(config=OLD),
            [
                "Config:   active, since 2026-11-21 19:00:00 UTC, the last good one of the"
                " state directory (abababababab; /etc/a.yaml)"
            ],
        ),
        (
            status(resource("a"), resource("b", empty="because")),
            [
                "Without devices:",
                "  a: nothing on this node matches match[0] {path: /dev/a} (a.yaml:5)",
                "  b: because",
            ],
        ),
        (status(resource("a", empty="x" * 3000)), [f"  a: {'x' * 1996}…"]),
        (status(DRA, claims=3), ["Claims:   3 prepared"]),
        (status(DRA, apiServerLacks="taints"), ["Lacking:  taints"]),
        (
            status(WELL["resources"][0], holders=UNKNOWN),
            [f"Holders:  unknown ({UNKNOWN['reason']})"],
        ),
    ],
    ids=lambda value: value[-1][:50] if isinstance(value, list) else "",
)
def test_the_state_is_told_in_lines(document: Document, expected: list[str]) -> None:
    shown = plain(document)
    start = shown.index(expected[0])
    assert shown[start : start + len(expected)] == expected
    holders = any(line.startswith("Holders:") for line in shown)
    assert holders == (document["holders"] == UNKNOWN)


def test_what_dra_serves_is_told_with_the_reason_if_it_does_not() -> None:
    shown = plain(status(DRA, resource("example.com/b", servedBy="devicePlugin")))
    row, other = shown[shown.index("Resources:") + 2 :][:2]
    assert re.split("  +", row) == ["example.com/a", "NO, DRA", "-", "0 of 0", "0", "0", "0", LATE]
    assert re.split("  +", other)[1] == "yes"


def test_wide_has_the_names_that_a_rule_for_taints_needs() -> None:
    dra = {"driver": "acme.example", "pool": "edge-1/example.com/a"}
    names = [f"usb0-{number}" for number in range(4)]
    sample = device(0, shares=4, dra={"devices": names, "attributes": {}, "notes": {}})
    of_plugin = resource("example.com/b", device(1, dra=None), dra=None)
    document = status(resource("example.com/a", sample, dra=dra), of_plugin, claims=2)
    assert "Claims:   2 prepared by the DRA driver acme.example" in plain(document)
    shown = [*lines(document, colors=False, wide=True)]
    heading, first, second = shown[shown.index("Devices:") + 1 :][:3]
    assert re.split("  +", heading)[-3:] == ["POOL", "DEVICE", "WHY"]
    assert re.split("  +", first)[-3:] == [
        "edge-1/example.com/a",
        "usb0-0, usb0-1, usb0-2 and 1 more",
        "-",
    ]
    assert re.split("  +", second)[-3:] == ["-", "-", "-"]


def test_the_holders_of_a_device_are_shown() -> None:
    holders = [{"share": f"ttyUSB0::{n}", "holder": f"pod home/p{n}"} for n in range(1, 6)]
    sample = device(0, shares=6, holders=holders)
    stick = {"share": "ttyUSB1", "holder": "claim home/stick", "since": at(NOW - 7200)}
    other = device(1, holders=[stick | {"pods": ["home/a", "home/b"]}])
    shown = plain(status(resource("example.com/a", sample, other, device(2))))
    heading, *rows = shown[shown.index("Devices:") + 1 :][:4]
    assert re.split("  +", heading)[-2:] == ["HELD BY", "WHY"]
    assert [re.split("  +", row)[-2] for row in rows] == [
        "pod home/p1 (ttyUSB0::1), pod home/p2 (ttyUSB0::2), pod home/p3 (ttyUSB0::3) and 2 more",
        "claim home/stick of pod home/a, home/b (2 h)",
        "-",
    ]
    assert not any("HELD BY" in line for line in plain(many(1, 2)))


def test_what_is_missing_and_what_is_in_use_has_columns_where_it_is_known() -> None:
    why = "1 device Healthy, expected 8; forgotten: ttyUSB1"
    lacking = resource("a", device(0), expected=expected(8, "too_few", why))
    at_least = resource("b", expected={**expected(1), "max": None}, allocated=None)
    shown = plain(status(lacking, at_least, resource("c", device(2), allocated=1)))
    assert shown[shown.index("Not as expected:") + 1] == f"  a: {why}"
    heading, *rows = shown[shown.index("Resources:") + 1 :][:4]
    columns = re.split("  +", heading)[3:-1]
    assert columns == ["HEALTHY", "EXPECTED", "ALLOCATABLE", "CAPACITY", "IN USE"]
    assert [re.split("  +", row)[3:-1] for row in rows] == [
        ["1 of 1", "8", "1", "1", "0"],
        ["0 of 0", "at least 1", "0", "0", "-"],
        ["1 of 1", "-", "1", "1", "1"],
    ]


def test_colors_are_beside_the_text_and_never_instead() -> None:
    colored = list(lines(RICH, colors=True))
    assert [re.sub(r"\033\[[\d;]*m", "", line) for line in colored] == plain(RICH)
    (sick,) = (line for line in colored if "Unhealthy " in line and "ttyUSB2" in line)
    assert sick.startswith("\033[1;31m")
    assert sick.endswith("\033[0m")


def test_what_an_older_daemon_says_is_printed(ask: Ask) -> None:
    """``former.json`` is never changed: a key that it lacks is a new one."""
    former = Path(__file__).parents[1] / "status/former.json"
    shown = printed(json.loads(former.read_text()), ask)
    assert "renderD120 (4 shares)" in shown
    assert "Policy:   none" in shown


def test_what_a_newer_daemon_says_beside_it_is_left_out() -> None:
    later = deepcopy(RICH)
    later["later"] = later["kubelet"]["later"] = {"a": 1}
    assert plain(later) == plain(RICH)


_FIXED = {"time", "started", "since", "differsSince", "state", "level"}


def test_any_text_in_any_field_is_shown_and_moves_no_cursor() -> None:
    def replaced(value: Any, text: str, key: str = "") -> Any:
        match value:
            case dict():
                return {key: replaced(each_part, text, key) for key, each_part in value.items()}
            case list():
                return [replaced(part, text, key) for part in value]
            case str() if key not in _FIXED:
                return f"{text}{value}"
        return value

    for text in ("<script>", "\u202e", "\0", "\n", "\x1b[2J", "\ud800", "x" * 3000):
        shown = plain(replaced(RICH, text))
        assert all(entry.isprintable() for entry in shown)
        assert max(map(len, shown)) < 20_000


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, entry in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
        yield value, key
        if isinstance(entry, dict | list):
            yield from _places(entry)


def test_whatever_else_a_daemon_says_is_printed_or_refused_in_one_line(ask: Ask) -> None:
    small = {**RICH, "resources": RICH["resources"][1:2], "events": RICH["events"][:2]}
    odds: list[Any] = [None, True, -1, 1.5, "x", [], {}, [[]], [None], {"a": 1}]
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
        (0, "0 s"),
        (-5, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (86_400 * 4000, "4,000 d"),
    ],
)
def test_a_duration_has_its_largest_units(seconds: float, said: str) -> None:
    assert span(at(NOW), at(NOW + seconds)) == said
