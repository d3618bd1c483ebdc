"""What becomes of a config after whatever has happened to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.loaded import ConfigState, Loaded
from genericdp.errors import Problem
from genericdp.tally import Tally
from tests.config.bounded import policy_of
from tests.modelled import resource
from tests.polling import poll_until
from tests.reloading.following import following

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import pytest

    from tests.reloading.following import Followed

RESOURCE = resource("example.com/a", "/dev/null")
A, B = (Loaded(digest=letter, files=(Path(f"{letter}.yaml"),)) for letter in "ab")


def bad(message: str = "wrong", digest: str = "x") -> Loaded:
    problem = Problem(file="x.yaml", line=1, column=1, path="", message=message)
    return Loaded(problems=(problem,), digest=digest)


class Disk:
    """What is read from disk, and what becomes of it; time passes with each reading."""

    def __init__(self, first: Loaded) -> None:
        self.loaded, self.time, self.tally = first, 0.0, Tally()
        self.followed: Followed

    async def load(self, paths: Sequence[Path], *, policy: Path | None) -> Loaded:
        return self.loaded

    async def taken(self, times: int) -> None:
        await poll_until(lambda: sum(self.tally.reloads.values()) == times)

    async def take(self, loaded: Loaded) -> ConfigState:
        """Have this read as somebody asks for it, and return how things stand then."""
        self.loaded, self.time = loaded, self.time + 1
        self.followed.hangup.set()
        await self.taken(1 + sum(self.tally.reloads.values()))
        return self.followed.state.value


@asynccontextmanager
async def reading(first: Loaded, folder: Path) -> AsyncIterator[Disk]:
    disk = Disk(first)
    async with following(
        folder, load=disk.load, tally=disk.tally, clock=lambda: disk.time
    ) as disk.followed:
        await disk.taken(1)
        yield disk


async def test_how_things_stand_is_told_in_full(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "devices: {}\n")
    warning = Problem(file="f", line=1, column=2, path="", message="odd")
    good = Loaded(
        digest="g",
        files=(Path("g.yaml"),),
        resources=(RESOURCE, RESOURCE),
        warnings=(warning,),
        policy=replace(policy, place="/etc/p.yaml:1", sha256="5a"),
    )
    async with reading(A, tmp_path) as disk:
        assert await disk.take(bad()) == ConfigState(
            digest="a",
            since=0.0,
            files=("a.yaml",),
            differs_since=1.0,
            problems=("x.yaml:1:1: wrong",),
            refused="x",
        )
        assert await disk.take(good) == ConfigState(
            digest="g",
            since=2.0,
            files=("g.yaml",),
            policy="/etc/p.yaml",
            policy_digest="5a",
            resources=2,
            warnings=("f:1:2: odd",),
        )


async def test_after_any_history_the_last_good_one_is_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C10: half of a bad config is served."""
    history = [A, bad(), bad("else"), bad(digest=""), A, A, B, bad(digest="y"), A, B, bad(), B]
    async with reading(bad(), tmp_path) as disk:
        assert not disk.followed.state.value.in_force
        digest, applied, differs = "", 0, 0.0
        for loaded in history:
            before, caplog.records[:] = disk.followed.state.value, []
            state = await disk.take(loaded)
            if loaded.problems:
                differs = disk.time if before.differs_since is None else differs
                assert state.differs_since == differs
                assert (state.problems, state.refused) != ((), digest)
                assert (state.since, state.files) == (before.since, before.files)
                assert str(loaded.problems[0]) in caplog.text
            else:
                applied += loaded.digest != digest
                digest = loaded.digest
                assert (state.differs_since, state.problems, state.refused) == (None, (), "")
            assert (state.digest, disk.followed.applied) == (digest, applied)
    assert disk.tally.reloads == {"applied": 4, "unchanged": 3, "refused": 6}
