"""The image for the other architecture: made here, and imported, though not run, in qemu."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.deploy.making import copy_sources, make
from tests.deploy.scripts import CHECKOUT, script
from tests.deploy.test_image import IMPORTS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.deploy

EMULATOR = "qemu-aarch64-static"
ARM64 = 183
"""The machine of an ELF file, at byte 18."""

describe = script("describe")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for program in ("buildah", EMULATOR):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here")
    if os.getuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path_factory.mktemp("checkout")
    copy_sources(CHECKOUT, folder)
    archive = make(folder, "arm64")
    image = describe.read(archive)
    assert image.config["architecture"] == "arm64"
    root = tmp_path_factory.mktemp("root")
    with tarfile.open(archive) as tar:
        for name in (
            f"{one.removeprefix('sha256:')}.tar" for one in image.config["rootfs"]["diff_ids"]
        ):
            with tarfile.open(fileobj=describe.member(tar, name)) as layer:
                layer.extractall(root, filter="tar")
    return root


def test_all_programs_and_libraries_are_of_that_architecture(root: Path) -> None:
    seen = 0
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                head = file.read(20)
            if head.startswith(b"\x7fELF"):
                seen += 1
                assert int.from_bytes(head[18:20], "little") == ARM64, path
    assert seen > 20


def test_every_module_can_be_imported_there(root: Path) -> None:
    packages = root / "usr/local/lib/python3.11/dist-packages"
    here = {"PYTHONHOME": f"{root}/usr", "PYTHONPATH": str(packages)}
    program = (
        f"{IMPORTS}\nimport platform, pyudev\nprint(platform.machine(), pyudev.udev_version())"
    )
    done = subprocess.run(
        [EMULATOR, "-L", root, root / "usr/bin/python3.11", "-c", program],
        env={**os.environ, **here},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "aarch64 252"
