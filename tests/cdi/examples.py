"""Test what ``genericdp cdi generate`` makes of each example, on the hosts of ``tests.hosts``.

As a program with the name of a directory it writes the specs of each host into a directory in it.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli import main

from tests.hosts.hosts import NODE, Host, all_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Generated:
    """The specs of an example on one of its hosts."""

    host: Host
    files: tuple[Path, ...]
    """The spec files."""
    code: int
    said: str
    """On stderr."""


def generate(host: Host, directory: Path) -> Generated:
    """Have the specs of an example written to a new directory below ``directory``."""
    output = directory / str(host)
    directory.mkdir(parents=True, exist_ok=True)
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as temporary:
        root = host.build(Path(temporary))
        where = ("--config", str(host.config), "--root", str(root), "--node-name", NODE)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            code = main(["cdi", "generate", *where, "--output", str(output)])
    files = tuple(sorted(output.iterdir())) if output.exists() else ()
    return Generated(host, files, code, said.getvalue())


def generate_all(directory: Path) -> Iterator[Generated]:
    """Do so for each example and each of its hosts."""
    for host in all_hosts():
        yield generate(host, directory)


if __name__ == "__main__":
    for entry in generate_all(Path(sys.argv[1])):
        sys.stdout.write(
            f"{entry.host}: exit code {entry.code}, {len(entry.files)} files\n{entry.said}"
        )
