"""The README's example is the one of docs/tutorial/getting-started.md, whose tests try it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.getting_started import files
from tests.testbeds import loading

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONFIG, POD = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^genericdp (.*)", "".join(BLOCKS), re.MULTILINE)


def test_config_and_pod_are_those_of_the_getting_started_page() -> None:
    assert (files()["serial.yaml"], files()["listen.yaml"]) == (CONFIG, POD)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.partition("  ")[0])
def test_a_command_works_on_a_machine_with_sticks(command: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    loading.build(loading.path_of("serial-adapters"), root)
    (tmp_path / "serial.yaml").write_text(CONFIG)
    done = subprocess.run(
        [sys.executable, "-m", "genericdp", *shlex.split(command, comments=True)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "GENERICDP_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if "example.com/serial=1" in command:
        (container,) = yaml.safe_load(POD)["spec"]["containers"]
        assert f" {container['command'][-1]} (rw) from /dev/serial/by-id/" in done.stdout


def test_make_has_the_targets_that_it_names() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"`?\bmake ([a-z-]+)(?:`| {2})", README)
    assert {"run", "test", "image"} <= set(named)
    assert [target for target in named if f"\n{target}:" not in makefile] == []
