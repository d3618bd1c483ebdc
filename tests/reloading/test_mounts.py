"""Config files that are mounted by themselves: lines as kernels write them, and a real mount."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from genericdp.reloading.fingerprint import pinned

if TYPE_CHECKING:
    from pathlib import Path

POD = "/var/lib/kubelet/pods/1b-2c/volumes/kubernetes.io~configmap/config"
TEXT = f"""\
511 480 0:52 / / rw,relatime master:206 - overlay overlay rw,lowerdir=/a:/b
520 511 8:1 {POD} /etc/genericdp ro,relatime - ext4 /dev/sda1 rw
521 511 8:1 {POD}/..2026_11_21_14_00_00.12/a.yaml /etc/single/a.yaml ro,relatime - ext4 /dev/sda1 rw
522 511 8:1 {POD}/..2026_11_21_14_00_00.12 /etc/version ro - ext4 /dev/sda1 rw
523 511 8:1 {POD}/..2026_11_21_14_00_00.12//deleted /etc/gone ro - ext4 /dev/sda1 rw
524 511 8:1 /with\\040space/a\\134b /etc/a\\040b/x.yaml ro shared:1 - ext4 /dev/sda1 rw

525
"""


@pytest.mark.parametrize(
    ("files", "folders", "said"),
    [
        (["/etc/genericdp/a.yaml"], ["/etc/genericdp"], []),
        (["/etc/single/a.yaml"], ["/etc/single"], ["/etc/single/a.yaml is mounted by itself"]),
        (["/etc/version/a.yaml"], ["/etc/version"], ["/etc/version is one version of its volume"]),
        (["/etc/gone/a.yaml"], ["/etc/gone"], ["/etc/gone is one version of its volume"]),
        (["/etc/a b/x.yaml"], ["/etc/a b"], ["/etc/a b/x.yaml is mounted by itself"]),
        (["/etc/x.yaml"], ["/etc"], []),
    ],
)
def test_a_sub_path_is_recognised(files: list[str], folders: list[str], said: list[str]) -> None:
    sentences = pinned(TEXT, folders, files)
    assert [one.partition(" (subPath?)")[0] for one in sentences] == said


SCRIPT = """
mount --bind "$1/real.yaml" "$1/a.yaml" && exec "$2" -c '
import sys
from pathlib import Path
from genericdp.reloading.fingerprint import find_pinned
print(*find_pinned([Path(sys.argv[1])], [Path(sys.argv[1])]))' "$1/a.yaml"
"""


def test_a_file_that_is_really_mounted_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").touch()
    (tmp_path / "a.yaml").touch()
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", SCRIPT, "sh", tmp_path, sys.executable],
        capture_output=True,
        check=False,
        text=True,
    )
    if ended.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {ended.stderr}")
    assert ended.stdout.startswith(f"{tmp_path}/a.yaml is mounted by itself (subPath?)")
