"""What a peer's config becomes: resources of our language, with comments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from genericdp.devices.device import MAX_REPLICAS

Values = dict[str, Any]


@dataclass(slots=True)
class Said:
    """A value with the comments that stand above it."""

    value: Values
    comments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Resource:
    """One resource: its keys as our language has them, and what is to be said of it."""

    name: str
    comments: list[str] = field(default_factory=list)
    node_names: list[str] = field(default_factory=list)
    match: list[Said] = field(default_factory=list)
    exclude: list[Said] = field(default_factory=list)
    values: dict[str, Said] = field(default_factory=dict)
    group_by: str = ""
    replicas: int = 1
    topology: str = ""
    devices: list[Said] | None = None
    mounts: list[Said] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    """Comments at its end: what nothing was made of."""
    withheld: str = ""
    """Why it is only a comment: what it would offer is more than the peer does, or nothing."""


@dataclass(slots=True)
class Draft:
    """A whole config."""

    head: list[str] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Comments at its end."""
    _taken: dict[str, int] = field(default_factory=dict)

    def name_for(self, wanted: str) -> str:
        """Give a name that was not given yet."""
        name = wanted
        while name in self._taken:
            self._taken[wanted] += 1
            name = f"{wanted}-{self._taken[wanted]}"
        self._taken[name] = 1
        return name


def replicas_of(count: int, resource: Resource, key: str) -> None:
    """Set how many containers share a device, as far as our language goes."""
    if count > MAX_REPLICAS:
        resource.comments.append(f"{key} is {count}: more than {MAX_REPLICAS} is not possible.")
    if count == 0:
        resource.withheld = f"{key} is 0: it offers nothing"
    resource.replicas = min(max(count, 1), MAX_REPLICAS)
