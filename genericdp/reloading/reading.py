"""One reading of a config: what it says, and what was to be seen of it at that time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.config.child import load_in_child
from genericdp.host.workers import in_worker
from genericdp.reloading.sight import Sight, look

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from genericdp.config.loaded import Loaded

    Load = Callable[[Sequence[Path]], Awaitable[Loaded]]

LOOK_SECONDS = 2.0
"""How long a look at the config's files may take: NFS may never answer."""
_TIMES = 3
"""So often a config that changes meanwhile is read again at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A config as it was read."""

    loaded: Loaded
    sight: Sight | None
    """What was to be seen before; None: its files did not answer."""


async def read(paths: Sequence[Path], sight: Sight | None, load: Load = load_in_child) -> Reading:
    """Read a config; again where it changes meanwhile, so that no mixture of two is taken.

    ``sight`` is what is to be seen of it now.
    """
    before, loaded = sight, await load(paths)
    for _ in range(_TIMES):
        sight = await see(paths)
        if sight == before:
            break
        before, loaded = sight, await load(paths)
    return Reading(loaded=loaded, sight=before)


async def see(paths: Sequence[Path]) -> Sight | None:
    """Look at a config off the loop; None where that does not end."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await in_worker(lambda: look(paths))
    except TimeoutError:
        return None
