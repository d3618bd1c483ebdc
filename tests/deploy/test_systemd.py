"""The units for nodes without containers, as far as can be seen without a systemd that runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SYSTEMD = CHECKOUT / "deploy/systemd"
UNIT = SYSTEMD / "genericdp.service"
CDI_UNIT = SYSTEMD / "genericdp-cdi.service"
UNITS = pytest.mark.parametrize("unit", [UNIT, CDI_UNIT], ids=lambda unit: unit.stem)
ADDED = sorted((SYSTEMD / "genericdp.service.d-examples").glob("*.conf"))
EXPOSURE = {UNIT: 1.8, CDI_UNIT: 1.5}
"""What systemd 252 says of them; docs/how-to/install.md names it, too."""


def _settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_it_has_no_capability_and_writes_two_directories() -> None:
    unit = _settings(UNIT.read_text())
    assert unit["CapabilityBoundingSet"] == [""]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["ReadWritePaths"] == ["/var/lib/kubelet"]
    assert unit["StateDirectory"] == ["genericdp"]
    assert unit["DevicePolicy"] == ["closed"]
    assert unit["PrivateDevices"] == ["no"]  # it must see the nodes
    assert "AF_NETLINK" in unit["RestrictAddressFamilies"][0]


def test_without_kubernetes_it_writes_cdi_specs_and_nothing_else() -> None:
    unit, kubelets = _settings(CDI_UNIT.read_text()), _settings(UNIT.read_text())
    assert unit["RuntimeDirectory"] == ["cdi"]
    assert unit["RuntimeDirectoryPreserve"] == ["yes"]  # runtimes need the specs when it is stopped
    assert not unit.keys() & {"ReadWritePaths", "StateDirectory"}
    assert unit["RestrictAddressFamilies"] == ["AF_UNIX AF_NETLINK"]
    confining = {name for name in kubelets if name.startswith(("Protect", "Private", "SystemCall"))}
    for name in confining | {"CapabilityBoundingSet", "DevicePolicy", "NoNewPrivileges"}:
        assert unit[name] == kubelets[name]


@UNITS
def test_it_comes_back_whatever_ended_it(unit: Path) -> None:
    settings = _settings(unit.read_text())
    assert (settings["Restart"], settings["StartLimitIntervalSec"]) == (["always"], ["0"])
    assert settings["ExecReload"] == ["kill -HUP $MAINPID"]


@pytest.fixture
def verified(tmp_path: Path) -> Path:
    """A directory with the units, whose program is one that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    for unit in (UNIT, CDI_UNIT):
        text = re.sub(r"(?m)^ExecStart=\S+ .*", "ExecStart=/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("added", [None, *ADDED], ids=lambda path: path.stem if path else "alone")
def test_systemd_understands_all_of_it(verified: Path, added: Path | None) -> None:
    if added:
        (verified / "genericdp.service.d").mkdir()
        shutil.copy(added, verified / "genericdp.service.d")
    done = _analyze("verify", "--man=no", verified / UNIT.name)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_understands_the_unit_for_cdi(verified: Path) -> None:
    done = _analyze("verify", "--man=no", verified / CDI_UNIT.name)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@UNITS
def test_its_exposure_is_what_the_docs_say(unit: Path, verified: Path) -> None:
    done = _analyze("security", "--offline=true", "--no-pager", verified / unit.name)
    exposure = re.search(r"exposure level for \S+ ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) <= EXPOSURE[unit]
    assert f"exposure of {EXPOSURE[unit]}" in (CHECKOUT / "docs/how-to/install.md").read_text()


def _analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
