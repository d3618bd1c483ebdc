from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from genericdp.config.child import encode
from genericdp.config.load import load, load_plain

from tests.polling import others_run
from tests.process.scripts import load_in_child

CONFIGS = Path(__file__).parent.parent / "configs"


@pytest.mark.parametrize(
    "names",
    [
        ["valid/all-of-it.yaml"],
        ["valid/node-names"],
        ["valid/inject.yaml"],
        ["invalid/many-problems.yaml"],
        ["invalid/equal-names-in-two-files"],
        ["nothing"],
        ["valid/shortest.yaml", "valid/as-json.yaml"],
    ],
    ids=" ".join,
)
async def test_a_child_gives_the_same_as_loading_here(names: list[str]) -> None:
    paths = [CONFIGS / name for name in names]
    assert await load_in_child(paths) == load(paths)


@pytest.mark.parametrize("policy", ["narrow.yaml", "missing.yaml"])
@pytest.mark.parametrize("name", ["valid/shortest.yaml", "valid/all-of-it.yaml"])
async def test_a_child_holds_a_config_against_a_policy_too(name: str, policy: str) -> None:
    bounds = CONFIGS.parent / "policies" / policy
    loaded = await load_in_child([CONFIGS / name], policy=bounds)
    assert loaded == load([CONFIGS / name], policy=bounds)
    assert loaded.policy_is_unusable is (policy == "missing.yaml")
    assert all(resource.policy == loaded.policy is not None for resource in loaded.resources)
    assert bool(loaded.resources) is ((name, policy) == ("valid/shortest.yaml", "narrow.yaml"))


def test_the_parent_never_imports_a_parser() -> None:
    code = (
        "import asyncio, json, sys, pathlib\n"
        "from genericdp.config.child import load_in_child\n"
        "from genericdp.process.run import Commands\n"
        "async def main():\n"
        "    async with Commands() as commands:\n"
        "        return await load_in_child(commands, [pathlib.Path(sys.argv[1])])\n"
        "loaded = asyncio.run(main())\n"
        "print(json.dumps([len(loaded.resources), sorted(sys.modules)]))"
    )
    package = CONFIGS.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, CONFIGS / "valid/inject.yaml"],
        env={"PYTHONPATH": str(package)},
        capture_output=True,
        check=True,
        text=True,
    )
    resources, modules = json.loads(done.stdout)
    assert resources == 1
    assert not {"yaml", "jsonschema", "re2", "genericdp.config.read"} & set(modules)
    assert "genericdp.model" in modules


async def test_a_child_that_takes_too_long_is_ended_and_told() -> None:
    begin = time.monotonic()
    loaded = await load_in_child([CONFIGS / "valid/shortest.yaml"], timeout_seconds=0.001)
    (problem,) = loaded.problems
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
        ("kill -40 $$", "its process ended by signal 40"),
        ("echo Traceback >&2; echo KeyError >&2; exit 1", "failed with code 1: KeyError"),
        (
            "echo 'Fatal Python error: Cannot recover from MemoryErrors' >&2; echo where >&2; "
            "kill -ABRT $$",
            "ended by SIGABRT: it takes more memory than it may have",
        ),
        ("echo '{'", "it is too much"),
        ("echo '{}'", "it is too much"),
        ("exit 0", "it is too much"),
        ("nice >&2; exit 1", f"failed with code 1: {os.nice(0)}"),
    ],
)
async def test_a_child_that_breaks_is_a_problem(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (problem,) = (await load_in_child([Path("a.yaml")])).problems
    assert problem.file == "a.yaml"
    assert message in problem.message


async def test_a_child_that_has_answered_need_not_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a lookup hangs in the kernel, no signal ends the process."""
    path = CONFIGS / "valid/shortest.yaml"
    (tmp_path / "answer").write_bytes(encode(*load_plain([path])))
    (tmp_path / "python").write_text(f"#!/bin/sh\ncat {tmp_path}/answer\nexec sleep 3600\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert await load_in_child([path]) == load([path])


async def test_a_child_that_cannot_be_started_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    (problem,) = (await load_in_child([Path("a.yaml")])).problems
    assert "could not be loaded: No such file" in problem.message


async def test_a_child_finds_the_package_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "genericdp").mkdir()
    (tmp_path / "genericdp/__init__.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    loaded = await load_in_child([CONFIGS / "valid/shortest.yaml"])
    assert loaded.problems == ()


async def test_a_thousand_problems_are_enough(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("".join(f"key{i}: x\n" for i in range(2000)))
    assert len((await load_in_child([tmp_path])).problems) == 1000
