"""A browser for the tests of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.status.chromium import WHY_NOT, chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.status.chromium import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run it once: to start takes it longer than most tests."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    with chromium() as running:
        yield running
