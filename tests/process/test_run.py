from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.process.run import Commands

from tests.process.scripts import ENV, children, held, shell
from tests.resource_limits import spare_descriptors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def commands() -> AsyncIterator[Commands]:
    async with Commands() as commands:
        yield commands
        assert children() == []


async def test_a_command_that_succeeds(commands: Commands) -> None:
    outcome = await shell(commands, "echo one; echo two >&2; sleep 0.1")
    assert (outcome.ok, outcome.reason, outcome.output) == (True, "", "one\ntwo\n")
    assert 0.1 <= outcome.seconds < 30


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "exited with 3"),
        ("echo one; echo ' no carrier '; echo; exit 1", "exited with 1: no carrier"),
        ("echo bad >&2; exit 255", "exited with 255: bad"),
        ("echo itself; exit 126", "exited with 126: itself"),
        ("exit 127", "exited with 127"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("echo dying; kill -KILL $$", "killed by SIGKILL: dying"),
        ("kill -40 $$", "killed by signal 40"),
        ("printf '\\033[31mred\\377'; exit 1", "exited with 1: \\x1b[31mred\\xff"),
        ("read line; exit 4", "exited with 4"),
        ("seq 100000; exit 1", "exited with 1: 100000"),
        ("printf '%500s' x; exit 1", "exited with 1: x"),
    ],
)
async def test_a_command_that_fails_is_told_with_its_last_line(
    commands: Commands, script: str, reason: str
) -> None:
    outcome = await shell(commands, script)
    assert (outcome.ok, outcome.reason) == (False, reason)


async def test_a_command_that_takes_too_long(commands: Commands) -> None:
    outcome = await shell(commands, "sleep 60", timeout_seconds=0.2)
    assert (outcome.ok, outcome.reason) == (False, "took longer than 0.2 s")
    assert 0.2 <= outcome.seconds < 30


def program(path: Path, content: str | bytes, mode: int = 0o755) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return str(path)


def loaderless(path: Path) -> str:
    """A copy of a program whose ELF header names a loader that does not exist."""
    content = Path("/bin/true").read_bytes()
    start = content.find(b"/lib64/ld-linux")
    if start < 0:
        pytest.skip("/bin/true needs no /lib64/ld-linux")
    return program(path, content[:start] + b"/lib63" + content[start + 6 :])


async def test_a_command_that_cannot_be_started_is_told_why(
    commands: Commands, tmp_path: Path
) -> None:
    no_file = "No such file or directory"
    nul = [str(tmp_path), "\0"]
    for argv, reason in [
        ([str(tmp_path / "nothing")], no_file),
        ([program(tmp_path / "plain", "#!/bin/sh\n", 0o644)], "it is not executable"),
        ([str(tmp_path)], "it is a directory"),
        ([program(tmp_path / "below", "") + "/a"], "Not a directory"),
        ([program(tmp_path / "shell", "#! /no/sh -e\n")], "its interpreter does not exist: /no/sh"),
        ([program(tmp_path / "cr", "#!/bin/sh\r\n")], "its interpreter does not exist: /bin/sh\\r"),
        (
            [loaderless(tmp_path / "elf")],
            "the loader that it needs does not exist: /lib63/ld-linux-x86-64.so.2",
        ),
        (["/bin/true", "x" * 3_000_000], "Argument list too long"),
        (nul, "an argument or a variable of its environment holds a NUL"),
    ]:
        outcome = await commands.run(argv, ENV, timeout_seconds=5)
        assert (outcome.ok, outcome.reason) == (False, f"cannot be started: {reason}")


async def test_a_script_without_a_first_line_is_run_by_the_shell(
    commands: Commands, tmp_path: Path
) -> None:
    """As every shell, env and sudo do."""
    script = program(tmp_path / "text", "echo $1; exit 3\n")
    outcome = await commands.run([script, "word"], ENV, timeout_seconds=5)
    assert outcome.reason == "exited with 3: word"


async def test_a_program_that_is_being_written_is_run_when_that_is_over(
    commands: Commands, tmp_path: Path
) -> None:
    path = program(tmp_path / "check", Path("/bin/true").read_bytes())
    with open(path, "r+b"):
        outcome = await commands.run([path], ENV, timeout_seconds=5)
        assert outcome.reason.startswith("exited with 126: ")
        assert outcome.reason.endswith(": Text file busy")
    assert (await commands.run([path], ENV, timeout_seconds=5)).ok


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_without_descriptors_a_command_has_failed_and_nothing_is_left(
    commands: Commands,
) -> None:
    before, reasons = held(), set()
    for count in range(12):
        with spare_descriptors(count):
            reasons.add((await commands.run(["/bin/true"], ENV, timeout_seconds=5)).reason)
    gc.collect()
    assert reasons == {"", "cannot be started: Too many open files"}
    assert held() == before
    assert (await commands.run(["/bin/true"], ENV, timeout_seconds=5)).ok


async def test_a_command_finds_nothing_but_what_it_is_given(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "open").touch()
    code = (
        "import os, resource as r, sys, time\n"
        # They come right after the start; this is the last one.
        "while r.getrlimit(r.RLIMIT_AS)[1] < 0: time.sleep(0.01)\n"
        "print(dict(os.environ), os.getcwd(), sys.stdin.read() == '')\n"
        "print(sorted(os.listdir('/proc/self/fd'))[:-1], os.readlink('/proc/self/fd/0'))\n"
        "print(*map(r.getrlimit, [r.RLIMIT_CORE, r.RLIMIT_NOFILE, r.RLIMIT_AS]))\n"
        "print('NoNewPrivs:\\t1\\n' in open('/proc/self/status'), os.getsid(0) == os.getpid())"
    )
    leaky = os.open(tmp_path / "open", os.O_RDONLY)
    os.set_inheritable(leaky, True)
    try:
        outcome = await commands.run([sys.executable, "-ISc", code], {"A": "b"}, timeout_seconds=10)
    finally:
        os.close(leaky)
    environment, descriptors, limits, own = outcome.output.splitlines()
    # Python itself may set the locale.
    assert environment.replace(", 'LC_CTYPE': 'C.UTF-8'", "") == "{'A': 'b'} / True"
    assert descriptors == "['0', '1', '2'] /dev/null"
    assert limits == f"(0, 0) (1024, 1024) {(2**42, 2**42)}"
    assert own == "True True", "it gains no privileges, and has a session of its own"


async def test_the_exit_counts_whoever_still_holds_the_output(commands: Commands) -> None:
    outcome = await shell(commands, "setsid sleep 60 & echo done; exit 2")
    assert outcome.reason == "exited with 2: done"
    assert outcome.seconds < 30


async def test_many_at_once_have_their_own_results_and_leave_nothing(commands: Commands) -> None:
    """Fails if a sweep reaps every dead child, anyone who waits for it."""
    await shell(commands, "exit 0")
    before = held()
    async with asyncio.TaskGroup() as tasks:
        scripts = (f"(setsid sleep 0.01 &) ; echo {code}; exit {code}" for code in range(1, 61))
        running = [tasks.create_task(shell(commands, script)) for script in scripts]
    assert [task.result().reason for task in running] == [
        f"exited with {code}: {code}" for code in range(1, 61)
    ]
    assert held() == before
