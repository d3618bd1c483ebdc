"""A snapshot of whatever is left of a copy is one, and holds nothing from outside the copy."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from genericdp.host.root import Root
from genericdp.snapshot.archive import read, unpack, write
from genericdp.snapshot.copy import Copy, copied
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.testbeds import loading
from tests.testbeds.damaging import DAMAGES, damage, mend, paths_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

PATHS = [path for path in paths_of("can") if path != "/dev"]
KINDS = sorted(DAMAGES)


def read_it(path: str, read: Callable[[], bytes]) -> bytes:
    del path
    return read()


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(KINDS)), max_size=6))
@example([("/sys/class", "a link out of the copy")])
@example([("/sys/class/net", "a link out of the copy")])
@example([("/sys/devices", "a link out of the copy")])
@example([("/run/udev/data", "a link out of the copy")])
@example([("/sys", "gone")])
@settings(max_examples=examples(15))
def test_whatever_is_damaged_the_rest_is_copied(damages: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as directory:
        loading.build(loading.path_of("can"), Path(directory))
        for path, kind in damages:
            damage(Path(directory), path, kind)
        copy = copied(Root(Path(directory)), Copy(), guard=read_it)
        mend(Path(directory))
    entries = copy.in_order()
    assert not [entry.path for entry in entries if "/tty" in entry.path or "/mem/" in entry.path]
    packed = io.BytesIO()
    write(packed, {}, entries)
    assert list(read(io.BytesIO(packed.getvalue()))) == entries
    with TemporaryDirectory() as directory:
        unpack(io.BytesIO(packed.getvalue()), Path(directory))
