"""What the documentation says, held against the project."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from genericdp.cli.command_line import parse
from genericdp.config.files import STDIN
from genericdp.config.load import load

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_reference_is_that_of_the_schema() -> None:
    """``make generate`` makes it so."""
    ended = subprocess.run(
        [sys.executable, ROOT / "tools/generate_reference", "--check"], check=False
    )
    assert ended.returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def anchors(page: Path) -> set[str]:
    """Give what the headings of a page can be reached by, as GitHub makes it."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings_that_there_are(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    missing = [
        (target, anchor)
        for target, anchor in links
        if anchor not in anchors(page.parent / target if target else page)
    ]
    assert missing == []


def commands() -> list[str]:
    """Give what the pages have one type after ``genericdp``, but for what has an … in it."""
    text = "\n".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"(?:^|-- )genericdp ([^|>\n…]*)(?:$| [|>])", "".join(blocks), re.MULTILINE)
    return sorted(set(lines))


@pytest.mark.parametrize("command", commands())
def test_a_command_that_a_page_names_is_taken(command: str) -> None:
    argv = [word.strip("[]") for word in shlex.split(command, comments=True)]
    parse(argv)


def configs() -> list[tuple[str, str]]:
    """Give the configs of the pages, and parts of configs made whole, each with its page."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for start, head, indent in _WHOLE:
                if block.startswith(start):
                    inner = re.sub(r"(?m)^(?=.)", indent, block)
                    found.append((page.name, head + inner))
    return found


_HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\n"
_WHOLE = (
    (_HEAD, "", ""),
    ("resources:\n", _HEAD, ""),
    ("  - name:", _HEAD + "resources:\n", ""),
    ("match:\n", _HEAD + "resources:\n  - name: example.com/part\n", "    "),
)


@pytest.mark.parametrize(("page", "config"), configs())
def test_a_config_that_a_page_shows_is_valid(page: str, config: str) -> None:
    assert load([STDIN], pipes={STDIN: config.encode()}).problems == ()


def test_the_first_config_of_the_readme_is_the_example() -> None:
    block = re.search(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    example = (ROOT / "examples/configs/fuse.yaml").read_text()

    def bare(text: str) -> list[str]:
        lines = (line.partition("#")[0].rstrip() for line in text.splitlines())
        return [line for line in lines if line]

    assert bare(block[1]) == bare(example)
