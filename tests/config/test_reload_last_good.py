"""Policies that change, and ``--state-dir``: the last good config is served at a bad start."""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING

import pytest
from genericdp.config.files import Loaded
from genericdp.config.lastgood import LAST_GOOD
from genericdp.errors import Problem

from tests.config.changing import config, rename
from tests.config.reloading import Place, allowing
from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, "b", "a")


@pytest.fixture
def bounded(tmp_path: Path) -> Place:
    """With one file, and a policy that allows its device."""
    place = Place(tmp_path, "c")
    place.write("a")
    place.allow("a")
    return place


async def test_a_start_with_a_bad_config_serves_the_last_good_one(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """C10: a node that reboots with a bad config has nothing to offer."""
    await place.keep("a", "b")
    await place.keep("c", "d")
    async with place.following() as followed:
        await followed.has("c", "d")
        state = followed.state.value
        assert state.from_state_dir
        assert len(followed.problems) == 1
        assert state.differs_since is not None
        assert all(str(file).startswith(f"{place.state_dir}/") for file in followed.files)
        assert "the last good one, from" in caplog.text
        version = (place.state_dir / LAST_GOOD).resolve()
        assert {stat.S_IMODE(path.stat().st_mode) for path in (version, place.state_dir)} == {0o700}
        place.write("c", "d")
        await followed.is_(lambda state: state.differs_since is None)
        assert (followed.state.value.from_state_dir, followed.applied) == (False, 1)
        loaded = followed.state.value.loaded
        assert loaded is not None
        assert loaded.files == tuple(place.configs)
        place.write("e", "f")
        await followed.has("e", "f")
        place.spoil()
        await poll_until(lambda: "the config cannot be used: the active one stays" in caplog.text)
        assert not followed.state.value.from_state_dir


def _by_all(version: Path) -> None:
    version.chmod(0o777)


def _linked_by_another(version: Path) -> None:
    os.chown(version.with_name(LAST_GOOD), 65534, 65534, follow_symlinks=False)


def _no_link(version: Path) -> None:
    version.with_name(LAST_GOOD).unlink()
    version.rename(version.with_name(LAST_GOOD))


def _garbage(version: Path) -> None:
    (file, _) = version.glob("*/*")
    file.write_bytes(b"\xff\0")


@pytest.mark.parametrize("spoil", [_by_all, _linked_by_another, _no_link, _garbage])
async def test_what_is_damaged_or_others_may_have_written_is_ignored(
    spoil: Callable[[Path], None], place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A user who can write it may give any file of the node to any pod."""
    if "another" in spoil.__name__ and os.geteuid() != 0:
        pytest.skip("needs root")
    await place.keep("a", "b")
    spoil((place.state_dir / LAST_GOOD).resolve())
    async with place.following() as followed:
        await poll_until(lambda: "nothing is served until it is corrected" in caplog.text)
        assert "the last good config is ignored: " in caplog.text
        assert followed.state.value.loaded is None
        place.write("c", "d")
        await followed.has("c", "d")


async def test_without_a_last_good_one_it_waits_and_says_why(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.write("a", "b")
    place.spoil()
    async with place.following():
        await poll_until(lambda: "there is no last good config in" in caplog.text)
        assert "nothing is served until it is corrected" in caplog.text


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
    async with place.following() as followed:
        await poll_until(lambda: place.kept == [config("a"), config("b")])
        followed.can_be_decided = False
        place.write("c", "d")
        await followed.has("c", "d")
        followed.can_be_decided = True
        place.write("e", "f")
        await followed.has("e", "f")
        await poll_until(lambda: place.kept != [config("a"), config("b")])
        assert place.kept == [config("e"), config("f")], "c and d were never kept"
        followed.can_be_decided = False
        place.write("g", "h")
        await followed.has("g", "h")
        followed.decided.value = followed.resources
        await poll_until(lambda: place.kept == [config("g"), config("h")])


async def test_a_policy_that_changes_is_in_force_by_itself(bounded: Place) -> None:
    async with bounded.following() as followed:
        await followed.has("a")
        for i, names in enumerate((("a", "b"), ("*",), ("a",))):
            await followed.idle()
            rename(bounded.policy, allowing(*names))
            await poll_until(lambda i=i: followed.applied == i + 2)  # type: ignore[misc]
            assert followed.bounds() == tuple(f"/dev/{name}" for name in names)
        assert followed.problems == []


async def test_what_a_stricter_policy_forbids_stays_in_force_and_is_told_as_problems(
    bounded: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Its devices may be in use, and the mistake in the policy: a person has to decide."""
    caplog.set_level(logging.INFO)
    async with bounded.following() as followed:
        await followed.has("a")
        before = followed.state.value
        bounded.allow("b")
        await followed.is_(lambda state: state.refused)
        state = followed.state.value
        assert followed.problems == [
            f"{bounded.configs[0]}:5:20: .resources[0].match[0].path: '/dev/a' is not allowed"
            f" (policy {bounded.policy}:3 says devices: /dev/b)",
        ]
        assert state.differs_since is not None
        assert (state.loaded, state.since) == (before.loaded, before.since)
        assert (followed.bounds(), followed.applied) == (("/dev/a",), 1)
        messages = [record.message for record in caplog.records if record.levelno == logging.ERROR]
        assert messages[0] == followed.problems[0]
        assert messages[1].startswith(
            "the config cannot be used: the active one stays, with its policy, until it is"
        )
        bounded.write("b")
        await followed.has("b")
        assert (followed.bounds(), followed.problems) == (("/dev/b",), [])


async def test_a_policy_that_cannot_be_used_any_more_changes_nothing_and_is_told_once(
    bounded: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async with bounded.following() as followed:
        await followed.has("a")
        bounded.write("b")  # nor is it read without its bounds
        bounded.policy.write_text("")
        await followed.is_(
            lambda _: any(problem.startswith(str(bounded.policy)) for problem in followed.problems)
        )
        said = "the policy cannot be used: the active one stays until it is corrected"
        await poll_until(lambda: said in caplog.text)
        assert (caplog.text.count(said), followed.names.value) == (1, ("a",))
        bounded.allow("b")
        await followed.has("b")


@pytest.mark.parametrize("bound_before", [True, False])
async def test_the_last_good_config_is_held_against_the_policy_of_today(
    bounded: Place, caplog: pytest.LogCaptureFixture, bound_before: bool
) -> None:
    """A restart must not restore revoked rights."""
    await bounded.keep("a", policy=bounded.policy if bound_before else None)
    bounded.allow("b")
    async with bounded.following() as followed:
        await followed.is_(lambda state: state.refused)
        await poll_until(lambda: "nothing is served until it is corrected" in caplog.text)
        assert followed.state.value.loaded is None
        (said,) = (
            message for message in caplog.messages if "the last good config is ignored" in message
        )
        assert f"{bounded.state_dir}/" in said
        assert "/x.yaml:5:20: .resources[0].match[0].path: '/dev/a' is not allowed" in said
        assert f"(policy {bounded.policy}:3 says devices: /dev/b)" in said
        bounded.allow("a", "b")
        await followed.has("a")
        assert followed.state.value.from_state_dir
        assert followed.bounds() == ("/dev/a", "/dev/b")


async def test_what_comes_from_the_state_dir_under_another_policy_is_another_config(
    bounded: Place,
) -> None:
    """Else the former policy, when it returns, would be taken for the one active."""
    await bounded.keep("a")
    bounded.allow("a", "b")
    async with bounded.following() as followed:
        await followed.has("a")
        assert followed.bounds() == ("/dev/a", "/dev/b")
        bounded.allow("a")
        bounded.write("a")
        await followed.is_(lambda state: not state.from_state_dir)
        assert (followed.bounds(), followed.applied) == (("/dev/a",), 2)


async def test_without_a_policy_to_be_had_the_last_good_config_is_not_used(
    bounded: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The child may have been killed: what would bound it is not known then."""
    await bounded.keep("a")
    problem = Problem(file="a.yaml", line=1, column=1, path="", message="ended by SIGKILL")

    async def load(paths: Sequence[Path], *, policy: Path | None) -> Loaded:
        return Loaded(problems=(problem,))

    async with bounded.following(load=load) as followed:
        await poll_until(lambda: "the last good config is ignored: a.yaml:1:1: en" in caplog.text)
        assert followed.state.value.loaded is None
