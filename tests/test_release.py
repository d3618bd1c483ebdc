"""The parts of a release: ``[tool.genericdp]``, the version and the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
from genericdp import __version__

ROOT = Path(__file__).parents[1]
HATCH = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
WHEEL = HATCH["build"]["targets"]["wheel"]
BESIDE = {path.split("/")[0] for part in WHEEL.values() if isinstance(part, dict) for path in part}
"""What the wheel takes from outside of the package."""
UNSET = {"repository": "", "registry": "", "site": "", "contact": ""}
REGISTRY = {"registry": "registry.example/someone"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the package is made of, with the smallest of packages."""
    directory = tmp_path / "checkout"
    (directory / "genericdp").mkdir(parents=True)
    shutil.copy(ROOT / "genericdp/__init__.py", directory / "genericdp")
    for name in ("LICENSE", "README.md", "tools", *BESIDE):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, directory / name)
    return directory


def set_in(directory: Path, **settings: str) -> None:
    """Write pyproject.toml with these settings, as in an editor."""
    text = (ROOT / "pyproject.toml").read_text()
    for name, value in {**UNSET, **settings}.items():
        text, places = re.subn(rf'^{name} = ".*?"', f'{name} = "{value}"', text, flags=re.MULTILINE)
        assert places == 1, name
    (directory / "pyproject.toml").write_text(text)


def packaged(directory: Path) -> Message:
    """Build the wheel, and give its metadata."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(build, cwd=directory, check=True, capture_output=True)
    (wheel,) = (directory / "dist").glob("*.whl")
    with ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(f"genericdp-{__version__}.dist-info/METADATA"))


def test_the_package_names_the_urls_that_are_set(checkout: Path) -> None:
    set_in(checkout, repository="https://example.com/genericdp/", site="https://example.org")
    metadata = packaged(checkout)
    assert metadata["Version"] == __version__
    assert metadata.get_all("Project-URL") == [
        "Documentation, https://example.org",
        "Source, https://example.com/genericdp",
        "Issues, https://example.com/genericdp/issues",
    ]


RELEASED = (
    f"version={__version__}\nregistry=registry.example/someone\nhost=registry.example\n"
    "repository=https://example.com/x\n"
)


@pytest.mark.parametrize(
    ("settings", "tag", "printed", "error"),
    [
        ({}, f"v{__version__}", "", "registry is empty in [tool.genericdp] of pyproject.toml"),
        (REGISTRY, "v99.0.0", "", f"the tag is v99.0.0, but this is version {__version__}"),
        ({**REGISTRY, "repository": "https://example.com/x"}, f"v{__version__}", RELEASED, ""),
    ],
    ids=["without a registry", "another version", "all is set"],
)
def test_what_the_release_workflow_asks_first(
    checkout: Path, settings: dict[str, str], tag: str, printed: str, error: str
) -> None:
    set_in(checkout, **settings)
    command = [sys.executable, str(checkout / "tools/release_settings"), tag]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (bool(error), printed)
    assert error in ended.stderr if error else ended.stderr == ""
