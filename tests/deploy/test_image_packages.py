"""How the files of a package come into a base image."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from typing import TYPE_CHECKING

import pytest

from tests.deploy.scripts import script

if TYPE_CHECKING:
    from pathlib import Path

base = script("make_base")


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="there is no dpkg-deb on this machine")
def test_files_come_as_they_are_but_without_setuid(tmp_path: Path) -> None:
    package, root = tmp_path / "package", tmp_path / "root"
    (package / "DEBIAN").mkdir(parents=True, mode=0o755)
    about = "Package: sample\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n"
    (package / "DEBIAN/control").write_text(about)
    (package / "usr/bin").mkdir(parents=True)
    (package / "usr/bin/sample").write_text("#!/bin/true\n")
    (package / "usr/bin/sample").chmod(0o6755)
    (package / "usr/bin/other").symlink_to("/usr/bin/sample")
    deb = tmp_path / "sample_1_all.deb"
    build = ["dpkg-deb", "--root-owner-group", "--build", str(package), str(deb)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, timeout=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        base.copy(deb, root, "build")
    assert (root / "usr/bin/sample").stat().st_mode & 0o7777 == 0o755
    assert (root / "usr/bin/other").readlink().as_posix() == "/usr/bin/sample"
