"""genericdp.config.rebinding: a config of earlier under the policy of today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.config.rebinding import rebound
from tests.config.bounded import HEAD
from tests.process.running import load_in_child
from tests.reloading.configs import config

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.config.loaded import Loaded

NARROW, WIDE = "devices:\n  paths: [/dev/a]\n", "devices: {}\n"


def _policy(folder: Path, text: str) -> Path:
    path = folder / "p.yaml"
    path.write_text(HEAD + text)
    return path


async def _earlier(folder: Path, policy: str | None) -> Loaded:
    (folder / "c.yaml").write_text(config("a", "b"))
    path = None if policy is None else _policy(folder, policy)
    return await load_in_child([folder / "c.yaml"], policy=path)


@pytest.mark.parametrize("before", [None, WIDE])
@pytest.mark.parametrize("now", [None, WIDE, "devices: {block: true}\n", NARROW])
async def test_it_is_as_if_it_had_been_loaded_today(
    tmp_path: Path, before: str | None, now: str | None
) -> None:
    earlier = await _earlier(tmp_path, before)
    policy = None if now is None else _policy(tmp_path, now)
    wanted = load([tmp_path / "c.yaml"], policy=policy)
    found = rebound(earlier, wanted.policy)
    assert (found.resources, found.policy) == (wanted.resources, wanted.policy)
    assert [(one.path, one.message, one.hint) for one in found.problems] == [
        (one.path, one.message, one.hint) for one in wanted.problems
    ]
    assert (found.digest == earlier.digest) == (wanted.policy == earlier.policy or now == NARROW)


async def test_what_is_not_allowed_is_told_at_the_place_of_its_resource(tmp_path: Path) -> None:
    earlier = await _earlier(tmp_path, None)
    policy = load([tmp_path / "c.yaml"], policy=_policy(tmp_path, NARROW)).policy
    (problem,) = rebound(earlier, policy).problems
    assert str(problem) == (
        f"{tmp_path}/c.yaml:6:5: .resources[1].match[0].path: '/dev/b' is not allowed"
        f" (policy {tmp_path}/p.yaml:3 says devices: /dev/a)"
    )
