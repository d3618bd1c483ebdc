"""The kinds of probe: a module for each, with its keys, their mistakes, and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.file import FileCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.health.kinds.open import OpenCheck

if TYPE_CHECKING:
    from genericdp.model import Check

_LISTED: tuple[type[Check], ...] = (ExecCheck, FileCheck, OpenCheck, KernelLogCheck)
KINDS = {kind.kind: kind for kind in _LISTED}
"""The kinds of probe, by the key of the config."""
