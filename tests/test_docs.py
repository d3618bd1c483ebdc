"""Docs: links lead somewhere, commands are taken, configs are valid."""

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
_YAML = re.compile(r"^```yaml[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_what_is_generated_is_fresh() -> None:
    """``make generate`` makes it so."""
    command = [sys.executable, f"{ROOT}/tools/generate", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page can be reached by, as GitHub makes it."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_there_are(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text())
    missing = [target for target, _ in links if not (page.parent / target).exists()]
    assert missing == []
    missing = [
        (target, anchor)
        for target, anchor in links
        if anchor and ":" not in target
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


_HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\n"
_WHOLE = (
    (_HEAD, "", ""),
    ("resources:\n", _HEAD, ""),
    ("  - name:", _HEAD + "resources:\n", ""),
    ("match:\n", _HEAD + "resources:\n  - name: example.com/part\n", "    "),
)
_BLOCKS = [(page.name, block) for page in PAGES for block in _YAML.findall(page.read_text())]
CONFIGS = [
    (page, head + re.sub(r"(?m)^(?=.)", indent, block))
    for page, block in _BLOCKS
    for start, head, indent in _WHOLE
    if block.startswith(start)
]
"""Those of the pages, and parts of configs made whole."""
POLICIES = [two for two in _BLOCKS if two[1].startswith(_HEAD.replace("Config", "Policy"))]


@pytest.mark.parametrize(("page", "config"), CONFIGS)
def test_a_config_that_a_page_shows_is_valid(page: str, config: str) -> None:
    assert load([STDIN], pipes={STDIN: config.encode()}).problems == ()


@pytest.mark.parametrize(("page", "policy"), POLICIES)
def test_a_policy_that_a_page_shows_is_valid(page: str, policy: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(policy)
    assert not load([], policy=tmp_path / "policy.yaml").policy_is_unusable


def test_a_label_that_is_cited_is_defined() -> None:
    page = (ROOT / "docs/explanation/kubelet.md").read_text()
    defined = set(re.findall(r"\*\*(\w+-\w+)\.\*\*", page))
    sources = [*ROOT.glob("genericdp/**/*.py"), *ROOT.glob("tests/**/*.py"), *PAGES]
    kinds = {label.partition("-")[0] for label in defined}
    label = re.compile(rf"\b(?:{'|'.join(sorted(kinds))})-[1-9]\d?[a-z]?\b")
    cited = {found: path for path in sources for found in label.findall(path.read_text())}
    assert len(cited) > 50
    assert {found: path for found, path in cited.items() if found not in defined} == {}
