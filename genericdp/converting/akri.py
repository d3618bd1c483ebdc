"""akri: Configurations of its udev handler, and the values of its chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.names import env_problem
from genericdp.converting.akriselectors import add_rules
from genericdp.converting.draft import Draft, Resource, Said, replicas_of
from genericdp.converting.manifests import is_manifest, kind_of, objects
from genericdp.converting.naming import checked_name
from genericdp.converting.parts import Source, kept, parts
from genericdp.converting.recognizing import looks_like
from genericdp.template import literal

if TYPE_CHECKING:
    from genericdp.converting.parts import Keys, Part

MAX_RULES = 500
_DOMAIN = "akri.sh"
_HEAD = [
    "Pods ask for akri.sh/NAME, as with akri: any device of the Configuration. The name of one"
    " certain device, akri.sh/NAME-HASH, does not exist here.",
    "UDEV_DEVNODE holds the paths of the devices that a container has; akri also sets variables"
    " with the device's hash in their names.",
]
_NO_HANDLER = "genericdp offers what the node itself has; this handler finds devices on the network"
_NO_PODS = "genericdp starts no pods: let a Deployment or DaemonSet ask for {name}"
_GROUPED = (
    "groupRecursive makes one device of a match and all matches below it; say with groupBy what"
    " belongs together, such as groupBy: $(usb.port), and then take this resource"
)
_NO_RULES = "it has no udevRules that could be converted"
_CONFIGURATION = {
    "brokerSpec": _NO_PODS,
    "brokerPodSpec": _NO_PODS,
    "brokerType": _NO_PODS,
    "instanceServiceSpec": "genericdp makes no services",
    "configurationServiceSpec": "genericdp makes no services",
    "units": "versions before 0.1 had it",
}
_CHART = {
    "brokerPod": _NO_PODS,
    "brokerJob": _NO_PODS,
    "instanceService": "genericdp makes no services",
    "configurationService": "genericdp makes no services",
    "createInstanceServices": "genericdp makes no services",
    "createConfigurationService": "genericdp makes no services",
}
_UNKNOWN = "akri has no such key"
_OF_CHART = "it is about akri's chart and its own pods"
_HANDLERS = ("onvif", "opcua", "debugEcho", "custom", "coap", "zeroconf", "http")


def convert(documents: tuple[Part, ...]) -> Draft:
    """Make a config of what akri reads."""
    draft = Draft(head=list(_HEAD))
    for document in documents:
        for one in objects(document):
            if not is_manifest(one):
                _convert_chart(one, draft)
            elif kind_of(one) == "Configuration":
                _convert_configuration(one, draft)
            else:
                draft.left.append(f"Not converted, the {kind_of(one)}: it is no Configuration.")
    return draft


def _convert_configuration(document: Part, draft: Draft) -> None:
    keys = document.keys()
    metadata, spec = keys.take("metadata"), keys.take("spec")
    name = metadata.keys().text("name") if metadata is not None else ""
    if spec is None:
        document.fail("this Configuration has no spec")
        return
    keys = spec.keys()
    handler, protocol = keys.take("discoveryHandler"), keys.take("protocol")
    resource = _named(name, metadata or document, draft)
    if handler is not None:
        inner = handler.keys()
        kind, details = inner.text("name"), inner.take("discoveryDetails")
        if kind != "udev":
            resource.withheld = f"the handler {kind[:40]!r}: {_NO_HANDLER}"
            resource.left += kept(handler, _NO_HANDLER)
        else:
            _add_details(details, resource)
            resource.left += inner.kept({}, _UNKNOWN)
    elif protocol is not None:
        inner = protocol.keys()
        details = inner.take("udev")
        if details is None:
            resource.withheld = _NO_HANDLER
        _add_rules(details, resource)
        resource.left += inner.kept({}, _NO_HANDLER)
    else:
        spec.fail("discoveryHandler is missing")
    _add_rest(keys, resource, _CONFIGURATION)
    draft.resources.append(resource)


def _convert_chart(document: Part, draft: Draft) -> None:
    keys = document.keys()
    if not keys.has("udev", *_HANDLERS):
        wrong = "this is no Configuration of akri, and no values of its chart"
        document.fail(wrong, looks_like(document, "akri"))
        return
    udev = keys.take("udev")
    if udev is not None:
        inner = udev.keys()
        found = inner.take("configuration")
        if found is not None:
            _convert_values(found, draft)
        draft.left += inner.kept({}, _OF_CHART)
    draft.left += keys.kept(dict.fromkeys(_HANDLERS, _NO_HANDLER), _OF_CHART)


def _convert_values(part: Part, draft: Draft) -> None:
    keys = part.keys()
    name = keys.text("name", "akri-udev")
    enabled = keys.take("enabled")
    resource = _named(name, part, draft)
    _add_rules(keys.take("discoveryDetails"), resource)
    if enabled is not None and not enabled.is_true():
        resource.withheld = "enabled is false"
    _add_rest(keys, resource, _CHART)
    draft.resources.append(resource)


def _named(name: str, part: Part, draft: Draft) -> Resource:
    full = checked_name(f"{_DOMAIN}/{name}", part)
    if draft.name_for(full) != full:
        part.fail(f"{full!r} is there twice")
    resource = Resource(name=full)
    resource.env = {"UDEV_DEVNODE": "$(device.path)"}
    return resource


def _add_details(details: Part | None, resource: Resource) -> None:
    """Take discoveryDetails, which is a text of YAML."""
    if details is None or details.node.items is not None:
        _add_rules(details, resource)
        return
    label = f"{details.source.file} (discoveryDetails)"
    source = Source(file=label, problems=details.source.problems)
    for part in parts(source, details.text().encode("utf-8", "replace")):
        _add_rules(part, resource)


def _add_rules(details: Part | None, resource: Resource) -> None:
    if details is not None:
        keys = details.keys()
        rules = keys.take("udevRules")
        entries = rules.entries() if rules is not None else ()
        if len(entries) > MAX_RULES and rules is not None:
            rules.fail(f"more than {MAX_RULES} rules")
            return
        add_rules([rule.text() for rule in entries], resource)
        permissions = keys.take("permissions")
        if permissions is not None:
            letters = permissions.text()
            if not letters or not set(letters) <= set("rwm"):
                permissions.fail("letters of rwm are expected here")
            used = "".join(letter for letter in "rwm" if letter in letters)
            resource.devices = [Said({"path": "$(device.path)", "permissions": used})]
        if keys.is_true("groupRecursive"):
            resource.withheld = _GROUPED
        resource.left += keys.kept({}, _UNKNOWN)
    if not resource.match:
        resource.withheld = resource.withheld or _NO_RULES


def _add_rest(keys: Keys, resource: Resource, why: dict[str, str]) -> None:
    replicas_of(keys.number("capacity", 1), resource, "capacity")
    given = keys.take("brokerProperties")
    for name, part in given.keys().left.items() if given is not None else ():
        if env_problem(name) is not None:
            part.fail(f"{name[:40]!r} is no name of a variable")
        resource.env[name] = literal(part.text())
    reasons = {key: reason.format(name=resource.name) for key, reason in why.items()}
    resource.left += keys.kept(reasons, _UNKNOWN)
