"""Every command with a stdout or a path that is not what it should be: a line and an exit code.

The daemons are not among them: they go on without a config, and print nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.command_line import parser_of
from genericdp.cli.commands import COMMANDS
from genericdp.cli.parser import CONFIG_FILE, PATHS

from tests.cases.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.asking import Ask

REPOSITORY = Path(__file__).parents[2]
FUSE = str(REPOSITORY / "examples/configs/fuse.yaml")
COMMANDS_THAT_END = [name for name, command in COMMANDS.items() if not command.is_daemon]
GIVEN = {
    "validate": [FUSE],
    "explain": [FUSE, "/dev/fuse"],
    "allocate": [FUSE, "example.com/fuse=1"],
    "simulate": [FUSE, "--once"],
    "snapshot": ["-"],
    "convert": [f"{REPOSITORY}/tests/convert/peers/squat/config.yaml", "--from=squat"],
    "claims release": ["2f0c9b7e-1b1c-4c5c-9f4e-0f3d0a5f7a11", "--yes"],
    "deviceclasses": [f"{REPOSITORY}/examples/configs/serial-dra.yaml"],
    "completion": ["bash"],
    "discover": [FUSE],
    "probe": [FUSE],
    "cdi generate": [FUSE],
}
"""What each command needs."""
DEFAULTS = {
    "--root": "machine",
    "--cdi-dir": "machine",
    "--kubelet-root": "machine",
    "--address": "127.0.0.1:1",
}
FAILING = ("status", "claims release")
"""They have nothing to print, which is a line on stderr."""
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


def words_of(name: str, word: str = "", place: str = "") -> list[str]:
    """Return a command line that works but for one argument."""
    given = GIVEN.get(name, [])
    if word in {"FILE", "PATH", "FILE.tar.gz"}:
        given = [place, *given[1:]]
    elif word == "--config":
        given = [f"--config={place}", *given[1:]]
    elif word:
        given = [*given, f"{word}={place}"]
    known = COMMANDS[name].arguments
    more = [f"{key}={text}" for key, text in DEFAULTS.items() if key in known and key != word]
    return [*name.split(), *given, *more]


@pytest.fixture(autouse=True)
def _machine(ask: Ask) -> None:
    tree = Machine(ask.directory / "machine")
    tree.node("fuse", "10:229")
    tree.write("sys/devices/x", "")
    os.mkfifo("fifo")
    Path("empty").touch()
    Path("directory").mkdir()
    shutil.copy(FUSE, KINDS[-1])


@pytest.fixture
def print_to(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Make a descriptor the stdout of what follows."""
    kept = os.dup(1)  # a command that cannot print gives this one up
    with ExitStack() as stack:

        def print_to(descriptor: int) -> None:
            # What could not be printed is still in the buffer when it is closed.
            stack.enter_context(suppress(OSError))
            stdout = stack.enter_context(os.fdopen(descriptor, "w"))
            monkeypatch.setattr(sys, "stdout", stdout)

        yield print_to
        monkeypatch.undo()
    os.dup2(kept, 1)
    os.close(kept)


@pytest.mark.parametrize("name", COMMANDS_THAT_END)
def test_a_stdout_that_cannot_be_written_is_a_line_and_exit_code_1(
    name: str, print_to: Callable[[int], None], ask: Ask
) -> None:
    print_to(os.open("/dev/full", os.O_WRONLY))
    last = ask("", *words_of(name), code=1).err.splitlines()[-1]
    said = "genericdp: stdout cannot be written: no space left on device"
    assert (last == said) == (name not in FAILING)


@pytest.mark.parametrize("name", [name for name in COMMANDS_THAT_END if name not in FAILING])
def test_a_reader_that_goes_away_is_no_failure(
    name: str, print_to: Callable[[int], None], ask: Ask
) -> None:
    """As in ``genericdp schema | head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    print_to(writer)
    assert ask("", *words_of(name)).err == ""


@pytest.mark.parametrize("kind", KINDS, ids=ascii)
@pytest.mark.parametrize(("name", "word"), ARGUMENTS)
def test_a_path_to_something_else_is_told_by_its_name(
    name: str, word: str, kind: str, ask: Ask
) -> None:
    code = CODES.get((name, word, kind), 2)
    said = "".join(ask("", *words_of(name, word, kind), code=code))
    if code:
        shown = {kind, r"\xff\xfe.yaml", "no resource of the config has servedBy: dra"}
        assert any(path in line for line in said.splitlines() for path in shown), said
