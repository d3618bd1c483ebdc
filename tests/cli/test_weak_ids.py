"""``discover``, ``validate --root`` and ``init`` warn of IDs that can change at boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.hosts.hosts import Host
from tests.printed import resources_in
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path

Output = pytest.CaptureFixture[str]
WEAK = "  - {name: example.com/pps, match: [{udev: {subsystem: pps, name: pps2}}]}\n"
SEVERAL = "  - {name: example.com/pps, match: [{udev: {subsystem: pps}}]}\n"
STABLE = WEAK.replace("match", "id: $(attribute.name), match")
BOOT = "only as stable as the kernel's name, which can change at boot"
MEANT = "(write id: $(device.name) if the kernel's name is meant)"
NPU = """\
P: /devices/platform/npu.1.auto
E: DRIVER=RKNPU
E: SUBSYSTEM=platform
L: driver=../../../bus/platform/drivers/RKNPU

P: /devices/platform/npu.1.auto/drm/card0
N: dri/card0
E: DEVNAME=/dev/dri/card0
E: DEVTYPE=drm_minor
E: MAJOR=226
E: MINOR=0
E: SUBSYSTEM=drm
A: dev=226:0\\n
"""


class Asking:
    """A machine with sources of pulses, and a config."""

    def __init__(self, folder: Path) -> None:
        self.config, self.root = folder / "config.yaml", Host("pps").build(folder)

    def ask(self, command: str, config: str, *words: str, root: bool = True) -> int:
        self.config.write_text(HEAD + config)
        where = [f"--root={self.root}", "--node-name=n"] if root else []
        given = [str(self.config)] if command == "validate" else [f"--config={self.config}"]
        return main([command, *given, *where, *words])


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path)


def test_discover_names_them(asking: Asking, capsys: Output) -> None:
    assert asking.ask("discover", SEVERAL) == 0
    title, line = capsys.readouterr().out.splitlines()[-2:]
    assert title == "IDs that can change at boot:"
    assert line == f"  example.com/pps: the IDs pps0, pps1, pps2 are {BOOT} {MEANT}"


def test_discover_has_them_as_data(asking: Asking, capsys: Output) -> None:
    assert asking.ask("discover", WEAK, "-o", "json") == 0
    found = resources_in(capsys.readouterr().out)["example.com/pps"]
    warning = f"the ID pps2 is {BOOT} {MEANT}"
    assert found["weakIds"] == [
        {"ids": ["pps2"], "suggested": "$(device.name)", "warning": warning}
    ]


@pytest.mark.parametrize("command", ["discover", "validate"])
def test_an_id_of_the_config_is_no_warning(command: str, asking: Asking, capsys: Output) -> None:
    for config in (STABLE, STABLE.replace("attribute", "device")):
        assert asking.ask(command, config) == 0
        printed = capsys.readouterr()
        assert "boot" not in printed.out + printed.err


def test_validate_warns_at_the_resource(asking: Asking, capsys: Output) -> None:
    assert asking.ask("validate", WEAK) == 0
    warning, total = capsys.readouterr().out.splitlines()
    place = f"{asking.config}:4:5"
    assert warning == f"{place}: warning: example.com/pps: the ID pps2 is {BOOT} {MEANT}"
    assert total == "1 file, 1 resource: valid"
    assert asking.ask("validate", WEAK, "--strict") == 2
    assert asking.ask("validate", WEAK, "-o", "json") == 0
    capsys.readouterr()


def test_validate_reads_no_machine_that_is_not_named(
    asking: Asking, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asking.ask("validate", WEAK, "--strict", root=False) == 0
    assert capsys.readouterr().out == "1 file, 1 resource: valid\n"
    monkeypatch.setenv("GENERICDP_ROOT", str(asking.root))
    assert asking.ask("validate", WEAK, "--strict", root=False) == 2
    capsys.readouterr()


def test_validate_applies_no_config_with_a_problem(asking: Asking, capsys: Output) -> None:
    assert asking.ask("validate", WEAK.replace("match", "matches")) == 2
    assert "boot" not in capsys.readouterr().out


def test_a_difference_warns_of_the_new_config(asking: Asking, capsys: Output) -> None:
    old = asking.config.with_name("old.yaml")
    old.write_text(HEAD + SEVERAL)
    new = asking.config
    new.write_text(HEAD + WEAK)
    words = ["validate", "--diff", str(old), str(new), f"--root={asking.root}"]
    assert main(words) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {new}:4:5: example.com/pps: the ID pps2 is {BOOT}")


def test_a_config_to_start_from_says_what_to_write(tmp_path: Path, capsys: Output) -> None:
    machine, root = tmp_path / "machine.umockdev", tmp_path / "root"
    machine.write_text(NPU)
    loading.build(machine, root)
    assert main(["init", "--root", str(root)]) == 0
    printed = capsys.readouterr()
    why = "npu.1.auto is numbered in the order of discovery"
    assert f"  # The ID npu.1.auto-drm is {BOOT}: {why}: write id: " in printed.out
    assert printed.err.startswith("warning: example.com/rockchip-npu: the ID npu.1.auto-drm is")
