"""What is counted of a resource, under which names: by its config, so that they are few."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.model import Command, FileCheck, OpenCheck
from genericdp.tally import Labels

if TYPE_CHECKING:
    from genericdp.model import Resource

_KINDS = {Command: "exec", FileCheck: "file", OpenCheck: "open"}
"""The kernel's log is followed, not asked: it has no results that could be counted."""


def labels(resource: Resource) -> Labels:
    """Give the probes and hooks that a resource has."""
    kinds = ((i, _KINDS.get(type(one.check))) for i, one in enumerate(resource.health))
    hooks = {"allocate": resource.hooks.allocate, "preStart": resource.hooks.pre_start}
    return Labels(
        probes={index: f"{kind}-{index}" for index, kind in kinds if kind},
        hooks=tuple(name for name, hook in hooks.items() if hook is not None),
    )
