"""Promises of ``security.md``: no config exhausts the daemon, whatever it contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.exhaustion import reload_through, start_with
from tests.hostile_configs import hostile_configs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

FEW = (
    "file-referenced-3000-times",
    "regexes-that-need-states",
    "values-150-deep",
    "values-doubled-31-times",
)
"""All of them take minutes: ``python -m tests.exhaustion``."""


async def test_a_good_resource_is_served_next_to_hostile_ones(short_directory: Path) -> None:
    configs = hostile_configs()
    await reload_through(short_directory, {name: configs[name] for name in FEW})


async def test_a_daemon_that_is_ended_amid_searches_ends_as_ever(short_directory: Path) -> None:
    """Python ended the searching threads within RE2, which aborted the process (exit -6)."""
    assert await start_with(short_directory, hostile_configs()["probes-of-1-mib"]) == "served"


def test_there_are_fifty_of_them() -> None:
    assert len(hostile_configs()) >= 50
