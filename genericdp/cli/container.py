"""What one container gets, as lines for people and as JSON: the same for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.devices.device import ContainerEdits


def as_text(edits: ContainerEdits) -> Iterator[str]:
    """Give a line for each thing."""
    for node in edits.devices:
        yield f"  device      {node.container_path} ({node.permissions}) from {node.host_path}"
    for mount in edits.mounts:
        mode = "ro" if mount.read_only else "rw"
        yield f"  mount       {mount.container_path} ({mode}) from {mount.host_path}"
    yield from (f"  env         {key}={value}" for key, value in edits.env.items())
    yield from (f"  annotation  {key}={value}" for key, value in edits.annotations.items())
    yield from (f"  cdi         {cdi}" for cdi in edits.cdi)


def as_json(edits: ContainerEdits) -> dict[str, object]:
    """Give an object whose lists and mappings may be empty, but are there."""
    return {
        "devices": [
            {
                "hostPath": node.host_path,
                "containerPath": node.container_path,
                "permissions": node.permissions,
            }
            for node in edits.devices
        ],
        "mounts": [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "readOnly": mount.read_only,
            }
            for mount in edits.mounts
        ],
        "env": dict(edits.env),
        "annotations": dict(edits.annotations),
        "cdi": list(edits.cdi),
    }
