"""The pace of the daemon: neither a busy loop on a large host nor a late answer to an event."""

from __future__ import annotations

import pytest
from genericdp.supervisor import Pace


@pytest.mark.parametrize(("took", "rest"), [(0.02, 30.0), (1.5, 30.0), (4, 80.0), (9e3, 300)])
def test_looks_that_take_long_are_rare(took: float, rest: float) -> None:
    """Fails if 100,000 devices are all read every 30 s: that is a sixth of a core."""
    assert Pace().between_full_looks(took) == pytest.approx(rest)


@pytest.mark.parametrize(
    ("took", "lists_changed", "pause"),
    [(0.03, True, 0.07), (0.3, True, 0.0), (0.03, False, 0.03), (4.5, False, 1.0)],
)
def test_an_event_does_not_wait_for_long_because_a_pass_took_long(
    took: float, *, lists_changed: bool, pause: float
) -> None:
    """Fails if the pause after a pass is as long as the pass, whatever that took."""
    assert Pace().pause(took, lists_changed=lists_changed) == pytest.approx(pause)
