"""without-kubernetes.md: its commands print what it shows, on a machine with its adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.getting_started import blocks, files, missing_lines
from tests.testbeds import loading

PAGE = Path(__file__).parents[1] / "docs/how-to/without-kubernetes.md"
DIRECTORY = "/var/run/cdi"


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    root, directory = tmp_path / "root", tmp_path / "cdi"
    loading.build(loading.path_of("serial-adapters"), root)
    for name, text in files(PAGE).items():
        (tmp_path / name).write_text(text)
    environment = {"GENERICDP_ROOT": str(root), "GENERICDP_CDI_DIR": str(directory)}
    shown = [block for block in blocks(PAGE) if not block.needs]
    assert [bool(block.output) for block in shown] == [True, True]
    for block in shown:
        done = subprocess.run(
            ["bash", "-euc", block.commands.replace(DIRECTORY, str(directory))],
            cwd=tmp_path,
            env=os.environ | environment | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert missing_lines(block.output, done.stdout.replace(str(directory), DIRECTORY)) == []


def test_only_what_needs_other_software_is_not_run() -> None:
    """podman is tried by ``tests/e2e/test_cdi_podman.py``, the unit by ``tests/deploy``."""
    assert [block.needs for block in blocks(PAGE) if block.needs] == ["podman", "systemd"]
