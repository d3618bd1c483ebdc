"""How much the daemon holds once it serves, in counts that do not depend on the load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guards.running import at_rest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

MAX_DESCRIPTORS = 16
"""With one resource; there were 15, six of them sockets."""
MAX_OWN_THREADS = 9
"""Main, gRPC's poller for asyncio, and the workers that look at files: there were 4, once 5. More
work at once where the machine is slow; with one for each plugin there would be 15."""
MAX_THREADS = 20
"""There were 10. gRPC adds to its pool of 4 while a machine is too busy to run them."""
MAX_ANONYMOUS = 26.0
"""MB. There were 24.1, of which protobuf has 2 and OpenSSL 1.6."""
MAX_ANONYMOUS_EACH = 0.2
"""MB for each resource; there were 0.09, nearly all of them gRPC's."""


@pytest.fixture
async def one_and_eleven(short_folder: Path) -> tuple[tuple[int, int, int, float], ...]:
    """Descriptors, own threads, all threads and memory."""
    found = []
    for count in (1, 11):
        async with at_rest(short_folder / str(count), count) as process:
            found.append((process.descriptors(), *process.threads(), process.anonymous()))
    return tuple(found)


async def test_a_resource_costs_two_descriptors_no_thread_and_little_memory(
    one_and_eleven: tuple[tuple[int, int, int, float], ...],
) -> None:
    """Bites if a channel to ``kubelet.sock`` stays open, or each plugin has a thread of its own."""
    one, eleven = one_and_eleven
    assert one[0] <= MAX_DESCRIPTORS
    assert eleven[0] - one[0] == 20
    for _, own, all_threads, _ in one_and_eleven:
        assert own <= MAX_OWN_THREADS
        assert all_threads <= MAX_THREADS
    assert one[3] <= MAX_ANONYMOUS
    assert (eleven[3] - one[3]) / 10 <= MAX_ANONYMOUS_EACH
