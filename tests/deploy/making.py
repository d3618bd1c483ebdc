"""The image, made of a copy of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = (
    ".dockerignore",
    "LICENSE",
    "deploy/image",
    "examples",
    "genericdp",
    "requirements",
    "schemas",
)


def copy_sources(checkout: Path, folder: Path) -> None:
    """Copy what the image is made of, and what was fetched for it before, with other times."""
    fetched = (f"build/image/{path.name}" for path in (checkout / "build/image").glob("[dw]*-*"))
    for name in (*SOURCES, *fetched):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (checkout / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(checkout / name, target, ignore=ignore, copy_function=shutil.copy)
        else:
            shutil.copy(checkout / name, target)


def make(folder: Path, *architecture: str) -> Path:
    """Make it there, and give the archive."""
    subprocess.run(
        [folder / "deploy/image/build-image", sys.executable, *architecture],
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
    )
    (archive,) = (folder / "build").glob("*.tar")
    return archive
