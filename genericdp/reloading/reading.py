"""One reading of a config: what it says, and what was to be seen of it at that time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from genericdp.host.workers import in_worker
from genericdp.reloading.sight import Sight, look

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from pathlib import Path

    from genericdp.config.loaded import Loaded

LOOK_SECONDS = 2.0
"""How long a look at the config's files may take: NFS may never answer."""
_TIMES = 3
"""So often a config that changes meanwhile is read again at once."""


class Load(Protocol):
    """Loads a config; whatever becomes of it is a problem, nothing is raised."""

    def __call__(self, paths: Sequence[Path], *, policy: Path | None) -> Awaitable[Loaded]:
        """Give the config, held against the policy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a config comes from: its files and folders, and the policy that bounds it."""

    configs: tuple[Path, ...]
    policy: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Give all that can change it."""
        return self.configs if self.policy is None else (*self.configs, self.policy)

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A config as it was read."""

    loaded: Loaded
    sight: Sight | None
    """What was to be seen before; None: its files did not answer."""


async def read(origin: Origin, sight: Sight | None, load: Load) -> Reading:
    """Read a config; again where it changes meanwhile, so that no mixture of two is taken.

    The policy counts as a part of it. ``sight`` is what is to be seen of it now.
    """
    before, loaded = sight, await load(origin.configs, policy=origin.policy)
    for _ in range(_TIMES):
        sight = await see(origin.paths)
        if sight == before:
            break
        before, loaded = sight, await load(origin.configs, policy=origin.policy)
    return Reading(loaded=loaded, sight=before)


async def see(paths: Iterable[Path]) -> Sight | None:
    """Look at a config off the loop; None where that does not end."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await in_worker(lambda: look(tuple(paths)))
    except TimeoutError:
        return None
