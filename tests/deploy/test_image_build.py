"""`make image` calls the builder: fake docker, podman and buildah record their arguments."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import genericdp
import pytest

ROOT = Path(__file__).parents[2]
NAME = f"genericdp:{genericdp.__version__}"
NEEDED = ("bash", "dirname", "env", "git", "mkdir", "mv", "rm", "sed", "uname")
"""What it needs next to a builder."""
BUILDER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$(dirname "$0")/asked"
[ "$1" != info ] || exit %d
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return what it reads of a checkout, and PATH's only directory, ``bin``."""
    for name in ("tools/image", "genericdp/__init__.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name in (*NEEDED, "basename"):
        found = shutil.which(name)
        assert found
        (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path


def _install(checkout: Path, name: str, *, works: bool = True) -> None:
    program = checkout / "bin" / name
    program.write_text(BUILDER % (0 if works else 1))
    program.chmod(0o755)


def _make(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "tools/image", "build"],
        env={"PATH": str(checkout / "bin"), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _asked(checkout: Path) -> list[str]:
    return (checkout / "bin/asked").read_text().splitlines()


def test_a_docker_without_an_engine_is_passed_over(checkout: Path) -> None:
    _install(checkout, "docker", works=False)
    done = _make(checkout)
    assert (done.returncode, "apt-get install podman" in done.stderr) == (1, True)
    (checkout / "bin/asked").unlink()
    _install(checkout, "podman")
    done = _make(checkout)
    assert done.returncode == 0, done.stderr
    asked = _asked(checkout)
    assert asked[0] == "docker info"
    assert {line.split()[0] for line in asked[1:]} == {"podman"}


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah"])
def test_it_builds_and_saves_an_archive(checkout: Path, builder: str) -> None:
    _install(checkout, builder)
    done = _make(checkout)
    assert done.returncode == 0, done.stderr
    _, build, save = _asked(checkout)
    assert "BASE_IMAGE" not in build
    assert build.startswith(f"{builder} build -t {NAME} --build-arg VERSION=")
    assert build.endswith(" .")
    assert re.search(rf"build/genericdp-{genericdp.__version__}-\w+\.tar\b", save)
    assert "no bill of materials: install syft" in done.stderr


def test_a_base_is_named_and_settings_of_pip_go_in_as_secrets(checkout: Path) -> None:
    _install(checkout, "podman")
    for name in ("ca.crt", "pip.conf"):
        (checkout / name).touch()
    settings = {"PIP_CERT": f"{checkout}/ca.crt", "PIP_CONFIG_FILE": f"{checkout}/pip.conf"}
    _make(checkout, BASE_IMAGE="mine:1", **settings)
    build = _asked(checkout)[1]
    assert "--build-arg BASE_IMAGE=mine:1 " in build
    assert f"--secret id=ca,src={checkout}/ca.crt " in build
    assert f"--secret id=pip.conf,src={checkout}/pip.conf " in build


def test_the_base_is_a_public_tag_and_no_registry_is_named() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^ARG BASE_IMAGE=python:3\.\d+-slim$", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE_IMAGE}"}
    assert not re.search(r"https?://|@sha256:", text + (ROOT / "tools/image").read_text())


@pytest.mark.deploy
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_each_pinned_wheel_exists_for_the_bases_python(tmp_path: Path, machine: str) -> None:
    found = re.search(r"python:([\d.]+)-slim", (ROOT / "Dockerfile").read_text())
    assert found
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, 37)]
    exact = ["--no-deps", "--require-hashes", "--only-binary=:all:"]
    which = [f"--python-version={found[1]}", "--implementation=cp", *platforms]
    lock = ROOT / "requirements/runtime.txt"
    download = ["download", "-q", "--disable-pip-version-check", f"--dest={tmp_path}"]
    pip = [sys.executable, "-m", "pip", *download, *exact, *which, "-r", str(lock)]
    subprocess.run(pip, check=True, timeout=300)
    pinned = re.findall(r"^[\w.-]+==", lock.read_text(), re.MULTILINE)
    assert len(list(tmp_path.glob("*.whl"))) == len(pinned)
