"""The hosts of this directory: one for each ``examples/configs/NAME.yaml``.

    python -m tests.hosts.hosts NAME    # writes the golden files again, to be read

``NAME/`` holds

machine.umockdev, or a file ``machine`` with the name of a testbed
    The host in the format of ``tests.testbeds``. ``machine-VARIANT.umockdev`` is a further one,
    with ``discover-VARIANT.txt``, ``allocate-VARIANT.txt`` and ``view-VARIANT.yaml``.
files/
    What else lies below the root; of a variant ``files-VARIANT/``.
discover.txt, allocate.txt
    What these commands print; in ``allocate.txt`` after lines ``$ genericdp allocate …``.
view.yaml
    What pods must see by the peer's documentation, not by ours: see ``View``.
facts.md
    Where these facts come from.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from genericdp.cli import main

from tests.testbeds import loading

DIRECTORY = Path(__file__).parent
EXAMPLES = DIRECTORY.parents[1] / "examples/configs"
NAMES = tuple(sorted(path.name for path in DIRECTORY.iterdir() if (path / "facts.md").exists()))
NODE = "node-1"
COMMAND = "$ genericdp allocate "


@dataclass(frozen=True, slots=True)
class Host:
    """A host and the example that is applied to it."""

    name: str
    variant: str = ""

    def __str__(self) -> str:
        return self._with_variant(self.name)

    @property
    def config(self) -> Path:
        return EXAMPLES / f"{self.name}.yaml"

    def file(self, stem: str, suffix: str) -> Path:
        """One of its files: its own if it has a variant."""
        return DIRECTORY / self.name / f"{self._with_variant(stem)}{suffix}"

    def _with_variant(self, stem: str) -> str:
        return f"{stem}-{self.variant}" if self.variant else stem

    @property
    def machine(self) -> Path:
        """Its devices as text."""
        named = self.file("machine", "")
        if named.exists():
            return loading.path_of(named.read_text().strip())
        return self.file("machine", ".umockdev")

    def requests(self) -> list[list[str]]:
        """The arguments of each ``allocate`` in its golden file."""
        lines = self.file("allocate", ".txt").read_text().splitlines()
        return [line.removeprefix(COMMAND).split() for line in lines if line.startswith(COMMAND)]

    def build(self, directory: Path) -> Path:
        """Make its tree, of two NUMA nodes unless it says else."""
        root = directory / "root"
        loading.build(self.machine, root)
        nodes = root / "sys/devices/system/node"
        nodes.mkdir(parents=True)
        (nodes / "online").write_text("0-1\n")
        if (files := self.file("files", "")).is_dir():
            shutil.copytree(files, root, symlinks=True, dirs_exist_ok=True)
        return root


def all_hosts() -> list[Host]:
    """Every host and every variant of one."""
    found = []
    for name in NAMES:
        stems = {path.name.partition(".")[0] for path in (DIRECTORY / name).glob("machine*")}
        found += [Host(name, stem.removeprefix("machine").lstrip("-")) for stem in sorted(stems)]
    return found


def printed_by(command: str, *arguments: str, config: Path, root: Path) -> str:
    """Run a command on a tree and give what it prints, its failure too, without their paths."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        where = ("--config", str(config), "--root", str(root), "--node-name", NODE)
        main([command, *where, *arguments])
    printed = out.getvalue().replace(str(root), "ROOT")
    return printed.replace(str(config), f"examples/configs/{config.name}")


def discovered(host: Host, root: Path) -> str:
    return printed_by("discover", config=host.config, root=root)


def allocated(host: Host, root: Path) -> str:
    """Return the expected content of ``allocate.txt``."""
    return "".join(
        f"{COMMAND}{' '.join(request)}\n"
        + printed_by("allocate", *request, config=host.config, root=root)
        for request in host.requests()
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The expected view of a container that requests devices, as the peer documents it."""

    request: str
    """``RESOURCE=N``."""
    choose: tuple[str, ...] = ()
    """Ids that must be among those that it gets."""
    ids: tuple[str, ...]
    """All that the resource offers; ``ID x N`` is one with shares. If none, nothing is asked."""
    devices: tuple[str, ...] = ()
    """``HOST``, ``HOST:CONTAINER``, ``HOST:CONTAINER:rwm`` or ``HOST::rwm``; ``rw`` if not said."""
    mounts: tuple[str, ...] = ()
    """The same; ``ro`` if not said."""
    env: dict[str, str]
    cdi: tuple[str, ...] = ()
    notOffered: tuple[str, ...] = ()  # noqa: N815  # as the file has it
    """Neither an id nor a node of anything that is offered."""
    numa: dict[str, list[int]]
    """NUMA nodes of devices, for those that are named."""
    edits: dict[str, str]
    """Text of the example and what replaces it first: a variant that its comments report."""
    uncomment: tuple[str, ...] = ()
    """How commented blocks of the example begin that are part of the variant."""


_LISTS = ("choose", "ids", "devices", "mounts", "cdi", "notOffered", "uncomment")


def views(host: Host) -> list[View]:
    """The views of a host; its file holds one, or a list of them."""
    loaded: Any = yaml.safe_load(host.file("view", ".yaml").read_text())
    found = []
    for entry in loaded if isinstance(loaded, list) else [loaded]:
        lists: Any = {key: tuple(entry.pop(key, ())) for key in _LISTS}
        lists["ids"] = tuple(share for text in lists["ids"] for share in _shares(text))
        maps: Any = {key: entry.pop(key, {}) for key in ("env", "edits", "numa")}
        found.append(View(**entry, **maps, **lists))
    return found


def _shares(text: str) -> list[str]:
    """Expand ``ID x N`` to an id and its further shares."""
    name, _, count = text.partition(" x ")
    return [name, *(f"{name}::{share}" for share in range(1, int(count or 1)))]


def edited(host: Host, view: View, directory: Path) -> Path:
    """The example as the view has it; each edit must fit once."""
    text = host.config.read_text()
    for start in view.uncomment:
        text = _uncommented(text, start)
    for old, new in view.edits.items():
        assert text.count(old) == 1, f"{host.config.name} has {old!r} {text.count(old)} times"
        text = text.replace(old, new)
    file = directory / host.config.name
    file.write_text(text)
    return file


def _uncommented(text: str, start: str) -> str:
    """Take ``# `` off the line that begins so, and off the comments right below it."""
    lines = text.splitlines()
    (first,) = [at for at, line in enumerate(lines) if line.lstrip().startswith(f"# {start}")]
    for at in range(first, len(lines)):
        if not lines[at].lstrip().startswith("# "):
            break
        lines[at] = lines[at].replace("# ", "", 1)
    return "\n".join(lines) + "\n"


def _write_goldens(name: str) -> None:
    for host in [each_host for each_host in all_hosts() if each_host.name == name]:
        with tempfile.TemporaryDirectory() as directory:
            root = host.build(Path(directory))
            host.file("discover", ".txt").write_text(discovered(host, root))
            host.file("allocate", ".txt").write_text(allocated(host, root))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m tests.hosts.hosts {'|'.join(NAMES) or 'NAME'}")
    _write_goldens(sys.argv[1])
