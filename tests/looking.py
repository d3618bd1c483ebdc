"""One pass over a copied tree, for tests of what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.discovery import discover
from genericdp.host.devicefiles import Looker
from tests.devices.making import resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.offers import Offer
    from genericdp.discovery import Discovery
    from genericdp.model import Resource
    from tests.fixtures.make_tree import Tree

SERIAL = resource("serial", "/dev/ttyUSB*")
INPUT = resource("input", "/dev/input/*")


def look(
    tree: Tree,
    *resources: Resource,
    previous: Mapping[str, Offer] | None = None,
    now: float = 0.0,
) -> Discovery:
    """Look at all that the resources name, without any memory of the host."""
    return discover(
        resources, Looker(tree.root).look, node_name="n", previous=previous or {}, now=now
    )
