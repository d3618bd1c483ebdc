"""The two sides: a wheel of the base commit, and the working tree."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE = "7edf06a"
"""The commit to compare with unless ``--base`` names another one."""
ROOT = Path(__file__).parents[2]
_WORKER = Path(__file__).with_name("worker.py")
_BATCH_SECONDS = 300.0


class CompareError(Exception):
    """The comparison cannot be made."""


def installed(ref: str) -> Path:
    """Return a directory with the package of a commit; it is built once and cached."""
    commit = _output("git", "-C", str(ROOT), "rev-parse", "--verify", f"{ref}^{{commit}}").strip()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "genericdp-compare"
    directory = cache / commit
    if (directory / "genericdp").is_dir():
        return directory
    print(f"building {ref} ({commit[:12]}) into {directory}", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        source, wheels, package = (Path(scratch, name) for name in ("source", "wheels", "package"))
        source.mkdir()
        archive = Path(scratch, "source.tar")
        _output("git", "-C", str(ROOT), "archive", "--output", str(archive), commit)
        _output("tar", "-xf", str(archive), "-C", str(source))
        build = ("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(wheels))
        _output(*pip, *build, str(source))
        (wheel,) = wheels.glob("*.whl")
        # Without its dependencies: both sides use those that are installed here.
        _output(*pip, "install", "-q", "--no-deps", "--target", str(package), str(wheel))
        if not directory.exists():  # somebody else may have built it meanwhile
            package.rename(directory)
    return directory


def environment(*packages: Path) -> dict[str, str]:
    """Return the environment of a process that imports genericdp from these directories."""
    kept = {key: text for key, text in os.environ.items() if not key.startswith("GENERICDP_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, packages)), "PYTHONUTF8": "1"}


def _output(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise CompareError(f"{' '.join(command[:6])} … failed:\n{done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Result:
    """What one command did."""

    code: object
    out: Any
    """Parsed, where it is JSON."""
    err: str


@dataclass(slots=True)
class Side:
    """One genericdp and the process that runs its commands."""

    name: str
    package: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def begin(self, batch: list[list[str]]) -> None:
        """Start to run commands."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(self.package),
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(batch).encode() + b"\n")
        self._process.stdin.flush()

    def end(self, count: int) -> list[Result]:
        """Return the results; where the process ended or hung, each says so."""
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            answer = self._process.stdout.readline() if selector.select(_BATCH_SECONDS) else b""
        if answer.endswith(b"\n"):
            return [
                Result(one["code"], _parsed(one["out"]), one["err"]) for one in json.loads(answer)
            ]
        hung = self._process.poll() is None and not answer
        self._process.kill()
        ended = self._process.wait()
        self._process = None
        said = f"no answer within {_BATCH_SECONDS:.0f} s" if hung else f"ended with {ended}"
        return [Result(f"the process that ran it: {said}", None, "")] * count

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def _parsed(out: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        return json.loads(out)
    except ValueError:
        return out
