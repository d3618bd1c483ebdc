"""The man page and the completion files, and that the wheel brings them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from genericdp.cli import main
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


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_a_completion_file_is_what_the_command_prints(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == (SHARE / COMPLETIONS[shell]).read_text()


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


def test_the_wheel_installs_all_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = {
            name.partition(".data/data/share/")[2]: archive.read(name).decode()
            for name in archive.namelist()
            if ".data/" in name
        }
    shipped = {str(path.relative_to(SHARE)): path for path in SHARE.rglob("*") if path.is_file()}
    assert found == {name: path.read_text() for name, path in shipped.items()}
    assert found.keys() == {*COMPLETIONS.values(), "man/man1/genericdp.1"}


def test_zsh_completes_at_once_from_a_folder_of_functions(tmp_path: Path) -> None:
    """The first Tab loads the file, and must not be lost."""
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here")
    program = (
        f"fpath=({(SHARE / COMPLETIONS['zsh']).parent})\nautoload -Uz _genericdp\n"
        '_describe() { print -rl -- "${(@P)2}" }\n_arguments() { print -rl -- "$@" }\n'
        'words=(genericdp "") CURRENT=2\n_genericdp\n'
        'words=(genericdp status "") CURRENT=3\n_genericdp\n'
        'words=(genericdp cdi "") CURRENT=3\n_genericdp\n'
        'words=(genericdp cdi list "") CURRENT=4\n_genericdp\n'
    )
    ended = subprocess.run(
        ["zsh", "-f", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    first_words = [*dict.fromkeys(name.split()[0] for name in COMMANDS)]
    shown = [one.partition(":")[0] for one in ended.stdout.splitlines()]
    assert shown[: len(first_words)] == first_words
    assert {"generate", "watch", "list"} <= {*shown}
    assert any(one.startswith("*--cdi-dir=") for one in ended.stdout.splitlines())
    assert "*--output=[how to print]:value:(text wide json yaml)" in ended.stdout
