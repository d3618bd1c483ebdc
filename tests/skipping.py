"""Skipped tests: each is a failure with CI set."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

AGREED = (
    "no cgroup that freezes can be made here",  # version 1 of cgroups
    "no link of this machine has an address of IPv6",
    "no IPv6 on this machine",
    "asyncio chooses by itself",  # from Python 3.12 on
    "Python without pidfd_open",
)
"""Skipped in CI, too: such tests are for another kind of machine, or another Python."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skipped test fail where everything is to be installed."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = text.removeprefix("Skipped: ")
        if not reason.startswith(AGREED):
            report.outcome = "failed"
            report.longrepr = f"skipped, though nothing may be with CI set: {reason}"
    return report
