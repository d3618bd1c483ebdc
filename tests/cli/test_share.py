"""The man page and the completion files, and that the wheel brings them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from genericdp.cli.command_line import COMMANDS, OPTIONS

ROOT = Path(__file__).parents[2]
SHARE = ROOT / "share"
PAGE = SHARE / "man/man1/genericdp.1"
COMPLETIONS = {
    "bash": "bash-completion/completions/genericdp",
    "zsh": "zsh/site-functions/_genericdp",
    "fish": "fish/vendor_completions.d/genericdp.fish",
}


def test_what_is_generated_is_fresh() -> None:
    """``make generate`` makes it so."""
    ended = subprocess.run([sys.executable, ROOT / "tools/generate_share", "--check"], check=False)
    assert ended.returncode == 0


def test_the_manual_has_every_command_and_option() -> None:
    page = PAGE.read_text()
    assert re.findall(r"^\.SS genericdp (.+)$", page, re.MULTILINE) == [*COMMANDS]
    found = re.findall(r"^\.B .*\\-\\-(\S+)", page, re.MULTILINE)
    options = {one.replace("\\-", "-") for one in found}
    assert options >= {*OPTIONS, "help"}


def test_groff_has_nothing_to_say_of_the_manual() -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    command = ["groff", "-man", "-ww", "-rCHECKSTYLE=3", "-Tascii", "-P-cbou", str(PAGE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "-o text|wide|json|yaml" in ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "content")
    return folder / "content"


def test_the_wheel_installs_all_of_it(wheel: Path) -> None:
    (share,) = wheel.glob("*.data/data/share")
    assert contents(share) == contents(SHARE)
    assert contents(share).keys() == {*COMPLETIONS.values(), "man/man1/genericdp.1"}


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_a_completion_file_is_what_the_command_prints(shell: str, wheel: Path) -> None:
    for installed in (ROOT, wheel):
        ended = completion(shell, installed)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout == (SHARE / COMPLETIONS[shell]).read_text()


def completion(shell: str, installed: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "genericdp", "completion", shell]
    return subprocess.run(command, cwd=installed, capture_output=True, text=True, check=False)


def test_an_installation_without_its_completion_files_says_so(tmp_path: Path, wheel: Path) -> None:
    shutil.copytree(wheel / "genericdp", tmp_path / "genericdp")
    shutil.rmtree(tmp_path / "genericdp/share/zsh")
    ended = completion("zsh", tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    expected = "genericdp: _genericdp is missing from this installation: install genericdp again\n"
    assert ended.stderr == expected
