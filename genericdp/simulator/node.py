"""The Node object: what ``kubectl describe node`` shows, which lags behind the kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genericdp.simulator.manager import Amounts, DeviceManager


class Node:
    """Capacity and allocatable; lives in the API server, so that it outlives the kubelet."""

    def __init__(self) -> None:
        self.shown: Amounts = {}

    def refresh(self, manager: DeviceManager) -> bool:
        """Bring it up to date; say whether anything changed, here or in the manager.

        A resource whose plugin is gone for good shows zeros: the key stays forever (KST-7).
        """
        before = dict(self.shown)
        expired = manager.drop_expired()
        self.shown.update(dict.fromkeys(expired, (0, 0)))
        self.shown.update(manager.amounts())
        return bool(expired) or self.shown != before

    def reset(self) -> None:
        """Show zeros: a kubelet without checkpoint takes the node for a new one (KST-10)."""
        self.shown = dict.fromkeys(self.shown, (0, 0))
