"""A browser for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.status.chromium import WHY_NOT, Browser, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run it once: to start takes it longer than most tests."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    with chromium() as running:
        yield running
