"""How long a plugin waits before it tries again."""

from __future__ import annotations

import pytest

from genericdp.kubelet.lifecycle import RegistrationTiming


@pytest.mark.parametrize(
    ("attempts", "conflict", "seconds"),
    [(1, False, 0.2), (2, False, 0.4), (6, False, 5.0), (6, True, 6.4), (10**9, True, 30.0)],
)
def test_delays_are_doubled_up_to_a_limit(attempts: int, conflict: bool, seconds: float) -> None:
    assert RegistrationTiming().retry_delay(attempts, conflict=conflict) == pytest.approx(seconds)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 0.3), (2, 0.6), (5, 4.8), (6, 5.0)])
def test_a_doubtful_stream_is_awaited_longer_each_time(attempts: int, seconds: float) -> None:
    """K10: a busy kubelet's stream, which is only late, is not missed forever."""
    assert RegistrationTiming().doubtful_stream(attempts) == pytest.approx(seconds)
