"""The common parts of configs for network adapters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp.convert.output import CommentedValue, any_of, exactly

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genericdp.convert.document import Part
    from genericdp.convert.output import ConvertedResource, Values

LINK_LAYERS = {"ether": "Ethernet", "infiniband": "InfiniBand"}
"""The link types of the plugins, as sysfs calls them."""


def pci_ids(vendors: Part, devices: Part) -> Values:
    """Return the PCI IDs as conditions of a selector; anything else is a problem."""
    found: Values = {}
    for key, part in (("vendor", vendors), ("device", devices)):
        for entry in part.entries():
            text = entry.text()
            if not re.fullmatch(r"[0-9A-Fa-f]{4}", text):
                entry.fail(f"expected a PCI ID of four hexadecimal digits, not {text[:40]!r}")
            found.setdefault(key, []).append(text.lower())
    return {key: any_of(ids) for key, ids in found.items()}


def names(given: Iterable[str]) -> str | list[str]:
    """Return globs for exactly these names."""
    return any_of(exactly(name) for name in given)


def interface_value(name: str, directory: str, prefix: str, resource: ConvertedResource) -> str:
    """Declare a value that is there if a directory of sysfs has this interface; return its name.

    A link to all interfaces would be ambiguous: a physical function may have representors of its
    virtual functions in addition to its own interface, an adapter children with partition keys.
    """
    value = f"{prefix}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
    link = {"link": f"{directory}/{exactly(name)}"}
    while value in resource.values and resource.values[value].value != link:
        value += "_"
    resource.values[value] = CommentedValue(link)
    return value


def link_layers(types: Sequence[str], resource: ConvertedResource) -> str | list[str]:
    """Return the link layers of link types; those that sysfs does not show become a comment."""
    if unknown := [type_ for type_ in types if type_ not in LINK_LAYERS]:
        why = f"only {', '.join(LINK_LAYERS)} can be read from sysfs"
        resource.left.append(f"Not converted, linkTypes {', '.join(unknown)}: {why}.")
    return any_of(LINK_LAYERS[type_] for type_ in types if type_ in LINK_LAYERS) or "none"
