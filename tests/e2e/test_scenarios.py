"""The scenarios with real kubelets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster.versions import NEWEST
from tests.e2e.holding import OfHeldHardware
from tests.e2e.real import RealNode
from tests.e2e.scenarios import OfKubelets

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


@pytest.fixture
def scene(bench: Bench, program: Path, tmp_path: Path) -> RealNode:
    return RealNode(bench, program, tmp_path)


class TestRealKubelet(OfKubelets):
    """All of them."""


@pytest.mark.kubelets(*NEWEST)
class TestRealKubeletWithHolders(OfHeldHardware):
    """All of them."""
