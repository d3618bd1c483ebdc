"""Each machine of the testbeds with a config for it: what is offered, and what containers get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from genericdp.cli import main
from tests.printed import resources_in
from tests.testbeds import loading

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Case:
    """A machine, and the config that is applied to it."""

    machine: str
    root: Path

    @property
    def config(self) -> Path:
        return FOLDER / "configs" / f"{self.machine.removesuffix('-replugged')}.yaml"

    def told(self, capsys: pytest.CaptureFixture[str], *command: str) -> str:
        """Run a command and give what it prints, its failure too."""
        where = ("--config", str(self.config), "--root", str(self.root), "--node-name", "node-1")
        main([*command, *where])
        out, err = capsys.readouterr()
        return out + err

    def expect(self, what: str, text: str) -> None:
        """Compare with ``expected/MACHINE.WHAT``."""
        file = FOLDER / "expected" / f"{self.machine}.{what}"
        text = text.replace(str(self.root), "ROOT").replace(str(self.config), self.config.name)
        assert text == file.read_text()


@pytest.fixture(params=loading.NAMES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A machine of two NUMA nodes."""
    machine: str = request.param
    loading.build(loading.path_of(machine), tmp_path)
    nodes = tmp_path / "sys/devices/system/node"
    nodes.mkdir(parents=True)
    (nodes / "online").write_text("0-1\n")
    return Case(machine, tmp_path)


def test_discover_tells_what_is_offered_and_why_not_more(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.expect("discover", case.told(capsys, "discover"))


def test_allocate_gives_what_a_container_with_all_devices_of_a_resource_gets(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    found = resources_in(case.told(capsys, "discover", "-o", "json"))
    counts = {
        name: sum(one["state"] == "Healthy" for one in resource["devices"])
        for name, resource in found.items()
    }
    answers = [
        case.told(capsys, "allocate", f"{name}={count}") for name, count in counts.items() if count
    ]
    case.expect("allocate", "".join(answers))


def test_every_machine_has_its_files_and_no_file_is_left_over() -> None:
    expected = {f"{name}.{what}" for name in loading.NAMES for what in ("discover", "allocate")}
    assert {file.name for file in (FOLDER / "expected").iterdir()} == expected
    configs = {f"{name.removesuffix('-replugged')}.yaml" for name in loading.NAMES}
    assert {file.name for file in (FOLDER / "configs").iterdir()} == configs
