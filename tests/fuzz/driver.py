"""Fuzzes one target in this process: guided by coverage (atheris) or by hypothesis.

    python -m tests.fuzz.driver TARGET FOLDER --seconds 60 --seed 1 [--engine hypothesis]

FOLDER gets ``stats.json``, what was found as ``found-N``, and the inputs as ``inputs/``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import time
from pathlib import Path
from typing import Any

# Read by gRPC when it is imported.
os.environ["GRPC_VERBOSITY"] = "NONE"
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from tests.fuzz.watching import Watched, minimised, resident_kib, slope, watching

CORPUS = Path(__file__).parent / "corpus"
MAX_LENGTH = 6000
ENGINES = ("atheris", "hypothesis")
_ROUND = 1000
_KEPT = 3000
"""So many inputs of hypothesis are kept for the look at memory."""


def begin(name: str) -> list[bytes]:
    """Give what a target starts with: its seeds, and what was found earlier."""
    from tests.fuzz.targets import target

    found = sorted((CORPUS / name).glob("*")) if (CORPUS / name).is_dir() else []
    return [*target(name).seeds(), *(file.read_bytes() for file in found)]


def main() -> None:
    """Run one engine, or the look at memory that follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=(*ENGINES, "minimise", "memory"), default=ENGINES[0])
    given = parser.parse_args()
    run = {"atheris": _atheris, "hypothesis": _hypothesis}.get(given.engine)
    if given.engine == "minimise":
        _minimise(given.target, given.folder)
    elif run is None:
        _memory(given.target, given.folder, given.seconds)
    else:
        run(given.target, given.folder, given.seconds, given.seed)


def _atheris(name: str, folder: Path, seconds: float, seed: int) -> None:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["genericdp"]):
        from tests.fuzz.targets import target

        chosen = target(name)
        seeds = begin(name)
    inputs = folder / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    for data in seeds:
        (inputs / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    words = folder / "words"
    words.write_text("".join(f'"{_quoted(word)}"\n' for word in chosen.WORDS if len(word) < 60))
    flags = {
        "max_total_time": int(seconds),
        "seed": seed,
        "max_len": MAX_LENGTH,
        "timeout": 0,  # Watched has its own
        "rss_limit_mb": 4096,
        "print_final_stats": 0,
        "verbosity": 0,
    }
    arguments = [f"-{key}={value}" for key, value in flags.items()]
    with chosen.opened() as run, watching():
        watched = Watched(run, folder, seconds=chosen.SECONDS)
        atheris.Setup(["fuzz", *arguments, f"-dict={words}", str(inputs)], watched)
        atheris.Fuzz()


def _quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _hypothesis(name: str, folder: Path, seconds: float, seed: int) -> None:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from tests.fuzz.mutating import inputs
    from tests.fuzz.targets import target

    chosen = target(name)
    seeds = begin(name)
    kept = folder / "inputs"
    kept.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    with chosen.opened() as run, watching():
        watched = Watched(run, folder, seconds=chosen.SECONDS)
        for data in seeds:
            watched(data)

        def attempt(data: bytes) -> None:
            if time.monotonic() < end:
                watched(data)
                if watched.inputs < _KEPT:
                    (kept / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

        while time.monotonic() < end:
            seed += 1
            search = settings(
                max_examples=_ROUND,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            seeded(seed)(search(given(inputs(seeds, chosen.WORDS))(attempt)))()
        watched.tell()


def _memory(name: str, folder: Path, seconds: float) -> None:
    """Repeat the inputs of a run; without an engine, what grows is ours."""
    from tests.fuzz.targets import target

    chosen = target(name)
    inputs = [file.read_bytes() for file in sorted((folder / "inputs").iterdir())[:_KEPT]]
    points: list[tuple[int, int]] = []
    with chosen.opened() as run, watching():
        watched = Watched(run, folder / "memory", seconds=chosen.SECONDS)
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(points) < 4:
            for data in inputs:
                watched(data)
                if watched.inputs % 100 == 0:
                    points.append((watched.inputs, resident_kib()))
            points.append((watched.inputs, resident_kib()))
    settled = [point for point in points if point[0] > watched.inputs / 2]
    inputs_then = settled[-1][0] - settled[0][0]
    grown = round(slope(settled) * inputs_then)
    (folder / "memory.txt").write_text(f"{grown:+} {inputs_then}\n")


def _minimise(name: str, folder: Path) -> None:
    from tests.fuzz.targets import target

    chosen = target(name)
    with chosen.opened() as run, watching():
        watched = Watched(run, folder / "minimising", seconds=chosen.SECONDS)
        for file in sorted(folder.glob("found-*[0-9]")):
            why = watched.failure(file.read_bytes())
            if why is not None:
                place = why.partition(": ")[0]
                least = minimised(
                    file.read_bytes(),
                    lambda data, place=place: (watched.failure(data) or "").startswith(place),  # type: ignore[misc]
                )
                file.with_name(f"{file.name}.min").write_bytes(least)


if __name__ == "__main__":
    main()
