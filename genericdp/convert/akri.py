"""akri: Configurations of its udev handler, also in the values of its chart."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.config.schema import schema
from genericdp.convert.output import CommentedValue, ConfigDraft, ConvertedResource, any_of
from genericdp.glob import is_glob, pattern_problem
from genericdp.regex import compiled
from genericdp.template import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.convert.document import Keys, Part
    from genericdp.convert.output import Values

PLUGIN = "akri"
MARKER = "discoveryDetails"
MARKERS: tuple[str, ...] = (MARKER, "udevRules")
_DOMAIN = "akri.sh"
HEAD: tuple[str, ...] = (
    f"Pods request {_DOMAIN}/NAME, any device of the Configuration. {_DOMAIN}/NAME-HASH, the"
    " resource for one device, does not exist here.",
    "UDEV_DEVNODE and UDEV_DEVPATH are joined with commas if a container has several devices; akri"
    " sets them with the device's hash at the end of their names.",
    "Except for PCI functions, devices without a device file are not offered.",
    "Rules mean what udev's manual says. For akri one of several ENV conditions is enough, several"
    " of ATTRS, KERNELS and so on may be about different ancestors, these, DRIVER and most != take"
    " a regular expression instead of a glob, and other fields take | literally.",
)
_EXCLUDED = "It excludes also what other rules match, which akri offers."
_NETWORK = "this handler finds devices on the network, genericdp offers those of the node itself"
_NO_PODS = "genericdp does not start pods: have a Deployment or DaemonSet request {name}"
_NO_SERVICES = "genericdp does not create services"
_NO_GROUPS = (
    "groupRecursive makes one device of a device and all that is below it; say with groupBy what"
    " belongs together, such as groupBy: $(usb.port), and use this resource"
)
_NO_EFFECT = "groupRecursive has no effect here: nothing is below such devices."
_LEAVES = re.compile(r"(video|vbi|media|tty|hidraw|event|js|renderD|controlC|pcmC|spidev|fuse|kvm)")
"""What the names of devices begin with that have no others below them."""
_LEAF_SUBSYSTEMS = ("video4linux", "tty", "hidraw", "spidev")
_OLD = "Its Configuration has the format before akri 0.4: spec.protocol, with the same keys."
_NO_PROPERTY = (
    "akri's udev handler reads devicePluginResourceName and vfioPassthrough, and these can be"
    " converted only if all rules require SUBSYSTEM usb or pci; see inject.env and inject.devices"
)
_TERM = re.compile(
    r"""\s*(?P<field>(?P<keyed>ATTR(IBUTE)?S?|ENV)|DEVPATH|(DRIVER|KERNEL|SUBSYSTEM|TAG)S?)"""
    r"""(?(keyed)\{(?P<key>[^}"]+)\})\s*(?P<operator>[!=]=)\s*"(?P<value>[^"]*)"\s*(,|$)"""
)
_KEYS = {"KERNEL": "name", "SUBSYSTEM": "subsystem", "DRIVERS": "driver"}
"""Fields that a udev selector has a key for."""
_MAPPINGS = {"ATTR": "attributes", "ENV": "properties", "TAG": "properties"}
"""Fields that a udev selector has a mapping for."""
_VALUES = {
    "DRIVER": CommentedValue(
        {"link": "$(device.syspath)/driver"},
        ["The driver of the device itself, not of an ancestor."],
    ),
    "DEVPATH": CommentedValue({"text": "$(device.syspath)", "regex": "^/sys(/.*)$"}),
}
"""Fields that take a value of the resource."""
_OF_ANCESTORS = frozenset({"ATTRS", "DRIVERS", "KERNELS", "SUBSYSTEMS", "TAGS"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One condition of a udev rule: any of the globs must match, or none if it is negated."""

    field: str
    key: str
    globs: tuple[str, ...]
    is_negated: bool
    written: str


class RuleError(ValueError):
    """A udev rule that cannot be converted, with the reason."""


def is_config(part: Part) -> bool:
    """Return whether it is a Configuration, or a configuration of the chart's values."""
    if part.has("apiVersion") and part.has("spec"):
        keys = part.keys()
        is_akri = keys.take("apiVersion").text().startswith("akri")
        return is_akri and keys.take("kind").text() == "Configuration"
    return part.node.items is not None and part.is_placed("akri")


def convert(configs: Sequence[Part], draft: ConfigDraft) -> None:
    """Add the resource of each Configuration."""
    for config in configs:
        _add_configuration(config, draft)


def _add_configuration(config: Part, draft: ConfigDraft) -> None:
    keys, is_enabled, is_old = config.keys(), True, False
    if config.has("spec"):
        name = keys.take("metadata").keys().take("name").text()
        keys = keys.take("spec").keys()
        part, kind, is_old = _discovery(keys, config)
        handler = part.keys()
        handler.take("name")
    else:
        part, handler, kind = config, keys, str(config.path[-2])
        name = keys.take("name").text() or f"akri-{kind}"
        enabled = keys.take("enabled")
        is_enabled = enabled.is_null or enabled.is_true()
    full = config.resource_name(f"{_DOMAIN}/{name}")
    if draft.unused_name(full) != full:
        config.fail(f"{full!r} is defined twice")
    resource = ConvertedResource(name=full)
    if kind == "udev" and is_old:
        resource.comments.append(_OLD)
        handler.left.clear()
        _add_details(part, handler.take("discoveryProperties"), resource)
    elif kind == "udev":
        _add_details(handler.take(MARKER), handler.take("discoveryProperties"), resource)
        resource.left += handler.rest(PLUGIN) if handler is not keys else ()
    else:
        resource.withheld = f"the handler {kind[:40]!r}: {_NETWORK}"
        resource.left += part.quotation(_NETWORK)
        handler.left.clear()
    if not is_enabled:
        resource.withheld = "enabled is false"
    _finish(keys, resource, draft)


def _discovery(keys: Keys, config: Part) -> tuple[Part, str, bool]:
    """Return where a Configuration has the handler, which one, and whether the format is old."""
    part, old = keys.take("discoveryHandler"), keys.take("protocol").keys()
    if part.is_null and old.left:
        kind, part = next(iter(old.left.items()))
        return part, kind, True
    if part.is_null:
        config.fail("spec.discoveryHandler is missing")
    return part, part.keys().take("name").text(), False


def _add_details(details: Part, properties: Part, resource: ConvertedResource) -> None:
    """Add the selectors and edits of discoveryDetails, a mapping or a string of YAML."""
    is_text = details.node.items is None and not details.is_null
    for found in details.embedded(details.text()) if is_text else (details,):
        if found.node.items is not None:
            _add_found(found, properties, resource)
        elif not found.is_null:
            found.fail("expected a mapping with udevRules")
    if not resource.match:
        resource.withheld = resource.withheld or "it has no udevRules that could be converted"


def _add_found(details: Part, properties: Part, resource: ConvertedResource) -> None:
    keys = details.keys()
    rules, permissions = keys.take("udevRules"), keys.take("permissions")
    _add_rules(rules.texts(), resource)
    letters = permissions.text() or "rwm"
    if not set(letters) <= set("rwm"):
        permissions.fail("expected letters of rwm")
    if keys.take("groupRecursive").is_true():
        if resource.match and all(map(_is_leaf, resource.match)):
            resource.comments.append(_NO_EFFECT)
        else:
            resource.withheld = _NO_GROUPS
    resource.left += keys.rest(PLUGIN)
    resource.devices = []
    if _subsystem(resource) != "pci":
        used = "".join(letter for letter in "rwm" if letter in letters)
        resource.devices = [CommentedValue({"path": "$(device.path)", "permissions": used})]
        resource.env["UDEV_DEVNODE"] = "$(device.path)"
    resource.env["UDEV_DEVPATH"] = "$(value.devpath)"
    resource.values["devpath"] = _VALUES["DEVPATH"]
    for entry in properties.entries():
        _add_property(entry, resource)


def _is_leaf(selector: CommentedValue) -> bool:
    """Return whether no other device can be below those that a rule finds."""
    where = selector.value["udev"]
    names = where.get("name", "")
    return where.get("subsystem") in _LEAF_SUBSYSTEMS or all(
        _LEAVES.match(name) for name in ([names] if isinstance(names, str) else names)
    )


def _finish(keys: Keys, resource: ConvertedResource, draft: ConfigDraft) -> None:
    """Add the parts that are the same for all handlers."""
    resource.share(keys.take("capacity").number(1), "capacity")
    # properties: before akri 0.4.
    properties = (keys.take("brokerProperties"), keys.take("properties"))
    for part in (part for given in properties for part in given.keys().left.values()):
        name = str(part.path[-1])
        if not _is_variable(name):
            part.fail(f"{name[:40]!r} cannot be the name of an environment variable")
        resource.env[name] = literal(part.text())
    pods = [key.lower() for key in keys.left if key.startswith("broker")]
    services = [key.lower() for key in keys.left if "service" in key.lower()]
    reasons = dict.fromkeys(pods, _NO_PODS.format(name=resource.name))
    resource.left += keys.rest(PLUGIN, {**reasons, **dict.fromkeys(services, _NO_SERVICES)})
    draft.resources.append(resource)


def _is_variable(name: str) -> bool:
    """Return whether an environment variable can be called so."""
    return compiled(schema()["$defs"]["variableName"]["pattern"]).search(name) is not None


def _add_property(entry: Part, resource: ConvertedResource) -> None:
    """Add the result of one of the discoveryProperties in the udev handler, for KubeVirt."""
    keys = entry.keys()
    name, value = keys.take("name").text(), keys.take("value").text()
    subsystem = _subsystem(resource)
    if name == "devicePluginResourceName" and subsystem in {"usb", "pci"}:
        variable = f"{subsystem}_RESOURCE_{re.sub(r'[./]', '_', value)}".upper()
        if not value or not _is_variable(variable):
            entry.fail(f"{value[:80]!r} is not the name of a resource")
        address = "$(usb.bus):$(usb.number)" if subsystem == "usb" else "$(pci.address)"
        resource.env[variable] = address
    elif name == "vfioPassthrough" and subsystem == "pci" and value.strip().lower() == "true":
        paths = ("/dev/vfio/$(pci.iommuGroup)", "/dev/vfio/vfio")
        resource.devices = [CommentedValue({"path": path}) for path in paths]
    else:
        resource.left += entry.quotation(_NO_PROPERTY)


def _subsystem(resource: ConvertedResource) -> str:
    """Return the only subsystem of the rules; empty if they name none or several."""
    found = {str(selector.value["udev"].get("subsystem", "")) for selector in resource.match}
    return found.pop() if len(found) == 1 else ""


def _add_rules(rules: Sequence[str], resource: ConvertedResource) -> None:
    """Add selectors for rules, or comments that say why the rules cannot be converted."""
    converted = 0
    for rule in rules:
        try:
            terms = tuple(_terms(rule))
            selector, excluded = _selectors(terms, resource)
        except RuleError as error:
            resource.left.append(f"Not converted, the rule {rule}: {error}.")
            continue
        converted += 1
        _add(resource.match, CommentedValue(selector, [f"udevRule: {rule}"]))
        for entry in excluded:
            _add(resource.exclude, entry)
    for entry in resource.exclude if converted > 1 else ():
        entry.comments.append(_EXCLUDED)


def _add(entries: list[CommentedValue], entry: CommentedValue) -> None:
    """Add an entry, or its comments to one that is equal."""
    same = next((other for other in entries if other.value == entry.value), None)
    if same is None:
        entries.append(entry)
    else:
        same.comments += [comment for comment in entry.comments if comment not in same.comments]


def _terms(rule: str) -> Iterator[Term]:
    at = 0
    while at < len(rule):
        found = _TERM.match(rule, at)
        if found is None:
            raise RuleError(f"{rule[at : at + 40]!r} is not a condition of a rule for akri")
        # The dialects differ in the sign of a negated bracket; and nothing is a template there.
        globs = found["value"].replace("[^", "[!").replace("$(", "$[(]").split("|")
        problems = [pattern_problem(glob) or "" for glob in globs]
        if any(problems) or (len(globs) > 1 and "" in globs):
            raise RuleError(f"{found['value']!r} is not a glob, or not alternatives of globs")
        field, is_negated = found["field"].replace("IBUTE", ""), found["operator"] == "!="
        if is_negated and globs == [""] and field in {"ENV", "ATTR", "ATTRS"}:
            globs, is_negated = ["?*"], False  # it is there, and not empty
        yield Term(
            field=field,
            key=found["key"] or "",
            globs=tuple(globs),
            is_negated=is_negated,
            written=found[0].strip(" ,"),
        )
        at = found.end()


def _selectors(
    terms: Sequence[Term], resource: ConvertedResource
) -> tuple[Values, list[CommentedValue]]:
    """Return the selector of a rule, and an exclude for each of its negated conditions."""
    selector: Values = {"udev": {}}
    for term in terms:
        if not term.is_negated:
            _add_term(selector, term, resource)
    excluded = []
    for term in terms:
        if term.is_negated:
            copied = deepcopy(selector)
            if term.field in _OF_ANCESTORS:
                # One such ancestor excludes the device, whatever conditions another one meets.
                copied.pop("hardware", None)
            _add_term(copied, term, resource)
            excluded.append(CommentedValue(_complete(copied), [f"{term.written}."]))
    return _complete(selector), excluded


def _complete(selector: Values) -> Values:
    return {**selector, "udev": selector["udev"] or {"subsystem": "*"}}


def _add_term(selector: Values, term: Term, resource: ConvertedResource) -> None:
    """Add a condition to a selector; a negated condition to the excludes."""
    field, key, globs, where = term.field, term.key, term.globs, selector["udev"]
    if globs == ("",):
        raise RuleError(f"{term.written}: no selector can match a device without {key or field}")
    if field in _OF_ANCESTORS:
        where = selector.setdefault("hardware", {}).setdefault("udev", {})
        field = field if field == "DRIVERS" else field.removesuffix("S")
    if field == "TAG":
        key, globs = "TAGS", tuple(map(_tag, globs))
    elif field == "DEVPATH":
        globs = tuple(glob.removeprefix("/sys") for glob in globs)
    if field in _VALUES:
        key, where = field.lower(), selector.setdefault("values", {})
        resource.values[key] = _VALUES[field]
    elif field in _MAPPINGS:
        where = where.setdefault(_MAPPINGS[field], {})
    else:
        key = _KEYS[field]
    if where.get(key, any_of(globs)) != any_of(globs) and not term.is_negated:
        raise RuleError(f"{term.written}: a selector cannot ask twice for the same key")
    where[key] = any_of(globs)


def _tag(glob: str) -> str:
    """Return the glob for udev's list of all tags, such as ``:one:two:``."""
    if is_glob(glob.removesuffix("*")) or ":" in glob:
        raise RuleError("of the glob for a tag only a star at its end can be converted")
    return f"*:{glob}:*"
