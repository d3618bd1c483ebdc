"""Skipped tests: each is a failure with CI set, else a line about what to install."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable

import pytest

AGREED = (
    "no cgroup that freezes can be made here",  # version 1 of cgroups
    "no link of this machine has an address of IPv6",
    "no IPv6 on this machine",
    "asyncio chooses by itself",  # from Python 3.12 on
    "Python without pidfd_open",
)
"""Skipped in CI, too: such tests are for another kind of machine, or another Python."""

PACKAGES = {
    "chromium": "chromium",
    "umockdev": "umockdev",
    "udevd": "udev",
    "podman": "podman",
    "prlimit": "util-linux",
    "systemd-analyze": "systemd",
    "network": "iproute2",
    "shellcheck": "shellcheck",
    "zsh": "zsh",
    "fish": "fish",
}
"""Packages of Debian, by a word of the reason for which a test is skipped."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skipped test fail where everything is to be installed."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        reason = reason_of(report)
        if not reason.startswith(AGREED):
            report.outcome = "failed"
            report.longrepr = f"skipped, though nothing may be with CI set: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line about the skipped tests and what they need."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(advice([reason_of(report) for report in skipped]))


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason of a skipped test."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def advice(reasons: Iterable[str]) -> str:
    """Return what to do so that nothing is skipped for these reasons."""
    reasons = list(reasons)
    packages, others = set[str](), set[str]()
    for reason in reasons:
        words = re.findall(r"[\w-]+", reason)
        found = {PACKAGES[word] for word in words if word in PACKAGES}
        packages |= found
        if not found:
            others.add("root" if "root" in words else reason.splitlines()[0])
    needs = [f"apt-get install {' '.join(sorted(packages))}"] if packages else []
    needs += [f"needs {need}" if need == "root" else need for need in sorted(others)]
    tests = "1 test" if len(reasons) == 1 else f"{len(reasons)} tests"
    return f"skipped {tests}: {'; '.join(needs)}"
