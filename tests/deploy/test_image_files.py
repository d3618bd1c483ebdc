"""What the image is made of, as far as it can be told without making it."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tarfile
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.deploy.scripts import CHECKOUT, IMAGE, script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

base, assemble, describe = (script(name) for name in ("make_base", "assemble", "describe"))
TOOLS = ("Containerfile", "build-image", "make_base.py", "assemble.py", "describe.py")


def _instructions() -> list[tuple[str, str]]:
    text = (IMAGE / "Containerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_bases_are_arguments_and_only_files_of_the_checkout_come_in() -> None:
    told = _instructions()
    sources = [rest for word, rest in told if word == "FROM"]
    assert sources == [
        "--platform=$BUILDPLATFORM ${BUILD_BASE} AS build",
        "--platform=$TARGETPLATFORM ${RUN_BASE}",
    ]
    assert "ADD" not in {word for word, _ in told}
    last = [word for word, _ in told][[rest for _, rest in told].index(sources[1]) :]
    # Neither a shell nor an emulator is there to run anything with.
    assert "RUN" not in last
    assert all(rest.startswith('["') for word, rest in told if word in ("RUN", "ENTRYPOINT", "CMD"))
    assert ("USER", "0:0") in told
    assert ("ENTRYPOINT", '["genericdp"]') in told


def test_all_that_is_copied_is_sent_to_the_builder() -> None:
    sent = (CHECKOUT / ".dockerignore").read_text().split()
    copied = [rest.split()[:-1] for word, rest in _instructions() if word == "COPY"]
    for path in [path for paths in copied for path in paths if "--from" not in str(paths)]:
        assert f"!{path}" in sent
        assert (CHECKOUT / path).exists()


@pytest.mark.parametrize("name", TOOLS)
def test_no_host_is_named(name: str) -> None:
    text = (IMAGE / name).read_text()
    assert not re.search(r"https?://|\b[\w-]+\.(io|org|com)/", text)


def test_it_has_what_the_wheel_has() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["genericdp"]
    text = (IMAGE / "assemble.py").read_text()
    assert wheel["force-include"].keys() == {"schemas", "examples"}
    for source, target in wheel["force-include"].items():
        assert f'copytree(SOURCE / "{source}", packages / "{target}")' in text
    assert project["project"]["scripts"] == {"genericdp": "genericdp.cli:main"}
    assert "from genericdp.cli import main" in assemble.ENTRY


def _imported() -> Iterator[str]:
    """Name every module of Python's own that genericdp imports, at once or later."""
    for path in (CHECKOUT / "genericdp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module


def test_no_module_that_is_imported_is_left_out() -> None:
    names = {name for name in _imported() if name.partition(".")[0] in sys.stdlib_module_names}
    assert {"asyncio", "ctypes", "json", "logging"} <= names
    for name in sorted(names):
        path = f"usr/lib/{base.PYTHON}/{name.replace('.', '/')}"
        for file in (f"{path}.py", f"{path}/__init__.py"):
            assert base.wanted("libpython3.11-stdlib", file, "run"), name


@pytest.mark.parametrize(
    ("package", "path", "taken"),
    [
        ("libudev1", "usr/lib/x86_64-linux-gnu/libudev.so.1", True),
        ("libudev1", "usr/share/doc/libudev1/copyright", True),
        ("libudev1", "usr/share/doc/libudev1/changelog.Debian.gz", False),
        ("libc-bin", "usr/sbin/ldconfig", True),
        ("libc-bin", "usr/bin/ldd", False),
        ("libc6", "usr/lib/x86_64-linux-gnu/gconv/IBM037.so", False),
        ("python3.11-minimal", "usr/bin/python3.11", True),
        ("libpython3.11-stdlib", "usr/lib/python3.11/ensurepip/__init__.py", False),
        ("libpython3.11-stdlib", "usr/lib/python3.11/encodings/idna.py", True),
        ("libpython3.11-stdlib", "usr/lib/python3.11/encodings/cp1252.py", False),
    ],
)
def test_of_a_package_only_what_is_needed_to_run_is_taken(
    package: str, path: str, taken: bool
) -> None:
    assert base.wanted(package, path, "run") is taken


def test_a_wheel_for_a_newer_libc_is_never_taken() -> None:
    options = assemble.tags("arm64", "3.11")
    assert "--platform=manylinux_2_36_aarch64" in options
    assert "--platform=manylinux2014_aarch64" in options
    assert not any("2_37" in option or "x86_64" in option for option in options)


def _archive(folder: Path, files: dict[str, str]) -> Path:
    """An image with one layer."""
    layer = io.BytesIO()
    _pack(layer, files)
    config = {
        "created": "2026-01-02T03:04:05Z",
        "config": {"Labels": {"org.opencontainers.image.version": "1.2.3"}},
        "rootfs": {"diff_ids": ["sha256:00"]},
    }
    manifest = [{"Config": "ab.json", "Layers": ["00.tar"]}]
    path = folder / "image.tar"
    with path.open("wb") as file:
        parts: dict[str, str | bytes] = {
            "00.tar": layer.getvalue(),
            "ab.json": json.dumps(config),
            "manifest.json": json.dumps(manifest),
        }
        _pack(file, parts)
    return path


def _pack(
    file: io.BytesIO | io.BufferedWriter, files: dict[str, str] | dict[str, str | bytes]
) -> None:
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def _fields(**fields: str) -> str:
    return "".join(f"{name}: {value}\n" for name, value in {"Version": "6.0+b1", **fields}.items())


def test_the_bill_names_what_is_in_the_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = "usr/local/lib/python3.11/dist-packages"
    archive = _archive(
        tmp_path,
        {
            f"{packages}/PyYAML-6.0.dist-info/METADATA": _fields(Name="PyYAML", License="MIT"),
            f"{packages}/genericdp/__init__.py": "x" * 3000,
            "var/lib/dpkg/status.d/libc6": _fields(Package="libc6", Architecture="arm64"),
        },
    )
    describe.main(archive)
    bill = json.loads((tmp_path / "image.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert [one["purl"] for one in bill["components"]] == [
        "pkg:pypi/genericdp@1.2.3",
        "pkg:pypi/pyyaml@6.0%2Bb1",
        "pkg:deb/debian/libc6@6.0%2Bb1?arch=arm64",
    ]
    assert bill["components"][1]["licenses"] == [{"license": {"name": "MIT"}}]
    assert bill["metadata"]["timestamp"] == "2026-01-02T03:04:05Z"
    before = (tmp_path / "image.cdx.json").read_bytes()
    describe.main(archive)
    assert (tmp_path / "image.cdx.json").read_bytes() == before
    assert "sha256:00" in capsys.readouterr().out
