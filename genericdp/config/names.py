"""Names that Kubernetes has rules for."""

from __future__ import annotations

import re

from genericdp.config.schema import schema
from genericdp.regex import compiled

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_MAX_DOMAIN = 253 - len("requests.")
"""The kubelet puts ``requests.`` before the name and checks the whole as one."""
_MAX_TYPE = 63


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
            f"the domain {domain!r} is not made of lower-case letters, digits, '-' and '.',"
            " with a letter or digit at both ends of each part",
        ),
        (not rest, "the type after '/' is empty"),
        (
            len(rest) > _MAX_TYPE,
            f"the type has {len(rest)} characters, at most {_MAX_TYPE} are possible",
        ),
        (
            not _NAME_PART.fullmatch(rest),
            f"the type {rest!r} is not made of letters, digits, '-', '_' and '.',"
            " with a letter or digit at both ends",
        ),
    )
    return next((why for is_wrong, why in reasons if is_wrong), None)


def name_hint(name: str) -> str:
    """Return a resource name that the kubelet takes, as a hint for one that it refuses."""
    domain, slash, rest = name.rpartition("/")
    domain = domain.lower().replace("_", "-") if slash and domain else "example.com"
    meant = f"{domain}/{rest}"
    return f"as in {meant!r}" if name_problem(meant) is None else ""


def env_problem(name: str) -> str | None:
    """Return why a text is no name of an environment variable, or None."""
    wanted = schema()["$defs"]["variableName"]
    if compiled(wanted["pattern"]).search(name):
        return None
    return f"{name!r} is not {wanted['title']}"
