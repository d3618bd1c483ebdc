"""Every command with a stdout or a path that is not what it should be: a line and an exit code.

The daemons are not among them: they go on without a config, and print nothing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from genericdp.cli.command_line import parser_of
from genericdp.cli.commands import COMMANDS
from genericdp.cli.parser import CONFIG_FILE, PATHS
from genericdp.printing import printable

from tests.cases.machine import Machine
from tests.cli.forked import CLOSED, GONE, Case, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
FUSE = str(REPOSITORY / "examples/configs/fuse.yaml")
COMMANDS_THAT_END = [name for name, command in COMMANDS.items() if not command.is_daemon]
PRINTING = [*COMMANDS_THAT_END, "--help", "--version", "run --help"]
GIVEN = {
    "validate": [FUSE],
    "explain": [FUSE, "/dev/fuse"],
    "allocate": [FUSE, "example.com/fuse=1"],
    "simulate": [FUSE, "--once"],
    "snapshot": ["-"],
    "convert": ["--from=squat", str(REPOSITORY / "tests/convert/peers/squat/config.yaml")],
    "claims release": ["2f0c9b7e-1b1c-4c5c-9f4e-0f3d0a5f7a11", "--yes"],
    "deviceclasses": [str(REPOSITORY / "examples/configs/serial-dra.yaml")],
    "completion": ["bash"],
    "discover": [FUSE],
    "probe": [FUSE],
    "cdi generate": [FUSE],
}
"""What each command needs."""
NOTHING_TO_PRINT = {
    "status": "nothing listens at 127.0.0.1:1: is the daemon run with --listen?",
    "claims release": "there is no record of a claim",
}
KINDS = ("fifo", "empty", "directory", "\udcff\udcfe.yaml")
"""The last is a config, whose name is not UTF-8."""


def path_arguments() -> Iterator[tuple[str, str]]:
    """Yield each argument that is a path with its command; shared options but once."""
    seen = set()
    for name in COMMANDS_THAT_END:
        for action in parser_of(name).arguments:
            word = action.option_strings[-1] if action.option_strings else str(action.metavar)
            is_path = action.type in PATHS or action.dest == CONFIG_FILE
            if is_path and (word, action.help) not in seen:
                yield name, word
                if action.option_strings:
                    seen.add((word, action.help))


ARGUMENTS = list(path_arguments())
TAKES_A_DIRECTORY = (("claims", "--kubelet-root"), ("cdi list", "--cdi-dir"))
CODES = {
    **{(name, word, KINDS[-1]): 0 for name, word in ARGUMENTS if word in {"FILE", "PATH"}},
    ("validate", "--config", KINDS[-1]): 0,
    # One writes a new file, the other reads the config of another plugin.
    **{(name, "FILE", KINDS[-1]): 2 for name in ("init", "convert")},
    ("deviceclasses", "FILE", KINDS[-1]): 1,
    ("cdi generate", "--output", "directory"): 0,
    **{(*place, kind): int(kind != "directory") for place in TAKES_A_DIRECTORY for kind in KINDS},
}
"""The exit codes that are not 2."""


def argv_of(name: str, machine: Path, word: str = "", place: str = "") -> tuple[str, ...]:
    """Return a command line that works but for one argument."""
    given = GIVEN.get(name, [])
    if word in {"FILE", "PATH", "FILE.tar.gz", "--config"}:
        given = [f"--config={place}" if word == "--config" else place, *given[1:]]
        if name == "convert":
            given = ["--from=squat", place]
    elif word:
        given = [*given, f"{word}={place}"]
    known = {
        "--root": machine,
        "--cdi-dir": machine,
        "--kubelet-root": machine,
        "--address": "127.0.0.1:1",
    }
    words = COMMANDS[name].arguments if name in COMMANDS else ()
    more = (f"{key}={text}" for key, text in known.items() if key in words and key != word)
    return (*name.split(), *given, *more)


class Runs(NamedTuple):
    """The results of all command lines."""

    directory: Path
    machine: Path
    found: Mapping[Case, tuple[int, str]]

    def to(self, name: str, stdout: str) -> tuple[int, str]:
        return self.found[Case(argv_of(name, self.machine), stdout)]

    def at(self, name: str, word: str, kind: str) -> tuple[int, str]:
        return self.found[Case(argv_of(name, self.machine, word, str(self.directory / kind)))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    directory, machine = tmp_path_factory.mktemp("places"), tmp_path_factory.mktemp("machine")
    tree = Machine(machine)
    tree.node("fuse", "10:229")
    tree.write("sys/devices/x", "")
    os.mkfifo(directory / KINDS[0])
    (directory / KINDS[1]).touch()
    (directory / KINDS[2]).mkdir()
    shutil.copy(FUSE, directory / KINDS[3])
    cases = [
        Case(argv_of(name, machine), stdout)
        for name in PRINTING
        for stdout in (CLOSED, GONE, "/dev/full")
    ]
    cases += [
        Case(argv_of(name, machine, word, str(directory / kind)))
        for name, word in ARGUMENTS
        for kind in KINDS
    ]
    return Runs(directory, machine, run(cases, directory))


@pytest.mark.parametrize("name", PRINTING)
def test_a_stdout_that_cannot_be_written_is_a_line_and_exit_code_1(name: str, runs: Runs) -> None:
    closed = "genericdp: stdout is closed: there is nowhere to print to\n"
    assert runs.to(name, CLOSED) == (1, closed)
    code, printed = runs.to(name, "/dev/full")
    said = NOTHING_TO_PRINT.get(name, "stdout cannot be written: no space left on device")
    assert code == 1
    assert printed.splitlines()[-1].startswith(f"genericdp: {said}")


@pytest.mark.parametrize("name", PRINTING)
def test_a_reader_that_goes_away_is_no_failure(name: str, runs: Runs) -> None:
    """As in ``genericdp schema | head -1``."""
    if name not in NOTHING_TO_PRINT:
        assert runs.to(name, GONE) == (0, "")


@pytest.mark.parametrize("kind", KINDS, ids=ascii)
@pytest.mark.parametrize(("name", "word"), ARGUMENTS)
def test_a_path_to_something_else_is_told_by_its_name(
    name: str, word: str, kind: str, runs: Runs
) -> None:
    code, printed = runs.at(name, word, kind)
    assert (code, "Traceback" in printed) == (CODES.get((name, word, kind), 2), False), printed
    if code:
        shown = {printable(kind), r"\xff\xfe.yaml", "no resource of the config has servedBy: dra"}
        assert any(path in line for line in printed.splitlines() for path in shown), printed
