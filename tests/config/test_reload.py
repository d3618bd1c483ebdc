"""A config that changes on disk is put active, on real directories with real inotify.

And what becomes of configs that cannot be used, and of what is active meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.config.files import Loaded
from genericdp.config.watching import ReloadPace
from genericdp.errors import Problem
from genericdp.tally import Tally

from tests.config.changing import BAD, WAYS, ConfigMap, config, rename, write
from tests.config.reloading import QUICK, following, load_here
from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@pytest.mark.parametrize("as_directory", [True, False], ids=["directory", "file"])
@pytest.mark.parametrize("change", WAYS, ids=lambda way: way.__name__)
async def test_every_way_to_change_a_config_is_noticed_twice(
    change: Callable[[Path, str], None], as_directory: bool, tmp_path: Path
) -> None:
    """C7: a changed config is never read.

    Twice: a watch must not stay on what has been replaced.
    """
    file = tmp_path / "etc" / "a.yaml"
    file.parent.mkdir()
    file.write_text(config("a"))
    async with following(file.parent if as_directory else file) as followed:
        await followed.has("a")
        for step, name in ((change, "b"), (rename, "c"), (write, "d")):
            await followed.has_after(step, file, config(name), name=name)


@pytest.mark.parametrize("as_directory", [True, False], ids=["directory", "file"])
async def test_a_config_map_that_the_kubelet_swaps_is_noticed(
    as_directory: bool, tmp_path: Path
) -> None:
    volume = ConfigMap(tmp_path / "volume", {"a.yaml": config("a")})
    path = volume.directory if as_directory else volume.directory / "a.yaml"
    async with following(path) as followed:
        await followed.has("a")
        for name in ("b", "c"):
            await followed.has_after(volume.update, {"a.yaml": config(name)}, name=name)
        if as_directory:
            volume.update({"a.yaml": config("a"), "b.yaml": config("b")})
            await followed.has("a", "b")
            volume.update({"b.yaml": config("b")})
            await followed.has("b")


async def test_what_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    """A mixture of two would be taken otherwise."""
    first, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(config("a"))
    other.write_text(config("b"))
    held = asyncio.Event()

    async def load(paths: Sequence[Path], *, policy: Path | None) -> Loaded:
        loaded = await load_here(paths, policy=policy)
        if held.is_set():
            held.clear()
            first.write_text(config("a2"))
            other.write_text(config("b2"))
        return loaded

    async with following(tmp_path, load=load) as followed:
        await followed.has("a", "b")
        held.set()
        first.write_text(config("x"))
        await followed.has("a2", "b2")
        assert followed.applied == 2


async def test_a_deleted_config_is_refused_and_taken_when_it_returns(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "a.yaml"
    file.parent.mkdir()
    file.write_text(config("a"))
    async with following(file.parent) as followed:
        await followed.has("a")
        await followed.idle()
        shutil.rmtree(file.parent)
        await followed.is_(lambda state: state.refused)
        (problem,) = followed.problems
        assert problem.endswith(": it does not exist")
        assert followed.names.value == ("a",)
        file.parent.mkdir()
        await followed.has_after(write, file, config("b"), name="b")


async def test_what_keeps_changing_is_read_once_it_rests(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(config("x"))
    async with following(tmp_path, pace=ReloadPace(settle=0.2)) as followed:
        await followed.has("x")
        for i in range(30):
            rename(tmp_path / "a.yaml", config("a", replicas=1 + i))
            await asyncio.sleep(0.01)  # noqa: TID251 -- a writer at a pace of its own
        await followed.has("a")
        assert followed.applied == 2
        assert followed.resources[0].replicas == 30


async def test_every_link_and_directory_on_the_way_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path, a link in the middle, ``..`` behind a link, and a link at the end."""
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "other/deep").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "real/a.yaml").symlink_to("../elsewhere/a.yaml")
    (tmp_path / "elsewhere/a.yaml").write_text(config("a"))
    (tmp_path / "other/a.yaml").write_text(config("c"))
    (tmp_path / "link").symlink_to("real/deep")
    monkeypatch.chdir(tmp_path)
    async with following(Path("link") / ".." / "a.yaml") as followed:
        await followed.has("a")
        await followed.has_after(write, tmp_path / "elsewhere/a.yaml", config("b"), name="b")
        (tmp_path / "fresh").symlink_to("other/deep")
        await followed.has_after((tmp_path / "fresh").rename, tmp_path / "link", name="c")


@pytest.mark.parametrize("as_directory", [True, False], ids=["directory", "file"])
async def test_what_else_happens_in_the_directory_is_not_loaded(
    as_directory: bool, tmp_path: Path
) -> None:
    """An editor's temporary files, and a file that is written again as it was."""
    file, loads = tmp_path / "a.yaml", 0
    file.write_text(config("a"))

    async def load(paths: Sequence[Path], *, policy: Path | None) -> Loaded:
        nonlocal loads
        loads += 1
        return await load_here(paths, policy=policy)

    async with following(tmp_path if as_directory else file, load=load) as followed:
        await followed.has("a")
        for name in (".a.yaml.swp", "4913", "a.yaml~", "log"):
            (tmp_path / name).write_text("x")
            (tmp_path / name).unlink()
        rename(file, config("a"))
        await followed.has_after(write, file, config("b"), name="b")
    assert loads == 2


async def test_a_config_that_keeps_changing_is_read_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(config("a"))

    async def change() -> None:
        for i in range(10**9):
            rename(file, config(f"a{i}"))
            await asyncio.sleep(0.005)  # noqa: TID251 -- a writer at a pace of its own

    async with following(file) as followed, asyncio.TaskGroup() as tasks:
        await followed.has("a")
        changing = tasks.create_task(change())
        await followed.is_(lambda state: state.refused or followed.applied > 1)
        changing.cancel()


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
        await poll_until(lambda: reported() == 2)  # someone asks, so someone is informed
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
        await poll_until(lambda: tally.reloads["refused"] == 1)
        for number, name in enumerate(history, start=2):
            before, time = followed.state.value, float(number)
            if file.read_text() == texts[name]:
                followed.hangup.send()
            else:
                rename(file, texts[name])
            await poll_until(lambda number=number: sum(tally.reloads.values()) == number)  # type: ignore[misc]
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
