"""What does not answer is left out, and said once."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from genericdp.cli.patience import MOST_HANGING, patiently
from genericdp.devices.inventory import Inventory
from genericdp.devices.suggesting import catalogue
from genericdp.errors import GenericdpError
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from genericdp.cli.patience import Looking
    from genericdp.host.facts import HostFacts
    from genericdp.host.root import Root

TTY = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/1-1.1:1.0/ttyUSB0/tty/ttyUSB0"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return loading.build(loading.path_of("serial-adapters"), tmp_path)


@pytest.fixture
def make_pipe(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Replace a file by a pipe that nobody writes to: reading it ends with the test."""
    pipes: list[Path] = []

    def make(path: str) -> None:
        (tmp_path / path).unlink(missing_ok=True)
        os.mkfifo(tmp_path / path)
        pipes.append(tmp_path / path)

    yield make
    # Open at both ends, so that this does not wait itself; whoever reads gets the end.
    while readers := [one for one in threading.enumerate() if one.name == "looking"]:
        for pipe in pipes:
            os.close(os.open(pipe, os.O_RDWR))
            with pipe.open("r+b", buffering=0) as both:
                both.write(b"\n")
        readers[0].join(0.05)


def found(look: Looking, facts: HostFacts) -> set[str]:
    groups = catalogue(Inventory(look, facts))
    runs = [run for group in groups for run in (group.itself, *group.members) if run]
    return {entry.path for run in runs for entry in run.entries}


@pytest.mark.parametrize(
    "path", [f"{TTY}/uevent", "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/devnum"]
)
def test_a_file_that_hangs_concerns_its_device_alone(
    path: str, root: Root, make_pipe: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The mistake is back if ``_watched`` does not refuse what is known to hang."""
    make_pipe(path)
    assert patiently(root, found, look_seconds=0.2) >= {"/dev/ttyUSB1", "/dev/ttyUSB2"}
    said = capsys.readouterr().err.splitlines()
    name = path.rpartition("/")[2]
    assert said  # for each of the paths that lead to it
    assert all(line.endswith(f"/{name}' does not end: going on without it") for line in said)


def test_there_is_an_end_of_leaving_out(
    root: Root, make_pipe: Callable[[str], None], tmp_path: Path
) -> None:
    for number in range(MOST_HANGING + 1):
        make_pipe(f"{TTY}/attribute{number}")

    def read_all(_: Looking, facts: HostFacts) -> None:
        for number in range(MOST_HANGING + 1):
            facts.text(f"/{TTY}/attribute{number}")

    with pytest.raises(GenericdpError, match="too much of this host does not answer"):
        patiently(root, read_all, look_seconds=0.05)


def test_what_the_work_raises_is_raised(root: Root) -> None:
    def work(_: Looking, __: HostFacts) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        patiently(root, work)
