"""A reloader that runs, and what it has put active so far."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from genericdp.config.lastgood import LAST_GOOD
from genericdp.config.load import load
from genericdp.config.reload import Reloader
from genericdp.config.watching import ReloadPace
from genericdp.observed import Observed, Signal, until

from tests.config.bounded import HEAD as POLICY
from tests.config.changing import BAD, config
from tests.polling import poll_until
from tests.process.scripts import load_in_child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from genericdp.config.files import Loaded
    from genericdp.config.reload import ConfigState
    from genericdp.model import Resource

QUICK = ReloadPace(settle=0.02, poll=0.05, full_check=3600.0)


async def load_here(paths: Sequence[Path], *, policy: Path | None = None) -> Loaded:
    """Load without a child, which takes its time; its own tests show that both give the same."""
    return load(paths, policy=policy)


class Followed:
    """A reloader and its actions."""

    def __init__(self) -> None:
        self.names: Observed[tuple[str, ...]] = Observed(())
        """Of the resources active."""
        self.resources: tuple[Resource, ...] = ()
        self.files: tuple[Path, ...] = ()
        """Where they are said to come from."""
        self.applied = 0
        self.decided: Observed[tuple[Resource, ...] | None] = Observed(None)
        self.can_be_decided = True
        """Whether the resources active can be decided, as a supervisor shows."""
        self.hangup = Signal()
        self.reloader: Reloader | None = None

    def activate(self, loaded: Loaded) -> None:
        self.applied += 1
        self.resources, self.files = loaded.resources, loaded.files
        if self.can_be_decided:
            self.decided.value = loaded.resources
        self.names.value = tuple(
            resource.name.removeprefix("example.com/") for resource in loaded.resources
        )

    @property
    def state(self) -> Observed[ConfigState]:
        assert self.reloader is not None
        return self.reloader.state

    @property
    def problems(self) -> list[str]:
        """Return why the config on disk is refused."""
        refused = self.state.value.refused
        return [] if refused is None else [str(problem) for problem in refused.problems]

    async def has(self, *names: str) -> None:
        """Wait until these resources are active."""
        assert await until(lambda: self.names.value == names, self.names, timeout_seconds=60), (
            self.names.value
        )

    def bounds(self) -> tuple[str, ...]:
        """Return what the resource active is bound by."""
        (resource,) = self.resources
        assert resource.policy is not None
        return tuple(rule.text for rule in resource.policy.devices.rules)

    async def idle(self) -> None:
        """Wait until it waits for news: what comes now, only an event can report."""
        reloader = self.reloader
        assert reloader is not None
        await poll_until(lambda: reloader.files.news.waiters)

    async def has_after(self, change: Callable[..., object], *arguments: Any, name: str) -> None:
        """Change something while it waits for news, and wait until a resource is active."""
        await self.idle()
        change(*arguments)
        await self.has(name)

    async def is_(self, condition: Callable[[ConfigState], object]) -> None:
        """Wait for a state."""
        assert await until(
            lambda: bool(condition(self.state.value)), self.state, timeout_seconds=10
        ), self.state.value


@asynccontextmanager
async def following(
    *paths: Path, policy: Path | None = None, **settings: Any
) -> AsyncIterator[Followed]:
    """Follow a config until the end of the context."""
    followed = Followed()
    settings = {"pace": QUICK, "load": load_here, **settings}
    followed.reloader = Reloader(
        paths,
        policy=policy,
        activate=followed.activate,
        hangup=followed.hangup,
        decided=followed.decided,
        **settings,
    )
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(settings["load"](paths, policy=policy))
        running = tasks.create_task(followed.reloader.run(first))
        try:
            yield followed
        finally:
            running.cancel()


def allowing(*names: str) -> str:
    """Give a policy that allows devices."""
    return f"{POLICY}devices:\n  paths: [{', '.join(f'/dev/{name}' for name in names)}]\n"


class Place:
    """A config of files with one resource each, a policy, and a state directory."""

    def __init__(self, directory: Path, *directories: str) -> None:
        self.configs = [directory / name / "x.yaml" for name in directories]
        self.policy = directory / "p/p.yaml"
        self.state_dir = directory / "state/deep"
        for path in (*self.configs, self.policy):
            path.parent.mkdir()

    def write(self, *names: str) -> None:
        for path, name in zip(self.configs, names, strict=True):
            path.write_text(config(name))

    def spoil(self) -> None:
        self.configs[0].write_text(BAD)

    def allow(self, *names: str) -> None:
        self.policy.write_text(allowing(*names))

    @property
    def kept(self) -> list[str]:
        """Return what is kept, in the order in which it counts."""
        files = sorted((self.state_dir / LAST_GOOD).glob("*/*"))
        return [file.read_text() for file in files]

    def following(self, **settings: Any) -> AbstractAsyncContextManager[Followed]:
        """Follow the config, within the policy if there is one."""
        bounds = {"policy": self.policy} if self.policy.exists() else {}
        directories = (path.parent for path in self.configs)
        return following(*directories, state_dir=self.state_dir, **{**bounds, **settings})

    async def keep(self, *names: str, **settings: Any) -> None:
        """Have a run that leaves a last good config, then a bad one on disk."""
        self.write(*names)
        async with self.following(load=load_in_child, **settings) as followed:
            await followed.has(*names)
            await poll_until(lambda: self.kept == [config(name) for name in names])
        self.spoil()
