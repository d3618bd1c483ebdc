"""The programs of a run for the tests, and which tests are for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def from_run(name: str, target: str) -> Path:
    """Give a path that tests/e2e/run has set for this target of make."""
    if name not in os.environ:
        pytest.fail(f"{name} is not set: these tests run with `make {target}`", pytrace=False)
    return Path(os.environ[name])


def leave_out(
    config: pytest.Config, items: list[pytest.Item], *, marker: str, parameter: str
) -> None:
    """Leave out the tests whose marker does not name the parameter that they would run with."""

    def is_named(item: pytest.Item) -> bool:
        found = item.get_closest_marker(marker)
        if found is None:
            return True
        assert isinstance(item, pytest.Function)
        return item.callspec.params[parameter] in found.args

    left_out = [each_item for each_item in items if not is_named(each_item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
