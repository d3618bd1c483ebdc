"""Files in which containers read the attributes of their devices, one for each request of a claim.

Their format and their places in containers are those of Kubernetes (KEP-5304), and what is in them
is what the helper for drivers in Go writes: ``k8s.io/dynamic-resource-allocation/kubeletplugin``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from genericdp.devices.resourcenames import is_subdomain
from genericdp.dra.claims import ClaimError
from genericdp.dra.slices import attributes_of, id_of
from genericdp.printing import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from genericdp.devices.device import Device
    from genericdp.dra.claims import Claim, GivenRequest, Key, Result

_INSIDE = "/var/run/kubernetes.io/dra-device-attributes"
_VERSIONS = ("v1beta1", "v1alpha1")
"""The newest first: programs take the first that they know."""


def metadata_of(
    claim: Claim,
    results: Sequence[Result],
    devices: Mapping[Key, Device],
    *,
    extended_resource: bool | None,
) -> dict[str, Any] | None:
    """Return what containers can read about a request; None if it has no device with metadata.

    ``results`` are those of the request, ``extended_resource`` is an attribute, or None as long as
    the node is unknown. Raise ClaimError.
    """
    if not any(devices[result.key].metadata for result in results):
        return None
    first = results[0]
    for name in (first.request, claim.name):  # each is a part of a path
        if not is_subdomain(name):
            raise ClaimError(f"no container can have a file for the name {quoted(name)}")
    if extended_resource is None:
        raise ClaimError("the API server has not said yet which version the node's kubelet has")
    listed = []
    for result in results:
        known: dict[str, Any] = {
            "driver": claim.driver,
            "pool": result.pool,
            "name": result.device,
        }
        if (device := devices[result.key]).metadata:
            own = attributes_of(result.resource, device, extended_resource=extended_resource)
            known["attributes"] = dict(sorted((own | id_of(result.share)).items()))
        listed.append(known)
    return {"name": first.asked, "devices": listed}


def content_of(claim: Claim, request: GivenRequest) -> bytes:
    """Return the content of the file of a request: the same in each version of the format."""
    about = {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": 1}
    pod_claim = {"podClaimName": claim.pod_claim} if claim.pod_claim else {}
    documents = (
        {
            "kind": "DeviceMetadata",
            "apiVersion": f"metadata.resource.k8s.io/{version}",
            "metadata": about,
            **pod_claim,
            "requests": [request.metadata],
        }
        for version in _VERSIONS
    )
    texts = (json.dumps(document, indent=2, ensure_ascii=False) for document in documents)
    return "".join(f"{text}\n" for text in texts).encode()


def mount_of(claim: Claim, request: GivenRequest, host_path: Path) -> dict[str, Any]:
    """Return the mount of the file of a request, in CDI's format."""
    kind = "resourceclaimtemplates" if claim.pod_claim else "resourceclaims"
    place = f"{_INSIDE}/{kind}/{claim.pod_claim or claim.name}/{request.name}"
    inside = f"{place}/{claim.driver}-metadata.json"
    return {"hostPath": str(host_path), "containerPath": inside, "options": ["ro", "bind"]}
