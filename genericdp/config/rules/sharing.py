"""Shares of devices, and devices of several resources: ``replicas``, ``prefer``, ``exclusive``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.document import shown_path
from genericdp.config.rules.parts import is_served_by_dra, replicas
from genericdp.model import Preference
from genericdp.template import TemplateSyntaxError, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.config.document import Field
    from genericdp.template import Template

_NOT_EXCLUSIVE = "exclusive: false"


def check_exclusive(resources: Sequence[Field]) -> None:
    """Find resources that cannot have hardware in common, although they say so."""
    sharing = [resource for resource in resources if resource["exclusive"].value is False]
    first: dict[str, Field] = {}
    for resource in sharing:
        _check_shares(resource)
        if (template := _id_of(resource)) is None:
            continue
        if not _has_own_text(template):
            field = resource["id"] if resource["id"].text else resource["exclusive"]
            message = f"'{_NOT_EXCLUSIVE}' needs an id with some text of its own"
            hint = "as in id: encode-$(pci.address), so that no two resources give one ID"
            field.refuse(message, hint)
            continue
        other = first.setdefault(str(template), resource)
        # Of equal names, only the first that fits a node counts there.
        if other["name"].text != resource["name"].text:
            message = f"with '{_NOT_EXCLUSIVE}' this is also the id of {shown_path(other.path)}"
            resource["id"].refuse(message, "begin each with a string of its own")
    if len({resource["name"].text for resource in sharing}) == 1:
        message = f"no other resource says '{_NOT_EXCLUSIVE}': it has no effect"
        hint = "write it in each resource that may have the same hardware"
        sharing[0]["exclusive"].warn(message, hint, of_key=True)


def _check_shares(resource: Field) -> None:
    is_wrong = "replicas" in resource.written() and resource["replicas"].value is None
    if replicas(resource) > 1 or is_wrong or is_served_by_dra(resource):
        return
    message = f"'{_NOT_EXCLUSIVE}' is only possible where containers share a device"
    resource["exclusive"].refuse(message, "set replicas to more than 1", of_key=True)


def _id_of(resource: Field) -> Template | None:
    """Return the template of a resource's IDs, empty by default; None if it is invalid."""
    text = resource["id"].text
    if text is None:
        return None if "id" in resource.written() else parse("")
    try:
        return parse(text)
    except TemplateSyntaxError:
        return None


def _has_own_text(template: Template) -> bool:
    parts = (part for part in template.parts if isinstance(part, str))
    return any(character.isalnum() for part in parts for character in part)


def check_closeness(resource: Field) -> None:
    """Warn if ``closeness`` has no effect."""
    closeness = resource["closeness"]
    if closeness.value is None or is_served_by_dra(resource):
        return
    prefer = resource["prefer"].value or Preference.AUTO
    spread = prefer == Preference.AUTO and replicas(resource) > 1
    if spread or prefer in {Preference.NONE, Preference.SPREAD, Preference.PACKED}:
        why = "auto and replicas more than 1, so shares are spread" if spread else prefer
        message = f"'closeness' has no effect: prefer is {why}"
        closeness.warn(message, "only closest uses it", of_key=True)
