"""Names in Kubernetes that are made of names that may be anything."""

from __future__ import annotations

import hashlib
import re

_MAX_LABEL = 63
_DIGITS = 8
"""Of the digests in names."""
_NOT_IN_LABEL = re.compile(r"[^a-z0-9-]")


def label(text: str) -> str:
    """Return a DNS label for a text: the text itself if it is one, else one with its digest."""
    clean = _NOT_IN_LABEL.sub("-", text.lower()).strip("-")
    if clean == text and 0 < len(clean) <= _MAX_LABEL:
        return text
    return cut(clean, _MAX_LABEL, text)


def cut(clean: str, max_length: int, text: str) -> str:
    """Return as much as fits of what was made of a text, with the text's digest at its end."""
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{clean[: max_length - _DIGITS - 1].rstrip('-./')}-{digest}".lstrip("-")


def class_names(resource: str) -> tuple[str, str]:
    """Return the names of a resource's DeviceClasses: for claims, and for plain ``limits``."""
    domain, _, kind = resource.partition("/")
    own = f"{label(kind)}.{domain}"
    return own, f"{own}-limits"
