"""Which resources of a config are for a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.matching import for_node
from genericdp.devices.wording import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.model import Resource


def why_none(resources: Sequence[Resource], node_name: str) -> str:
    """Say why a config offers nothing at all on a node; empty if a resource is for it."""
    if not resources:
        return "the config names no resource"
    if for_node(resources, node_name):
        return ""
    names = dict.fromkeys(name for one in resources for name in one.node_names)
    listed = ", ".join(map(shown, names))
    return f"no resource is for this node {shown(node_name)} (nodeNames: {listed})"
