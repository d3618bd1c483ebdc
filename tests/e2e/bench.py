"""The node and daemon a test works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.cluster.daemon import Daemon
    from tests.e2e.cluster.listing import PodResources
    from tests.e2e.cluster.node import Node
    from tests.e2e.cluster.pods import Pod

PREFIX = "example.com/"
"""Of all resources here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A node with the daemon on it, for one test."""

    node: Node
    daemon: Daemon
    directory: Path
    resources: PodResources
    pod: Callable[..., Pod]
    """``pod(name, {resource: n}, KEY=VALUE)`` is a running pod with these in its spec until the
    test ends."""

    def await_listed(self, resource: str, *ids: str) -> None:
        """Wait until the kubelet lists exactly these devices."""
        self._await(resource, frozenset(ids).__eq__, f"{resource}: {ids}")

    def await_registered(self, *resources: str, since: int = 0, times: int = 1) -> None:
        """Wait until the daemon has logged, after this many characters, that these are registered.

        The kubelet lists a resource a moment earlier, and one without devices never.
        """

        def registrations() -> list[int]:
            log = self.daemon.log()[since:]
            return [log.count(f"{name}: registered") for name in resources]

        what = f"{resources} are registered"
        eventually(lambda: min(registrations()), lambda found: found >= times, what=what)

    def await_count(self, resource: str, count: int) -> frozenset[str]:
        """Wait until the kubelet lists this many devices; give their ids."""
        return self._await(resource, lambda ids: len(ids) == count, f"{count} of {resource}")

    def _await(
        self, resource: str, wanted: Callable[[frozenset[str]], bool], what: str
    ) -> frozenset[str]:
        def allocatable() -> frozenset[str]:
            self.daemon.check_alive()
            return self.resources.allocatable().get(resource, frozenset())

        # Not its checkpoint: of two lists in one moment it may write the older one last.
        return eventually(allocatable, wanted, what=what)
