"""getting-started.md: every command of the page, with a fake for the USB stick."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp import __version__

from tests.cluster.shipped import ROOT
from tests.e2e.cluster.stick import stick
from tests.getting_started import Block, block_of, blocks, files, missing_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

SAYS = b"21.5 C\n"
STATE = Path("/var/lib/genericdp")
ONLY_OF_A_REAL_STICK = "genericdp hardware"
"""tests/test_pages.py checks its output, and at ``make run``."""
DIFFERS = {"1-1.3:1.0-tty": r"\S+", "node1": r"\S+"}
FUNCTIONS = f"""
make() {{
  case $1 in
    run) ;;
    image) ls build/genericdp-{__version__}-*.tar ;;  # made by make cluster-e2e
    *) false ;;
  esac
}}
kubectl() {{
  case "$*" in
    "logs listen") again . "$@" ;;
    "get nodes "*) again '[1-9]$' "$@" ;;  # the kubelet reports every ten seconds
    "wait "*) command kubectl "$@" --timeout=3m ;;  # where it is not said, half a minute
    *) command kubectl "$@" ;;
  esac
}}
again() {{
  local expression=$1
  shift
  for try in $(seq 600); do
    if command kubectl "$@" >printed && grep -q "$expression" printed; then break; fi
    sleep 0.2
  done
  cat printed
}}
"""
"""What these do in the shell: nothing twice, and ask again for what takes some seconds."""
END_OF_BLOCK = "--- end of a block ---"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy, since the page has the reader add an overlay."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "build").symlink_to(ROOT / "build")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/bin").symlink_to(Path(sys.executable).parent)
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def node(cluster: Cluster) -> Iterator[None]:
    """Make the node's directories as on other nodes, and clean up what the page leaves."""
    kept = STATE.exists()
    try:
        with cluster.linked("pod-resources"), stick(SAYS):
            yield
    finally:
        cluster.kubectl("delete", "pod", "listen", "--now", "--ignore-not-found")
        cluster.kubectl("delete", "namespace", "genericdp", "--ignore-not-found")
        if not kept:
            shutil.rmtree(STATE, ignore_errors=True)


def run(some: list[Block], directory: Path, cluster: Cluster) -> list[str]:
    """Run blocks in one shell; return what each of them printed."""
    script = [f"{block.commands}echo '{END_OF_BLOCK}'\n" for block in some]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", FUNCTIONS + "".join(script)],
        cwd=directory,
        env=cluster.shell_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + cluster.kubectl("describe", "pods", check=False)
    *printed, after = done.stdout.split(f"{END_OF_BLOCK}\n")
    assert (len(printed), after) == (len(some), "")
    return printed


@pytest.mark.usefixtures("node")
def test_a_reader_gets_from_the_stick_to_a_pod_that_reads_it(
    cluster: Cluster, checkout: Path
) -> None:
    began = time.monotonic()
    not_run = [block.commands for block in blocks() if block.needs]
    to_run = [block for block in blocks() if not block.needs]
    printed = run(to_run, checkout, cluster)
    print("\n".join(["", *printed, "not run:", *not_run]))
    print(f"the page took {time.monotonic() - began:.1f} s")
    hardware = block_of(ONLY_OF_A_REAL_STICK)
    for block, text in zip(to_run, printed, strict=True):
        if block != hardware:
            assert missing_lines(block.output, text, DIFFERS) == [], text
