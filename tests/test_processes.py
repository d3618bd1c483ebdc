from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from genericdp import processes
from tests.scarcity import spare_descriptors

MARK = 1_000_000 + os.getpid()  # of this process of tests alone, of which several may run


def sleeper(*argv: str) -> subprocess.Popen[bytes]:
    with processes.marking(MARK):
        return subprocess.Popen(argv or ["sleep", "60"], stdout=subprocess.PIPE)


def test_only_what_is_forked_meanwhile_gets_the_mark() -> None:
    with sleeper() as marked, subprocess.Popen(["sleep", "60"]) as other:
        assert processes.mark_of(marked.pid) == MARK
        assert processes.mark_of(other.pid) == processes.mark_of(os.getpid()) == processes.UNMARKED
        marked.kill()
        other.kill()


def test_markings_that_overlap_leave_no_mark_behind() -> None:
    first, second = processes.marking(MARK), processes.marking(MARK + 1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert processes.mark_of(os.getpid()) == processes.UNMARKED


def test_a_dead_process_has_its_mark_until_it_is_reaped() -> None:
    with sleeper("true") as dead:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        assert processes.mark_of(dead.pid) == MARK
        assert dead.pid in processes.own_children()
        assert processes.reap(dead.pid)
        assert processes.mark_of(dead.pid) is None
        assert processes.parent_of(dead.pid) is None
        assert processes.reap(dead.pid)


def test_both_ways_to_find_children_find_the_same() -> None:
    with sleeper() as one, sleeper() as two:
        assert set(processes.own_children()) == set(processes.children_among_all())
        assert {one.pid, two.pid} <= set(processes.own_children())
        assert processes.parent_of(one.pid) == os.getpid()
        one.kill()
        two.kill()


async def test_a_signal_reaches_every_process_with_the_mark_and_nobody_else() -> None:
    script = "env -i setsid sleep 60 & echo $!; read never"
    with (
        sleeper("sh", "-c", script) as shell,
        sleeper() as spared,
        subprocess.Popen(["sleep", "60"]) as other,
    ):
        assert shell.stdout is not None
        grandchild = int(shell.stdout.readline())
        reached = await processes.signal_marked(MARK, signal.SIGKILL, but={spared.pid})
        assert {shell.pid, grandchild} - reached in (set(), {shell.pid})
        assert other.poll() is None
        assert spared.poll() is None
        spared.kill()
        other.kill()


async def test_this_process_is_never_reached_while_it_forks() -> None:
    with processes.marking(MARK):
        assert await processes.signal_marked(MARK, signal.SIGKILL) == set()


def test_limits_are_set_to_both_soft_and_hard_but_never_raised() -> None:
    code = (
        "import resource, sys\n"
        "print(open('/proc/self/oom_score_adj').read(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with subprocess.Popen(
        ["sh", "-c", "read go; exec $0 -c \"$1\"", sys.executable, code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        processes.restrict(child.pid, {resource.RLIMIT_NOFILE: 100, resource.RLIMIT_CORE: 0})
        assert resource.prlimit(child.pid, resource.RLIMIT_CORE) == (0, 0)
        processes.restrict(child.pid, {resource.RLIMIT_NOFILE: 2 * hard})
        assert resource.prlimit(child.pid, resource.RLIMIT_NOFILE)[1] <= hard
        processes.restrict(child.pid, {resource.RLIMIT_NOFILE: 64})
        output, _ = child.communicate("go\n")
    assert output.split() == ["1000", "(64,", "64)"]


@pytest.mark.parametrize(("niceness", "more"), [(None, 0), (processes.NICENESS, 10)])
def test_a_command_yields_to_the_daemon_and_what_reads_a_config_does_not(
    niceness: int | None, more: int
) -> None:
    with sleeper() as child:
        processes.restrict(child.pid, {}, niceness=niceness)
        before = os.getpriority(os.PRIO_PROCESS, 0)
        after = before if niceness is None else more
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == after
        child.kill()


async def test_what_a_command_left_is_killed_as_soon_as_it_can_be_looked_for() -> None:
    with sleeper() as child:

        def more() -> bool:
            return not processes.reap(child.pid)

        with spare_descriptors(0):
            assert not await processes.exterminate(MARK, more, patience=0.05)
        assert await processes.exterminate(MARK, more, patience=5)


def test_limits_of_what_has_ended_are_no_error() -> None:
    with sleeper("true") as child:
        child.wait()
    processes.restrict(child.pid, {resource.RLIMIT_CORE: 0})


def test_a_control_that_the_kernel_does_not_know_is_an_error_text() -> None:
    assert processes.control(-1, 1) == "Invalid argument"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Python without pidfd_open")
def test_a_kernel_without_pidfds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.have_pidfds()

    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert not processes.have_pidfds()


async def test_a_process_whose_first_thread_has_ended_is_not_dead() -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=lambda: (print(flush=True), time.sleep(60))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with sleeper(sys.executable, "-c", code) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while "\nState:\tZ" not in Path(f"/proc/{child.pid}/status").read_text():
            os.sched_yield()
        assert await processes.signal_marked(MARK, signal.SIGKILL) == {child.pid}
