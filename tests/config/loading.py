"""A config given as a string, and what is said of it."""

from __future__ import annotations

from genericdp.config.files import STDIN, Loaded
from genericdp.config.load import load

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
FUSE = "  - name: a/fuse\n    match: [{path: /dev/fuse}]\n"


def loaded(text: str | bytes) -> Loaded:
    """Return what becomes of a whole config."""
    return load([STDIN], pipes={STDIN: text if isinstance(text, bytes) else text.encode()})


def places(text: str | bytes) -> list[str]:
    """Return the problems of a config as ``LINE:COLUMN message``."""
    return [
        f"{problem.line}:{problem.column} {problem.message}" for problem in loaded(text).problems
    ]
