"""Ids: what the kubelet calls a device, stable as long as the hardware stays where it is."""

from __future__ import annotations

import hashlib
import re

MAX_REPLICAS = 10_000
MAX_LENGTH = 63 - len(f"::{MAX_REPLICAS - 1}")
"""Of an id without a share's suffix; the same for any ``replicas``, so that changing it
renames nothing (LAW-4 asks for 63 at most)."""

_FOREIGN = re.compile(r"[^A-Za-z0-9._:-]")


def as_id(text: str) -> str:
    """Make an id of any text: foreign characters become ``_``, what is too long ends in a hash."""
    clean = _FOREIGN.sub("_", text).replace("::", "__")
    if len(clean) <= MAX_LENGTH:
        return clean
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{clean[: MAX_LENGTH - len(digest) - 1]}-{digest}"
