"""The resources that a config becomes, and their YAML with comments."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from genericdp.devices.device import MAX_REPLICAS
from genericdp.glob import escape
from genericdp.printing import printable
from genericdp.scalars import yaml_flow, yaml_text

if TYPE_CHECKING:
    from collections.abc import Iterable

Values = dict[str, Any]

_WIDTH = 92
_FLAT = ("accel", "dma_heap", "dri", "infiniband", "input", "mapper", "net", "snd", "usb", "vfio")
_LINKS = ("block", "char", "disk", "serial", "v4l")
DIRECTORIES = {
    **{f"/dev/{name}": f"/dev/{name}/*" for name in _FLAT},
    **{f"/dev/{name}": "" for name in _LINKS},
    "/dev/bus": "/dev/bus/usb/*/*",
    "/dev/bus/usb": "/dev/bus/usb/*/*",
    "/dev/dvb": "/dev/dvb/*/*",
}
"""Well-known directories in /dev, with the glob of the device files in each.

Empty: there are only symbolic links, which a runtime does not follow for a directory.
"""
ANOTHER = (
    "{name} in the plugin, too. What a container gets of these differs from the above, so they need"
    " another resource, and pods must request its name."
)


@dataclass(slots=True)
class CommentedValue:
    """A value with the comments above it."""

    value: Values
    comments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ConvertedResource:
    """One resource: its keys as in the config language, and comments."""

    name: str
    names: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    node_names: list[str] = field(default_factory=list)
    match: list[CommentedValue] = field(default_factory=list)
    exclude: list[CommentedValue] = field(default_factory=list)
    values: dict[str, CommentedValue] = field(default_factory=dict)
    group_by: str = ""
    id: str = ""
    replicas: int = 1
    exclusive: bool = True
    topology: str = ""
    devices: list[CommentedValue] | None = None
    mounts: list[CommentedValue] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    """Comments at its end: what was not converted."""
    withheld: str = ""
    """Why the whole resource is only a comment; empty if it is not."""

    def share(self, count: int, key: str) -> None:
        """Set how many containers may share a device."""
        if count > MAX_REPLICAS:
            self.comments.append(f"{key} is {count}, but at most {MAX_REPLICAS} is possible.")
        if count == 0:
            self.withheld = f"{key} is 0, which offers nothing"
        self.replicas = min(max(count, 1), MAX_REPLICAS)

    def add_directory(self, path: str, **keys: str) -> None:
        """Give a container the device files in a well-known directory."""
        nodes = DIRECTORIES[path]
        entry = {"path": nodes or f"{path}/*", **keys, "shared": True, "optional": True}
        self.devices = [*(self.devices or ()), CommentedValue(entry)]
        if nodes:
            self.comments.append("A directory: a container gets the device files in it.")
        elif not self.withheld:
            self.withheld = "a directory of symbolic links, for which a container gets no device"


@dataclass(slots=True)
class ConfigDraft:
    """A whole config."""

    head: list[str] = field(default_factory=list)
    resources: list[ConvertedResource] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Comments at its end."""
    _taken: dict[str, int] = field(default_factory=dict)

    def unused_name(self, wanted: str) -> str:
        """Return the name, with a number if it has been returned before."""
        name = wanted
        while name in self._taken:
            self._taken[wanted] += 1
            name = f"{wanted}-{self._taken[wanted]}"
        self._taken[name] = 1
        return name


def exactly(text: str) -> str:
    """Return a glob for exactly this text."""
    return escape(text).replace("$(", "$[(]")


def any_of(globs: Iterable[str]) -> str | list[str]:
    """Return globs without repeats, or the only one."""
    found = list(dict.fromkeys(globs))
    return found[0] if len(found) == 1 else found


def render(draft: ConfigDraft) -> str:
    """Return the YAML of a config."""
    lines = [*_comment(draft.head), "apiVersion: genericdp.io/v1alpha1"]
    lines += ["kind: DevicePluginConfig", "resources:"]
    for i, resource in enumerate(draft.resources):
        lines += [""] if i else []
        lines += _indent(_withheld(resource) if resource.withheld else resource_lines(resource))
    if draft.left:
        lines += ["", *_comment(draft.left)]
    return "\n".join(lines) + "\n"


def resource_lines(resource: ConvertedResource) -> list[str]:
    """Return the YAML of one resource, whether or not it is withheld."""
    body: list[str] = []
    if resource.names:
        body.append(f"names: {yaml_flow(resource.names)}")
    if resource.node_names:
        body.append(f"nodeNames: {yaml_flow(resource.node_names)}")
    body += _list("match", resource.match)
    body += _list("exclude", resource.exclude)
    if resource.values:
        body.append("values:")
        for name, entry in resource.values.items():
            body += _indent([*_comment(entry.comments), f"{name}: {yaml_flow(entry.value)}"])
    body += _scalars(resource)
    body += [*_inject(resource), *_comment(resource.left)]
    return [*_comment(resource.comments), f"- name: {yaml_text(resource.name)}", *_indent(body)]


def _scalars(resource: ConvertedResource) -> list[str]:
    """Return the lines of the keys between ``values`` and ``inject``: each has one text."""
    texts = {
        "groupBy": yaml_text(resource.group_by) if resource.group_by else "",
        "id": yaml_text(resource.id) if resource.id else "",
        "replicas": str(resource.replicas) if resource.replicas != 1 else "",
        "exclusive": "" if resource.exclusive else "false",
        "topology": resource.topology,
    }
    return [f"{key}: {text}" for key, text in texts.items() if text]


def _inject(resource: ConvertedResource) -> list[str]:
    lines = ["devices: []"] if resource.devices == [] else _list("devices", resource.devices or ())
    lines += _list("mounts", resource.mounts)
    if resource.env:
        variables = [f"{yaml_text(name)}: {yaml_text(text)}" for name, text in resource.env.items()]
        lines += ["env:", *_indent(variables)]
    return ["inject:", *_indent(lines)] if lines else []


def _withheld(resource: ConvertedResource) -> list[str]:
    reason = _comment([f"Not offered: {resource.withheld}."])
    if resource.match:
        return [*reason, *(f"# {line}" for line in resource_lines(resource))]
    return [*reason, *_comment([f"Resource: {resource.name}", *resource.comments, *resource.left])]


def _list(key: str, entries: Iterable[CommentedValue]) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        value = entry.value
        flat = len(value) > 1 and not any(
            isinstance(entry, dict | list) for entry in value.values()
        )
        items = [yaml_flow(value)] if flat else [x for k, v in value.items() for x in _keyed(k, v)]
        lines += [*_comment(entry.comments), f"- {items[0]}", *_indent(items[1:])]
    return [f"{key}:", *_indent(lines)] if lines else []


def _keyed(key: str, value: object) -> list[str]:
    """Return a key with its value: in one line if it fits."""
    line = f"{yaml_text(key)}: {yaml_flow(value)}"
    if len(line) <= _WIDTH - 6 or not isinstance(value, dict | list):
        return [line]
    if isinstance(value, dict):
        inner = [line for k, v in value.items() for line in _keyed(str(k), v)]
    else:
        inner = [f"- {yaml_flow(entry)}" for entry in value]
    return [f"{yaml_text(key)}:", *_indent(inner)]


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]


def _comment(texts: Iterable[str]) -> list[str]:
    """Return lines as comments; lines that begin with a space are quotations and not wrapped."""
    lines: list[str] = []
    for line in (line for text in texts for line in text.split("\n")):
        # Whatever else YAML takes for the end of a line would end the comment.
        safe = printable(line)
        wrapped = [safe]
        if not safe.startswith(" "):
            wrapped = textwrap.wrap(safe, _WIDTH, break_long_words=False, break_on_hyphens=False)
        lines += [f"# {line}".rstrip() for line in wrapped or [""]]
    return lines
