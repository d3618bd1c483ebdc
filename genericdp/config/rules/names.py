"""Names of resources: which can result from a template, and which may be equal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp.config.document import shown_path
from genericdp.config.rules.parts import references_in
from genericdp.printing import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.config.document import Field

_WILDCARD = re.compile(r"[*?[]")


def check_resulting_names(resource: Field) -> None:
    """Find a name that is a template without ``names``, and ``names`` that cannot result."""
    name, names = resource["name"].text, resource["names"]
    if name is None or (references := references_in(name)) is None:
        return
    has_names = "names" in resource.written()
    if references and not has_names:
        hint = "list the full names that may result, as in names: [vendor.com/a*]"
        resource["name"].refuse("a name that is a template needs 'names'", hint)
    elif has_names and not references:
        message = f"the name {quoted(name)} is not a template, so 'names' has no meaning"
        names.refuse(message, "omit it", of_key=True)
    for reference in names if references else ():
        start, of_name = _WILDCARD.split(reference.text or "")[0], name.partition("$(")[0]
        if reference.text is not None and not (
            start.startswith(of_name) or of_name.startswith(start)
        ):
            reference.refuse(f"{quoted(reference.text)} cannot result from the name {quoted(name)}")


def check_equal_names(resources: Sequence[Field]) -> None:
    """Find equal names."""
    first: dict[str, Field] = {}
    first_everywhere: dict[str, Field] = {}
    for resource in resources:
        name = resource["name"].text
        if name is None:
            continue
        everywhere = "nodeNames" not in resource.written()
        other = (first if everywhere else first_everywhere).get(name)
        if other is not None:
            resource["name"].refuse(
                f"{quoted(name)} is already the name of {shown_path(other.path)}"
                f" at {other['name'].place}",
                "names may be equal only where both resources have nodeNames",
            )
        first.setdefault(name, resource)
        if everywhere:
            first_everywhere.setdefault(name, resource)
