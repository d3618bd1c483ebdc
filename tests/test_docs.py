"""The documentation agrees with the project."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.cli.command_line import parse
from genericdp.config.files import STDIN
from genericdp.config.load import load
from genericdp.config.schema import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_YAML = re.compile(r"^```yaml[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_what_is_generated_is_fresh() -> None:
    """``make generate`` makes it so."""
    command = [sys.executable, f"{ROOT}/tools/generate", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


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
        for block in _YAML.findall(page.read_text()):
            for start, head, indent in _WHOLE:
                if block.startswith(start):
                    inner = re.sub(r"(?m)^(?=.)", indent, block)
                    found.append((page.name, head + inner))
    return found


_OUTPUTS = re.compile(r"^```(?:text|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TRANSCRIPTS = "".join(file.read_text() for file in ROOT.glob("tests/cases/docs/*/expect.txt"))
_NOT_OF_CASES = {
    " node  ": "a picture",
    "date ": "a run of the benchmark",
    "GOBIN=": "commands",
    "make ": "commands",
    "count by": "a query",
    "2026-11-23T": "a line of the log, as tests/test_logs.py has it",
    "ResourceSlices:": "shortened; tests/test_dra_page.py runs the page",
    "$ genericdp status": "a daemon's status, as tests/cli/test_status.py has it",
    "/var/run/cdi/": "what tests/e2e/test_cdi_podman.py does with a real podman",
    "$ podman": "what tests/e2e/test_cdi_podman.py does with a real podman",
    "daemon set": "what tests/cluster/test_getting_started.py does in a cluster",
    "pod/listen": "what tests/cluster/test_getting_started.py does in a cluster",
    "1 file, 2 resources": "what tests/cluster/test_getting_started.py does in a cluster",
}
"""How outputs begin that no case prints, and what they are."""


def outputs() -> list[tuple[str, str]]:
    """Return the outputs that pages quote from cases, each with its page."""
    blocks = [(page.name, block) for page in PAGES for block in _OUTPUTS.findall(page.read_text())]
    return [pair for pair in blocks if not pair[1].startswith(tuple(_NOT_OF_CASES))]


@pytest.mark.parametrize(("page", "output"), outputs())
def test_an_output_that_a_page_shows_is_that_of_a_case(page: str, output: str) -> None:
    lines = [line.partition(" # ")[0].strip() for line in output.splitlines()]
    lines = [line.replace("/etc/genericdp/", "") for line in lines]
    shown = [line for line in lines if line and line != "…" and not line.startswith("$ ")]
    assert [line for line in shown if line not in _TRANSCRIPTS] == []


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


def policies() -> list[tuple[str, str]]:
    """Return the policies of the pages, each with its page."""
    head = _HEAD.replace("Config", "Policy")
    blocks = [(page.name, hit) for page in PAGES for hit in _YAML.findall(page.read_text())]
    return [(page, block) for page, block in blocks if block.startswith(head)]


@pytest.mark.parametrize(("page", "policy"), policies())
def test_a_policy_that_a_page_shows_is_valid(page: str, policy: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(policy)
    assert not load([], policy=tmp_path / "policy.yaml").policy_is_unusable


def test_the_first_config_of_the_language_uses_every_key_and_warns_of_none() -> None:
    config, *_ = _YAML.findall((ROOT / "docs/how-to/write-a-config.md").read_text())
    loaded = load([STDIN], pipes={STDIN: config.encode()})
    assert (loaded.problems, loaded.warnings) == ((), ())
    keys = {*keys_of("config", schema())}
    for name, definition in schema()["$defs"].items():
        keys.update(keys_of(name, definition))
    assert sorted(keys.difference(keys_used("config", schema(), yaml.safe_load(config)))) == []


def keys_of(name: str, part: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of a part of the schema as NAME.KEY, those of named parts in it excepted."""
    for key, value in part.get("properties", {}).items():
        yield f"{name}.{key}"
        if "$ref" not in value:
            yield from keys_of(f"{name}.{key}", value)


def keys_used(name: str, part: dict[str, Any], value: object) -> Iterator[str]:
    """Yield the keys of a config's value as ``keys_of`` names them."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        part = schema()["$defs"][name]
    for entry in value if isinstance(value, list) else ():
        yield from keys_used(name, part["items"], entry)
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in part.get("properties", {}):
            yield f"{name}.{key}"
            yield from keys_used(f"{name}.{key}", part["properties"][key], inner)
        elif isinstance(part.get("additionalProperties"), dict):
            yield from keys_used(name, part["additionalProperties"], inner)
