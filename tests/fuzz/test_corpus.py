"""What fuzzing once found, and what it begins with, runs in every test run."""

from __future__ import annotations

import pytest

from tests.fuzz.driver import begin
from tests.fuzz.targets import NAMES, target


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_was_found_comes_back(name: str) -> None:
    with target(name).opened() as run:
        for data in begin(name):
            run(data)
