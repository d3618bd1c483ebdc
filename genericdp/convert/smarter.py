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
MARKERS: tuple[str, ...] = (MARKER,)
MAX_NAMES = 10
"""A resource is written for each file if an expression matches at most this many names."""
_DOMAIN = "smarter-devices"
_DEPTH = 4
"""Directory levels in /dev that are searched: /dev/bus/usb/001/002 has four, nothing has more."""
HEAD: tuple[str, ...] = (
    f"smarter has a resource for each file, {_DOMAIN}/video0 and {_DOMAIN}/video1, and so it is"
    " here. A name that is a template makes one for each name that results, at most 64.",
    "A file and a link to it are one device, which has one of their names.",
    "smarter also offers files that are not device files, and directories that are not well known.",
)
_DEEPER = (
    "Files in directories below {directory} are devices of one resource, {name}: smarter has one"
    " for each of them, too, and writes _ for /. If a pod needs a certain one, add a resource"
    " before it that has its name and path."
)
_AGAIN = "an entry above has this name; the plugin offers both, and the kubelet takes the last"
_JETSON = (
    "for this word smarter looks for the GPUs of NVIDIA Jetson in sysfs and sets"
    " NVIDIA_VISIBLE_DEVICES; see examples/configs/nvidia-gpu.yaml"
)
_TOKEN = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])|\[(?P<members>(?:[A-Za-z0-9](?:-[A-Za-z0-9])?)+)\]"
    r"|(?P<literal>[^\\.\[\](){}*+?^$|])"
)


def is_config(part: Part) -> bool:
    """Return whether it is a list with a devicematch, or the domain in values of a chart."""
    if part.node.entries is not None:
        return any(child.has(MARKER) for child in part.children())
    return _is_domain(part) and bool(part.text())


def _is_domain(part: Part) -> bool:
    return isinstance(part.node.scalar, str) and part.is_placed("smarter")


def convert(configs: Sequence[Part], draft: ConfigDraft) -> None:
    """Add the resources of all entries."""
    domain = next((part.text() for part in configs if _is_domain(part)), _DOMAIN)
    for config in configs:
        for entry in () if _is_domain(config) else config.entries():
            _convert_entry(entry, domain, draft)
    # A device belongs to the first resource that finds it, and must not find its name taken.
    draft.resources.sort(key=lambda resource: bool(resource.names))


def _convert_entry(entry: Part, domain: str, draft: ConfigDraft) -> None:
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
        full = found.resource_name(f"{domain}/{name.replace('/', '_') or _stem(regex)}")
        resource = ConvertedResource(name=full, comments=[f"devicematch: {regex}"], left=left)
        resource.share(count, "nummaxdevices")
        if not name:
            _match_regex(resource, regex, draft)
        elif draft.unused_name(full) == full:
            _match_file(resource, f"/dev/{exactly(name)}")
        else:
            draft.left += [f"Not converted, {full} of {found.shown}: {_AGAIN}.", *left]
            continue
        left = []
        draft.resources.append(resource)


def _match_file(resource: ConvertedResource, path: str) -> None:
    resource.match = [CommentedValue({"path": path})]
    if path in DIRECTORIES:
        resource.match[0].value["type"] = "directory"
        resource.add_directory(path)


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


def _match_regex(resource: ConvertedResource, regex: str, draft: ConfigDraft) -> None:
    """Match by glob what begins as the expression does, then by the expression itself."""
    start, rest = "/dev/", regex
    literal = re.match(r"\^((?:[A-Za-z0-9][A-Za-z0-9_/-]*)?)(?![*?{+])", regex)
    # What stands before an alternative begins all names only if that is within parentheses.
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
    resource.match = [CommentedValue(selector)]
    directory = start[: start.rindex("/") + 1]
    inner = regex[len(directory) - len("/dev/") + 1 : -1]
    is_simple = levels == 1 and re.fullmatch(r"\^[^|\\]*\$", regex) is not None
    if rest not in {"", ".*", ".*$"} and not is_simple:
        selector["values"] = {"matched": "*"}
        below = {"text": "$(device.path)", "regex": "^/dev/(.+)$"}
        resource.values["below_dev"] = CommentedValue(below)
        matched = {"text": "$(value.below_dev)", "regex": f"({regex})"}
        resource.values["matched"] = CommentedValue(matched)
    wanted = f"^{directory}({inner if is_simple else '[^/]+'})$"
    value = _name_by_file(resource, start, wanted, draft, is_flat=levels == 1)
    if is_simple:
        selector["values"] = {value: "*"}


def _name_by_file(
    resource: ConvertedResource, start: str, regex: str, draft: ConfigDraft, *, is_flat: bool
) -> str:
    """Let each file have a resource; return the value that is in its name.

    ``regex`` finds the name of a file in the directory that ``start`` begins with.
    """
    domain, _, stem = resource.name.partition("/")
    directory = start[: start.rindex("/") + 1]
    before = directory.removeprefix("/dev/").replace("/", "_")
    value = re.sub(r"^(?=[0-9])|[^A-Za-z0-9_]", "_", stem)
    default = "" if is_flat else f":-{stem}"
    own = before if is_flat else ""
    # Two resources cannot have the same template.
    while value in resource.values or (
        draft.unused_name(name := f"{domain}/{own}$(value.{value}{default})") != name
    ):
        value += "_"
    resource.names = [f"{domain}/{start.removeprefix('/dev/').replace('/', '_')}*"]
    if not is_flat:
        resource.comments.append(_DEEPER.format(directory=directory, name=resource.name))
        if not resource.name.startswith(resource.names[0][:-1]):
            resource.names.append(resource.name)
    if own != before:
        resource.values["file"] = CommentedValue({"text": "$(device.path)", "regex": regex})
        resource.values[value] = CommentedValue({"text": f"{before}$(value.file)"})
    else:
        resource.values[value] = CommentedValue({"text": "$(device.path)", "regex": regex})
    resource.name = name
    return value


def _stem(regex: str) -> str:
    """Return a name from the beginning of an expression."""
    literal = re.match(r"\^?([A-Za-z0-9_/-]*)(?![*?{])", regex)
    stem = re.sub(r"/+", "_", literal[1] if literal else "").strip("-_")
    return stem[:60] or "devices"
