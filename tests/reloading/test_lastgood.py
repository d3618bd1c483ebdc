"""genericdp.reloading.lastgood, and a start with it."""

from __future__ import annotations

import json
import os
import stat
import time
from typing import TYPE_CHECKING

import pytest

from genericdp import __version__
from genericdp.reloading.lastgood import NAME, UnusableStateError, recall, store
from tests.process.running import load_in_child
from tests.reloading.configs import BAD, config
from tests.reloading.following import following, until_true

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.config.loaded import Loaded


@pytest.fixture
async def loaded(tmp_path: Path) -> Loaded:
    (tmp_path / "good.yaml").write_text(config("a", "b"))
    return await load_in_child([tmp_path / "good.yaml"])


async def test_what_was_kept_comes_back(loaded: Loaded, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "deep"
    assert recall(folder) is None
    store(folder, loaded)
    store(folder, loaded)
    assert recall(folder) == loaded
    assert len(loaded.resources) == 2
    assert [path.name for path in folder.iterdir()] == [NAME]
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def _cut(text: bytes) -> bytes:
    return text[:-10]


def _flip(text: bytes) -> bytes:
    return text.replace(b"example.com/a", b"example.com/x")


def _other_version(text: bytes) -> bytes:
    head, _, rest = text.partition(b"\n")
    return json.dumps({**json.loads(head), "version": "0.0.0"}).encode() + b"\n" + rest


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_cut, "is damaged"),
        (_flip, "is damaged"),
        (_other_version, f"is of version '0.0.0', this is {__version__}"),
        (lambda _: b"", "is nothing that genericdp has written"),
        (lambda _: b"\xff\x00garbage", "is nothing that"),
        (lambda _: b"[" * 100_000, "is nothing that"),
        (lambda _: b"[]\n{}", "is nothing that"),
    ],
    ids=["cut", "flipped", "other-version", "empty", "garbage", "deep", "a-list"],
)
async def test_what_cannot_be_trusted_is_said_to_be_so(
    spoil: Callable[[bytes], bytes], why: str, loaded: Loaded, tmp_path: Path
) -> None:
    store(tmp_path, loaded)
    (tmp_path / NAME).write_bytes(spoil((tmp_path / NAME).read_bytes()))
    with pytest.raises(UnusableStateError, match=why):
        recall(tmp_path)


def _by_all(path: Path) -> None:
    path.chmod(0o666)


def _by_another(path: Path) -> None:
    os.chown(path, 65534, 65534)


def _a_link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("spoil", [_by_all, _by_another, _a_link, _a_fifo])
async def test_what_others_may_have_written_is_not_read(
    spoil: Callable[[Path], None], loaded: Loaded, tmp_path: Path
) -> None:
    """Who writes it may give any file of the node to any pod."""
    if spoil is _by_another and os.geteuid() != 0:
        pytest.skip("needs root")
    store(tmp_path, loaded)
    spoil(tmp_path / NAME)
    with pytest.raises(UnusableStateError, match="cannot be read"):
        recall(tmp_path)


async def test_a_store_that_fails_leaves_what_there_was(loaded: Loaded, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store(folder, loaded)
    (folder / NAME).unlink()
    (folder / NAME).mkdir()
    with pytest.raises(OSError, match="directory"):
        store(folder, loaded)
    assert [path.name for path in folder.iterdir()] == [NAME]


async def test_what_a_crash_left_is_removed(loaded: Loaded, tmp_path: Path) -> None:
    old, fresh = tmp_path / ".last-good-old", tmp_path / ".last-good-of-another-daemon"
    old.touch()
    fresh.touch()
    os.utime(old, (time.time() - 3600,) * 2)  # noqa: TID251
    store(tmp_path, loaded)
    assert {path.name for path in tmp_path.glob(".last*")} == {fresh.name}


async def test_a_start_with_a_bad_config_serves_the_last_good_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C10: a node that reboots with a bad config has nothing to offer."""
    file, state_dir = tmp_path / "a.yaml", tmp_path / "state"
    file.write_text(config("a"))
    async with following(file, state_dir=state_dir, load=load_in_child) as followed:
        await followed.has("a")
        file.write_text(config("b"))
        await followed.has("b")
        await until_true(lambda: b"/b" in (state_dir / NAME).read_bytes())
        file.write_text(BAD)
        await followed.is_(lambda state: state.problems)
    async with following(file, state_dir=state_dir) as followed:
        await followed.has("b")
        state = followed.state.value
        assert (state.from_state_dir, state.in_force, len(state.problems)) == (True, True, 1)
        assert state.differs_since is not None
        assert followed.files == (state_dir / NAME,)
        assert "the last good one, from" in caplog.text
        file.write_text(config("b"))
        await followed.is_(lambda state: state.differs_since is None)
        assert (followed.state.value.from_state_dir, followed.applied) == (False, 1)
        file.write_text(config("c"))
        await followed.has("c")


async def test_without_a_last_good_one_it_waits_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, state_dir = tmp_path / "a.yaml", tmp_path / "state"
    file.write_text(BAD)
    state_dir.mkdir()
    async with following(file, state_dir=state_dir) as followed:
        await until_true(lambda: "there is no last good config in" in caplog.text)
    (state_dir / NAME).write_text("garbage")
    async with following(file, state_dir=state_dir) as followed:
        await followed.is_(lambda state: state.problems)
        file.write_text(config("a"))
        await followed.has("a")
    assert "the last good config is ignored: " in caplog.text
    assert "nothing is served until it is corrected" in caplog.text


async def test_a_state_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.yaml").write_text(config("a"))
    (tmp_path / "state").touch()
    async with following(tmp_path, state_dir=tmp_path / "state") as followed:
        await followed.has("a")
        await until_true(lambda: "the last good config cannot be kept in" in caplog.text)


async def test_a_config_whose_resources_cannot_be_decided_is_no_last_good_one(
    tmp_path: Path,
) -> None:
    file, state_dir = tmp_path / "a.yaml", tmp_path / "state"
    file.write_text(config("a"))
    async with following(file, state_dir=state_dir, load=load_in_child) as followed:
        await followed.has("a")
        await until_true(lambda: (state_dir / NAME).exists())
        before = (state_dir / NAME).read_bytes()
        followed.can_be_decided = False
        file.write_text(config("b"))
        await followed.has("b")
        followed.can_be_decided = True
        file.write_text(config("c"))
        await followed.has("c")
        await until_true(lambda: (state_dir / NAME).read_bytes() != before)
        assert b"/c" in (state_dir / NAME).read_bytes(), "b was never kept"
        followed.can_be_decided = False
        file.write_text(config("d"))
        await followed.has("d")
        followed.decided.value = followed.resources
        await until_true(lambda: b"/d" in (state_dir / NAME).read_bytes())
