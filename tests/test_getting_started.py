"""getting-started.md up to the point where a cluster is needed, with the page's own stick."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.getting_started import block_of, blocks, files, missing_lines
from tests.testbeds import loading

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
OTHER_PORTS = ("ttyUSB0", "ttyUSB1", "ttyUSB3")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A machine with the stick of the page and no other."""
    root = tmp_path / "root"
    loading.build(loading.path_of("serial-adapters"), root)
    for link in (root / "dev/serial/by-id").iterdir():
        if link.readlink().name in OTHER_PORTS:
            link.unlink()
    return root


def printed(commands: str, directory: Path, root: Path) -> str:
    """Run commands as a shell in a directory does; every one of them reads another machine."""
    for name, text in files().items():
        (directory / name).write_text(text)
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=directory,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "GENERICDP_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("command", ["genericdp hardware", "genericdp discover serial.yaml"])
def test_commands_without_a_cluster_print_what_the_page_shows(
    command: str, tmp_path: Path, host: Path
) -> None:
    block = block_of(command)
    assert block.output
    assert missing_lines(block.output, printed(block.commands, tmp_path, host)) == []


def test_explain_names_the_stick(tmp_path: Path, host: Path) -> None:
    command = "genericdp explain serial.yaml /dev/ttyUSB2"
    assert f"`{command}`" in (ROOT / "docs/tutorial/getting-started.md").read_text()
    assert printed(command, tmp_path, host).startswith("/dev/ttyUSB2 is offered")


def test_make_run_shows_what_the_machine_offers_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "bin").symlink_to(BIN)
    (tmp_path / "runtime.stamp").touch()
    with subprocess.Popen(
        ["make", "run", f"VENV={tmp_path}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as make:
        assert make.stdout is not None
        try:
            assert any("Allocatable:" in line for line in make.stdout)
        finally:
            os.killpg(make.pid, signal.SIGINT)
            make.stdout.read()


def test_only_what_needs_other_software_is_not_run() -> None:
    """The commands are run by tests/cluster/test_getting_started.py."""
    assert [block.needs for block in blocks() if block.needs] == ["k3s", "kind", "systemd"]
