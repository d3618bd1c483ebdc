"""Names of CDI devices, ``vendor/class=name``, as the Container Device Interface defines them."""

from __future__ import annotations

import re

_KIND_PART = r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_DEVICE = r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"
_QUALIFIED_NAME = re.compile(f"{_KIND_PART}/{_KIND_PART}={_DEVICE}")


def is_qualified_name(text: str) -> bool:
    """Return whether container runtimes take a text for the full name of a CDI device.

    Both vendor and class begin with a letter, and all three parts end with a letter or digit.
    """
    return _QUALIFIED_NAME.fullmatch(text) is not None
