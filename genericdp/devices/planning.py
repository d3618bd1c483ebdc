"""What has to be done so that the plugins serve the wanted resources: pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from genericdp.model import Preference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.model import Resource


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What has to be done, by resource name; what is in both is begun anew."""

    stop: frozenset[str] = frozenset()
    update: frozenset[str] = frozenset()
    start: frozenset[str] = frozenset()

    @property
    def anew(self) -> frozenset[str]:
        """Those that stay and have to register again."""
        return self.stop & self.start

    @property
    def changed(self) -> frozenset[str]:
        """Those that stay, and differ."""
        return self.update | self.anew

    def __str__(self) -> str:
        if self == Plan():
            return "nothing to change"
        added, removed = self.start - self.anew, self.stop - self.anew
        return f"{len(added)} added, {len(removed)} removed, {len(self.changed)} changed"


def plan(wanted: Mapping[str, Resource], running: Mapping[str, Resource]) -> Plan:
    """Compare what should be with what is."""
    both = wanted.keys() & running.keys()
    changed = {name for name in both if wanted[name] != running[name]}
    # A kubelet asks for the options once for each registration (REG-7).
    anew = {name for name in changed if _options(wanted[name]) != _options(running[name])}
    return Plan(
        stop=frozenset(running.keys() - wanted.keys() | anew),
        update=frozenset(changed - anew),
        start=frozenset(wanted.keys() - running.keys() | anew),
    )


def without_policy(resources: Mapping[str, Resource]) -> dict[str, Resource]:
    """Return what the config alone says."""
    return {name: replace(one, policy=None) for name, one in resources.items()}


def _options(resource: Resource) -> tuple[bool, bool]:
    return resource.hooks.pre_start is not None, resource.prefer is not Preference.NONE
