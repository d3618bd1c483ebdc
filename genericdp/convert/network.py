"""The common parts of configs for network adapters."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.config.document import YamlNode
from genericdp.convert.output import CommentedValue, any_of, exactly

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genericdp.convert.document import Part
    from genericdp.convert.output import ConvertedResource, Values

LINK_LAYERS = {"ether": "Ethernet", "infiniband": "InfiniBand"}
"""The link types of the plugins, as sysfs calls them."""


def entries_of(config: Part, marker: str) -> tuple[tuple[Part, ...], str]:
    """Return the entries of a config, which may be their list alone or values of a chart.

    The second value says why the chart does not deploy them, or is empty.
    """
    if config.node.entries is not None:
        return config.entries(), ""
    if config.has(marker):
        return config.keys().take(marker).entries(), ""
    keys = config.keys()
    deploy = keys.take("deploy")
    is_off = not deploy.is_null and not deploy.is_true()
    return keys.take("resources").entries(), "deploy is false" if is_off else ""


def of_chart(entry: Part, defaults: dict[str, str]) -> Part:
    """Return an entry of the network operator's chart in the plugin's form, any other as it is.

    The chart has the selectors next to the name, and ``defaults`` are what it writes of itself.
    """
    items = entry.node.items or {}
    if "name" not in items or "resourceName" in items:
        return entry
    mark = items["name"][0]
    of_entry = {"resourceName": items["name"]}
    of_entry |= {key: (mark, YamlNode(mark=mark, scalar=text)) for key, text in defaults.items()}
    of_entry |= {key: items[key] for key in items if key in defaults or key == "selectors"}
    selectors = entry.without("name", *of_entry).node
    if "selectors" in items:
        return replace(
            entry, node=replace(selectors, items={**(selectors.items or {}), **of_entry})
        )
    return replace(
        entry, node=replace(selectors, items={**of_entry, "selectors": (mark, selectors)})
    )


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
