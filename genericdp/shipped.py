"""Finds what is shipped with the code: examples and schemas."""

from __future__ import annotations

from pathlib import Path

from genericdp.errors import GenericdpError


def shipped(name: str) -> Path:
    """Return the path of a file, such as ``schemas/...``; raise GenericdpError if it is missing."""
    package = Path(__file__).parent
    # In a wheel it lies inside of the package, in a checkout beside it.
    for folder in (package, package.parent):
        if (folder / name).is_file():
            return folder / name
    raise GenericdpError(
        f"{Path(name).name} is missing from this installation: install genericdp again"
    )
