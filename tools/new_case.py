"""Makes a case of a bug report: of a snapshot and a config.

What makes no difference to the output of the steps is left out: of a machine with a thousand
devices the few stay that matter.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from genericdp.snapshot.archive import ArchiveError, unpack
from tests.cases import running
from tests.cases.description import CaseError
from tests.testbeds.loading import Entry, record_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

_LINKS = ("subsystem", "driver", "iommu_group")
_OF_THE_KERNEL = {"SUBSYSTEM", "MAJOR", "MINOR", "DEVNAME", "DRIVER"}
_PROGRESS_SECONDS = 2.0
_EXAMPLE = """\
example:
  python -m tools.new_case groups/two-cards node.tar.gz config.yaml \\
    "Two cards of one make are two devices." "genericdp explain /dev/snd/pcmC1D0c"
"""

Part = tuple[str, ...]
"""What can be left out: a kind and a path, or for a key of a device also that key."""


def parts_of(root: Path) -> dict[Part, object]:
    """Return what a copied tree has, as ``machine.yaml`` writes it, devices before their keys."""
    parts: dict[Part, object] = {}
    for directory, names, files in os.walk(root / "sys/devices"):
        names.sort()
        found = _of_directory(Path(directory), root, parts, sorted([*names, *files]))
        parts.update(found)
    parts.update(_of_dev(root, _device_files(parts)))
    return parts


def _device_files(parts: Mapping[Part, object]) -> set[str]:
    """Return the names below /dev that come with devices of sysfs."""
    names: set[str] = set()
    for (_, path, *key), value in parts.items():
        if key == ["node"]:
            names.add(str(value).partition(" ")[2] or Path(path).name.replace("!", "/"))
        elif key == ["links"] and isinstance(value, list):
            names |= set(value)
    return names


def _of_dev(root: Path, known: Collection[str]) -> Iterator[tuple[Part, object]]:
    """Yield what else is in /dev."""
    for directory, names, files in os.walk(root / "dev"):
        for file in sorted(Path(directory) / name for name in (*names, *files)):
            path = f"/{file.relative_to(root)}"
            if path.removeprefix("/dev/") in known:
                continue
            if file.is_symlink():
                yield ("links", path), str(file.readlink())
            elif file.is_file():
                yield ("files", path), ""


def _of_directory(
    directory: Path, root: Path, known: Mapping[Part, object], names: Iterable[str]
) -> Iterator[tuple[Part, object]]:
    """Yield what a directory of sysfs has: a device, or a directory of the device above."""
    path = f"/{directory.relative_to(root / 'sys/devices')}"
    device = next((above for above in _upwards(path) if ("devices", above) in known), None)
    if (directory / "uevent").is_file() and (directory / "subsystem").is_symlink():
        device = path
        yield ("devices", path), (directory / "subsystem").readlink().name
        for key, text in _keys(directory, root):
            yield ("devices", path, key), text
    for name in names:
        file = directory / name
        if file.is_symlink():
            if name not in _LINKS:
                yield ("links", f"/sys/devices{path}/{name}"), str(file.readlink())
        elif file.is_file() and name != "uevent" and device is not None:
            with contextlib.suppress(UnicodeDecodeError):  # a binary attribute
                key = f"{path}/{name}".removeprefix(f"{device}/")
                yield ("devices", device, key), file.read_text().removesuffix("\n")


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def _keys(directory: Path, root: Path) -> Iterator[tuple[str, object]]:
    """Yield the keys of a device that are not attributes."""
    for link in _LINKS[1:]:
        if (directory / link).is_symlink():
            yield link, (directory / link).readlink().name
    kernel = _pairs((directory / "uevent").read_text().splitlines())
    kernel["SUBSYSTEM"] = (directory / "subsystem").readlink().name
    entry = Entry(path=str(directory), node=kernel.get("DEVNAME", ""), kernel=kernel)
    if name := entry.node:
        is_named_so = name == directory.name.replace("!", "/")
        yield "node", entry.number if is_named_so else f"{entry.number} {name}"
    yield from ((key, value) for key, value in kernel.items() if key not in _OF_THE_KERNEL)
    recorded = root / "run/udev/data" / record_name(entry)
    lines = recorded.read_text().splitlines() if recorded.exists() else []
    yield from _pairs(line[2:] for line in lines if line.startswith("E:")).items()
    if tags := [line[2:] for line in lines if line.startswith("G:")]:
        yield "TAGS", f":{':'.join(tags)}:"
    if links := [line[2:] for line in lines if line.startswith("S:")]:
        yield "DEVLINKS", " ".join(f"/dev/{link}" for link in links)
        yield "links", [link for link in links if (root / "dev" / link).is_symlink()]


def _pairs(lines: Iterable[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines if "=" in line)


def text_of(parts: Mapping[Part, object]) -> str:
    """Return a ``machine.yaml`` of these parts."""
    document: dict[str, dict[str, object]] = {"files": {}, "links": {}, "devices": {}}
    places: dict[str, dict[str, object]] = {"": document["devices"]}
    for (kind, path, *key), value in parts.items():
        if kind != "devices":
            document[kind][path] = value
        elif not key:
            parents = (*_upwards(path.rpartition("/")[0]), "")
            above = next(parent for parent in parents if parent in places)
            places[path] = {"subsystem": value}
            places[above][path.removeprefix(above)] = places[path]
        elif path in places:  # else its device was left out
            places[path][key[0]] = value
    given = {kind: value for kind, value in document.items() if value}
    return yaml.safe_dump(given, default_flow_style=None, sort_keys=False, width=100)


def needed(parts: Sequence[Part], is_enough: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """Return parts of which none can be left out alone; ``is_enough`` decides what suffices."""
    kept = list(parts)
    size = len(kept)
    while size:
        start = 0
        while start < len(kept):
            rest = [*kept[:start], *kept[start + size :]]
            if is_enough(rest):
                kept = rest
            else:
                start += size
        size //= 2
    return kept


class _Case:
    """A case that is being made."""

    def __init__(self, directory: Path, parts: Mapping[Part, object]) -> None:
        self._directory = directory
        self._parts = parts
        self._told = time.monotonic()

    def run(self, parts: Iterable[Part]) -> str:
        """Return the transcript on a machine that has these parts only."""
        kept = set(parts)
        wanted = {part: value for part, value in self._parts.items() if part in kept}
        (self._directory / "machine.yaml").write_text(text_of(wanted) or "{}\n")
        return running.run(self._directory)

    def reduce(self) -> str:
        """Leave out of the machine what makes no difference; return the transcript."""
        expected = self.run(self._parts)

        def is_enough(parts: Sequence[Part]) -> bool:
            if time.monotonic() - self._told > _PROGRESS_SECONDS:
                print(f"still looking for what matters: {len(parts)} parts", file=sys.stderr)
                self._told = time.monotonic()
            try:
                return self.run(parts) == expected
            except CaseError:
                return False

        # Whole devices first: the keys of one that is left out go with it.
        whole: list[Part] = [part for part in self._parts if len(part) == 2]
        keys: list[Part] = [part for part in self._parts if len(part) > 2]
        whole = needed(whole, lambda parts: is_enough([*parts, *keys]))
        keys = [key for key in keys if key[:2] in whole]
        keys = needed(keys, lambda parts: is_enough([*whole, *parts]))
        return self.run([*whole, *keys])


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a case; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.new_case",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", metavar="TOPIC/NAME", help="the new directory of tests/cases")
    parser.add_argument("snapshot", type=Path, help="a file of genericdp snapshot")
    parser.add_argument("config", type=Path, help="the config, of one file")
    parser.add_argument("why", help="why the case matters, in a sentence")
    parser.add_argument(
        "steps", nargs="*", default=["genericdp discover"], help="the steps (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    case = running.DIRECTORY / given.case
    if case.exists():
        parser.error(f"{case} exists")
    with tempfile.TemporaryDirectory() as made:
        root, draft = Path(made, "root"), Path(made, "case")
        root.mkdir()
        draft.mkdir()
        try:
            with given.snapshot.open("rb") as packed:
                unpack(packed, root)
            shutil.copyfile(given.config, draft / "config.yaml")
            steps = "\n".join(f"$ {step}" for step in given.steps)
            (draft / "expect.txt").write_text(f"# {given.why}\n\n{steps}\n")
            transcript = _Case(draft, parts_of(root)).reduce()
            (draft / "expect.txt").write_text(transcript)
            shutil.copytree(draft, case)
        except (ArchiveError, OSError, CaseError) as error:
            parser.error(str(error))
    lines = sum(len(file.read_text().splitlines()) for file in case.iterdir())
    print(f"{transcript}\n{case}: {lines} lines; read them, and shorten the config to what matters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
