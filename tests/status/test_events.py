"""The last lines of the log, as the page shows them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from genericdp import logs
from genericdp.cli.status import visible
from genericdp.logs import resource_name
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
    level: str, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(log_format="text", level=level)
    with record_events() as events:
        log.debug("too little")
        log.info("%s of %s", 1, 2)
        log.warning("device lost", extra={"resource": "example.com/x", "device": "d"})
        log.critical("over")
    assert events not in root_logger.handlers
    logs.flush()
    assert ("1 of 2" in capfd.readouterr().err) is (level != "error")
    kept = [tuple(entry.values())[1:] for entry in events.last()]
    assert kept == [
        ("info", "", "", "1 of 2"),
        ("warning", "example.com/x", "d", "device lost"),
        ("error", "", "", "over"),
    ]


async def test_a_daemon_that_has_ended_leaves_no_handler_of_the_log(world: World) -> None:
    root = logging.getLogger()
    before = [*root.handlers]
    async with world.serving(serial()) as daemon:
        await daemon.registered("example.com/serial")
        assert any(isinstance(handler, Events) for handler in root.handlers)
    assert root.handlers == before


def test_the_last_ones_are_kept_and_no_more_of_each_than_is_shown() -> None:
    events = Events()
    for number in range(300):
        message = f"{number} ".ljust(2000 + number % 2, "x")
        events.handle(logging.makeLogRecord({"msg": message, "levelno": logging.INFO}))
    messages = [entry["message"] for entry in events.last()]
    assert [message.split()[0] for message in messages] == [str(n) for n in range(100, 300)]
    assert {(len(message), message[-1]) for message in messages} == {(2000, "x"), (2000, "…")}
    assert visible(messages[-1]) == messages[-1]


def test_a_line_of_a_resources_task_carries_it_and_a_failure_its_reason() -> None:
    token = resource_name.set("example.com/y")
    try:
        with record_events() as events:
            log.error("unexpected failure", exc_info=ValueError("why"))
    finally:
        resource_name.reset(token)
    (event,) = events.last()
    assert event["resource"] == "example.com/y"
    assert event["message"] == "unexpected failure: ValueError: why"
