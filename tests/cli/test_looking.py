"""Needs, patience and limits of commands that read a machine. What they show: tests/cases."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.discover import look
from genericdp.cli.output import progress
from genericdp.cli.patience import MAX_HANGING, run_skipping_hangs
from genericdp.cli.snapshot import copy_of
from genericdp.config.load import load
from genericdp.devices.inventory import Inventory
from genericdp.errors import GenericdpError
from genericdp.explain.catalog import catalogue
from genericdp.host.calls import watched
from genericdp.host.root import Root

from tests.fixtures.hanging import HangingRoot
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.host.cache import HostCache
    from genericdp.host.pathwalk import Walk

    from tests.cli.asking import Ask

LAPTOP = Path(__file__).parents[1] / "fixtures/laptop"
NULL = "name: example.com/null, match: [{path: /dev/null}]"


def test_discover_works_as_a_user_without_root(ask: Ask) -> None:
    """In a process of its own, which gives root up where it has it."""
    for path in (ask.directory, ask.config(NULL)):
        path.chmod(0o755)
    program = """
import os, sys
from genericdp.cli import main
if os.geteuid() == 0:
    main()  # since afterwards the modules may not be readable any more
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main())
"""
    command = [sys.executable, "-c", program, "discover", "config.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    row = ["example.com/null", "null", "Healthy", "/dev/null", "-"]
    assert done.stdout.splitlines()[-1].split() == row


@pytest.mark.parametrize(
    ("directory", "complaint"),
    [
        ("", "has no directory dev (give --root a directory with dev/ and sys/ of a machine, or a"),
        ("file/dev", "file/dev does not exist (give --root"),
        ("file", "file: it is not a snapshot"),
        ("pipe", "pipe is neither a directory nor a file (give --root"),
    ],
)
def test_a_root_that_is_none_is_one_line(directory: str, complaint: str, ask: Ask) -> None:
    ask.write("file", "hello")
    os.mkfifo("pipe")
    printed = ask(f"discover {ask.config(NULL)} --root={ask.directory / directory}", code=2)
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert complaint in printed.err


def test_no_probe_is_run_unasked_and_a_line_says_who_does(ask: Ask) -> None:
    hint = "\nnot probed: genericdp probe config.yaml --node-name n runs the probes\n"
    for health, hints in (("{exec: {command: [/bin/touch, ran]}}", 1), ("", 0)):
        ask.config(f"{NULL}, health: [{health.replace('ran', str(ask.directory / 'ran'))}]")
        for words in ("discover", "explain /dev/null", "allocate example.com/null=1"):
            printed = ask(f"{words} --config=config.yaml --node-name=n")
            assert (printed.out.count(hint), printed.err) == (hints, "")
    assert not Path("ran").exists()


def logged(ask: Ask, option: str, path: Path) -> list[str]:
    """Return what ``run`` logs of a path, until it ends since there is no such policy."""
    words = f"run --config=c.yaml --root={LAPTOP} --policy=no.yaml --kubelet-dir=."
    err = ask(words, f"--{option}={path}", code=2).err
    return [line for line in err.splitlines() if str(path) in line and " error " not in line]


def test_what_is_no_socket_is_a_warning_and_one_that_may_come_is_none(
    short_directory: Path, ask: Ask
) -> None:
    path = short_directory / "pod-resources.sock"
    (line,) = logged(ask, "pod-resources", path)
    assert " info " in line
    assert "does not exist yet" in line
    (line,) = logged(ask, "pod-resources", Path(os.devnull))
    assert " warning " in line
    assert "is not a socket" in line
    (line,) = logged(ask, "pod-resources", Path(f"{os.devnull}/kubelet.sock"))
    assert " warning " in line
    assert "not a directory" in line


@pytest.mark.parametrize(("mode", "who"), [(0o755, ""), (0o775, "its group"), (0o1777, "anybody")])
def test_a_state_directory_that_others_can_write_to_is_a_warning(
    mode: int, who: str, ask: Ask
) -> None:
    state = ask.directory / "state"
    state.mkdir()
    state.chmod(mode)
    lines = [line for line in logged(ask, "state-dir", state) if "--state-dir" in line]
    assert [f"{who} can write to {state}" in line for line in lines] == [True] * bool(who)


def test_a_state_directory_that_is_none_is_an_error_in_the_log(ask: Ask) -> None:
    words = f"run --config=c.yaml --root={LAPTOP} --policy=no.yaml --kubelet-dir=."
    err = ask(words, f"--state-dir={os.devnull}", code=2).err
    assert f"error   --state-dir: {os.devnull} is not a directory" in err


TTY = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/1-1.1:1.0/ttyUSB0/tty/ttyUSB0"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[HangingRoot]:
    loading.build(loading.path_of("serial-adapters"), tmp_path)
    root = HangingRoot(tmp_path)
    yield root
    root.answer()


def found(host: HostCache) -> set[str]:
    groups = catalogue(Inventory(host))
    runs = [run for group in groups for run in (group.itself, *group.members) if run]
    return {entry.path for run in runs for entry in run.entries}


def test_a_file_that_hangs_concerns_its_device_alone(
    root: HangingRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mistake is back if ``guarded`` does not refuse what is known to hang."""
    root.hanging = {f"{TTY}/uevent"}
    assert run_skipping_hangs(root, found, look_seconds=0.3) >= {"/dev/ttyUSB1", "/dev/ttyUSB2"}
    said = capsys.readouterr().err.splitlines()
    assert said  # for each of the paths that lead to it
    assert all(line.endswith("/uevent' timed out; continuing without it") for line in said)


def test_discover_shows_what_it_could_not_look_at(root: HangingRoot, ask: Ask) -> None:
    globs = ("/dev/ttyUSB*", "/dev/bus/usb/*/*")
    names = [f"name: a/b{i}, match: [{{path: '{glob}'}}]" for i, glob in enumerate(globs)]
    resources = load([ask.config(*names)]).resources
    root.hanging = {"/dev/ttyUSB1"}
    _, found = run_skipping_hangs(
        root, lambda host: look(resources, host, "n", root), look_seconds=0.3
    )
    hanging = {"path": "/dev/ttyUSB*", "code": "hanging", "reason": "reading it timed out"}
    assert [match["notOffered"] for match in found] == [[hanging], [hanging]]


def test_there_is_an_end_of_leaving_out(root: HangingRoot) -> None:
    files = [f"{TTY}/attribute{number}" for number in range(MAX_HANGING + 1)]
    root.hanging = {*files}
    with pytest.raises(GenericdpError, match="too much of this host does not answer"):
        run_skipping_hangs(root, lambda host: [*map(host.text, files)], look_seconds=0.05)


class SlowRoot(Root):
    """Each look takes a moment, as on a node that is short of processors."""

    def walk(self, path: str, *, past_missing: bool = False) -> Walk:
        watched(lambda _: time.sleep(0.01))(path)  # noqa: TID251 -- slow, not hanging
        return super().walk(path, past_missing=past_missing)


def test_a_scan_that_goes_on_takes_as_long_as_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev").mkdir()
    for number in range(100):
        (tmp_path / f"dev/ttyUSB{number}").touch()
    root = SlowRoot(tmp_path)
    seen = run_skipping_hangs(root, lambda host: host.paths("/dev/ttyUSB*"), look_seconds=0.5)
    assert (len(seen), capsys.readouterr().err) == (100, "")


def test_a_slow_operation_says_again_and_again_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[str] = []
    often = threading.Event()

    def sentence() -> str:
        asked.append(f"{len(asked)} of 9")
        if len(asked) == 3:
            often.set()
        return asked[-1]

    with progress(sentence, quiet_seconds=0.001):
        assert often.wait(60)
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", asked)


def test_a_machine_that_takes_too_long_to_read_says_what_to_do(root: HangingRoot) -> None:
    with pytest.raises(GenericdpError, match=r"more than 0 s: .* now /sys/.*give --root that"):
        copy_of(root, max_seconds=0.0)
    assert copy_of(root).entries
