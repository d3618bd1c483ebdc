"""The commands, configs and outputs that README and docs show are those of the program."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from genericdp.cli import main

from tests.getting_started import PAGE, block_of, blocks, files, missing_lines
from tests.testbeds import loading

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
HOW_TO = ROOT / "docs/how-to"
DRA, WITHOUT_KUBERNETES = HOW_TO / "dra.md", HOW_TO / "without-kubernetes.md"
BIN = Path(sys.executable).parent
CDI_DIRECTORY = "/var/run/cdi"
README = (ROOT / "README.md").read_text()
README_CONFIG, README_POD = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
README_BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
README_COMMANDS = re.findall(r"^genericdp (.*)", "".join(README_BLOCKS), re.MULTILINE)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with four serial adapters."""
    loading.build(loading.path_of("serial-adapters"), tmp_path / "root")
    return tmp_path / "root"


def printed(commands: str, directory: Path, machine: Path, **environment: str) -> str:
    """Run commands as a shell in a directory does; all of them read another machine."""
    of_commands = {"PATH": f"{BIN}:{os.environ['PATH']}", "GENERICDP_ROOT": str(machine)}
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=directory,
        env=os.environ | of_commands | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def written(page: Path, directory: Path) -> Path:
    """Write the files of a page into a directory, and return that."""
    for name, text in files(page).items():
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize("command", ["genericdp hardware", "genericdp discover serial.yaml"])
def test_commands_without_a_cluster_print_what_getting_started_shows(
    command: str, tmp_path: Path, machine: Path
) -> None:
    for link in (machine / "dev/serial/by-id").iterdir():
        if link.readlink().name != "ttyUSB2":  # the stick of the page
            link.unlink()
    block = block_of(command)
    assert block.output
    assert (
        missing_lines(block.output, printed(block.commands, written(PAGE, tmp_path), machine)) == []
    )
    explain = "genericdp explain serial.yaml /dev/ttyUSB2"
    assert f"`{explain}`" in PAGE.read_text()
    assert printed(explain, tmp_path, machine).startswith("/dev/ttyUSB2 is offered")


def test_make_run_shows_what_the_machine_offers_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "bin").symlink_to(BIN)
    (tmp_path / "runtime.stamp").touch()
    with subprocess.Popen(
        ["make", "run", f"VENV={tmp_path}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as make:
        assert make.stdout is not None
        try:
            assert any("Allocatable:" in line for line in make.stdout)
        finally:
            os.killpg(make.pid, signal.SIGINT)
            make.stdout.read()


def test_commands_without_kubernetes_print_what_their_page_shows(
    tmp_path: Path, machine: Path
) -> None:
    directory = str(tmp_path / "cdi")
    written(WITHOUT_KUBERNETES, tmp_path)
    shown = [block for block in blocks(WITHOUT_KUBERNETES) if not block.needs]
    assert [bool(block.output) for block in shown] == [True, True]
    for block in shown:
        commands = block.commands.replace(CDI_DIRECTORY, directory)
        output = printed(commands, tmp_path, machine, GENERICDP_CDI_DIR=directory)
        assert missing_lines(block.output, output.replace(directory, CDI_DIRECTORY)) == []


def test_commands_of_dra_print_what_their_page_shows(machine: Path) -> None:
    (block,) = (block for block in blocks(DRA) if not block.needs)
    assert block.output
    assert missing_lines(block.output, printed(block.commands, ROOT, machine)) == []


def test_the_claim_of_the_dra_page_selects_one_device_of_a_class_there_is(machine: Path) -> None:
    template, pod = yaml.safe_load_all(files(DRA)["pod.yaml"])
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    (uses,) = pod["spec"]["resourceClaims"]
    assert uses["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert pod["spec"]["containers"][0]["resources"] == {"claims": [{"name": uses["name"]}]}

    config = "examples/configs/serial-dra.yaml"
    apply = f"genericdp deviceclasses {config} | kubectl apply -f -"
    command, _, _ = block_of(apply, DRA).commands.partition("|")
    documents = yaml.safe_load_all(printed(command, ROOT, machine))
    classes = [document["metadata"]["name"] for document in documents]
    assert request["exactly"]["deviceClassName"] in classes
    assert f"`{classes[1]}`" in DRA.read_text()

    (selector,) = request["exactly"]["selectors"]
    expression = r'device\.attributes\["genericdp\.io"\]\.(\w+) == ("[^"]+")'
    parsed = re.fullmatch(expression, selector["cel"]["expression"])
    assert parsed is not None
    discovered = printed(f"genericdp discover {config} -o json", ROOT, machine)
    (listed,) = json.loads(discovered)["resources"]
    values = [device["dra"]["attributes"][parsed[1]]["string"] for device in listed["devices"]]
    assert values.count(json.loads(parsed[2])) == 1


def test_the_claim_of_the_dra_page_has_parameters_that_its_config_takes(
    tmp_path: Path, machine: Path
) -> None:
    written(DRA, tmp_path)
    command = "genericdp validate serial.yaml claim.yaml"
    assert f"`{command}`" in DRA.read_text()
    expected = "2 files, 1 resource: valid\n"
    assert printed(f"{command} --strict", tmp_path, machine) == expected


def test_the_case_for_makers_of_hardware_has_the_config_and_the_output_of_their_page() -> None:
    """The case shows that ``validate --strict`` accepts it, and what a container gets."""
    page, case = HOW_TO / "hardware-vendors.md", ROOT / "tests/cases/docs/hardware-vendors"
    assert files(page) == {"10-acme.yaml": (case / "config.yaml").read_text()}
    (output,) = re.findall(r"^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    transcript = (case / "expect.txt").read_text()
    assert f"=2\n{output}" in transcript
    assert "--strict\n1 file, 1 resource: valid\n" in transcript


def test_config_and_pod_of_the_readme_are_those_of_getting_started() -> None:
    assert (files()["serial.yaml"], files()["listen.yaml"]) == (README_CONFIG, README_POD)


@pytest.mark.parametrize("command", README_COMMANDS, ids=lambda text: text.partition("  ")[0])
def test_a_command_of_the_readme_works_on_a_machine_with_sticks(
    command: str,
    tmp_path: Path,
    machine: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(written(PAGE, tmp_path))
    monkeypatch.setenv("GENERICDP_ROOT", str(machine))
    assert main(shlex.split(command, comments=True)) == 0
    if "example.com/serial=1" in command:
        (container,) = yaml.safe_load(README_POD)["spec"]["containers"]
        wanted = f" {container['command'][-1]} (rw) from /dev/serial/by-id/"
        assert wanted in capsys.readouterr().out


def test_make_has_the_targets_that_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"`?\bmake ([a-z-]+)(?:`| {2})", README)
    assert {"run", "test", "image"} <= set(named)
    assert [target for target in named if f"\n{target}:" not in makefile] == []


QUOTING = [HOW_TO / f"{name}.md" for name in ("troubleshooting", "monitor", "held-devices", "dra")]
QUOTED = sorted({text for page in QUOTING for text in re.findall("“`([^`]+)`”", page.read_text())})


@cache
def said() -> str:
    """Return every string of the program, a line each; ``…`` stands for what differs."""
    strings = []
    for path in ROOT.glob("genericdp/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                ]
                strings.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.append(re.sub(r"%(\.\d)?[sdfg]", "…", node.value))
    return "\n".join(strings)


@pytest.mark.parametrize("quoted", QUOTED)
def test_what_pages_for_operators_quote_is_said_by_the_program(quoted: str) -> None:
    """Between the … of a quotation stand the very words; a colon may join two strings."""
    assert len(QUOTED) > 30, "else the marks are others now"
    parts = [part.strip(" '") for part in re.split("…|: ", quoted)]
    missing = [part for part in parts if re.search("[a-z]{3}", part) and part not in said()]
    assert missing == []
