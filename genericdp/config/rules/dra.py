"""Rules for ``servedBy``: some keys are only for DRA, others have no effect with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.rules.parts import (
    finds_several,
    injects,
    is_served_by_dra,
    references_in,
    references_to_claims,
)
from genericdp.devices.attributes import MAX_BYTES, RESERVED
from genericdp.devices.capacity import problem, whole
from genericdp.devices.parameters import PREFIX
from genericdp.devices.resourcenames import class_names
from genericdp.glob import has_wildcard
from genericdp.model import Preference, RequestPolicy
from genericdp.printing import quoted
from genericdp.template import byte_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.config.document import Field

_DRA = "servedBy: dra"
_LIMITS = ("default", "min", "max", "step")
"""The keys of a policy for what claims can request of a capacity."""
_NO_RELEASE = (
    "a device plugin does not learn when a container ends: preStart runs before each one starts,"
    " and can clean up what the last one left"
)


def check_served_by(resource: Field) -> None:
    """Refuse keys and values that are not possible with the resource's back end."""
    if is_served_by_dra(resource):
        _check_names(resource)
        _check_inject(resource)
        _check_choice(resource)
        _check_attributes(resource["attributes"])
        _check_capacity(resource)
    elif "servedBy" not in resource.written() or resource["servedBy"].value is not None:
        for key, field, hint in (
            ("attributes", resource, ""),
            ("unhealthyTaint", resource, ""),
            ("metadata", resource, ""),
            ("parameters", resource, ""),
            ("capacity", resource, ""),
            ("sharing", resource, "replicas shares a device without DRA"),
            ("release", resource["hooks"], _NO_RELEASE),
        ):
            if key in field.written():
                field[key].refuse(f"{key!r} is only allowed with '{_DRA}'", hint, of_key=True)
        for text, reference in references_to_claims(resource):
            text.refuse(f"'{reference}' is only allowed with '{_DRA}'")


def check_classes(resources: Iterable[Field]) -> None:
    """Refuse two names that would have the same DeviceClass."""
    owners: dict[str, str] = {}
    for field in (
        name for resource in resources if is_served_by_dra(resource) for name in _names(resource)
    ):
        name = field.text or ""
        for class_name in class_names(name):
            if (other := owners.setdefault(class_name, name)) != name:
                message = f"the DeviceClass {class_name} would be that of {quoted(other)} too"
                field.refuse(message, "give one of them another name")


def _names(resource: Field) -> Iterator[Field]:
    """Yield the name of a resource, or those that a template can result in."""
    yield from resource["names"] if "names" in resource.written() else (resource["name"],)


def _check_names(resource: Field) -> None:
    """Refuse names that are too long for an attribute, and globs, which have no DeviceClass."""
    for field in _names(resource):
        text = field.text or ""
        if field.key != "name" and has_wildcard(text):
            message = f"{quoted(text)} is a glob, which cannot be used with '{_DRA}'"
            field.refuse(message, "list the full names: each needs a DeviceClass")
        elif (size := byte_length(text)) > MAX_BYTES:
            message = f"the name has {size} bytes: at most {MAX_BYTES} are possible with '{_DRA}'"
            field.refuse(message, "each device has it as an attribute, which cannot be longer")


def _check_inject(resource: Field) -> None:
    if "by" in resource["inject"].written():
        message = f"'by' cannot be used with '{_DRA}': devices always come by CDI there"
        resource["inject"]["by"].refuse(message, "omit it", of_key=True)
    for inject in injects(resource):
        if "annotations" in inject.written():
            message = f"annotations cannot be given to containers with '{_DRA}'"
            inject["annotations"].refuse(message, "use env or mounts", of_key=True)
        for entry in inject["devices"]:
            _warn_of_one_place(entry["containerPath"], several=finds_several(resource))
        for entry in inject["mounts"]:  # those of several devices may be one directory
            _warn_of_one_place(entry["containerPath"], several=False)


def _warn_of_one_place(inside: Field, *, several: bool) -> None:
    """Warn of a path at which a container may get two devices, of which it then has one."""
    path = inside.text or "/"
    # Parameters may be equal for all devices.
    references = (part for part in references_in(path) or () if not part.name.startswith(PREFIX))
    names = {f"{part.scope}.{part.name}" for part in references}
    by_claim = names & {"claim.name", "claim.request", "allocation.index"}
    is_complete = "claim.name" in by_claim and len(by_claim) > 1
    if is_complete or names != by_claim or path.endswith("/"):
        return
    if "allocation.index" in names:
        message = "'$(allocation.index)' begins at 0 in each claim of a container"
        inside.warn(message, "add $(claim.name), lest one device hides another")
    elif several:
        message = "two devices of a container would be at this path, and it would have one of them"
        inside.warn(message, "add $(device.name), or $(claim.name) and $(claim.request)")


def _check_choice(resource: Field) -> None:
    """Refuse ``prefer``; warn of ``closeness``, and of ``preStart``, which runs at another time."""
    prefer = resource["prefer"]
    if prefer.value in {Preference.SPREAD, Preference.CLOSEST}:
        message = f"'prefer: {prefer.value}' cannot be used with '{_DRA}': the scheduler chooses"
        prefer.refuse(message, "omit it; a claim gets close devices by its matchAttribute")
    if resource["closeness"].value is not None:
        message = f"'closeness' has no effect with '{_DRA}': the scheduler chooses"
        hint = "make the value an attribute, and let claims name it in matchAttribute"
        resource["closeness"].warn(message, hint, of_key=True)
    if resource["hooks"]["preStart"].value is not None:
        message = f"with '{_DRA}' this runs once for a claim, not before each start of a container"
        resource["hooks"]["preStart"].warn(message, "write it as allocate", of_key=True)


def _check_attributes(attributes: Field) -> None:
    for attribute in attributes:
        if attribute.key in RESERVED:
            message = f"every device has an attribute {quoted(attribute.key)} already"
            attribute.refuse(message, f"names that are taken: {', '.join(RESERVED)}", of_key=True)


def _check_capacity(resource: Field) -> None:
    """Refuse two ways to share a device, and policies that the API server would refuse."""
    is_shared = "sharing" in resource.written()
    if is_shared and "replicas" in resource.written():
        message = "'replicas' cannot be combined with 'sharing: capacity'"
        resource["replicas"].refuse(message, "claims share devices by one of them", of_key=True)
    for capacity in resource["capacity"]:
        written = [key for key in _LIMITS if key in capacity.written()]
        limits = {key: whole(str(capacity[key].value)) for key in written}
        if limits and not is_shared:
            message = f"{written[0]!r} is only allowed with 'sharing: capacity'"
            capacity[written[0]].refuse(message, of_key=True)
        amount = whole(str(capacity["value"].value))
        if None not in limits.values() and (why := problem(RequestPolicy(**limits), amount)):
            capacity.refuse(why)
