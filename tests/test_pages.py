"""The commands, configs and outputs that README and docs show are those of the program."""

from __future__ import annotations

import ast
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

from tests.getting_started import PAGE, blocks, files, missing_lines
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
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with four serial adapters, which all commands read, in a directory of its own."""
    loading.build(loading.path_of("serial-adapters"), tmp_path / "root")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENERICDP_ROOT", "root")
    monkeypatch.setenv("GENERICDP_CDI_DIR", f"{tmp_path}/cdi")
    return tmp_path / "root"


def printed(commands: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run commands, which must succeed, and return what they print."""
    for command in commands.splitlines():
        assert main(shlex.split(command, comments=True)[1:]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    return output


def write_files_of(page: Path) -> None:
    for name, text in files(page).items():
        Path(name).write_text(text)


def are_ours(commands: str) -> bool:
    return all(line.startswith("genericdp ") for line in commands.splitlines())


@pytest.mark.parametrize(
    ("page", "count"),
    [(PAGE, 2), (WITHOUT_KUBERNETES, 2), (DRA, 1)],
    ids=["tutorial", "CDI", "DRA"],
)
def test_commands_without_a_cluster_print_what_their_page_shows(
    page: Path, count: int, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files_of(page)
    for link in (machine / "dev/serial/by-id").iterdir() if page == PAGE else ():
        if link.readlink().name != "ttyUSB2":  # the stick of the page
            link.unlink()
    shown = [block for block in blocks(page) if are_ours(block.commands) and block.output]
    assert len(shown) == count
    directory = os.environ["GENERICDP_CDI_DIR"]
    for block in shown:
        output = printed(block.commands.replace(CDI_DIRECTORY, directory), capsys)
        assert missing_lines(block.output, output.replace(directory, CDI_DIRECTORY)) == []


def test_the_claim_of_the_dra_page_has_parameters_that_its_config_takes(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files_of(DRA)
    command = "genericdp validate serial.yaml claim.yaml"
    assert f"`{command}`" in DRA.read_text()
    assert printed(f"{command} --strict", capsys) == "2 files, 1 resource: valid\n"


@pytest.mark.parametrize("command", README_COMMANDS, ids=lambda text: text.split("  ")[0])
def test_a_command_of_the_readme_works_on_a_machine_with_sticks(
    command: str, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files_of(PAGE)
    assert main(shlex.split(command, comments=True)) == 0
    if "example.com/serial=1" in command:
        (container,) = yaml.safe_load(README_POD)["spec"]["containers"]
        wanted = f" {container['command'][-1]} (rw) from /dev/serial/by-id/"
        assert wanted in capsys.readouterr().out


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
