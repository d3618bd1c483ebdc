"""CDI specs of the devices of a resource: what a container runtime makes for each of them.

The format and its versions are those of the Container Device Interface, SPEC.md.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from genericdp.devices.allocation import edits
from genericdp.model import InjectBy, is_cdi_kind, is_cdi_name
from genericdp.template import is_share, templates_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.device import ContainerEdits, Device
    from genericdp.model import Resource

Edits: TypeAlias = dict[str, list[Any]]
"""CDI's ``containerEdits``, by their keys."""

PREFIX = "genericdp_"
"""Of the names of our files: nobody else has such."""
SUFFIX = ".json"
_HEAD = re.compile(rb'\{\n  "cdiVersion": "[0-9.]+",\n  "kind": "([^"\n]+)",\n  "devices": \[\n')
_NOT_IN_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Container runtimes read JSON as YAML, which does not take these, nor JSON's surrogate pairs."""
DOTTED_CLASS_VERSION = "0.6.0"
"""The first in which a class may hold a dot; podman before 4.4 ignores such specs."""


def file_name(kind: str) -> str:
    """Return the name of the file with the spec of a kind, as ``example.com/serial``."""
    return f"{PREFIX}{kind.replace('/', '_')}{SUFFIX}"


def specs(
    resources: Mapping[str, Resource], lists: DeviceLists, *, everything: bool
) -> dict[str, bytes]:
    """Return the content of the spec files of resources, by kind; none for a lack of devices.

    With ``everything`` a spec has all that a container gets, for each resource that one can have
    without Kubernetes; else only the device nodes, of resources with ``by: cdi``.
    """
    found = {}
    for name, resource in resources.items():
        if _why_not_alone(resource) if everything else resource.inject.by is not InjectBy.CDI:
            continue
        # What is not there must have no entry: its nodes could be another device's by now.
        given = {
            device_id: container_edits(edits([one.device]), [one.device], everything=everything)
            for device_id, one in lists[name].devices.items()
            # With another name a runtime would refuse the whole spec.
            if one.is_complete and is_cdi_name(f"{name}={device_id}")
        }
        if spec := spec_of(name, given):
            found[name] = spec
    return found


def left_out(resources: Mapping[str, Resource], lists: DeviceLists) -> dict[str, str]:
    """Return which resources and devices are in no spec without Kubernetes, and why."""
    found = {name: why for name, one in resources.items() if (why := _why_not_alone(one))}
    full_names = (
        f"{name}={device_id}"
        for name in resources.keys() - found
        for device_id in lists[name].devices
    )
    why = "a CDI device's name begins and ends with a letter or digit (see id)"
    return found | {one: why for one in sorted(full_names) if not is_cdi_name(one)}


def _why_not_alone(resource: Resource) -> str:
    """Return why a resource has no spec that suffices without Kubernetes; empty: it has one."""
    injects = (resource.inject, *(one.inject for one in resource.match))
    references = [ref for one in templates_of(injects) for ref in one.references]
    if any(map(is_share, references)):
        return "it uses $(device.share), which only a kubelet's request has"
    if any(one.scope == "allocation" for one in references):
        return "it uses $(allocation.index), which only a kubelet's request has"
    if any(one.annotations for one in injects):
        return "it gives annotations, which a CDI spec cannot"
    if any(one.cdi for one in injects):
        return "it gives CDI devices of others, which a CDI spec cannot (say --device for each)"
    if resource.name_template is None and not is_cdi_kind(resource.name):
        return "its name is no CDI kind: the domain and the type have to begin with a letter"
    return ""


def spec_of(kind: str, given: Mapping[str, Edits]) -> bytes:
    """Return the content of the spec of devices with these edits, by name; empty: it has none.

    Its version is the lowest that has what is used: runtimes ignore specs that are newer than they
    are.
    """
    entries = [{"name": name, "containerEdits": one} for name, one in given.items() if one]
    if not entries:
        return b""
    nodes = (node for one in given.values() for node in one.get("deviceNodes", ()))
    version = "0.3.0"
    if any(str(one["name"])[0].isdecimal() for one in entries) or any(
        "hostPath" in node for node in nodes
    ):
        version = "0.5.0"
    if "." in kind.partition("/")[2]:
        version = DOTTED_CLASS_VERSION
    return rendered({"cdiVersion": version, "kind": kind, "devices": entries})


def container_edits(
    given: ContainerEdits, devices: Iterable[Device], *, everything: bool = True
) -> Edits:
    """Return what a container gets for devices, as CDI has it; no key is empty.

    Without ``everything`` only the device nodes.
    """
    # Runtimes look at the node itself: its type, its number, and its owner, who is the container's.
    real_paths = {node.host_path: node.real_path for one in devices for node in one.nodes}
    found: Edits = {"deviceNodes": []}
    for node in given.devices:
        host_path = real_paths[node.host_path]
        other = {} if host_path == node.container_path else {"hostPath": host_path}
        found["deviceNodes"].append(
            {"path": node.container_path, **other, "permissions": node.permissions}
        )
    if everything:
        found["mounts"] = [
            {
                "hostPath": one.host_path,
                "containerPath": one.container_path,
                "options": ["rbind", "rprivate", "ro" if one.read_only else "rw"],
            }
            for one in given.mounts
        ]
        found["env"] = [f"{name}={value}" for name, value in given.env.items()]
    return {key: listed for key, listed in found.items() if listed}


def rendered(spec: Mapping[str, object]) -> bytes:
    """Return a spec as the content of a file; the same for the same spec."""
    text = json.dumps(spec, indent=2, ensure_ascii=False)
    return f"{_NOT_IN_YAML.sub(_escaped, text)}\n".encode()


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def kind_of_ours(content: bytes) -> str:
    """Return the kind of a spec that begins as ours do; empty if the content of a file does not."""
    head = _HEAD.match(content)
    return head[1].decode(errors="replace") if head else ""
