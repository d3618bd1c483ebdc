"""The hook for pre-commit and the action for GitHub, in a repository with configs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
GOOD = (ROOT / "tests/configs/valid/shortest.yaml").read_text()
BAD = (ROOT / "tests/configs/invalid/duplicate-key.yaml").read_text()
RISKY = GOOD.replace("/dev/fuse", "/dev/sd*")
"""Valid, but with a warning."""
FILES = {
    "README.md": "configs\n",
    "deploy/service.yaml": "kind: Service\n",
    "deploy/genericdp.yaml": GOOD,
    "nodes/genericdp gpu.yml": BAD,
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one good and one bad config, and what is neither."""
    for name, text in FILES.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(tmp_path / "repository", "init", "--quiet")
    git(tmp_path / "repository", "add", ".")
    return tmp_path / "repository"


def git(repository: Path, *words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=repository, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def run(
    repository: Path, *command: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that finds genericdp as one of a virtual environment."""
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("GENERICDP_", "GITHUB_"))}
    return subprocess.run(
        [*map(str, command)],
        cwd=repository,
        env={**ours, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )


def hooked(repository: Path) -> subprocess.CompletedProcess[str] | None:
    """Run the hook with the files that pre-commit gives it; None if there are none.

    It looks for ``files`` in the paths, and takes the type ``yaml`` from their suffixes.
    """
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["language"], hook["types"]) == (
        "genericdp-validate",
        "python",
        ["yaml"],
    )
    given = [
        name
        for name in git(repository, "ls-files", "-z").split("\0")
        if re.search(hook["files"], name) and name.endswith((".yaml", ".yml"))
    ]
    words = hook["entry"].split()
    return run(repository, *words, *hook.get("args", ()), *given) if given else None


def test_the_hook_refuses_a_commit_with_a_bad_config(repository: Path) -> None:
    said = hooked(repository)
    assert said is not None
    assert said.returncode == 2
    assert said.stdout.startswith("nodes/genericdp gpu.yml:8:5: ")
    assert said.stdout.endswith("\n1 problem in 1 file\n")

    git(repository, "rm", "--quiet", "--force", "nodes/genericdp gpu.yml")
    said = hooked(repository)
    assert said is not None
    assert (said.returncode, said.stdout) == (0, "1 file, 1 resource: valid\n")

    (repository / "deploy/genericdp.yaml").write_text(RISKY)
    said = hooked(repository)
    assert said is not None
    assert said.returncode == 2
    assert "(--strict)" in said.stdout

    git(repository, "rm", "--quiet", "--force", "deploy/genericdp.yaml")
    assert hooked(repository) is None


def action() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "action.yml").read_text()))


def validated(repository: Path, paths: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run what the action does once genericdp is installed, as GitHub's runner does."""
    given = {name: each.get("default", "") for name, each in action()["inputs"].items()}
    values = {f"inputs.{key}": value for key, value in {**given, "paths": paths, **inputs}.items()}
    values["runner.temp"] = str(repository.parent)
    installed = repository.parent / "genericdp/bin"
    if not installed.exists():
        installed.parent.mkdir()
        installed.symlink_to(PROGRAMS)
    _, step = action()["runs"]["steps"]
    environment = {
        name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    shell = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
    return run(repository, *shell, GITHUB_WORKSPACE=str(repository), **environment)


@pytest.mark.parametrize(
    "paths",
    [
        "deploy/genericdp.yaml\nnodes/genericdp gpu.yml\n",
        "deploy/genericdp.yaml\nnodes/*.yml",
        "**/genericdp*",
        "deploy/genericdp.yaml\nnodes",
    ],
)
def test_the_action_shows_what_is_wrong_with_a_config(repository: Path, paths: str) -> None:
    said = validated(repository, paths)
    place = "file=nodes/genericdp gpu.yml,line=8,col=5"
    line, total = said.stdout.splitlines()
    text = "nodes/genericdp gpu.yml:8:5: .resources[0].replicas: duplicate key"
    assert line.startswith(f"::error {place}::{text}")
    assert (said.returncode, total) == (2, "1 problem in 1 file")


def test_the_action_accepts_good_configs_and_warnings_only_if_told_to(repository: Path) -> None:
    assert validated(repository, "deploy/genericdp.yaml").returncode == 0
    (repository / "deploy/genericdp.yaml").write_text(RISKY)
    place = "::warning file=deploy/genericdp.yaml,line="
    for strict, code in (("true", 2), ("", 2), ("no", 2), ("false", 0)):
        said = validated(repository, "deploy/genericdp.yaml", strict=strict)
        assert (said.returncode, said.stdout.startswith(place)) == (code, True)


@pytest.mark.parametrize("paths", ["", "\n", "nothing/*.yaml", "--help", "$(touch here)"])
def test_the_action_fails_if_it_would_check_nothing(repository: Path, paths: str) -> None:
    assert validated(repository, paths).returncode == 2
    assert not (repository / "here").exists()
