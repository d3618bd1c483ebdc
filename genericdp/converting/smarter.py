"""smarter-device-manager: conf.yaml, in a ConfigMap or in the chart's values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp.converting.draft import Draft, Resource, Said, replicas_of
from genericdp.converting.manifests import embedded, is_manifest
from genericdp.converting.naming import FOLDERS, ONLY_LINKS, checked_name, exactly
from genericdp.converting.parts import kept
from genericdp.converting.patterns import globs_of
from genericdp.converting.recognizing import looks_like
from genericdp.regex import PatternError, compiled

if TYPE_CHECKING:
    from genericdp.converting.parts import Part

DOMAIN = "smarter-devices"
_JETSON = "nvidia-gpu"
_HEAD = (
    "smarter makes one resource of each file: smarter-devices/video0, smarter-devices/video1. So it"
    " is here where an expression tells which files there may be. Where it does not, all that it"
    " finds are devices of one resource: if a pod must have a certain one, write before it a"
    " resource with name: smarter-devices/video0 and match: [{path: /dev/video0}]."
)
_OTHERS = (
    "smarter also offers files that are no device files, and what links to folders lead to. A"
    " device file and the links to it that are found are one device here, under a link's name."
)
_UNKNOWN = "smarter has no such key and ignores it"
_CHART = {
    "application": "it is about smarter's own pod",
    "image": "it is about smarter's own pod",
}


def convert(documents: tuple[Part, ...]) -> Draft:
    """Make a config of what smarter reads."""
    draft = Draft(head=[_HEAD, _OTHERS])
    for document in documents:
        for text in embedded(document, draft) if is_manifest(document) else (document,):
            _convert_list(text, draft)
    return draft


def _convert_list(document: Part, draft: Draft) -> None:
    entries = document
    if document.node.items is not None:
        keys = document.keys()
        found = keys.take("config")
        if found is None:
            missing = "this is no config of smarter: a list of devicematch is expected"
            document.fail(missing, looks_like(document, "smarter"))
            return
        draft.left += keys.kept(_CHART, "it is about smarter's chart")
        entries = found
    listed = entries.entries()
    hint = looks_like(document, "smarter")
    if (hint or len(listed) > 1) and _is_of_others(listed):
        document.fail("this is no config of smarter: no entry has a devicematch", hint)
        return
    for entry in listed:
        _convert_entry(entry, draft)


def _is_of_others(listed: tuple[Part, ...]) -> bool:
    """Say whether these are mappings of which none has what each should have."""
    are_mappings = bool(listed) and all(part.node.items is not None for part in listed)
    return are_mappings and not any(part.keys().has("devicematch") for part in listed)


def _convert_entry(entry: Part, draft: Draft) -> None:
    keys = entry.keys()
    found = keys.take("devicematch")
    if found is None:
        entry.fail("devicematch is missing")
        return
    regex = found.text()
    if regex == _JETSON:
        draft.left += kept(entry, _NO_JETSON)
        return
    try:
        compiled(f"({regex})")
    except PatternError as error:
        found.fail(f"no expression of RE2, which smarter's is too: {error}")
        return
    counted = keys.take("nummaxdevices")
    count = 0 if counted is None else counted.number()
    left = list(keys.kept({}, _UNKNOWN))
    # A resource for each file, as smarter has it, where it can be told which there may be.
    for name in globs_of(regex).names or ("",):
        wanted = name.replace("/", "_") or _stem(regex)
        full = checked_name(f"{DOMAIN}/{wanted}", found)
        resource = Resource(name=draft.name_for(full), comments=[f"devicematch: {regex}"])
        replicas_of(count, resource, "nummaxdevices")
        _match(resource, regex, name)
        resource.left += left
        left = []
        draft.resources.append(resource)


_NO_JETSON = (
    "for this word smarter looks for the graphics processors of NVIDIA's Jetson in sysfs and sets"
    " NVIDIA_VISIBLE_DEVICES; see examples/configs/nvidia-gpu.yaml"
)


def _match(resource: Resource, regex: str, name: str) -> None:
    """Say what finds the devices: a certain name, or whatever the expression finds."""
    if name in FOLDERS:
        resource.match = [Said({"path": f"/dev/{name}", "type": "directory"})]
        path = f"/dev/{name}/{FOLDERS[name] or '*'}"
        resource.devices = [Said({"path": path, "shared": True, "optional": True})]
        if FOLDERS[name]:
            resource.comments.append("A folder: a container gets the device files in it.")
        else:
            resource.withheld = resource.withheld or ONLY_LINKS
        return
    if name:
        resource.match = [Said({"path": f"/dev/{exactly(name)}"})]
        return
    found = globs_of(regex)
    paths = [f"/dev/{glob}" for glob in found.globs]
    selector: dict[str, object] = {"path": paths[0] if len(paths) == 1 else paths}
    if not found.equal:
        selector["values"] = {"matched": "*"}
        inner = regex.removeprefix("^").removesuffix("$") if _is_anchored(regex) else ""
        wanted = f"^/dev/({inner})$" if inner else f"({regex})"
        text = "$(device.path)" if inner else "$(value.below_dev)"
        if not inner:
            resource.values["below_dev"] = Said({"text": "$(device.path)", "regex": "^/dev/(.+)$"})
        resource.values["matched"] = Said({"text": text, "regex": wanted})
        resource.comments.append("No glob is the same, so the expression itself is asked, too.")
    resource.match = [Said(selector)]


def _is_anchored(regex: str) -> bool:
    if regex[:1] != "^" or regex[-1:] != "$" or re.search(r"[\\|]", regex):
        return False
    try:
        compiled(f"({regex[1:-1]})")
    except PatternError:
        return False
    return True


def _stem(regex: str) -> str:
    """Make a name of what an expression begins with."""
    literal = re.match(r"\^?([A-Za-z0-9_/-]*)", regex)
    stem = re.sub(r"/+", "_", literal[1] if literal else "").strip("-_")
    return stem[:60] or "devices"
