"""Imports of modules that are not needed yet: users wait for each."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = {
    # All commands, of which many only show help.
    "cli.command_line": "asyncio dataclasses inspect logging genericdp.scalars",
    # The process that loads a config, for which the first device lists wait.
    "config.load": "asyncio genericdp.devices.device genericdp.host.root genericdp.host.sysfs",
    # The daemon, until that process has started.
    "cli.run": "genericdp.model genericdp.supervisor genericdp.kubelet grpc google",
    "cli.hardware": "yaml jsonschema google genericdp.config genericdp.kubelet",
    # Claims have no device list for ListAndWatch.
    "dra.prepare": "google grpc genericdp.kubelet",
}


@pytest.mark.parametrize("module", UNUSED)
def test_what_is_not_needed_is_not_imported(module: str) -> None:
    command = [sys.executable, "-c", f"import genericdp.{module}, sys; print(*sys.modules)"]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert f"genericdp.{module}" in loaded
    unused = UNUSED[module].split()
    assert [name for name in loaded for other in unused if f"{name}.".startswith(f"{other}.")] == []
