"""A program of which nothing is in memory: a copy on disk that nobody else runs.

What a running process has mapped stays in the page cache whatever is asked of the kernel, and the
benchmark runs the same interpreter and libraries itself.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import sysconfig
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.sides import Program

if TYPE_CHECKING:
    from collections.abc import Iterator

_REPOSITORY = Path(__file__).parent.parent
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_NOT_NEEDED = ("test", "tests", "idlelib", "ensurepip", "config-3*", "pip", "mypy*", "*mypyc*")


def lacking() -> str:
    """Say what keeps caches from being dropped here; empty if nothing does."""
    return "" if os.access(_DROP_CACHES, os.W_OK) else "dropping the page cache needs root"


@contextmanager
def copied() -> Iterator[Program]:
    """Copy interpreter, libraries and project to the disk that the project lies on."""
    above = _REPOSITORY / "build"
    above.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cold", dir=above) as name:
        folder = Path(name)
        version = f"python{sysconfig.get_python_version()}"
        library, packages = folder / "lib" / version, folder / "packages"
        ignore = shutil.ignore_patterns(*_NOT_NEEDED)
        without_packages = shutil.ignore_patterns(*_NOT_NEEDED, "site-packages", "dist-packages")
        shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=without_packages)
        shutil.copytree(sysconfig.get_path("purelib"), packages, ignore=ignore)
        for part in ("genericdp", "bench", "schemas"):
            shutil.copytree(_REPOSITORY / part, folder / "project" / part)
        python = folder / "python"
        shutil.copy2(Path(sys.executable).resolve(), python)
        for shared in Path(sysconfig.get_config_var("LIBDIR") or "/nowhere").glob("libpython3.*"):
            shutil.copy2(shared, folder / "lib" / shared.name)
        os.sync()  # what is not on disk yet cannot be dropped
        yield Program(
            python=os.fspath(python),
            folder=folder / "project",
            environment={
                "PYTHONHOME": os.fspath(folder),
                "PYTHONPATH": os.fspath(packages),
                "LD_LIBRARY_PATH": os.fspath(folder / "lib"),
            },
        )


def drop(program: Program) -> bool:
    """Have the kernel forget what it has read; says whether it did forget the program."""
    _DROP_CACHES.write_text("1", encoding="ascii")
    interpreter = os.open(program.python, os.O_RDONLY)
    try:
        os.preadv(interpreter, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise
        return True
    finally:
        os.close(interpreter)
    return False
