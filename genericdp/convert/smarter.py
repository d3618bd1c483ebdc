"""smarter-device-manager: conf.yaml, also in a ConfigMap or in the values of a chart."""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from genericdp.convert.output import (
    DIRECTORIES,
    CommentedValue,
    ConfigDraft,
    ConvertedResource,
    any_of,
    exactly,
)
from genericdp.glob import path_problem
from genericdp.regex import PatternError, compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.convert.document import Part

PLUGIN = "smarter-device-manager"
MARKER = "devicematch"
MAX_NAMES = 10
"""A resource is written for each file if an expression matches at most this many names."""
_DOMAIN = "smarter-devices"
_DEPTH = 4
"""Directory levels in /dev that are searched: /dev/bus/usb/001/002 has four, nothing has more."""
HEAD: tuple[str, ...] = (
    f"smarter has a resource for each file: {_DOMAIN}/video0, {_DOMAIN}/video1. So it is here where"
    " an expression says which files there can be. Elsewhere all files that it matches are devices"
    f" of one resource. If a pod needs a certain one, add before it: name: {_DOMAIN}/video0, match:"
    " [{path: /dev/video0}].",
    "smarter also offers files that are not device files, and directories that are not well known.",
)
_JETSON = (
    "for this word smarter looks for the GPUs of NVIDIA Jetson in sysfs and sets"
    " NVIDIA_VISIBLE_DEVICES; see examples/configs/nvidia-gpu.yaml"
)
_TOKEN = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])|\[(?P<members>(?:[A-Za-z0-9](?:-[A-Za-z0-9])?)+)\]"
    r"|(?P<literal>[^\\.\[\](){}*+?^$|])"
)


def is_config(part: Part) -> bool:
    """Return whether it is a list with a devicematch."""
    return part.node.entries is not None and any(child.has(MARKER) for child in part.children())


def convert(configs: Sequence[Part], draft: ConfigDraft) -> None:
    """Add the resources of all entries."""
    for config in configs:
        for entry in config.entries():
            _convert_entry(entry, draft)


def _convert_entry(entry: Part, draft: ConfigDraft) -> None:
    keys = entry.keys()
    found = keys.take(MARKER)
    if found.is_null:
        if entry.node.items is not None:
            entry.fail(f"{MARKER} is missing")
        return
    regex = found.text()
    if regex == "nvidia-gpu":
        draft.left += entry.quotation(_JETSON)
        return
    try:
        compiled(f"({regex})")
    except PatternError as error:
        found.fail(f"not a regular expression of RE2, which smarter uses, too: {error}")
        return
    count = keys.take("nummaxdevices").number(0)
    left = list(keys.rest(PLUGIN))
    for name in _names(regex) or ("",):
        wanted = name.replace("/", "_") or _stem(regex)
        full = draft.unused_name(found.resource_name(f"{_DOMAIN}/{wanted}"))
        resource = ConvertedResource(name=full, comments=[f"devicematch: {regex}"], left=left)
        resource.share(count, "nummaxdevices")
        if name:
            path = f"/dev/{exactly(name)}"
            resource.match = [CommentedValue({"path": path})]
            if path in DIRECTORIES:
                resource.match[0].value["type"] = "directory"
                resource.add_directory(path)
        else:
            _match_regex(resource, regex)
        left = []
        draft.resources.append(resource)


def _names(regex: str) -> tuple[str, ...]:
    """Return the only names that an expression matches; empty if it may match others."""
    # ^(fuse|kvm)$ and ^fuse$|^kvm$; not (a|b)c, which is rare for names.
    inner = re.fullmatch(r"\^\(([^()]*)\)\$", regex)
    words = [f"^{word}$" for word in inner[1].split("|")] if inner else regex.split("|")
    found = dict.fromkeys(name for word in words for name in _expanded(word))
    usable = all(path_problem(f"/dev/{exactly(name)}") is None for name in found)
    return tuple(found) if usable and len(found) <= MAX_NAMES else ()


def _expanded(word: str) -> list[str]:
    """Return the only names that one alternative matches; [""] if it may match others."""
    if not word.startswith("^") or not word.endswith("$"):
        return [""]
    choices, at = [], 1
    while at < len(word) - 1:
        token = _TOKEN.match(word, at, len(word) - 1)
        if token is None:
            return [""]
        choices.append(_members(token["members"] or "") or token["escaped"] or token["literal"])
        at = token.end()
    if prod(map(len, choices)) > MAX_NAMES:
        return [""]
    return ["".join(letters) for letters in product(*choices)]


def _members(inner: str) -> str:
    """Return the characters of a class such as ``0-3a``."""
    ranges = re.findall(r"(.)(?:-(.))?", inner)
    return "".join(
        chr(code) for first, last in ranges for code in range(ord(first), ord(last or first) + 1)
    )


def _match_regex(resource: ConvertedResource, regex: str) -> None:
    """Match names with a glob for the beginning of the expression, then with the expression
    itself.
    """
    start, rest = "", regex
    literal = re.match(r"\^([A-Za-z0-9_/-]*)(?![*?{])", regex)
    # Text before an alternative begins all names only if the alternative is in parentheses.
    if literal and ("|" not in regex or re.fullmatch(r"[^|(]*\([^()\\]*\)[^|()]*", regex)):
        start, rest = f"/dev/{literal[1]}", regex[literal.end() :]
    if path_problem(f"{start}*") is not None:
        start, rest = "/dev/", regex
    levels = 1
    # What can match a slash can match files in directories.
    if not rest.endswith("$") or re.search(r"[./]|\[\^|\\[^dws\W]", rest):
        levels = max(1, _DEPTH + 2 - start.count("/"))
    selector: dict[str, object] = {
        "path": any_of(f"{start}{'/'.join('*' * count)}" for count in range(1, levels + 1))
    }
    if rest not in {"", ".*", ".*$"}:
        selector["values"] = {"matched": "*"}
        text, wanted = "$(value.below_dev)", f"({regex})"
        if re.fullmatch(r"\^[^|\\]*\$", regex):
            text, wanted = "$(device.path)", f"^/dev/({regex[1:-1]})$"
        else:
            below = {"text": "$(device.path)", "regex": "^/dev/(.+)$"}
            resource.values["below_dev"] = CommentedValue(below)
        resource.values["matched"] = CommentedValue({"text": text, "regex": wanted})
    resource.match = [CommentedValue(selector)]


def _stem(regex: str) -> str:
    """Return a name from the beginning of an expression."""
    literal = re.match(r"\^?([A-Za-z0-9_/-]*)(?![*?{])", regex)
    stem = re.sub(r"/+", "_", literal[1] if literal else "").strip("-_")
    return stem[:60] or "devices"
