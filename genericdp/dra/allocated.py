"""The results that the scheduler has allocated to a claim, read from its ResourceClaim; pure."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from genericdp.devices.capacity import rounded_up
from genericdp.devices.parameters import is_for
from genericdp.devices.resourcenames import label
from genericdp.dra.claims import Claim, ClaimError, Configuration, Result
from genericdp.errors import DAMAGE
from genericdp.jsonvalues import from_record
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.kubelet.dra import ClaimRef

_PLAIN_LIMITS = "resource.kubernetes.io/extended-resource-claim"
"""An annotation of the claims that the scheduler makes for plain ``limits``."""
_POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
"""An annotation of the claims that are made from a template: their name in the pod's spec."""
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def claim_of(found: Mapping[str, Any], ref: ClaimRef, *, driver: str, boot_id: str) -> Claim:
    """Return a claim with the results that are allocated to it, before its devices are known.

    Raise ClaimError if there are none for the driver, or if it is another claim of that name.
    """
    try:
        if (uid := found["metadata"]["uid"]) != ref.uid:
            raise ClaimError(f"it has been created again: its UID is {uid} now")
        if not (results := results_of(found, driver)):
            raise ClaimError(f"nothing of {driver} is allocated to it")
        notes = found["metadata"].get("annotations") or {}
        pod_claim = str(notes.get(_POD_CLAIM))
        return Claim(
            uid=uid,
            namespace=ref.namespace,
            name=ref.name,
            driver=driver,
            boot_id=boot_id,
            per_request=notes.get(_PLAIN_LIMITS) == "true",
            # Users can write anything into the annotations of their own claims.
            pod_claim=pod_claim if label(pod_claim) == pod_claim else "",
            prepared_at=time.time(),  # noqa: TID251  # to be shown
            results=results,
            configurations=_configurations(found, driver, results),
        )
    except DAMAGE as error:
        raise malformed(error) from error


def malformed(error: Exception) -> ClaimError:
    """Return the error for a ResourceClaim that cannot be read."""
    return ClaimError(f"the API server has no proper ResourceClaim: {error!r}")


def pods_of(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the pods that use a ResourceClaim, as ``default/listen``."""
    return tuple(
        f"{found['metadata']['namespace']}/{consumer['name']}"
        for consumer in (found.get("status") or {}).get("reservedFor") or ()
        if consumer.get("resource") == "pods"
    )


def results_of(found: Mapping[str, Any], driver: str) -> tuple[Result, ...]:
    """Return the allocation results of a claim that are for a driver; raise one of DAMAGE."""
    allocation = (found.get("status") or {}).get("allocation") or {}
    return tuple(
        Result(
            # The kubelet expects the request without the subrequest (``request/subrequest``).
            request=result["request"].partition("/")[0],
            subrequest=result["request"].partition("/")[2],
            pool=from_record(str, result["pool"]),
            device=from_record(str, result["device"]),
            admin=result.get("adminAccess") is True,
            share_id=_share_id(result),
            consumed={
                name: rounded_up(amount)
                for name, amount in (result.get("consumedCapacity") or {}).items()
            },
        )
        for result in allocation.get("devices", {}).get("results") or ()
        if result["driver"] == driver
    )


def _configurations(
    found: Mapping[str, Any], driver: str, results: Iterable[Result]
) -> tuple[Configuration, ...]:
    """Return the parameters for these results, those that count more coming later."""
    written = found["status"]["allocation"]["devices"].get("config") or ()
    entries = [
        (entry.get("source") == "FromClass", entry.get("requests") or (), opaque)
        for entry in written
        if (opaque := entry.get("opaque") or {}).get("driver") == driver
    ]
    given = (
        Configuration(
            requests=tuple(map(str, requests)),
            opaque=opaque.get("parameters"),
            source=" in its DeviceClass" if is_of_class else "",
        )
        for is_of_class, requests, opaque in sorted(entries, key=lambda entry: not entry[0])
    )
    return tuple(
        each for each in given if any(is_for(each.requests, result.asked) for result in results)
    )


def _share_id(result: Mapping[str, Any]) -> str:
    """Return the ID of a part of a device's capacity; empty for all of a device."""
    share_id: str = result.get("shareID") or ""
    if share_id and not _UUID.fullmatch(share_id):
        raise ValueError(f"its shareID is {shortened(share_id)!r}")
    return share_id
