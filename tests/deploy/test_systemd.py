"""The units for nodes without containers, as far as can be seen without a systemd that runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SYSTEMD = CHECKOUT / "deploy/systemd"
EXPOSURE = {"genericdp.service": 1.8, "genericdp-cdi.service": 1.5}
"""What systemd 252 says of each unit; docs/how-to/install.md names it, too."""
ADDED = sorted((SYSTEMD / "genericdp.service.d-examples").glob("*.conf"))
UNITS = pytest.mark.parametrize("unit", EXPOSURE)


@UNITS
def test_it_comes_back_however_often_it_has_ended(unit: str) -> None:
    lines = (SYSTEMD / unit).read_text().splitlines()
    assert {"Restart=always", "StartLimitIntervalSec=0"} <= {*lines}


@pytest.fixture
def verified(tmp_path: Path) -> Path:
    """A directory with the units, whose program is one that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    for unit in EXPOSURE:
        text = (SYSTEMD / unit).read_text()
        text = re.sub(r"(?m)^ExecStart=\S+ .*", "ExecStart=/bin/true", text)
        (tmp_path / unit).write_text(text)
    return tmp_path


@pytest.mark.parametrize("added", [None, *ADDED], ids=lambda path: path.stem if path else "alone")
def test_systemd_understands_all_of_it(verified: Path, added: Path | None) -> None:
    if added:
        (verified / "genericdp.service.d").mkdir()
        shutil.copy(added, verified / "genericdp.service.d")
    done = _analyze("verify", "--man=no", *(verified / unit for unit in EXPOSURE))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@UNITS
def test_its_exposure_is_what_the_docs_say(unit: str, verified: Path) -> None:
    """So no right is added unnoticed."""
    done = _analyze("security", "--offline=true", "--no-pager", verified / unit)
    exposure = re.search(r"exposure level for \S+ ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) <= EXPOSURE[unit]
    assert f"exposure of {EXPOSURE[unit]}" in (CHECKOUT / "docs/how-to/install.md").read_text()


def _analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
