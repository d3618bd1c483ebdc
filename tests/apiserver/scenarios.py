"""Objects that tests of the API send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Json = dict[str, Any]

DRIVER = "genericdp.io"
NODE = "node-1"
SELECTOR = f"spec.driver={DRIVER},spec.nodeName={NODE}"


def device(name: str, **attributes: Json) -> Json:
    return {"name": name, "attributes": attributes or {"id": {"string": name}}}


def slice_of(*devices: Json, node: str = NODE, pool: str = "", generation: int = 1) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": f"{node}-genericdp-"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {
                "name": pool or f"{node}/example.com/serial",
                "generation": generation,
                "resourceSliceCount": 1,
            },
            "devices": list(devices) or [device("ttyusb0")],
        },
    }


def renewed(item: Json, *devices: Json) -> Json:
    """Return an object with other devices."""
    return {**item, "spec": {**item["spec"], "devices": list(devices)}}


def precondition(item: Json) -> dict[str, str]:
    """Return what a deletion wants to be unchanged."""
    metadata = item["metadata"]
    return {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}
