from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from genericdp import logs
from genericdp.logs import QueuedLines

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("test")


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_a_text_line_names_the_resource(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(log_format="text", level="info")
    token = logs.resource_name.set("example.com/a")
    log.info("%d devices", 3)
    logs.resource_name.reset(token)
    log.warning("gone", extra={"resource": "example.com/b"})
    log.debug("not shown")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        "info    example.com/a: 3 devices",
        "warning example.com/b: gone",
    ]


def test_a_text_line_is_one_line_whatever_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Found by a new user: NUL bytes, from gRPC, made the log a binary file."""
    logs.set_up(log_format="text", level="info")
    log.info("%s", "full\0/a\x1b[2J\nb\r\x85\u2028\u202e ü\udcff", extra={"resource": "a/b"})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r"a/b: full\x00/a\x1b[2J\nb\r\x85\u2028\u202e ü\xff")


def test_a_json_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(log_format="json", level="debug")
    log.debug("two\nlines", extra={"resource": "example.com/a"})
    try:
        int("why")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["message"] == "two\nlines"
    assert (first["level"], first["resource"]) == ("debug", "example.com/a")
    assert "resource" not in second
    assert "ValueError: invalid literal" in second["exception"]


def test_a_line_about_a_device_carries_it(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(log_format="json", level="info")
    log.info("device tty0 is new", extra={"resource": "example.com/a", "device": "tty0"})
    log.info("about none", extra={"resource": "example.com/a", "device": ""})
    of_device, of_none = map(json.loads, capsys.readouterr().err.splitlines())
    fields = ["time", "level", "message", "logger", "resource", "device"]
    assert list(of_device) == fields
    assert (of_device["resource"], of_device["device"]) == ("example.com/a", "tty0")
    assert list(of_none) == fields[:-1]


def test_any_handler_can_have_resource_and_device_of_a_line() -> None:
    kept: list[logging.LogRecord] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    handler = Keeping()
    handler.addFilter(logs.add_subject)
    logging.getLogger().handlers[:] = [handler]
    token = logs.resource_name.set("example.com/a")
    log.warning("within its task")
    logs.resource_name.reset(token)
    log.warning("elsewhere", extra={"device": "tty0"})
    found = [(vars(one)["resource"], vars(one)["device"]) for one in kept]
    assert found == [("example.com/a", ""), ("", "tty0")]


def test_a_json_line_is_safe_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(log_format="json", level="info")
    log.info("%s", "\x1b[2J\x85\u202e ü\udcff")
    line = capsys.readouterr().err.removesuffix("\n")
    assert line.isprintable()
    assert json.loads(line)["message"] == "\x1b[2J\x85\u202e ü\udcff"


def test_what_libraries_say_for_their_own_developers_is_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.set_up(log_format="text", level="debug")
    logging.getLogger("grpc._cython.cygrpc").debug("[_cygrpc] Loaded running loop: id(loop)=1")
    logging.getLogger("asyncio").debug("Using selector: EpollSelector")
    assert capsys.readouterr().err == ""


def test_a_call_that_is_canceled_as_it_begins_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """gRPC says so with a traceback when a server stops at that moment."""
    logs.set_up(log_format="text", level="info")
    for error in (asyncio.CancelledError(), ValueError("broken")):
        try:
            raise error
        except (asyncio.CancelledError, ValueError):
            logging.getLogger("grpc._cython.cygrpc").exception("Exception not handled")
    logging.shutdown()
    said = capsys.readouterr().err
    assert said.count("Exception not handled") == 1
    assert "CancelledError" not in said
    assert "ValueError: broken" in said


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        with suppress(OSError):
            os.close(end)


def handler_to(writer: int) -> logging.Handler:
    logging.getLogger().handlers[:] = [handler := QueuedLines(writer)]
    logging.getLogger().setLevel("INFO")
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


def test_a_reader_that_stops_holds_nothing_up_and_gets_all_when_it_goes_on(
    pipe: tuple[int, int],
) -> None:
    reader, writer = pipe
    handler = handler_to(writer)
    lines = [f"{i} {'x' * 100}" for i in range(800)]  # more than a pipe holds
    for line in lines:
        log.info(line)
    read = b""
    while read.count(b"\n") < len(lines):
        read += os.read(reader, 65_536)
    assert read.decode().splitlines() == lines
    handler.flush()
    log.info("in time again")
    assert os.read(reader, 100) == b"in time again\n"


def test_what_is_too_much_to_keep_is_counted(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    handler_to(writer)
    for i in range(20_000):
        log.info("%d %s", i, "x" * 100)
    read = b""
    while not read.endswith(b"was not being read\n"):
        read += os.read(reader, 65_536)
    *lines, last = read.decode().splitlines()
    lost = int(last.split()[0])
    assert last == f"{lost} log lines were dropped: stderr was not being read"
    kept = [int(line.split()[0]) for line in lines]
    assert len(kept) == 20_000 - lost >= 4096
    assert kept == sorted(set(kept))  # which ones are lost depends on when the writer had its turn


def test_a_line_longer_than_a_pipe_holds_arrives_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    handler_to(writer)
    log.info("x" * 300_000)
    read = b""
    while not read.endswith(b"\n"):
        read += os.read(reader, 65_536)
    assert len(read) == 300_001


INTERRUPTED = """
import logging, signal
from genericdp import logs

logs.set_up(log_format="text", level="info")
signal.signal(signal.SIGALRM, lambda *_: logging.info("interrupted"))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for _ in range(3000):
    logging.info("queued")
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_line_may_be_logged_while_another_is_being_queued() -> None:
    """As by a finalizer, or a signal handler: with a lock that is not reentrant all would hang."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    ends = [line.split(maxsplit=1)[1] for line in done.stderr.splitlines()]
    assert ends.count("info    queued") == 3000
    assert set(ends) == {"info    queued", "info    interrupted"}


@pytest.mark.parametrize("closed", [0, 1], ids=["its reader", "itself"])
def test_a_log_that_is_closed_is_no_trouble(pipe: tuple[int, int], closed: int) -> None:
    handler = handler_to(pipe[1])
    os.close(pipe[closed])
    for _ in range(3):
        log.info("nobody is there")
    handler.flush()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "1970-01-01T00:00:00.000+00:00"),
        (1_795_287_600.5, "2026-11-21T19:00:00.500+00:00"),
    ],
)
def test_a_time_has_its_zone_and_milliseconds(seconds: float, said: str) -> None:
    assert logs.timestamp(seconds) == said
