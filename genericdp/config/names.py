"""Names that Kubernetes and CDI have rules for."""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_ENV_NAME = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_VALUE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_CDI_NAME = re.compile(
    r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?"
    r"=[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"
)
_MAX_SUBDOMAIN = 253
_MAX_DOMAIN = _MAX_SUBDOMAIN - len("requests.")
"""The kubelet puts ``requests.`` before the name and checks the whole as one."""
_MAX_NAME_PART = 63


def name_problem(name: str) -> str | None:
    """Say why the kubelet would refuse a resource name (REG-5), if it would."""
    domain, slash, rest = name.partition("/")
    if not slash:
        return "a resource name is domain/type: it has no '/'"
    if "kubernetes.io/" in name:
        return "a resource name cannot lie in kubernetes.io or a domain that ends so"
    if name.startswith("requests."):
        return "a resource name cannot begin with 'requests.'"
    if "/" in rest:
        return "a resource name is domain/type: it has more than one '/'"
    return _domain_problem(domain, _MAX_DOMAIN) or _name_part_problem(rest, "type")


def _domain_problem(domain: str, longest: int) -> str | None:
    if not domain:
        return "the domain before '/' is empty"
    if len(domain) > longest:
        return f"the domain has {len(domain)} characters, at most {longest} are possible"
    if not _SUBDOMAIN.fullmatch(domain):
        return (
            f"the domain {domain!r} is not made of lower-case letters, digits, '-' and '.',"
            " with a letter or digit at both ends of each part"
        )
    return None


def _name_part_problem(name: str, word: str) -> str | None:
    if not name:
        return f"the {word} after '/' is empty"
    if len(name) > _MAX_NAME_PART:
        return f"the {word} has {len(name)} characters, at most {_MAX_NAME_PART} are possible"
    if not _NAME_PART.fullmatch(name):
        return (
            f"the {word} {name!r} is not made of letters, digits, '-', '_' and '.',"
            " with a letter or digit at both ends"
        )
    return None


def annotation_problem(key: str) -> str | None:
    """Say why a text is no annotation key as Kubernetes has them, if it is none."""
    domain, slash, name = key.rpartition("/")
    if slash and (problem := _domain_problem(domain.lower(), _MAX_SUBDOMAIN)):
        return problem
    return _name_part_problem(name, "name")


def env_problem(name: str) -> str | None:
    """Say why a text is no name of an environment variable, if it is none."""
    if _ENV_NAME.fullmatch(name):
        return None
    return f"{name!r} is no name of a variable: letters, digits, '_', '-' and '.', no digit first"


def value_name_problem(name: str) -> str | None:
    """Say why a text is no name for ``values``, if it is none."""
    if _VALUE_NAME.fullmatch(name):
        return None
    return f"{name!r} is no name of a value: letters, digits, '_' and '-', a letter first"


def is_cdi_name(text: str) -> bool:
    """Say whether a text is a full CDI device name, ``vendor/class=name``."""
    return _CDI_NAME.fullmatch(text) is not None
