"""Machines that several commands are asked about, and asking them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.asking import Ask
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def ask(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ask:
    monkeypatch.chdir(short_directory)
    return Ask(short_directory, capsys)


@pytest.fixture
def testbed(short_directory: Path) -> Callable[[str], Path]:
    def build(name: str) -> Path:
        directory = short_directory / name
        loading.build(loading.path_of(name), directory)
        return directory

    return build
