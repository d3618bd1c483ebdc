"""One kind of hardware that ``genericdp init`` recognises."""

from __future__ import annotations

from typing import NamedTuple


class Recogniser(NamedTuple):
    """One kind of hardware."""

    about: str
    """What it is and what to know about it; lines of at most 90 characters."""
    resource: str
    """Its YAML, an entry of ``resources``."""
    warning: str = ""
    """Why it is only shown as a comment, as a sentence; empty: it is part of the config."""

    @property
    def name(self) -> str:
        """The resource's name."""
        return self.resource.split("\n", 1)[0].removeprefix("name: ")
