"""GetPreferredAllocation: when the plugin is asked, and what becomes of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import held_by, pod, refused, show

if TYPE_CHECKING:
    from genericdp.simulator.kubelet import Kubelet


@pytest.mark.parametrize(
    ("preferred", "wanted"),
    [(["c", "d"], {"c", "d"}), (["c"], {"c"}), (["c", "nonsense", "c"], {"c"}), ([], set())],
)
async def test_what_the_plugin_prefers_is_taken_and_the_rest_made_up(
    kubelet: Kubelet, plugin: BarePlugin, preferred: list[str], wanted: set[str]
) -> None:
    """PRF-1, PRF-3: unknown ids and repeats are ignored."""
    plugin.answers.preferred_available = True
    plugin.answers.preferred = preferred
    await show(kubelet, plugin, "a", "b", "c", "d", unhealthy=1)
    asking = pod(thing=2)
    assert (await kubelet.admit(asking)).admitted
    held = held_by(kubelet, asking)["main"][RESOURCE]
    assert wanted <= held <= {"a", "b", "c", "d"}
    assert len(held) == 2
    (request,) = plugin.preferred_requests
    assert sorted(request.available_deviceIDs) == ["a", "b", "c", "d"]
    assert (list(request.must_include_deviceIDs), request.allocation_size) == ([], 2)


async def test_of_too_many_preferred_ids_some_are_taken(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """PRF-3: which ones is chance."""
    plugin.answers.preferred_available = True
    plugin.answers.preferred = ["b", "c", "d"]
    await show(kubelet, plugin, "a", "b", "c", "d")
    taken: set[str] = set()
    for number in range(20):
        asking = pod(str(number), thing=1)
        assert (await kubelet.admit(asking)).admitted
        taken |= held_by(kubelet, asking)["main"][RESOURCE]
        kubelet.admitter.remove(asking)
    assert len(taken) > 1
    assert taken <= {"b", "c", "d"}


async def test_the_plugin_is_not_asked_what_it_prefers_unless_it_said_so(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """PRF-1, REG-7: the kubelet picks at random."""
    await show(kubelet, plugin, "a", "b")
    assert (await kubelet.admit(pod(thing=1))).admitted
    assert plugin.preferred_requests == []


async def test_a_failed_preference_refuses_the_pod(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """PRF-4: the reason never to fail it."""
    plugin.answers.preferred_available = True
    plugin.answers.preferred_error = "oops"
    await show(kubelet, plugin, "a")
    assert await refused(kubelet, pod(thing=1)) == (
        "device plugin GetPreferredAllocation rpc failed with err:"
        " rpc error: code = FailedPrecondition desc = oops"
    )
