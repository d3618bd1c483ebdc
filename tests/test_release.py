"""The settings of a release: ``[tool.genericdp]`` and the version."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from genericdp import __version__

ROOT = Path(__file__).parents[1]
UNSET = {"repository": "", "registry": "", "site": "", "contact": ""}
REGISTRY = {"registry": "registry.example/someone"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the release workflow reads first."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    (tmp_path / "genericdp").mkdir()
    shutil.copy(ROOT / "genericdp/__init__.py", tmp_path / "genericdp")
    return tmp_path


def set_in(directory: Path, **settings: str) -> None:
    """Write pyproject.toml with these settings, as in an editor."""
    text = (ROOT / "pyproject.toml").read_text()
    for name, value in {**UNSET, **settings}.items():
        text, places = re.subn(rf'^{name} = ".*?"', f'{name} = "{value}"', text, flags=re.MULTILINE)
        assert places == 1, name
    (directory / "pyproject.toml").write_text(text)


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
