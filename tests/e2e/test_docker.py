"""The arguments that ``allocate -o docker`` prints, given to a real podman through a shell."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed"),
]

CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/fuse
    match: [{path: /dev/fuse}]
    inject:
      devices:
        - {path: $(device.path), containerPath: /dev/my fuse, permissions: r}
      mounts:
        - {hostPath: HOSTPATH, containerPath: "/a,b/the file"}
      env: {PLAIN: $(device.path), HARD: "it's \\"two\\" words, $HOME"}
      annotations: {example.com/device: "$(device.id) and more"}
"""
# The tests' machines may not let a container raise its limits.
PODMAN = (
    "podman --cgroup-manager=cgroupfs run --rm --network=none"
    " --ulimit=nofile=1024:1024 --ulimit=nproc=1000:1000"
)
LOOK = "ls -l '/dev/my fuse'; cat '/a,b/the file'; echo changed >'/a,b/the file'; env"


def test_podman_takes_them_as_they_are(program: Path, tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs"
    (rootfs / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", rootfs / "bin")
    for applet in ("sh", "ls", "cat", "env"):
        (rootfs / "bin" / applet).symlink_to("busybox")
    (tmp_path / "file").write_text("from the host\n")
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("HOSTPATH", str(tmp_path / "file")))
    allocate = [
        str(program),
        "allocate",
        "--config",
        str(config),
        "example.com/fuse=1",
        "-o",
        "docker",
    ]
    arguments = subprocess.run(allocate, check=True, capture_output=True, text=True).stdout.strip()
    # As the help says: through eval, which undoes the quoting.
    command = f'eval {PODMAN} "$ARGUMENTS" --rootfs {rootfs} /bin/sh -c \\"\\$LOOK\\"'
    ended = subprocess.run(
        ["sh", "-c", command],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ARGUMENTS": arguments, "LOOK": LOOK},
        capture_output=True,
        text=True,
        check=False,
    )
    print(arguments, ended.stdout, ended.stderr)
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("crw"), ended.stderr
    assert lines[0].endswith("/dev/my fuse")
    assert lines[1] == "from the host"
    assert (tmp_path / "file").read_text() == "from the host\n", "readOnly must mean it"
    assert "PLAIN=/dev/fuse" in lines
    assert 'HARD=it\'s "two" words, $HOME' in lines
