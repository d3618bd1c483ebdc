"""Names of resources: which are valid, and which result from a template."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.printing import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Resource

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_MAX_SUBDOMAIN = 253
_MAX_DOMAIN = _MAX_SUBDOMAIN - len("requests.")
"""The kubelet puts ``requests.`` before the name and checks the whole as one."""
_MAX_TYPE = 63
_MAX_LABEL = 63
_DIGITS = 8
"""Length of the digests in names."""
_NOT_IN_LABEL = re.compile(r"[^a-z0-9-]")
MAX_RESULTS = 64
"""Maximum number of names from one template; each is a resource with its own server."""


def name_problem(name: str) -> str | None:
    """Return why the kubelet would refuse a resource name (REG-5), or None."""
    domain, slash, rest = name.partition("/")
    reasons = (
        (not slash, "a resource name is domain/type: it has no '/'"),
        (
            "kubernetes.io/" in name,
            "a resource name cannot lie in kubernetes.io or a domain that ends so",
        ),
        (name.startswith("requests."), "a resource name cannot begin with 'requests.'"),
        ("/" in rest, "a resource name is domain/type: it has more than one '/'"),
        (not domain, "the domain before '/' is empty"),
        (
            len(domain) > _MAX_DOMAIN,
            f"the domain has {len(domain)} characters, at most {_MAX_DOMAIN} are possible",
        ),
        (
            not _SUBDOMAIN.fullmatch(domain),
            f"the domain {quoted(domain)} is not made of lower-case letters, digits, '-' and '.',"
            " with a letter or digit at both ends of each part",
        ),
        (not rest, "the type after '/' is empty"),
        (
            len(rest) > _MAX_TYPE,
            f"the type has {len(rest)} characters, at most {_MAX_TYPE} are possible",
        ),
        (
            not _NAME_PART.fullmatch(rest),
            f"the type {quoted(rest)} is not made of letters, digits, '-', '_' and '.',"
            " with a letter or digit at both ends",
        ),
    )
    return next((why for is_wrong, why in reasons if is_wrong), None)


def is_subdomain(text: str) -> bool:
    """Return whether a string is a DNS subdomain, as the names of objects in Kubernetes are."""
    return len(text) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def label(text: str) -> str:
    """Return a DNS label: the string itself if it is one, else a label with its digest."""
    clean = _NOT_IN_LABEL.sub("-", text.lower()).strip("-")
    if clean == text and 0 < len(clean) <= _MAX_LABEL:
        return text
    return cut(clean, _MAX_LABEL, text)


def cut(clean: str, max_length: int, text: str) -> str:
    """Return as much of a label as fits, with the digest of the original string at its end."""
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{clean[: max_length - _DIGITS - 1].rstrip('-./')}-{digest}".lstrip("-")


def class_names(resource: str) -> tuple[str, str]:
    """Return the names of a resource's DeviceClasses: for claims, and for plain ``limits``."""
    domain, _, kind = resource.partition("/")
    own = f"{label(kind)}.{domain}"
    return own, f"{own}-limits"


def with_name(resource: Resource, name: str) -> Resource:
    """Return the resource that a template resulted in, under its name."""
    return replace(resource, name=name, names=(), name_template=None)


def results(lists: Mapping[str, DeviceList]) -> dict[str, list[str]]:
    """Return which names have resulted, by the name in the config that they result from."""
    found: dict[str, list[str]] = {}
    for name, listed in lists.items():
        if listed.template:
            found.setdefault(listed.template, []).append(name)
    return found


def resulting(
    resources: Iterable[Resource], lists: Mapping[str, DeviceList]
) -> dict[str, Resource]:
    """Return resources by name; a resource with a template is followed by those that result from
    it.
    """
    found: dict[str, Resource] = {}
    resulting_names = results(lists)
    for resource in resources:
        found[resource.name] = resource
        found |= {
            name: with_name(resource, name) for name in resulting_names.get(resource.name, ())
        }
    return found


class NameOwners:
    """Resources of the config by name: their own names, and those that result from templates."""

    def __init__(self, resources: Iterable[Resource], previous: Mapping[str, DeviceList]) -> None:
        listed = {resource.name: resource for resource in resources}
        self._owners = {
            name: before.template
            for name, before in previous.items()
            if before.template in listed and glob.matches_any(listed[before.template].names, name)
        }
        # A name that the config has in full always belongs to its resource.
        self._owners |= {name: name for name in listed}
        self._names: dict[str, dict[str, None]] = {name: {name: None} for name in listed}
        for name, owner in self._owners.items():
            self._names[owner][name] = None

    def of(self, resource: Resource) -> list[str]:
        """Return the name of a resource and then those that result from it now or did before."""
        return list(self._names[resource.name])

    def enter(self, resource: Resource, name: str) -> str:
        """Reserve a name for a resource; return why it cannot be, or an empty string."""
        if self._owners.get(name) == resource.name:
            return ""
        if not glob.matches_any(resource.names, name):
            return f"is not among its names: {', '.join(resource.names)}"
        if problem := name_problem(name):
            return f"is not one that Kubernetes accepts: {problem}"
        if name in self._owners:
            return f"is that of resource {self._owners[name]}"
        if len(self.of(resource)) > MAX_RESULTS:
            return f"is one too many: {MAX_RESULTS} resources result from {resource.name} already"
        self._owners[name] = resource.name
        self._names[resource.name][name] = None
        return ""
