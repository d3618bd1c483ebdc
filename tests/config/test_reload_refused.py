"""Test what becomes of configs that cannot be used, and of what is active meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING

from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.config.watching import ReloadPace
from genericdp.errors import Problem
from genericdp.tally import Tally

from tests.config.bounded import HEAD
from tests.config.changing import BAD, config, rename
from tests.config.reloading import QUICK, following, load_here, until_true

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest


async def test_each_problem_is_told_once_until_the_files_are_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "a.yaml"
    file.write_text(config("a"))

    def reported() -> int:
        return sum("unknown key" in record.message for record in caplog.records)

    async with following(tmp_path) as followed:
        await followed.has("a")
        file.write_text(BAD)
        await followed.is_(lambda state: state.refused)
        first = followed.state.value
        assert (reported(), first.from_state_dir) == (1, False)
        assert "the config cannot be used: the active one stays until" in caplog.text
        for _ in range(3):
            rename(file, BAD)
            await asyncio.sleep(0.1)  # noqa: TID251 -- a writer at a pace of its own
        assert (reported(), followed.state.value) == (1, first)
        followed.hangup.send()
        await until_true(lambda: reported() == 2)  # someone asks, so someone is informed
        file.write_text(f"# another one\n{BAD}")
        await followed.is_(lambda state: state.refused != first.refused)
        assert reported() == 3
        assert followed.state.value.differs_since == first.differs_since
        file.write_text(config("a"))
        await followed.is_(lambda state: state.differs_since is None)
        assert "the config on disk is active" in caplog.text
    assert (followed.applied, followed.state.value.since) == (1, first.since)


async def test_after_any_history_the_last_good_one_is_in_force(tmp_path: Path) -> None:
    """C10: half of a bad config is served."""
    texts = {"a": config("a"), "b": config("b"), "bad": BAD, "worse": "["}
    history = ["a", "bad", "worse", "a", "a", "b", "worse", "a", "b", "bad", "b"]
    file, tally, time = tmp_path / "a.yaml", Tally(), 0.0
    file.write_text(BAD)
    good, differs = "", 0.0
    async with following(file, tally=tally, clock=lambda: time) as followed:
        await until_true(lambda: tally.reloads["refused"] == 1)
        for number, name in enumerate(history, start=2):
            before, time = followed.state.value, float(number)
            if file.read_text() == texts[name]:
                followed.hangup.send()
            else:
                rename(file, texts[name])
            await until_true(lambda number=number: sum(tally.reloads.values()) == number)  # type: ignore[misc]
            state = followed.state.value
            if name in ("a", "b"):
                good = name
                assert (state.differs_since, state.refused) == (None, None)
            else:
                differs = time if before.differs_since is None else differs
                assert (state.differs_since, state.loaded) == (differs, before.loaded)
                assert followed.problems
                assert state.since == before.since
            assert followed.names.value == (good,)
    assert followed.applied == 4
    assert tally.reloads == {"applied": 4, "unchanged": 3, "refused": 5}


async def test_how_things_stand_is_told_in_full(tmp_path: Path) -> None:
    file, policy = tmp_path / "a.yaml", tmp_path / "p.yaml"
    probe = "{exec: {command: [/bin/true]}, timeoutSeconds: 20}"
    file.write_text(config("a", "b", health=f"[{probe}]"))
    policy.write_text(f"{HEAD}devices: {{}}\ncommands: [{{path: /bin/true}}]\n")
    async with following(file, policy=policy, clock=lambda: 7.0) as followed:
        await followed.has("a", "b")
        loaded = await load_here([file], policy=policy)
        assert followed.state.value == ConfigState(loaded=loaded, since=7.0)
        assert loaded.policy is not None
        assert loaded.policy.sha256 == hashlib.sha256(policy.read_bytes()).hexdigest()
        assert len(loaded.warnings) == 2


async def test_a_reading_that_fails_is_told_once_and_tried_again_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The child may have been killed for lack of memory: no event shows when there is some."""
    (tmp_path / "a.yaml").write_text(config("a"))
    problem = Problem(file="a.yaml", line=1, column=1, path="", message="ended by SIGKILL")
    tries = 0

    async def load(paths: Sequence[Path], *, policy: Path | None) -> Loaded:
        nonlocal tries
        tries += 1
        return Loaded(problems=(problem,)) if tries < 4 else await load_here(paths, policy=policy)

    quick = ReloadPace(settle=QUICK.settle, retry=0.01)
    async with following(tmp_path, load=load, pace=quick) as followed:
        await followed.has("a")
    assert tries == 4
    assert caplog.text.count("ended by SIGKILL") == 1
