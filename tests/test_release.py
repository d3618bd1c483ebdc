"""What a release is made of: ``[tool.genericdp]``, the version and the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from genericdp import __version__

if TYPE_CHECKING:
    from email.message import Message

ROOT = Path(__file__).parents[1]
HATCH = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
WHEEL = HATCH["build"]["targets"]["wheel"]
BESIDE = {one.split("/")[0] for part in WHEEL.values() if isinstance(part, dict) for one in part}
"""What the wheel takes from outside of the package."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the package is made of, with the smallest of packages."""
    folder = tmp_path / "checkout"
    (folder / "genericdp").mkdir(parents=True)
    shutil.copy(ROOT / "genericdp/__init__.py", folder / "genericdp")
    for name in ("LICENSE", "README.md", "tools", *BESIDE):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, folder / name)
    set_in(folder, repository="", registry="", site="", contact="")
    return folder


def set_in(folder: Path, **settings: str) -> None:
    """Write pyproject.toml with these settings, as somebody would in an editor."""
    text = (ROOT / "pyproject.toml").read_text()
    for name, value in settings.items():
        text, places = re.subn(rf'^{name} = ".*?"', f'{name} = "{value}"', text, flags=re.MULTILINE)
        assert places == 1, name
    (folder / "pyproject.toml").write_text(text)


def packaged(folder: Path) -> Message:
    """Build the wheel, and give its metadata."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    with ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(f"genericdp-{__version__}.dist-info/METADATA"))


def test_the_package_names_no_url_that_is_not_set(checkout: Path) -> None:
    metadata = packaged(checkout)
    assert metadata["Version"] == __version__
    assert metadata.get_all("Project-URL") is None


def test_the_package_names_the_urls_that_are_set(checkout: Path) -> None:
    set_in(checkout, repository="https://example.com/genericdp/", site="https://example.org")
    assert packaged(checkout).get_all("Project-URL") == [
        "Documentation, https://example.org",
        "Source, https://example.com/genericdp",
        "Issues, https://example.com/genericdp/issues",
    ]


def test_the_package_is_for_the_pythons_that_are_tested(checkout: Path) -> None:
    named = packaged(checkout).get_all("Classifier", [])
    versions = [last for _, last in (one.rsplit(" :: ", 1) for one in named) if "." in last]
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    tested = re.search(r"python: \[(.*)\]", workflow)
    assert tested is not None
    assert re.findall(r"[\d.]+", tested[1]) == versions


def released(folder: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """Run what the release workflow asks first."""
    return subprocess.run(
        [sys.executable, folder / "tools/release_settings", tag],
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_registry_nothing_is_released(checkout: Path) -> None:
    ended = released(checkout, f"v{__version__}")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "registry is empty in [tool.genericdp] of pyproject.toml" in ended.stderr


def test_a_tag_of_another_version_is_not_released(checkout: Path) -> None:
    set_in(checkout, registry="registry.example/someone")
    ended = released(checkout, "v99.0.0")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"the tag is v99.0.0, but this is version {__version__}" in ended.stderr


def test_a_release_goes_to_the_registry_that_is_set(checkout: Path) -> None:
    set_in(checkout, registry="registry.example/someone", repository="https://example.com/x")
    ended = released(checkout, f"v{__version__}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        f"version={__version__}",
        "registry=registry.example/someone",
        "host=registry.example",
        "repository=https://example.com/x",
    ]


def test_the_changelog_begins_with_what_comes_next_and_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", __version__]
