from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from weakref import ref

import pytest

from genericdp.garbage import MANY
from genericdp.host.root import Root
from genericdp.known import Known

# In a process of its own: what is frozen stays so.
PROGRAM = """
import gc
from genericdp.garbage import without_collections
gc.collect()
before, runs = gc.get_freeze_count(), []
gc.callbacks.append(lambda phase, info: runs.append(phase))
with without_collections():
    assert not gc.isenabled()
    made = [[i] for i in range({count})]
    meanwhile = len(runs)
assert gc.isenabled()
print(meanwhile, gc.get_freeze_count() - before > 0)
"""


@pytest.mark.parametrize(("count", "frozen"), [(MANY // 2, False), (MANY * 2, True)])
def test_nothing_is_collected_meanwhile_and_very_much_is_never_walked_through(
    count: int, *, frozen: bool
) -> None:
    program = PROGRAM.format(count=count)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["0", str(frozen)]


def test_what_a_pass_remembers_holds_no_cycle() -> None:
    gc.disable()
    try:
        known = Known(Root(Path("/nowhere")))
        facts = ref(known.facts)
        known.facts.guard = lambda _, read: read()
        del known
        assert facts() is None
    finally:
        gc.enable()
