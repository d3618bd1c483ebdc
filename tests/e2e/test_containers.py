"""A container's view of what a real kubelet and runtime give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.scenarios import FUSE, LOOP, config, fuse, loops

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
EPERM = "Operation not permitted"
_MOUNTS = """\
      mounts:
        - {hostPath: DIRECTORY/read-only, containerPath: /opt/read-only}
        - {hostPath: DIRECTORY/writable, containerPath: /opt/writable, readOnly: false}
"""


@pytest.fixture(name="config")
def _config(tmp_path: Path) -> str:
    for name in ("read-only", "writable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "of-the-host").touch()
    return config(fuse() + _MOUNTS.replace("DIRECTORY", str(tmp_path)), loops())


def test_a_container_sees_the_nodes_files_and_env_of_the_config_and_no_others(bench: Bench) -> None:
    loop.add(60)
    loop.add(61)
    bench.await_listed(LOOP, "loop60", "loop61")
    without = bench.pod("without").container().saw()
    assert "/dev/null" in without.nodes, "the runtime's defaults are there"
    sight = bench.pod("given", {FUSE: 2, LOOP: 2}, "/opt/read-only /opt/writable").container().saw()
    assert set(without.nodes) <= set(sight.nodes)
    added = {path: kind for path, kind in sight.nodes.items() if path not in without.nodes}
    assert added == {"/dev/fuse": "c a e5", "/dev/disk0": "b 7 3c", "/dev/disk1": "b 7 3d"}
    assert sight.env["FUSE_ID"] == "fuse", "two shares of one device are one device"
    assert sight.env["LOOP_DEVICES"] == "/dev/loop60,/dev/loop61"

    assert (sight.reads["/dev/disk0"], sight.writes["/dev/disk0"]) == ("ok", EPERM), "granted as r"
    assert (sight.reads["/dev/fuse"], sight.writes["/dev/fuse"]) == ("ok", "ok")
    assert sight.reads["stranger"] == EPERM, "made in the container, granted by no one"
    assert sight.files == {"/opt/read-only": "of-the-host", "/opt/writable": "of-the-host"}
    assert sight.writes["/opt/read-only"] == "Read-only file system"
    assert sight.writes["/opt/writable"] == "ok"
    assert (bench.directory / "writable/made-by-the-container").exists()
    assert not (bench.directory / "read-only/made-by-the-container").exists()
