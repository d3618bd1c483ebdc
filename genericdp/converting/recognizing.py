"""Whose config a document is: a hint for who has named another plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genericdp.config.tree import YamlNode
    from genericdp.converting.parts import Part

_KEYS = {
    "devicematch": "smarter",
    "groups": "squat",
    "resourcelist": "sriov",
    "configlist": "rdma",
    "discoveryhandler": "akri",
    "discoverydetails": "akri",
}
"""What only one peer's configs have."""
_DEPTH = 4
_ENTRIES = 10
"""So deep, and so far into a list, it is looked for."""


def looks_like(document: Part, asked: str) -> str:
    """Give a hint with the flag that would take this; empty where it is like no other peer's."""
    peer = _peer(document.node, _DEPTH)
    return f"it looks like that of {peer}: --from {peer}" if peer not in {"", asked} else ""


def _peer(node: YamlNode, depth: int) -> str:
    items = node.items or {}
    for key in items:
        if found := _KEYS.get(key.lower()):
            return found
    if not depth:
        return ""
    inner = [value for _, value in items.values()] + list((node.entries or ())[:_ENTRIES])
    return next((peer for one in inner if (peer := _peer(one, depth - 1))), "")
