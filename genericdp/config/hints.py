"""Suggestions for mistakes; never one that would be refused itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.config.schema import CONFIG, KINDS, keys_of, resolved_schema
from genericdp.config.strict import conforms
from genericdp.config.texts import check_text, formatted
from genericdp.printing import MAX_QUOTED, closest, lookalike_hint, suggestion
from genericdp.scalars import meant_boolean, meant_numbers, single_quoted, yaml_flow

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from genericdp.config.document import Field, Plain
    from genericdp.config.schema import Schema
    from genericdp.errors import KeyPath

_OTHER_WORDS = {
    "ATTR": "attributes",
    "idProduct": "product",
    "idVendor": "vendor",
    "pid": "product",
    "vid": "vendor",
    "DEVNAME": "name",
    "ENV": "properties",
    "KERNEL": "name",
    "count": "replicas",
    "hostPath": "path",
    "interval": "periodSeconds",
    "httpGet": "exec",
    "intervalSeconds": "periodSeconds",
    "livenessProbe": "health",
    "mountPath": "containerPath",
    "nodeSelector": "nodeNames",
    "nodes": "devices",
    "probes": "health",
    "readinessProbe": "health",
    "selector": "match",
    "selectors": "match",
    "startupProbe": "health",
    "tcpSocket": "exec",
    "volumes": "mounts",
    "path": "hostPath",
    "paths": "path",
    "shares": "replicas",
    "source": "hostPath",
    "target": "containerPath",
}
"""Names that other plugins, Kubernetes and udev's rules use for our keys."""
_OF_PODS = "it belongs to the pod, which needs no privileges for its devices"
_NO_LABELS = "devices have no labels: write - udev: {subsystem: tty}, or another selector"
_NO_LOOPS = "there are no loops: 'match' takes several selectors, and 'path' a list"
_NOT_RENDERED = ("<nil>", "<no value>", "map[")
"""What Helm prints for a value that is missing, or no text."""
_SET_BY_UDEV = {"GROUP", "MODE", "NAME", "OWNER", "RUN", "SYMLINK", "TAG"}
"""Keys of udev's rules that select nothing."""
_ADVICE: dict[tuple[str, str], str] = {
    ("match", "affinity"): "name nodes by 'nodeNames', or select them in the DaemonSet",
    ("match", "tolerations"): "tolerations belong to the DaemonSet",
    ("match", "deploy"): "select the hardware with 'match'; how many is said by the pod",
    ("match", "groups"): "convert a config of squat: genericdp convert --from squat FILE",
    ("hardware", "hostpci0"): "select by pci: {address: '0000:01:00.0'}",
    ("hardware", "usb0"): "select by usb: {vendor: '0403', product: '6001'}",
    **dict.fromkeys(
        (("devtype", "vendor"), ("devtype", "product"), ("devtype", "serial")),
        "it belongs to the parent: hardware: {usb: {vendor: '0403'}}, next to 'udev'",
    ),
    ("match", "loop"): _NO_LOOPS,
    ("match", "with_items"): _NO_LOOPS,
    ("match", "matchLabels"): _NO_LABELS,
    ("match", "matchExpressions"): _NO_LABELS,
    ("mounts", "hostNetwork"): _OF_PODS,
    ("mounts", "privileged"): _OF_PODS,
    ("mounts", "securityContext"): _OF_PODS,
    ("match", "devices"): "select devices with 'match'",
    ("match", "limits"): "limits belong to the pod",
    ("match", "requests"): "requests belong to the pod",
    ("match", "shared"): "share a device with 'replicas'",
    ("match", "sharing"): "share a device with 'replicas'",
    ("resources", "metadata"): "omit it: this is not an object of Kubernetes",
    ("resources", "spec"): "write what is below it at the top level",
    ("hardware", "not"): "what must not match goes into 'exclude', next to 'match'",
    ("hardware", "device"): "select by one of 'path', 'udev', 'usb', 'pci', 'net'",
    ("linkType", "type"): "did you mean 'linkType'?",
    ("vendor", "id"): "write vendor and product, as in vendor: '10c4'",
    ("vendor", "ids"): "write vendor and product, as in vendor: '10c4'",
}
"""What to write, by a known key, which identifies the mapping, and an unknown key in it."""
_OF_PARENTS = {"ATTRS", "DRIVERS", "KERNELS", "SUBSYSTEMS"}
"""Keys of udev's rules for the parents of a device."""
_SECOND_IDS: dict[KeyPath, str] = {
    ("usb", "vendor"): "product",
    ("pci", "vendor"): "device",
    ("pci", "subsystemVendor"): "subsystemDevice",
}
"""The key of what follows a ':' in an ID, as in 0403:6001."""
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|sec|m|min|h)")
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_MODES = re.compile("[r-]?[w-]?[xm-]*|r[ow]|0?[0-7]{3}")
_CLASS = re.compile("[0-9a-fA-F]{2}[.:][0-9a-fA-F]{2}")
_DIGITS = re.compile(r"\^\[0-9A-Fa-f\]\{([0-9])\}\$")
"""A pattern of hexadecimal digits, and how many digits there must be."""


def for_type(field: Field, part: Schema) -> str:
    """Return what to write in place of a value of the wrong type."""
    value = field.value
    if value is None and _is_good(field, "", part):
        return "write '' for the empty string"
    if isinstance(value, dict) and part["type"] == "array" and (known := keys_of(part)):
        key, entry = next(iter(value.items()), ("", None))
        if advice := _ADVICE.get(("match", key)):
            return advice
        is_named = "name" in part["items"].get("required", ()) and key not in known
        named = entry.get("name", key) if is_named and isinstance(entry, dict) else None
        return f"begin each entry with '- {'' if named is None else f'name: {named}'}'"
    if field.path[-1:] == ("env",) and isinstance(value, list):
        return "write NAME: VALUE, as in {NODE: $(node.name)}"
    if value is None or isinstance(value, list | dict):
        return _sample(part)
    if isinstance(value, str):
        return _for_scalar(field, value, part, unquoted=False)
    return _for_scalar(field, field.source or str(value), part, unquoted=True)


def _for_scalar(field: Field, text: str, part: Schema, *, unquoted: bool) -> str:
    without = "" if unquoted else " without quotes"
    if numbers := [str(number) for number in meant_numbers(text) if _is_good(field, number, part)]:
        return f"write {' or '.join(numbers)}{without}"
    if _is_good(field, meant := meant_boolean(text), part):
        return f"write {yaml_flow(meant)}{without}"
    if unquoted and (fixed := _fixed(field, text, part)):
        return f"write {single_quoted(fixed)}"
    if hint := _meant_value(field, text, part):
        return hint
    # A string with spaces may be several entries, or a line for a shell.
    if " " not in text and len(text) <= MAX_QUOTED and _is_good(field, [text], part):
        return f"write {yaml_flow([text])}"
    key, colon, rest = text.partition(":")
    key = key.lstrip("- ")
    if colon and key in part.get("properties", ()) and _is_good(field, {key: rest}, part):
        return "write a space after the ':' of a key"
    in_words = f"write {part['title']}, in quotes" if unquoted and "pattern" in part else ""
    return _sample(part) or in_words


def _meant_value(field: Field, text: str, part: Schema) -> str:
    """Return a hint for a duration, a command, and what Helm prints for no value."""
    if text.startswith(_NOT_RENDERED):
        return "Helm prints this for a value that is missing, or no text"
    if (found := _DURATION.fullmatch(text)) and field.path and field.key.endswith("Seconds"):
        seconds = int(found[1]) * _SECONDS.get(found[2], 0)
        return f"write {seconds}, in seconds" if _is_good(field, seconds, part) else ""
    if field.path[-1:] == ("udev",) and "==" in text:
        return "write {subsystem: tty}, and hardware: {usb: {vendor: '0403'}} for what ATTRS says"
    words = text.split()
    command: Plain = words if field.path[-1:] == ("command",) else {"command": words}
    is_command = text.startswith("/") and _is_good(field, command, part)
    return f"write {yaml_flow(command)}" if is_command else ""


def for_text(field: Field, part: Schema) -> str:
    """Return what to write in place of a string that does not match the pattern of its schema."""
    text = str(field.value)
    if fixed := _fixed(field, text, part, pads=True):
        return f"write {single_quoted(fixed)}"
    first, _, second = text.partition(":")
    ids = [_fixed(field, half, part, pads=True) for half in (first, second)]
    if (key := _SECOND_IDS.get(field.path[-2:])) and all(ids):
        return f"write {single_quoted(ids[0])}, and {key}: {single_quoted(ids[1])}"
    if text and field.path[-1:] == ("permissions",) and _MODES.fullmatch(text):
        only_reads = set(text) <= {"r", "o", "-", "0", "4"}
        return f"write {'r' if only_reads else 'rw'}"
    if field.key == "class" and _CLASS.fullmatch(text):
        return f"write {single_quoted(f'{text[:2]}{text[3:]}*'.lower())}"
    is_number = field.key in {"vendor", "product", "device", "class", "interface"}
    if is_number and text.replace(" ", "").isalpha():
        return "genericdp hardware lists the numbers of devices"
    return lookalike_hint(text) or ("templates are not allowed here" if "$(" in text else "")


def for_key(field: Field, key: str, known: Mapping[str, Schema]) -> str:
    """Return what to do about an unknown key of a mapping."""
    if key.partition("{")[0] in _OF_PARENTS and {"udev", "subsystem"} & known.keys():
        return "the parents of a device are selected by 'hardware', next to 'udev'"
    if key.partition("{")[0].rstrip("+=:") in _SET_BY_UDEV and "properties" in known:
        return "udev sets it, and it selects nothing"
    if hint := lookalike_hint(key):
        return hint
    # 'devices' next to 'match' belong below 'inject'.
    is_misplaced = key == "devices" and "match" in field.written()
    for (sibling, unknown), advice in _ADVICE.items():
        if key == unknown and sibling in known and not is_misplaced:
            return advice
    if place := _right_place(field, key):
        return f"it belongs {place}: check the indentation"
    if not field.path and closest(key, known) is None:
        return f"a key that only holds anchors begins with x-, as in 'x-{key}'"
    # Suggesting a key that is already there would cause the next mistake.
    return suggestion(_term(key, known), known, taken=field.written())


def meant_key(key: str, known: Mapping[str, Schema]) -> str | None:
    """Return the known key that was probably meant by an unknown one, if one is close."""
    return closest(_term(key, known), known)


def _is_good(field: Field, value: Plain, part: Schema) -> bool:
    """Return whether a value would be valid there."""
    if not conforms(value, part):
        return False
    tried = replace(field, value=value, findings=[])
    declared = field.document.keys((*field.path[:2], "values"))
    for inner, form in formatted(tried, part):
        check_text(inner, form, declared)
    return all(finding.warning for finding in tried.findings)


def _fixed(field: Field, text: str, part: Schema, *, pads: bool = False) -> str:
    """Return the corrected string if the correction is obvious, else nothing.

    A number with too few digits is corrected if it begins with 0x, or with ``pads``.
    """
    choices = [text]
    if "pattern" in part:
        digits = text[2:] if (is_prefixed := text[:2] in {"0x", "0X"}) else text
        number = _with_digits(digits, part["pattern"]) if is_prefixed or pads else ""
        choices += [text.lower(), f"0000:{text}", number]
    return next((choice for choice in choices if _is_good(field, choice, part)), "")


def _with_digits(digits: str, pattern: str) -> str:
    """Return a number with the hexadecimal digits that a pattern requires; empty if it requires
    none.
    """
    found = _DIGITS.match(pattern)
    if found is None or not digits:
        return ""
    # A class without subclass or interface is complete.
    is_class = found[1] == "6" and len(digits) in {2, 4}
    return f"{digits}*" if is_class else digits.zfill(int(found[1]))


def _sample(part: Schema) -> str:
    """Return a hint with possible values: the choices, or else an example."""
    items = part.get("items", {})
    if part.get("type") == "integer" and "maximum" in part:
        return f"from {part.get('minimum', 0)} to {part['maximum']}"
    if choices := part.get("enum") or items.get("enum"):
        return f"one of {', '.join(choices)}"
    examples = part.get("examples") or [[item] for item in items.get("examples", ())]
    return f"as in {yaml_flow(examples[0])}" if examples else ""


def _term(key: str, known: Container[str]) -> str:
    """Return our name for the key, if this is another project's name for it."""
    rule = key.partition("{")[0]  # as in ATTR{size}
    words = (_OTHER_WORDS.get(rule, ""), rule.lower())
    return next((word for word in words if word in known), key)


def _right_place(field: Field, key: str) -> str:
    """Return where the schema has a key that is unknown here: above, or one level below."""
    above: list[str] = []
    kind = field.document.data.get("kind")
    keys = keys_of(resolved_schema(kind if kind in [*KINDS] else CONFIG))
    for i, step in enumerate(field.path):
        if isinstance(step, int):
            continue
        if key in keys and key not in field.document.keys(field.path[:i]):
            above.append(step)
        keys = keys_of(keys.get(step, {}))
    if above:
        return f"next to {above[-1]!r}"
    if key.isupper() and "properties" in keys and _term(key, keys) == key:
        return "below 'properties'"
    deeper = {f"{a}.{b}": part for a in keys for b, part in keys_of(keys[a]).items()}
    for parts in (keys, deeper):
        if below := [repr(name) for name, part in parts.items() if key in keys_of(part)]:
            return f"below {' or '.join(below)}"
    return ""
