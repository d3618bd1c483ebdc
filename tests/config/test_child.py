"""Configs are loaded by a child, so that neither a parser nor a greedy config is in the daemon."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.config.child import encode
from genericdp.config.load import load, load_plain

from tests.config.loading import HEAD
from tests.polling import others_run
from tests.process.cgroups import cgroup
from tests.process.scripts import load_in_child

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIGS = Path(__file__).parent.parent / "configs"
SHORTEST = CONFIGS / "valid/shortest.yaml"


@pytest.fixture
def as_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a script of the shell be what Python is started by."""
    path, python = tmp_path / "python", sys.executable

    def as_python(script: str) -> None:
        path.write_text("#!/bin/sh\n" + script.replace("PYTHON", f'"{python}" "$@"') + "\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return as_python


@pytest.mark.parametrize(
    "names",
    [
        ["valid/all-of-it.yaml", "valid/node-names"],
        ["invalid/equal-names-in-two-files", "nothing"],
        ["valid/shortest.yaml"],
    ],
    ids=" ".join,
)
async def test_a_child_gives_the_same_as_loading_here(names: list[str]) -> None:
    paths, policy = [CONFIGS / name for name in names], CONFIGS.parent / "policies/narrow.yaml"
    bounds = policy if names == ["valid/shortest.yaml"] else None
    loaded = await load_in_child(paths, policy=bounds)
    assert loaded == load(paths, policy=bounds)
    assert all(resource.policy == loaded.policy for resource in loaded.resources)


async def test_a_child_that_takes_too_long_is_ended_and_told() -> None:
    begin = time.monotonic()
    (problem,) = (await load_in_child([SHORTEST], timeout_seconds=0.001)).problems
    assert problem.message == "loading the config took longer than 0.001 s"
    assert time.monotonic() - begin < 30
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


async def test_a_canceled_load_leaves_no_child() -> None:
    async with asyncio.TaskGroup() as tasks:
        loading = tasks.create_task(load_in_child([CONFIGS / "valid"]))
        await others_run()
        loading.cancel()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -SEGV $$", "its process ended by SIGSEGV"),
        ("kill -XCPU $$", "its process took more than 10 s of CPU time"),
        ("echo Traceback >&2; echo KeyError >&2; exit 1", "failed with code 1: KeyError"),
        (
            "echo 'Fatal Python error: Cannot recover from MemoryErrors' >&2; echo where >&2; "
            "kill -ABRT $$",
            "ended by SIGABRT: it takes more memory than it may have",
        ),
        ("echo '{'", "it is too much"),
        ("", "could not be loaded: No such file"),
    ],
)
async def test_a_child_that_breaks_is_a_problem(
    script: str, message: str, as_python: Callable[[str], None]
) -> None:
    as_python(script)
    if not script:
        os.unlink(sys.executable)
    (problem,) = (await load_in_child([Path("a.yaml")])).problems
    assert problem.file == "a.yaml"
    assert message in problem.message


async def test_a_child_that_has_answered_need_not_exit(
    tmp_path: Path, as_python: Callable[[str], None]
) -> None:
    """If a lookup hangs in the kernel, no signal ends the process."""
    (tmp_path / "answer").write_bytes(encode(*load_plain([SHORTEST])))
    as_python(f"cat {tmp_path}/answer\nexec sleep 3600")
    async with asyncio.timeout(30):
        assert await load_in_child([SHORTEST]) == load([SHORTEST])


async def test_a_child_finds_the_package_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "genericdp").mkdir()
    (tmp_path / "genericdp/__init__.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert (await load_in_child([SHORTEST])).problems == ()


async def test_a_thousand_problems_are_enough(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("".join(f"key{i}: x\n" for i in range(2000)))
    assert len((await load_in_child([tmp_path])).problems) == 1000


MIB = 1024 * 1024
SHIPPED, DAEMON = 160 * MIB, 88 * MIB
"""The limit of the shipped pod, and what a daemon with 10,000 devices takes of it."""


async def ran_out(directory: Path) -> bool:
    """Load configs that take more than 64 MiB to read; return whether that is what it says."""
    for number in range(3):
        rest = f"match: [{{path: [{', '.join(['/dev/x'] * 9)}]}}]"
        entries = (f"  - {{name: example.com/r{number}-{i}, {rest}}}\n" for i in range(7000))
        (directory / f"{number}.yaml").write_text(HEAD + "".join(entries))
    (problem,) = (await load_in_child([directory], timeout_seconds=100)).problems
    return bool(re.search("it takes more (than the .* MiB of )?memory", problem.message))


async def test_a_greedy_config_does_not_use_up_the_memory_of_the_pod(
    tmp_path: Path, as_python: Callable[[str], None]
) -> None:
    """Else a kubelet from 1.28 on ends all processes of the container (``memory.oom.group``)."""
    with cgroup(memory=SHIPPED - DAEMON) as groups:
        joining = "".join(f"echo $$ > {group}\n" for group in groups)
        as_python(f"set -e\n{joining}exec PYTHON")
        assert await ran_out(tmp_path)
        events = [
            group.with_name(name)
            for group in groups
            for name in ("memory.oom_control", "memory.events")
        ]
        lines = [line for file in events if file.exists() for line in file.read_text().split("\n")]
    assert [line for line in lines if line.startswith("oom_kill ")] == ["oom_kill 0"]


@pytest.mark.parametrize("kibibytes", (41_113, 56_452))
async def test_wherever_its_memory_ends_that_is_what_it_says(
    kibibytes: int, tmp_path: Path, as_python: Callable[[str], None]
) -> None:
    as_python(f"ulimit -d {kibibytes}\nexec PYTHON")
    assert await ran_out(tmp_path)
