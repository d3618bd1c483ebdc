"""The last lines of the log, as the page shows them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from genericdp import logs
from genericdp.cli.status import visible
from genericdp.logs import resource_name
from genericdp.status import state
from genericdp.status.state import Events, record_events

from tests.world import World, serial

log = logging.getLogger("genericdp.test")


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield root
    logs.flush()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("level", ["debug", "info", "error"])
def test_lines_at_info_or_above_are_kept_whatever_the_log_lets_pass(
    level: str, root_logger: logging.Logger
) -> None:
    logs.set_up(log_format="text", level=level)
    with record_events() as events:
        log.debug("too little")
        log.info("%s of %s", 1, 2)
        log.warning("device lost", extra={"resource": "example.com/x", "device": "d"})
        log.critical("over")
    assert events not in root_logger.handlers
    kept = [tuple(entry.values())[1:] for entry in events.last()]
    assert kept == [
        ("info", "", "", "1 of 2"),
        ("warning", "example.com/x", "d", "device lost"),
        ("error", "", "", "over"),
    ]


def test_the_log_itself_shows_no_more_than_it_did(
    root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(log_format="text", level="error")
    with record_events() as events:
        log.info("not for the log")
        log.error("for both")
        assert len(events.last()) == 2
    logs.flush()
    assert "not for the log" not in (shown := capfd.readouterr().err)
    assert "for both" in shown
    assert len(root_logger.handlers) == 1


async def test_a_daemon_that_has_ended_leaves_no_handler_of_the_log(world: World) -> None:
    root = logging.getLogger()
    before = [*root.handlers]
    async with world.serving(serial()) as daemon:
        await daemon.registered("example.com/serial")
        assert any(isinstance(handler, Events) for handler in root.handlers)
    assert root.handlers == before


def test_no_more_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MAX_EVENTS", 3)
    events = Events()
    for at in range(10):
        events.handle(logging.makeLogRecord({"msg": f"{at}" * 5000, "levelno": logging.INFO}))
    assert [entry["message"][0] for entry in events.last()] == ["7", "8", "9"]
    assert all(len(item["message"]) == 2000 for item in events.last())


@pytest.mark.parametrize(("length", "said"), [(2000, "x" * 2000), (2001, "x" * 1999 + "…")])
def test_a_line_is_cut_once_and_shown_as_it_is_kept(length: int, said: str) -> None:
    """Found by a reader: a line of 5,000 letters was shown with "(1 more characters)"."""
    events = Events()
    events.handle(logging.makeLogRecord({"msg": "x" * length, "levelno": logging.INFO}))
    (kept,) = events.last()
    assert kept["message"] == said
    assert visible(kept["message"]) == said


def test_a_line_of_a_resources_task_carries_it() -> None:
    token = resource_name.set("example.com/y")
    try:
        with record_events() as events:
            log.warning("x")
    finally:
        resource_name.reset(token)
    assert events.last()[0]["resource"] == "example.com/y"


def test_a_failure_is_told_with_its_reason() -> None:
    with record_events() as events:
        log.error("unexpected failure", exc_info=ValueError("why"))
    assert events.last()[0]["message"] == "unexpected failure: ValueError: why"
