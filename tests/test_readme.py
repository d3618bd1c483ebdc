"""What the README tells someone to do who has one USB serial stick, done on a machine with four."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from genericdp.cli import main
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
(SECTION,) = re.findall(
    r"^## A USB serial stick\n(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
COPY, *COMMANDS = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[0].splitlines()
MATCH, POD = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
INLINE = re.findall(r"`genericdp ([^`]*)`", SECTION)
STICK = "/dev/serial/by-id/usb-FTDI_FT230X_Basic_UART_DN05FSZ9-if00-port0"

Output = pytest.CaptureFixture[str]


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> Callable[[str], str]:
    """What a command prints, in a folder with what was copied."""
    root = tmp_path / "root"
    loading.build(loading.path_of("serial-adapters"), root)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "200")
    copy, source, target = shlex.split(COPY)
    assert copy == "cp"
    shutil.copy(ROOT / source, target)

    def told(line: str) -> str:
        capsys.readouterr()
        argv = shlex.split(line.removeprefix("genericdp "), comments=True)
        main([*argv, "--root", str(root)])
        return capsys.readouterr().out

    return told


def test_the_stick_is_offered_and_given(run: Callable[[str], str]) -> None:
    discover, allocate = COMMANDS
    assert STICK in run(discover)
    given = run(allocate)
    (limits,) = (one["resources"]["limits"] for one in yaml.safe_load(POD)["spec"]["containers"])
    assert [f"{name}=1" for name in limits] == [shlex.split(allocate, comments=True)[-1]]
    (command,) = (one["command"] for one in yaml.safe_load(POD)["spec"]["containers"])
    assert f" {command[-1]} (rw) from /dev/" in given


def test_what_is_not_there_is_explained(run: Callable[[str], str]) -> None:
    _, explain, everything = INLINE
    assert run(explain).startswith("/dev/ttyUSB0 is offered")
    lines = [line.strip() for line in run(everything).splitlines()]
    entries = [line.partition("  #")[0] for line in lines if line.startswith("- ")]
    assert entries
    config = Path("stick.yaml")
    text = config.read_text()
    for entry in entries:
        if entry.startswith("- {udev: {subsystem: tty}"):
            config.write_text(_with_match(text, f"    match:\n      {entry}\n"))
            assert "Healthy" in run("discover --config stick.yaml")


def test_what_init_writes_does_the_same(run: Callable[[str], str]) -> None:
    init, *_ = INLINE
    run(init)
    discover, allocate = (one.replace("stick.yaml", init.split()[-1]) for one in COMMANDS)
    assert run(discover).count("Healthy") == 4
    assert " /dev/serial0 (rw) from /dev/" in run(allocate)


def test_a_match_of_ones_own_offers_only_that(run: Callable[[str], str]) -> None:
    config = Path("stick.yaml")
    config.write_text(_with_match(config.read_text(), MATCH))
    found = run(COMMANDS[0])
    assert STICK in found
    assert found.count("Healthy") == 3
    assert "1a86" not in found


def _with_match(config: str, match: str) -> str:
    """Put a match in the place of that of the example, as one would in an editor."""
    changed, places = re.subn(r"    match:\n(?:      .*\n)+", lambda _: match, config)
    assert places == 1
    return changed
