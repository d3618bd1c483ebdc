"""Who holds a device, as the state of a daemon has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.devices.held import HeldDevice
from genericdp.model import ServedBy
from genericdp.observed import Observed
from genericdp.process.run import Commands
from genericdp.settings import Settings
from genericdp.status.state import Events, Sources, as_json, collect_state
from genericdp.supervisor import Supervisor
from tests.status.states import NAME, declared, device, devices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NO_ANSWER = "the kubelet has not reported yet which pods hold devices"
POD, CLAIM = "pod default/listen", "claim default/stick"


@pytest.fixture
def supervisor(short_folder: Path) -> Supervisor:
    settings = Settings(
        configs=(),
        kubelet_folder=short_folder,
        cdi_folder=short_folder,
        root=short_folder,
        node_name="node",
        pod_resources=short_folder / "kubelet.sock",
    )
    supervisor = Supervisor(settings, commands=Commands())
    supervisor.resources.value = (declared(),)
    supervisor.lists.value = {NAME: devices(device(0), device(1))}
    return supervisor


def shown(supervisor: Supervisor) -> tuple[dict[str, Any], dict[str, list[dict[str, str]]]]:
    """Return what is known of holders, and the holders of each device."""
    config = Observed(ConfigState(loaded=Loaded()))
    sources = Sources(supervisor=supervisor, config=config, events=Events(), started=0.0)
    document = as_json(collect_state(sources))
    (resource,) = document["resources"]
    return document["holders"], {one["id"]: one["holders"] for one in resource["devices"]}


def held(name: str = NAME, *, is_known: bool = True, **holders: tuple[str, ...]) -> HeldDevice:
    return HeldDevice(
        resource=name, device_id="a1", identities=(), is_known=is_known, holders=holders
    )


def holding(**holders: str) -> list[Mapping[str, str]]:
    return [{"share": share, "holder": holder} for share, holder in holders.items()]


def test_each_device_has_its_holders(supervisor: Supervisor) -> None:
    supervisor.held.value = [held(a1=(POD,)), held("example.com/other", a1=("pod default/x",))]
    known, holders = shown(supervisor)
    assert known == {"known": True, "reason": ""}
    assert holders == {"a0": [], "a1": holding(a1=POD)}


def test_pods_and_claims_can_have_shares_of_one_device(supervisor: Supervisor) -> None:
    by_dra = HeldDevice(
        resource=NAME,
        device_id="a1",
        served_by=ServedBy.DRA,
        identities=(),
        holders={"a1::1": (CLAIM, "claim default/other")},
    )
    supervisor.held.value = [held(a1=(POD,)), by_dra]
    _, holders = shown(supervisor)
    others = [{"share": "a1::1", "holder": one} for one in (CLAIM, "claim default/other")]
    assert holders["a1"] == [*holding(a1=POD), *others]


def test_holders_are_unknown_until_the_kubelet_has_answered(supervisor: Supervisor) -> None:
    supervisor.held.value = [held(is_known=False), held("example.com/other", a1=(POD,))]
    known, holders = shown(supervisor)
    assert known == {"known": False, "reason": NO_ANSWER}
    assert holders["a1"] == []


def test_a_failed_call_is_the_reason_and_keeps_the_holders(supervisor: Supervisor) -> None:
    supervisor.held.value = [held(a1=(POD,))]
    supervisor.holders_unknown.value = "no answer within 5 s"
    known, holders = shown(supervisor)
    assert known == {"known": False, "reason": "no answer within 5 s"}
    assert holders["a1"] == holding(a1=POD)
