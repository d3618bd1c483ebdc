"""The log, and what else shows strings of others: printable lines, which hold nothing up."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from genericdp import logs
from genericdp.logs import QueuedLines

log = logging.getLogger("test")


def test_a_text_line_names_the_resource_and_is_one_line_whatever_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Found by a new user: NUL bytes, from gRPC, made the log a binary file."""
    logs.set_up(log_format="text", level="info")
    token = logs.resource_name.set("example.com/a")
    log.info("%d devices", 3)
    logs.resource_name.reset(token)
    log.warning("gone", extra={"resource": "example.com/b"})
    log.debug("not shown")
    log.info("%s", "full\0/a\x1b[2J\nb\r\x85\u2028\u202e ü\udcff", extra={"resource": "\x1bb"})
    log.error("failed", exc_info=OSError("\x1b[2J\r\u202e"))
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", lines[0].split()[0])
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        "info    example.com/a: 3 devices",
        "warning example.com/b: gone",
        r"info    \x1bb: full\x00/a\x1b[2J\nb\r\x85\u2028\u202e ü\xff",
        "error   failed",
        r"\x1b[2J\r\u202e",
    ]


def test_a_json_line_is_one_object_that_is_safe_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.set_up(log_format="json", level="debug")
    odd = "two\nlines\x1b[2J\x85\u202e ü\udcff"
    log.debug("%s", odd, extra={"resource": "example.com/a", "device": "tty0"})
    log.info("about none", extra={"resource": "example.com/a", "device": ""})
    try:
        int("why")
    except ValueError:
        log.exception("failed")
    lines = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    of_device, of_none, failed = map(json.loads, lines)
    fields = ["time", "level", "message", "logger", "resource", "device"]
    assert (list(of_device), list(of_none)) == (fields, fields[:-1])
    assert [of_device[name] for name in ("level", "message", "resource", "device")] == [
        "debug", odd, "example.com/a", "tty0"
    ]  # fmt: skip
    assert "resource" not in failed
    assert "ValueError: invalid literal" in failed["exception"]


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


def read_until(reader: int, end: bytes) -> bytes:
    read = b""
    while not read.endswith(end):
        read += os.read(reader, 65_536)
    return read


def test_a_reader_that_stops_holds_nothing_up_and_gets_all_when_it_goes_on(
    pipe: tuple[int, int],
) -> None:
    """Also a line that is longer than a pipe holds."""
    handler = handler_to(pipe[1])
    lines = [*(f"{number} {'x' * 100}" for number in range(800)), "x" * 300_000, "the last"]
    for line in lines:
        log.info(line)
    assert read_until(pipe[0], b"the last\n").decode().splitlines() == lines
    handler.flush()
    log.info("in time again")
    assert os.read(pipe[0], 100) == b"in time again\n"


def test_what_is_too_much_to_keep_is_counted(pipe: tuple[int, int]) -> None:
    handler_to(pipe[1])
    for number in range(20_000):
        log.info("%d %s", number, "x" * 100)
    *lines, last = read_until(pipe[0], b"was not being read\n").decode().splitlines()
    lost = int(last.split()[0])
    assert last == f"{lost} log lines were dropped: stderr was not being read"
    kept = [int(line.split()[0]) for line in lines]
    assert len(kept) == 20_000 - lost >= 4096
    assert kept == sorted(set(kept))  # which ones are lost depends on when the writer had its turn


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
