"""The memory that a config may take, next to a daemon in a pod with a limit."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.process.cgroups import cgroup
from tests.process.scripts import load_in_child

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
SHIPPED, DAEMON = 160 * MIB, 88 * MIB
"""The limit of the shipped pod, and what a daemon with 10,000 devices takes of it."""
RAN_OUT = "it takes more (than the .* MiB of )?memory"


def greedy(directory: Path) -> None:
    """Configs that take more than 64 MiB to read."""
    head = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
    for number in range(3):
        rest = f"match: [{{path: [{', '.join(['/dev/x'] * 9)}]}}]"
        entries = (f"  - {{name: example.com/r{number}-{i}, {rest}}}\n" for i in range(7000))
        (directory / f"{number}.yaml").write_text(head + "".join(entries))


async def test_a_greedy_config_does_not_use_up_the_memory_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a kubelet from 1.28 on ends all processes of the container (``memory.oom.group``)."""
    greedy(tmp_path)
    with cgroup(memory=SHIPPED - DAEMON) as groups:
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
        killed = [line for file in events if file.exists() for line in file.read_text().splitlines()
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
