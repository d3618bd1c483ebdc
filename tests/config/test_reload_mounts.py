"""Config files that are mounted by themselves (``subPath``), as a daemon in a pod sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.changing import ConfigMap, config

SCRIPT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def _warnings(directory: Path, source: Path, point: Path) -> list[str]:
    """Return what a daemon logs about mounts until it has read its config twice."""
    for name in ("dev", "sys", "kubelet"):
        (directory / name).mkdir()
    run = [sys.executable, "-m", "genericdp", "run", f"--config={point}", f"--root={directory}"]
    run.append(f"--kubelet-dir={directory}/kubelet")
    said = []
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", SCRIPT, "sh", source, point, *run],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        text=True,
    ) as daemon:
        assert daemon.stderr is not None
        for line in daemon.stderr:
            if line.startswith(("unshare:", "mount:")) and not os.environ.get("CI"):
                pytest.skip(f"nothing can be mounted here: {line}")
            if "active config" in line:
                daemon.send_signal(signal.SIGHUP)
            elif "the config on disk is active" in line:
                daemon.terminate()
            elif "subPath" in line:
                said.append(line)
    assert daemon.returncode == 0
    return said


def test_what_is_mounted_by_itself_is_told(short_directory: Path) -> None:
    source, point = short_directory / "..2026_11_21_14_00_00.12", short_directory / "a b.yaml"
    source.write_text(config("a"))
    point.touch()
    (said,) = _warnings(short_directory, source, point)
    assert f"{point} is mounted by itself (subPath?), so an update that replaces it" in said


def test_a_whole_volume_that_is_mounted_is_as_it_should_be(short_directory: Path) -> None:
    volume, point = ConfigMap(short_directory / "volume", {"a.yaml": config("a")}), "config"
    (short_directory / point).mkdir()
    assert _warnings(short_directory, volume.directory, short_directory / point) == []
