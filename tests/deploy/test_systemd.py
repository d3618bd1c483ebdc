"""The unit for nodes without containers, as far as it can be told without a systemd that runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SYSTEMD = CHECKOUT / "deploy/systemd"
UNIT = SYSTEMD / "genericdp.service"
ADDED = sorted((SYSTEMD / "genericdp.service.d-examples").glob("*.conf"))
EXPOSURE = 1.8
"""What systemd 252 says of it; docs/operating.md names it, too."""


def _settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_it_has_no_capability_and_writes_two_folders() -> None:
    unit = _settings(UNIT.read_text())
    assert unit["CapabilityBoundingSet"] == [""]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["ReadWritePaths"] == ["/var/lib/kubelet"]
    assert unit["StateDirectory"] == ["genericdp"]
    assert unit["DevicePolicy"] == ["closed"]
    assert unit["PrivateDevices"] == ["no"]  # it must see the nodes
    assert "AF_NETLINK" in unit["RestrictAddressFamilies"][0]


def test_it_comes_back_whatever_ended_it() -> None:
    unit = _settings(UNIT.read_text())
    assert (unit["Restart"], unit["StartLimitIntervalSec"]) == (["always"], ["0"])
    assert unit["ExecReload"] == ["kill -HUP $MAINPID"]


@pytest.fixture
def verified(tmp_path: Path) -> Path:
    """A folder with the unit, whose program is one that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    text = re.sub(r"^ExecStart=\S+ .*", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE)
    (tmp_path / UNIT.name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("added", [None, *ADDED], ids=lambda path: path.stem if path else "alone")
def test_systemd_understands_all_of_it(verified: Path, added: Path | None) -> None:
    if added:
        (verified / "genericdp.service.d").mkdir()
        shutil.copy(added, verified / "genericdp.service.d")
    done = _analyze("verify", "--man=no", verified / UNIT.name)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_its_exposure_is_what_the_docs_say(verified: Path) -> None:
    done = _analyze("security", "--offline=true", "--no-pager", verified / UNIT.name)
    told = re.search(r"exposure level for \S+ ([\d.]+)", done.stdout)
    assert told, done.stdout + done.stderr
    assert float(told[1]) <= EXPOSURE
    assert f"exposure of {EXPOSURE}" in (CHECKOUT / "docs/operating.md").read_text()


def _analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
