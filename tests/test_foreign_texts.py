"""Whatever others say, log and /readyz send a terminal nothing but printable lines."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp import logs
from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.errors import Problem
from genericdp.observed import Observed
from genericdp.process.run import Commands
from genericdp.settings import Settings
from genericdp.status.endpoints import Endpoints
from genericdp.status.state import Events, Sources
from genericdp.supervisor import Supervisor
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.status.states import declared

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIL = "a\x1b]0;owned\x07\u202egnp\x9b31m\r\nready\n\u2028\x00\x7f\udcff"
TEXTS = st.text(st.characters(exclude_categories=()))

log = logging.getLogger("test")


@contextmanager
def logging_as(log_format: str) -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.set_up(log_format=log_format, level="info")
    try:
        yield
    finally:
        logs.flush()
        root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize("log_format", ["text", "json"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, subject=TEXTS, error=TEXTS)
@example(text=EVIL, subject=EVIL, error=EVIL)
def test_the_log_is_printable(
    log_format: str, text: str, subject: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    with logging_as(log_format):
        about = {"resource": subject, "device": subject}
        log.warning("%s", text, extra=about)
        log.error("failed", exc_info=OSError(error), extra=about)
    lines = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith("{" if log_format == "json" else "2")
    assert "warning" in lines[0]
    assert "failed" in lines[1]


@given(name=TEXTS, path=TEXTS, message=TEXTS)
@example(name=EVIL, path=EVIL, message=EVIL)
def test_what_readyz_says_is_a_printable_line_for_each_reason(
    name: str, path: str, message: str
) -> None:
    nowhere = Path("/nonexistent")
    supervisor = Supervisor(
        Settings(
            configs=(),
            kubelet_directory=nowhere,
            cdi_directory=nowhere,
            root=nowhere,
            node_name="n",
        ),
        commands=Commands(),
    )
    supervisor.resources.value = (replace(declared(), name=name),)
    problem = Problem(file=path, line=1, column=1, path=path, message=message)
    config = Observed(ConfigState(refused=Loaded(problems=(problem,))))
    sources = Sources(supervisor=supervisor, config=config, events=Events(), started=0.0)
    response = asyncio.run(Endpoints(sources).respond("/readyz"))
    lines = response.body.decode().removesuffix("\n").split("\n")
    assert response.status == 503
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
