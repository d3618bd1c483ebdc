"""Memory that is left: made-up cgroups, and a real one with a limit."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from genericdp.config.child import memory_left
from tests.process.cgroups import cgroup
from tests.process.scripts import load_in_child

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
RAN_OUT = "it takes more (than the .* MiB of )?memory"


def made_up(folder: Path, own: str, *cgroups: tuple[str, dict[str, object]]) -> Path:
    """A machine with cgroups; each file holds what is given."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(own)
    for name, files in cgroups:
        (folder / "sys/fs/cgroup" / name).mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (folder / "sys/fs/cgroup" / name / file).write_text(f"{content}\n")
    return folder


def second(limit: object, used: int, cache: int = 0) -> dict[str, object]:
    stat = f"anon 5\ninactive_file {cache}\nactive_file 1\n"
    return {"memory.max": limit, "memory.current": used, "memory.stat": stat}


def first(limit: int, used: int, cache: int = 0) -> dict[str, object]:
    stat = f"inactive_file 77\ntotal_inactive_file {cache}\ntotal_active_file 1\n"
    return {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used, "memory.stat": stat}


@pytest.mark.parametrize(
    ("own", "cgroups", "left"),
    [
        pytest.param("0::/\n", [("", second(100, 40))], 61, id="version 2, in a container"),
        pytest.param("0::/a/b\n", [("a/b", second("max", 5)), ("a", second(50, 9, 2))], 44,
                     id="the one above is limited"),
        pytest.param("0::/a/b\n", [("a/b", second(20, 5)), ("a", second(50, 9))], 16,
                     id="the nearest limit counts"),
        pytest.param("4:cpu:/x\n3:memory:/kubepods/x\n0::/\n", [("memory", first(90, 30, 9))], 70,
                     id="version 1, in a container that sees the path of the node"),
        pytest.param("0::/\n", [], None, id="no files"),
        pytest.param("0::/\n", [("", second("max", 5))], None, id="no limit"),
        pytest.param("", [], None, id="no cgroup"),
    ],
)  # fmt: skip
def test_what_is_left(
    own: str, cgroups: list[tuple[str, dict[str, object]]], left: int | None, tmp_path: Path
) -> None:
    assert memory_left(made_up(tmp_path, own, *cgroups)) == left


def greedy(folder: Path) -> None:
    """Configs that take more than 60 MiB to read."""
    head = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
    for number in range(3):
        rest = f"match: [{{path: [{', '.join(['/dev/x'] * 9)}]}}]"
        entries = (f"  - {{name: example.com/r{number}-{i}, {rest}}}\n" for i in range(7000))
        (folder / f"{number}.yaml").write_text(head + "".join(entries))


async def test_a_greedy_config_does_not_use_up_the_memory_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a kubelet from 1.28 on ends all processes of the container (``memory.oom.group``)."""
    greedy(tmp_path)
    with cgroup(memory=64 * MIB) as groups:
        joining = "".join(f"echo $$ > {group}\n" for group in groups)
        joined = tmp_path / "python"
        joined.write_text(f'#!/bin/sh\nset -e\n{joining}exec "{sys.executable}" "$@"\n')
        joined.chmod(0o755)
        monkeypatch.setattr(sys, "executable", os.fspath(joined))
        (problem,) = (await load_in_child([tmp_path], timeout_seconds=100)).problems
        events = [
            group.with_name(name)
            for group in groups
            for name in ("memory.oom_control", "memory.events")
        ]
        killed = [line for one in events if one.exists() for line in one.read_text().splitlines()
                  if line.startswith("oom_kill ")]  # fmt: skip
    assert re.search(RAN_OUT, problem.message), problem
    assert killed == ["oom_kill 0"]


@pytest.mark.parametrize("kibibytes", range(36_000, 60_000, 5_113))
async def test_wherever_its_memory_ends_that_is_what_it_says(
    kibibytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy(tmp_path)
    limited = tmp_path / "python"
    limited.write_text(f'#!/bin/sh\nulimit -d {kibibytes}\nexec "{sys.executable}" "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setattr(sys, "executable", os.fspath(limited))
    (problem,) = (await load_in_child([tmp_path], timeout_seconds=100)).problems
    assert re.search(RAN_OUT, problem.message), problem
