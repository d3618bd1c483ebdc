"""The limits that tests set are what they say."""

from __future__ import annotations

import errno
import os

import pytest

from tests.scarcity import spare_descriptors


@pytest.mark.parametrize("holes", [False, True], ids=["no hole", "holes"])
@pytest.mark.parametrize("count", [0, 2])
def test_exactly_so_many_descriptors_can_be_opened(holes: bool, count: int) -> None:
    """Without a hole among the open ones there was one more than said."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
    spare = []
    try:
        if holes:
            for one in opened[:200]:
                os.close(one)
            del opened[:200]
        with spare_descriptors(count):
            spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
            with pytest.raises(OSError) as caught:
                spare.append(os.open(os.devnull, os.O_RDONLY))
        assert caught.value.errno == errno.EMFILE
    finally:
        for one in [*opened, *spare]:
            os.close(one)
