"""The crowd that a benchmark makes is the one that it expects at the kubelet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bench.crowdhost import crowd, wrong
from bench.processes import peak_memory, threads
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from tests.modelled import resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.crowdhost import Crowd

RESOURCES, DEVICES = 3, 12


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Crowd]:
    with crowd(RESOURCES, DEVICES, tmp_path, real=False) as made:
        yield made


def lists(made: Crowd) -> dict[str, dict[str, str]]:
    return {made.name(one): dict.fromkeys(made.ids(one), "Healthy") for one in range(RESOURCES)}


def test_the_daemon_gives_each_device_the_id_that_is_expected(made: Crowd) -> None:
    resources = [resource(name, glob) for name, glob in made.globs.items()]
    root = Root(made.root)
    found = decide(
        resources,
        HostCache(root),
        node_name="n",
        previous={},
        now=0.0,
    )
    healthy = {
        name: {one: "Healthy" for one, its in offer.devices.items() if not its.unhealthy}
        for name, offer in found.lists.items()
    }
    assert healthy == lists(made)


def test_nothing_is_wrong_with_the_lists_that_are_expected(made: Crowd) -> None:
    assert wrong(lists(made), made) == []


def test_what_is_missing_foreign_or_ill_is_told(made: Crowd) -> None:
    found = lists(made)
    first, second, third = (made.name(one) for one in range(RESOURCES))
    del found[first][made.device_id(0, 3)]
    found[second][made.device_id(2, 0)] = "Healthy"
    found[third][made.device_id(2, 5)] = "Unhealthy"
    problems = wrong(found, made)
    assert [one.split()[1:3] for one in problems] == [["lacks", "1,"], ["has", "1"], ["1", "are"]]


def test_a_resource_without_a_list_lacks_all(made: Crowd) -> None:
    assert len(wrong({}, made)) == RESOURCES


def test_the_nodes_go_even_after_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError),
        crowd(RESOURCES, DEVICES, tmp_path, real=False) as made,
    ):
        raise RuntimeError
    assert not made.folder.exists()


def test_a_node_that_is_removed_can_be_made_again(made: Crowd) -> None:
    made.remove(1, 2)
    assert not (made.folder / "1" / "2").exists()
    made.make(1, 2)
    assert (made.folder / "1" / "2").exists()


def test_a_process_has_threads_and_a_peak_of_memory() -> None:
    assert threads(os.getpid()) >= 1
    assert peak_memory(os.getpid()) > 1
