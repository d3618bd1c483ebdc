"""The kit for makers of hardware, examples/driver, as its README says to use it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

KIT = Path(__file__).parents[1] / "examples/driver"
VALID = "2 files, 1 resource: valid\n"
CHECKED = "deviceclasses.yaml: as expected\nmachines/two-cards.txt: as expected\n"
NO_HELM = "the chart: not rendered, helm is not on PATH\n"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Copy it; there is no helm on PATH."""
    return shutil.copytree(KIT, tmp_path / "driver")


def run(kit: Path, *command: str) -> tuple[int, str]:
    """Run a command in the kit; give its exit code and what it prints."""
    done = subprocess.run(
        command,
        cwd=kit,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def replace(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_its_check_passes_and_writes_the_files_that_are_there(kit: Path) -> None:
    assert run(kit, "./check") == (0, f"{VALID}{CHECKED}{NO_HELM}")
    assert run(kit, "./check", "--write") == (0, f"{VALID}{NO_HELM}")
    written = {path.relative_to(kit): path.read_bytes() for path in files_of(kit)}
    assert written == {path.relative_to(KIT): path.read_bytes() for path in files_of(KIT)}
    assert run(kit, "./check", "--wirte") == (2, "usage: check [--write]\n")


def files_of(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("config/driver.yaml", "slot: ", "socket: ", r'\+  attributes  driver .*, socket "0000:03'),
        ("policy.yaml", '/dev/acme*"', '/dev/acmectl", "/dev/acme0"',
         "/dev/acme1 is not among the device nodes that are allowed"),
        ("values.yaml", "acme.example  ", "usb.example.org ", r'\+.*driver == "usb.example.org"'),
        ("pod.yaml", "Name: card.", "Name: crad.", "nothing is for acme.example, or a DeviceClass"),
    ],
)  # fmt: skip
def test_its_check_fails_if_a_mistake_is_made(
    kit: Path, file: str, old: str, new: str, said: str
) -> None:
    replace(kit / file, old, new)
    code, printed = run(kit, "./check")
    assert code in {1, 2}
    assert re.search(said, printed), printed


def test_its_check_misses_half_a_machine(kit: Path) -> None:
    (kit / "machines/two-cards.txt").rename(kit / "machines/tow-cards.txt")
    code, printed = run(kit, "./check")
    assert code == 1
    for name in ("tow-cards.txt", "two-cards.tar.gz"):
        assert f"machines/{name}: each machine needs" in printed


def test_a_copy_is_renamed_by_the_command_of_the_readme(kit: Path) -> None:
    (command,) = re.findall(r"^sed -i .*\\\n.*$", (KIT / "README.md").read_text(), re.MULTILINE)
    assert run(kit, "sh", "-c", command) == (0, "")
    (kit / "machines/two-cards.txt").write_text("$ genericdp hardware -o json\n")
    assert run(kit, "./check", "--write")[0] == 0
    left = [path.name for path in files_of(kit) if b"acme" in path.read_bytes().lower()]
    assert left == ["README.md", "two-cards.txt"]
    (claims, _) = yaml.safe_load_all((kit / "pod.yaml").read_text())
    (request,) = claims["spec"]["spec"]["devices"]["requests"]
    classes = [*yaml.safe_load_all((kit / "deviceclasses.yaml").read_text())]
    assert request["exactly"]["deviceClassName"] == classes[0]["metadata"]["name"]
    assert classes[0]["metadata"]["name"] == "board.fpga.example.org"
    values = yaml.safe_load((kit / "values.yaml").read_text())["genericdp"]
    assert (values["dra"]["driver"], values["fullnameOverride"]) == (
        "fpga.example.org",
        "fpga-driver",
    )
