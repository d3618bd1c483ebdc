"""``--state-dir``: the last good config is served when at a start the one on disk is bad."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main
from genericdp.config.lastgood import LAST_GOOD

from tests.config.changing import BAD, config
from tests.config.reloading import following, until_true
from tests.process.scripts import load_in_child

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow


class Place:
    """A config in two files, and a state directory."""

    def __init__(self, directory: Path) -> None:
        self.configs = directory / "b", directory / "a"
        self.state_dir = directory / "state" / "deep"
        for path in self.configs:
            path.mkdir()

    def write(self, *names: str) -> None:
        for path, name in zip(self.configs, names, strict=True):
            (path / "x.yaml").write_text(config(name))

    def spoil(self) -> None:
        (self.configs[0] / "x.yaml").write_text(BAD)

    @property
    def kept(self) -> list[str]:
        """Return what is kept, in the order in which it counts."""
        files = sorted((self.state_dir / LAST_GOOD).glob("*/*"))
        return [file.read_text() for file in files]

    async def keep(self, *names: str) -> None:
        """Have a run that leaves a last good config, then a bad one on disk."""
        self.write(*names)
        async with following(
            *self.configs, state_dir=self.state_dir, load=load_in_child
        ) as followed:
            await followed.has(*names)
            await until_true(lambda: self.kept == [config(name) for name in names])
        self.spoil()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_start_with_a_bad_config_serves_the_last_good_one(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """C10: a node that reboots with a bad config has nothing to offer."""
    await place.keep("a", "b")
    await place.keep("c", "d")
    async with following(*place.configs, state_dir=place.state_dir) as followed:
        await followed.has("c", "d")
        state = followed.state.value
        assert state.from_state_dir
        assert len(followed.problems) == 1
        assert state.differs_since is not None
        assert all(str(file).startswith(f"{place.state_dir}/") for file in followed.files)
        assert "the last good one, from" in caplog.text
        place.write("c", "d")
        await followed.is_(lambda state: state.differs_since is None)
        assert (followed.state.value.from_state_dir, followed.applied) == (False, 1)
        loaded = followed.state.value.loaded
        assert loaded is not None
        assert loaded.files == tuple(path / "x.yaml" for path in place.configs)
        place.write("e", "f")
        await followed.has("e", "f")
        place.spoil()
        await until_true(lambda: "the config cannot be used: the active one stays" in caplog.text)
        assert not followed.state.value.from_state_dir


async def test_what_is_kept_is_the_yaml_that_was_loaded(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person can read it, and another version of genericdp."""
    await place.keep("a", "b")
    version = (place.state_dir / LAST_GOOD).resolve()
    words = ["validate", *map(str, sorted(version.glob("*")))]
    assert await asyncio.to_thread(main, words) == 0
    assert capsys.readouterr().out == "2 files, 2 resources: valid\n"
    assert stat.S_IMODE(version.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.state_dir.stat().st_mode) == 0o700


def _by_all(version: Path) -> None:
    version.chmod(0o777)


def _by_another(version: Path) -> None:
    os.chown(version, 65534, 65534)


def _linked_by_another(version: Path) -> None:
    os.chown(version.with_name(LAST_GOOD), 65534, 65534, follow_symlinks=False)


def _a_file(version: Path) -> None:
    version.rename(version.with_name("other"))
    version.touch()


def _no_link(version: Path) -> None:
    version.with_name(LAST_GOOD).unlink()
    version.rename(version.with_name(LAST_GOOD))


def _cut(version: Path) -> None:
    (file, _) = version.glob("*/*")
    file.write_bytes(file.read_bytes()[:-7])


def _garbage(version: Path) -> None:
    (file, _) = version.glob("*/*")
    file.write_bytes(b"\xff\0")


@pytest.mark.parametrize(
    "spoil", [_by_all, _by_another, _linked_by_another, _a_file, _no_link, _cut, _garbage]
)
async def test_what_is_damaged_or_others_may_have_written_is_ignored(
    spoil: Callable[[Path], None], place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A user who can write it may give any file of the node to any pod."""
    if "another" in spoil.__name__ and os.geteuid() != 0:
        pytest.skip("needs root")
    await place.keep("a", "b")
    spoil((place.state_dir / LAST_GOOD).resolve())
    async with following(*place.configs, state_dir=place.state_dir) as followed:
        await until_true(lambda: "nothing is served until it is corrected" in caplog.text)
        assert "the last good config is ignored: " in caplog.text
        assert followed.state.value.loaded is None
        place.write("c", "d")
        await followed.has("c", "d")


async def test_without_a_last_good_one_it_waits_and_says_why(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.write("a", "b")
    place.spoil()
    async with following(*place.configs, state_dir=place.state_dir):
        await until_true(lambda: "there is no last good config in" in caplog.text)
        assert "nothing is served until it is corrected" in caplog.text


@pytest.mark.parametrize("is_directory", [True, False], ids=["a directory of that name", "a file"])
async def test_a_store_that_fails_is_a_warning_and_leaves_what_there_was(
    place: Place, caplog: pytest.LogCaptureFixture, is_directory: bool
) -> None:
    in_the_way = place.state_dir / LAST_GOOD if is_directory else place.state_dir.parent
    in_the_way.mkdir(parents=True) if is_directory else in_the_way.touch()
    place.write("a", "b")
    async with following(*place.configs, state_dir=place.state_dir) as followed:
        await followed.has("a", "b")
        await until_true(lambda: "the last good config cannot be kept in" in caplog.text)
    assert not is_directory or [path.name for path in place.state_dir.iterdir()] == [LAST_GOOD]


async def test_only_the_latest_and_what_may_be_in_the_making_stays(place: Place) -> None:
    """The pods of an update may share the directory; a crash may leave a part of a config."""
    await place.keep("a", "b")
    first = (place.state_dir / LAST_GOOD).resolve()
    old, fresh = (place.state_dir / f".last-good-{name}" for name in ("old", "fresh"))
    for path in (old, fresh):
        path.mkdir()
    for path in (old, first):
        os.utime(path, (0, 0))
    await place.keep("c", "d")
    second = (place.state_dir / LAST_GOOD).resolve()
    assert {*place.state_dir.glob(".last*")} == {first, fresh, second}
    os.utime(second, (0, 0))
    await place.keep("e", "f")
    third = (place.state_dir / LAST_GOOD).resolve()
    assert {*place.state_dir.glob(".last*")} == {fresh, second, third}


async def test_a_config_whose_resources_cannot_be_decided_is_no_last_good_one(place: Place) -> None:
    place.write("a", "b")
    async with following(*place.configs, state_dir=place.state_dir) as followed:
        await until_true(lambda: place.kept == [config("a"), config("b")])
        followed.can_be_decided = False
        place.write("c", "d")
        await followed.has("c", "d")
        followed.can_be_decided = True
        place.write("e", "f")
        await followed.has("e", "f")
        await until_true(lambda: place.kept != [config("a"), config("b")])
        assert place.kept == [config("e"), config("f")], "c and d were never kept"
        followed.can_be_decided = False
        place.write("g", "h")
        await followed.has("g", "h")
        followed.decided.value = followed.resources
        await until_true(lambda: place.kept == [config("g"), config("h")])
