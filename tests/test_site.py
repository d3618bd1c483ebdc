"""The site of ``docs/``: checks without the program that makes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as zensical is given them; staging ends if one is not in the nav."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, f"{ROOT}/tools/build_site", "--stage", f"--into={directory}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    return directory / "src"


def test_the_readme_is_the_first_page_and_its_links_lead_to_pages(staged: Path) -> None:
    text = (staged / "index.md").read_text()
    assert text.startswith("# genericdp")
    assert "](how-to/write-a-config.md)" in text
    assert "](hardware/index.md)" in text


def test_each_example_has_a_page_with_its_config_and_what_its_host_shows(staged: Path) -> None:
    examples = {path.stem: path for path in (ROOT / "examples/configs").glob("*.yaml")}
    pages = {path.stem: path.read_text() for path in (staged / "hardware").glob("*.md")}
    index = pages.pop("index")
    assert pages.keys() == examples.keys()
    for name, page in pages.items():
        assert examples[name].read_text().rstrip() in page
        commands = [line for line in page.splitlines() if line.startswith("$ genericdp ")]
        assert f"$ genericdp discover {name}.yaml" in commands
        assert [command for command in commands if f" {name}.yaml" not in command] == []
        assert f"]({name}.md)" in index
