"""Machines that several commands are asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def testbed(tmp_path: Path) -> Callable[[str], Path]:
    def build(name: str) -> Path:
        directory = tmp_path / name
        loading.build(loading.path_of(name), directory)
        return directory

    return build
