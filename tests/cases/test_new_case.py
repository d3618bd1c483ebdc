"""``python -m tools.new_case``: from a snapshot to a case of what matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main as genericdp
from tools.new_case import main, needed

from tests.cases import running
from tests.cases.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

STEP = "genericdp explain /dev/ttyUSB0"
CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match: [{udev: {subsystem: tty}, hardware: {usb: {vendor: "0403"}}}]
"""


@pytest.fixture
def report(tmp_path: Path) -> list[str]:
    """Return what comes with a bug report: a snapshot and a config."""
    description = tmp_path / "machine.yaml"
    description.write_text("{host: sticks, nodes: {fuse: 10:229}, links: {/dev/fd: /proc/self/fd}}")
    machine, snapshot, config = (tmp_path / name for name in ("root", "node.tar.gz", "serial.yaml"))
    Machine(machine, description)
    config.write_text(CONFIG)
    assert genericdp(["snapshot", "--root", str(machine), str(snapshot)]) == 0
    return [str(snapshot), str(config), "A stick is found by its vendor."]


def test_a_case_has_what_matters_and_prints_what_the_machine_does(
    report: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(tmp_path / "root")
    genericdp(["explain", "--root", root, "--config", report[1], "/dev/ttyUSB0"])
    of_machine = capsys.readouterr().out
    case = tmp_path / "case"
    assert main([str(case), *report, STEP]) == 0
    transcript = (case / "expect.txt").read_text()
    assert capsys.readouterr().out.startswith(transcript)
    assert running.run(case) == transcript
    of_case = transcript.partition(f"$ {STEP}\n")[2]
    assert of_case.replace("config.yaml", report[1]) == of_machine
    described = (case / "machine.yaml").read_text()
    assert "0403" in described
    assert "fuse" not in described
    assert "/dev/fd" not in described


@pytest.mark.parametrize(
    ("which", "why"),
    [(0, "it is not a snapshot"), (1, "No such file"), (3, "there is no command nothing")],
)
def test_what_is_no_report_is_refused(
    which: int, why: str, report: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report.append(STEP)
    report[which] = ("/dev/null", "/nothing", "", "nothing")[which]
    with pytest.raises(SystemExit):
        main([str(tmp_path / "case"), *report])
    assert why in capsys.readouterr().err
    assert not (tmp_path / "case").exists()


def test_what_is_needed_together_stays_together() -> None:
    parts = [(str(number),) for number in range(100)]
    together = [parts[3], parts[50], parts[99]]
    assert needed(parts, lambda some: set(together) <= set(some)) == together
    assert needed(parts, lambda some: True) == []
