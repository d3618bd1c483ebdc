"""Whether a test that names a case sees it: mistakes are brought back on purpose."""

from __future__ import annotations

from tests.mutants.devices import DEVICES
from tests.mutants.table import CONFIG, KUBELET, Mutant

MUTANTS: tuple[Mutant, ...] = (*KUBELET, *CONFIG, *DEVICES)
