"""dra.md: its commands print what it shows, and its pod claims a device of that machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.getting_started import block_of, blocks, files, missing_lines
from tests.testbeds import loading

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/dra.md"


def printed(commands: str, root: Path) -> str:
    """Run commands in the checkout, for another machine."""
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=ROOT,
        env=os.environ
        | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "GENERICDP_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    loading.build(loading.path_of("serial-adapters"), tmp_path)
    return tmp_path


def test_commands_print_what_the_page_shows(machine: Path) -> None:
    (block,) = (each_block for each_block in blocks(PAGE) if not each_block.needs)
    assert block.output
    assert missing_lines(block.output, printed(block.commands, machine)) == []


def test_the_claim_of_the_page_selects_one_device_of_a_class_there_is(machine: Path) -> None:
    template, pod = yaml.safe_load_all(files(PAGE)["pod.yaml"])
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    (uses,) = pod["spec"]["resourceClaims"]
    assert uses["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert pod["spec"]["containers"][0]["resources"] == {"claims": [{"name": uses["name"]}]}

    config = "examples/configs/serial-dra.yaml"
    command, _, _ = block_of(
        f"genericdp deviceclasses {config} | kubectl apply -f -", PAGE
    ).commands.partition("|")
    classes = [
        document["metadata"]["name"] for document in yaml.safe_load_all(printed(command, machine))
    ]
    assert request["exactly"]["deviceClassName"] in classes
    assert f"`{classes[1]}`" in PAGE.read_text()

    (selector,) = request["exactly"]["selectors"]
    expression = r'device\.attributes\["genericdp\.io"\]\.(\w+) == ("[^"]+")'
    parsed = re.fullmatch(expression, selector["cel"]["expression"])
    assert parsed is not None
    (listed,) = json.loads(printed(f"genericdp discover {config} -o json", machine))["resources"]
    values = [device["dra"]["attributes"][parsed[1]]["string"] for device in listed["devices"]]
    assert values.count(json.loads(parsed[2])) == 1
