"""A config given as a text, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.files import STDIN, Loaded
from genericdp.config.load import load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.errors import Problem

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
FUSE = "  - name: a/fuse\n    match: [{path: /dev/fuse}]\n"


def loaded(text: str | bytes) -> Loaded:
    """Return what becomes of a whole config."""
    return load([STDIN], pipes={STDIN: text if isinstance(text, bytes) else text.encode()})


def problems(body: str) -> list[str]:
    """Return the problems of resources, without their places."""
    return said(loaded(HEAD + body).problems)


def warnings(body: str) -> list[str]:
    """Return the warnings about resources that have no problem, without their places."""
    found = loaded(HEAD + body)
    assert found.problems == ()
    return said(found.warnings)


def said(found: Iterable[Problem]) -> list[str]:
    return [str(one).split(":", 3)[3].strip() for one in found]


def places(text: str | bytes) -> list[str]:
    """Return the problems of a config as ``LINE:COLUMN message``."""
    return [f"{one.line}:{one.column} {one.message}" for one in loaded(text).problems]
