from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from genericdp import logs

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


def test_what_libraries_say_for_their_own_developers_is_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.set_up(log_format="text", level="debug")
    logging.getLogger("grpc._cython.cygrpc").debug("[_cygrpc] Loaded running loop: id(loop)=1")
    logging.getLogger("asyncio").debug("Using selector: EpollSelector")
    assert capsys.readouterr().err == ""
