"""The hook for pre-commit and the action for GitHub, in a repository with configs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
GOOD = (ROOT / "tests/configs/valid/shortest.yaml").read_text()
FILES = {
    "README.md": "configs\n",
    "deploy/service.yaml": "kind: Service\n",
    "deploy/genericdp.yaml": GOOD,
    "deploy/genericdp-risky.yaml": GOOD.replace("/dev/fuse", "/dev/sd*"),
    "nodes/genericdp gpu.yml": (ROOT / "tests/configs/invalid/duplicate-key.yaml").read_text(),
}
"""One is good, one has a warning, one is bad, and two are not configs."""
BAD = "nodes/genericdp gpu.yml:8:5: .resources[0].replicas: duplicate key"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "repository"


def run(repository: Path, *command: str, **environment: str) -> tuple[int, list[str]]:
    """Run a program that finds genericdp as one of a virtual environment."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("GENERICDP_", "GITHUB_"))}
    path = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    done = subprocess.run(
        command,
        cwd=repository,
        env={**ours, **path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.splitlines()


def test_the_hook_is_for_configs_and_refuses_bad_and_risky_ones(repository: Path) -> None:
    """pre-commit looks for ``files`` in the paths, and takes the type from their suffixes."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["language"], hook["types"]) == (
        "genericdp-validate",
        "python",
        ["yaml"],
    )
    given = [name for name in FILES if name.endswith("ml") and re.search(hook["files"], name)]
    assert given == [*FILES][2:]
    words = [*hook["entry"].split(), *hook.get("args", ())]
    assert run(repository, *words, given[0]) == (0, ["1 file, 1 resource: valid"])
    code, lines = run(repository, *words, given[1])
    assert (code, "(--strict)" in lines[-1]) == (2, True)
    code, lines = run(repository, *words, *given[::2])
    assert (code, lines[0].startswith(BAD), lines[-1]) == (2, True, "1 problem in 1 file")


def validated(repository: Path, paths: str, **inputs: str) -> tuple[int, list[str]]:
    """Run what the action does once genericdp is installed, as GitHub's runner does."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: entry.get("default", "") for name, entry in action["inputs"].items()}
    values = {f"inputs.{key}": value for key, value in {**given, "paths": paths, **inputs}.items()}
    values["runner.temp"] = str(repository.parent)
    installed = repository.parent / "genericdp/bin"
    if not installed.exists():
        installed.parent.mkdir()
        installed.symlink_to(PROGRAMS)
    _, step = action["runs"]["steps"]
    environment = {
        name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    shell = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
    return run(repository, *shell, GITHUB_WORKSPACE=str(repository), **environment)


@pytest.mark.parametrize(
    "paths", ["deploy/genericdp.yaml\nnodes/*.yml", "**/genericdp?gpu*", "nodes"]
)
def test_the_action_shows_what_is_wrong_with_a_config(repository: Path, paths: str) -> None:
    code, (line, total) = validated(repository, paths)
    place = "::error file=nodes/genericdp gpu.yml,line=8,col=5::"
    assert (code, total, line[: len(place + BAD)]) == (2, "1 problem in 1 file", place + BAD)


@pytest.mark.parametrize(("strict", "code"), [("true", 2), ("", 2), ("no", 2), ("false", 0)])
def test_the_action_accepts_warnings_only_if_told_to(
    repository: Path, strict: str, code: int
) -> None:
    ended, (line, *_) = validated(repository, "deploy/genericdp-risky.yaml", strict=strict)
    place = "::warning file=deploy/genericdp-risky.yaml,line="
    assert (ended, line.startswith(place)) == (code, True)


@pytest.mark.parametrize("paths", ["\n", "nothing/*.yaml", "--help", "$(touch here)"])
def test_the_action_fails_if_it_would_check_nothing(repository: Path, paths: str) -> None:
    assert validated(repository, paths)[0] == 2
    assert not (repository / "here").exists()
