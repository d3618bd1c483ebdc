"""A policy that changes while a config is active, or between two runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from genericdp.config.files import Loaded
from genericdp.config.lastgood import LAST_GOOD
from genericdp.errors import Problem

from tests.config.bounded import HEAD
from tests.config.changing import BAD, ConfigMap, config, rename, write
from tests.config.reloading import Followed, following, until_true
from tests.process.scripts import load_in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def allowing(*names: str) -> str:
    return f"{HEAD}devices:\n  paths: [{', '.join(f'/dev/{name}' for name in names)}]\n"


class Place:
    """A config and a policy, in directories of their own."""

    def __init__(self, directory: Path) -> None:
        self.config, self.policy = directory / "c" / "a.yaml", directory / "p" / "p.yaml"
        self.state_dir = directory / "state"
        for path in (self.config, self.policy):
            path.parent.mkdir()
        self.config.write_text(config("a"))
        self.policy.write_text(allowing("a"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def bounds(followed: Followed) -> tuple[str, ...]:
    """Return what the resources active are bound by."""
    (resource,) = followed.resources
    assert resource.policy is not None
    return tuple(rule.text for rule in resource.policy.devices.rules)


@pytest.mark.parametrize("change", [write, rename])
async def test_a_policy_that_changes_is_in_force_by_itself(
    place: Place, change: Callable[[Path, str], None]
) -> None:
    async with following(place.config, policy=place.policy) as followed:
        await followed.has("a")
        for i, names in enumerate((("a", "b"), ("*",), ("a",))):
            await followed.idle()
            change(place.policy, allowing(*names))
            await until_true(lambda i=i: followed.applied == i + 2)  # type: ignore[misc]
            assert bounds(followed) == tuple(f"/dev/{name}" for name in names)
        assert followed.problems == []


async def test_a_policy_in_a_config_map_that_is_swapped_is_noticed(place: Place) -> None:
    volume = ConfigMap(place.policy.with_name("v"), {"p.yaml": allowing("a")})
    async with following(place.config, policy=volume.directory / "p.yaml") as followed:
        await followed.has("a")
        await followed.idle()
        volume.update({"p.yaml": allowing("a", "b")})
        await until_true(lambda: followed.applied == 2)
        assert bounds(followed) == ("/dev/a", "/dev/b")


async def test_what_a_stricter_policy_forbids_stays_in_force_and_is_told_as_problems(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Its devices may be in use, and the mistake in the policy: a person has to decide."""
    caplog.set_level(logging.INFO)
    async with following(place.config, policy=place.policy) as followed:
        await followed.has("a")
        before = followed.state.value
        place.policy.write_text(allowing("b"))
        await followed.is_(lambda state: state.refused)
        state = followed.state.value
        assert followed.problems == [
            f"{place.config}:5:20: .resources[0].match[0].path: '/dev/a' is not allowed"
            f" (policy {place.policy}:3 says devices: /dev/b)",
        ]
        assert state.differs_since is not None
        assert (state.loaded, state.since) == (before.loaded, before.since)
        assert (bounds(followed), followed.applied) == (("/dev/a",), 1)
        messages = [record.message for record in caplog.records if record.levelno == logging.ERROR]
        assert messages[0] == followed.problems[0]
        assert messages[1].startswith(
            "the config cannot be used: the active one stays, with its policy, until it is"
        )
        place.config.write_text(config("b"))
        await followed.has("b")
        assert bounds(followed) == ("/dev/b",)
        assert followed.problems == []


@pytest.mark.parametrize("spoilt", ["", "x: 1\n", None], ids=["empty", "wrong", "deleted"])
async def test_a_policy_that_cannot_be_used_any_more_changes_nothing_and_is_told_once(
    place: Place, caplog: pytest.LogCaptureFixture, spoilt: str | None
) -> None:
    async with following(place.config, policy=place.policy, state_dir=place.state_dir) as followed:
        await followed.has("a")
        place.config.write_text(config("b"))  # nor is it read without its bounds
        if spoilt is None:
            place.policy.unlink()
        else:
            place.policy.write_text(spoilt)
        await followed.is_(
            lambda _: any(problem.startswith(str(place.policy)) for problem in followed.problems)
        )
        said = "the policy cannot be used: the active one stays until it is corrected"
        await until_true(lambda: said in caplog.text)
        assert (caplog.text.count(said), followed.names.value) == (1, ("a",))
        place.policy.write_text(allowing("b"))
        await followed.has("b")


async def keep(place: Place, *names: str, policy: Path | None) -> None:
    """Have a run that leaves a last good config."""
    place.config.write_text(config(*names))
    async with following(
        place.config, policy=policy, state_dir=place.state_dir, load=load_in_child
    ) as followed:
        await followed.has(*names)
        await until_true((place.state_dir / LAST_GOOD).exists)
    place.config.write_text(BAD)


@pytest.mark.parametrize("bound_before", [True, False])
async def test_the_last_good_config_is_held_against_the_policy_of_today(
    place: Place, caplog: pytest.LogCaptureFixture, bound_before: bool
) -> None:
    """A restart must not restore revoked rights."""
    await keep(place, "a", policy=place.policy if bound_before else None)
    place.policy.write_text(allowing("b"))
    async with following(place.config, policy=place.policy, state_dir=place.state_dir) as followed:
        await followed.is_(lambda state: state.refused)
        await until_true(lambda: "nothing is served until it is corrected" in caplog.text)
        assert followed.state.value.loaded is None
        (said,) = (
            message for message in caplog.messages if "the last good config is ignored" in message
        )
        assert f"{place.state_dir}/" in said
        assert "/a.yaml:5:20: .resources[0].match[0].path: '/dev/a' is not allowed" in said
        assert f"(policy {place.policy}:3 says devices: /dev/b)" in said
        place.policy.write_text(allowing("a", "b"))
        await followed.has("a")
        assert (followed.state.value.from_state_dir, bounds(followed)) == (
            True,
            ("/dev/a", "/dev/b"),
        )


async def test_what_comes_from_the_state_dir_under_another_policy_is_another_config(
    place: Place,
) -> None:
    """Else the former policy, when it returns, would be taken for the one active."""
    await keep(place, "a", policy=place.policy)
    before = place.policy.read_text()
    place.policy.write_text(allowing("a", "b"))
    async with following(place.config, policy=place.policy, state_dir=place.state_dir) as followed:
        await followed.has("a")
        assert bounds(followed) == ("/dev/a", "/dev/b")
        place.policy.write_text(before)
        place.config.write_text(config("a"))
        await followed.is_(lambda state: not state.from_state_dir)
        assert (bounds(followed), followed.applied) == (("/dev/a",), 2)


async def test_without_a_policy_to_be_had_the_last_good_config_is_not_used(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The child may have been killed: what would bound it is not known then."""
    await keep(place, "a", policy=place.policy)
    problem = Problem(file="a.yaml", line=1, column=1, path="", message="ended by SIGKILL")

    async def load(paths: Sequence[Path], *, policy: Path | None) -> Loaded:
        return Loaded(problems=(problem,))

    async with following(
        place.config, policy=place.policy, state_dir=place.state_dir, load=load
    ) as followed:
        await until_true(lambda: "the last good config is ignored: a.yaml:1:1: en" in caplog.text)
        assert followed.state.value.loaded is None
