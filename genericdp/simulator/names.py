"""Which resource names a kubelet takes (REG-5)."""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_TYPE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_QUOTA = "requests."
"""The kubelet checks the name of the quota for the resource, which begins so."""


def is_extended_resource(name: str) -> bool:
    """Say whether the kubelet registers a resource of this name."""
    if "kubernetes.io/" in name or name.startswith(_QUOTA) or name.count("/") != 1:
        return False
    domain, kind = name.split("/")
    return (
        len(_QUOTA + domain) <= 253
        and len(kind) <= 63
        and _DOMAIN.fullmatch(domain) is not None
        and _TYPE.fullmatch(kind) is not None
    )
