"""Looks for other instances of genericdp on the node, and says which resources they share."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from genericdp.contest import listed
from genericdp.kubelet.peers import Peers
from genericdp.kubelet.sockets import digest_of
from genericdp.observed import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.kubelet.peers import Peer

log = logging.getLogger(__name__)

_BURST_SECONDS = 0.05
"""The kubelet's own files in the folder come and go with each list."""
_REST_SECONDS = 0.3


class PeerWatch:
    """Keeps ``KubeletFolder.peers`` true, and the log's readers informed."""

    def __init__(
        self, kubelet: KubeletFolder, *, instance: str, resources: Callable[[], Iterable[str]]
    ) -> None:
        self._kubelet = kubelet
        self._instance = instance
        self._resources = resources
        self._told: set[str] = set()
        """The instances that live and have been named."""
        self._place: object = None
        """The folder and the kubelet's socket where they were seen."""

    async def run(self) -> None:
        """Look at each event, forever."""
        kubelet = self._kubelet
        peers = Peers(kubelet.path, instance=self._instance, ended=kubelet.tell)
        try:
            while True:
                seen = kubelet.events.value
                before, kubelet.peers.value = kubelet.peers.value, peers.look()
                if (place := (peers.folder, kubelet.socket.value)) != self._place:
                    # With its folder, or at the start of a kubelet, a socket goes: not who has it.
                    self._place = place
                    self._told.clear()
                rests = kubelet.peers.value == before
                # Said when it has come to rest: all its sockets are there then.
                self._tell(kubelet.peers.value, settled=rests and None not in place)
                await asyncio.sleep(_BURST_SECONDS)
                await until(
                    lambda seen=seen: kubelet.events.value != seen,  # type: ignore[misc]
                    kubelet.events,
                    timeout_seconds=None if rests else _REST_SECONDS,
                )
        finally:
            peers.close()

    def _tell(self, peers: frozenset[Peer], *, settled: bool) -> None:
        here = {one.instance for one in peers}
        if not settled:
            return
        for instance in sorted(self._told - here):
            log.info("the other instance of genericdp (%s) has gone", instance)
            self._told.remove(instance)
        names = {digest_of(name): name for name in self._resources()}
        for instance in sorted(here - self._told):
            digests = {one.digest for one in peers if one.instance == instance}
            if common := sorted(names[one] for one in digests & names.keys()):
                self._told.add(instance)
                log.warning(
                    "another instance of genericdp (%s) serves on this node, too: %s; all is well"
                    " if that is a rolling update, else let only one of them serve it",
                    instance,
                    listed(common),
                )
