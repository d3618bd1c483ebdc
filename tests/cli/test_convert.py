"""``genericdp convert``: prints a valid config, or says what is wrong and where."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.printed import violations

if TYPE_CHECKING:
    from pathlib import Path

    Output = pytest.CaptureFixture[str]

SMARTER = "- devicematch: ^rtc0$\n  nummaxdevices: 20\n"
EXPECTED = """\
  # devicematch: ^rtc0$
  - name: smarter-devices/rtc0
    match:
      - path: /dev/rtc0
    replicas: 20
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "conf.yaml"
    file.write_text(SMARTER)
    return file


def test_it_prints_a_config_that_is_valid(config: Path, capsys: Output) -> None:
    assert main(["convert", "--from", "smarter", str(config)]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith(f"resources:\n{EXPECTED}")
    config.write_text(printed)
    assert main(["validate", str(config)]) == 0


def test_it_reads_stdin(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(SMARTER.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["convert", "--from", "smarter", "-"]) == 0
    assert capsys.readouterr().out.endswith(EXPECTED)


def test_it_writes_a_new_file_and_never_an_old_one(
    config: Path, tmp_path: Path, capsys: Output
) -> None:
    new = tmp_path / "new.yaml"
    command = ["convert", "--from", "smarter", str(config), "--to", str(new)]
    assert main(command) == 0
    assert new.read_text().endswith(EXPECTED)
    new.write_text("mine")
    assert main(command) == 2
    assert new.read_text() == "mine"
    assert "is not overwritten" in capsys.readouterr().err


def test_json_tells_what_is_offered_and_what_is_not(config: Path, capsys: Output) -> None:
    config.write_text(f"{SMARTER}- devicematch: ^off$\n  nummaxdevices: 0\n")
    assert main(["convert", "--from", "smarter", str(config), "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert violations("convert", said) == []
    assert said["resources"] == [{"name": "smarter-devices/rtc0"}]
    assert list(said["withheld"]) == ["smarter-devices/off"]
    assert EXPECTED in said["config"]


def test_mistakes_exit_2_and_print_nothing(config: Path, capsys: Output) -> None:
    config.write_text("- devicematch: a\n  nummaxdevices: many\n")
    assert main(["convert", "--from", "smarter", str(config)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"{config}:2:18: [0].nummaxdevices: expected a whole number from 0, not 'many'\n"
    )


def test_a_file_that_cannot_be_read_exits_2(tmp_path: Path, capsys: Output) -> None:
    assert main(["convert", "--from", "akri", str(tmp_path / "none")]) == 2
    assert "it does not exist" in capsys.readouterr().err


def test_the_peer_must_be_named(config: Path, capsys: Output) -> None:
    assert main(["convert", str(config)]) == 2
    assert main(["convert", "--from", "flux", str(config)]) == 2
    assert "squat" in capsys.readouterr().err
