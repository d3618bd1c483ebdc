"""genericdp.policy, and what Allocate makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.devicefiles import DeviceFiles
from genericdp.kubelet.servicer import why_unusable
from genericdp.model import Inject, Mount, PathSelector, Resource, Selector, ValueKind, ValueSource
from genericdp.policy import Bound, Section, command_refusal, mount_refusal, name_refusal
from genericdp.template import parse
from tests.config.bounded import policy_of
from tests.modelled import PLACE, Host

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import Identity
    from genericdp.policy import Policy


def test_a_refusal_cites_a_few_of_what_is_allowed() -> None:
    bounds = tuple(Bound(text=f"/{i}", place=f"p:{i}") for i in range(9))
    section = Section(key="files", place="p:3", given=True, bounds=bounds)
    assert section.says == "policy p:3 says files: /0, /1, /2, /3, /4, …"
    assert Section(key="env", place="p:4", given=True).says == "policy p:4 says env: none"


def test_a_mount_that_can_be_written_needs_one_bound_that_says_so(tmp_path: Path) -> None:
    policy = policy_of(
        tmp_path, "mounts: [{hostPath: /a}, {hostPath: /a/b, readOnly: false}, {hostPath: /c}]\n"
    )
    assert mount_refusal(policy, "/a/b/x", "/a/b/x", read_only=False) == ""
    assert "only for reading" in mount_refusal(policy, "/a/x", "/a/x", read_only=False)
    # The name may be written to, where it leads may not.
    assert "/c/x may be" in mount_refusal(policy, "/a/b/x", "/c/x", read_only=False)
    assert "/d is not among" in mount_refusal(policy, "/a/b/x", "/d", read_only=True)


def test_names_and_commands_are_compared_as_a_whole(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "env: [A_*]\ncommands: [{path: /bin/true}]\n")
    assert name_refusal(policy.env, "A_B") == ""
    assert "'XA_B' is not allowed" in name_refusal(policy.env, "XA_B")
    assert command_refusal(policy, "/bin/true") == ""
    assert "/bin/../bin/true is not among" in command_refusal(policy, "/bin/../bin/true")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path / "host")
    host.plug("ttyUSB0")
    for folder in ("opt/lib-1", "etc", "run"):
        (host.folder / folder).mkdir(parents=True)
    (host.folder / "opt/lib").symlink_to("lib-1")
    return host


def _offer(host: Host, policy: Policy, **keys: object) -> DeviceList:
    match = Selector(candidates=PathSelector(globs=("/dev/ttyUSB*",)))
    resource = Resource(name="example.com/r", place=PLACE, match=(match,), policy=policy, **keys)  # type: ignore[arg-type]
    given = decide([resource], HostCache(host.root), node_name="n", previous={}, now=0.0)
    return given.lists["example.com/r"]


def _device(offer: DeviceList) -> Device:
    (one,) = offer.devices.values()
    return one.device


def _identity(host: Host) -> Identity:
    file = DeviceFiles(host.root).examine("/dev/ttyUSB0")
    assert file is not None
    return file.identity


def test_a_mount_that_leads_elsewhere_by_now_is_refused_at_an_allocation(
    tmp_path: Path, host: Host
) -> None:
    policy = policy_of(tmp_path, "devices: {}\nmounts: [{hostPath: /opt}]\n")
    mount = Mount(host_path=parse("/opt/lib"), container_path=parse("/lib"))
    device = _device(_offer(host, policy, inject=Inject(mounts=(mount,))))
    assert why_unusable(host.root, [device]) == ""
    (host.folder / "opt/lib").unlink()
    (host.folder / "opt/lib").symlink_to("../etc")
    said = why_unusable(host.root, [device])
    assert said.startswith("device ttyUSB0: /etc is not among the mounts that are allowed (policy")
    (refused,) = _offer(host, policy, inject=Inject(mounts=(mount,))).not_offered
    assert "/etc is not among the mounts" in refused.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lib-9", ""),
        ("/etc/none", "/etc/none is not among the mounts that are allowed"),
        ("none/../../etc/none", "/etc/none is not among the mounts that are allowed"),
        ("deeper", "/etc/deep/x is not among the mounts that are allowed"),
        ("later", "/opt/later must not be mounted: its links lead in a circle"),
    ],
)
def test_a_link_to_what_does_not_exist_yet_counts_by_where_it_would_lead(
    tmp_path: Path, host: Host, text: str, expected: str
) -> None:
    """In a pass, and at an allocation to a link that was turned since."""
    policy = policy_of(tmp_path, "devices: {}\nmounts: [{hostPath: /opt}]\n")
    given = Inject(mounts=(Mount(host_path=parse("/opt/later"), container_path=parse("/x")),))
    device = _device(_offer(host, policy, inject=given))
    (host.folder / "opt/deeper").symlink_to("/etc/deep/x")
    (host.folder / "opt/later").symlink_to(text)
    said = why_unusable(host.root, [device])
    assert said.startswith(f"device ttyUSB0: {expected}") if expected else said == ""
    offer = _offer(host, policy, inject=given)
    assert [one.reason.startswith(expected) for one in offer.not_offered] == [True] * bool(expected)


def test_a_link_to_a_node_that_a_policy_forbids_by_now_is_refused_at_an_allocation(
    tmp_path: Path, host: Host
) -> None:
    """It may lead to the same device and be there under a name that is not allowed."""
    policy = policy_of(tmp_path, "devices: {paths: [/dev/ttyUSB*]}\n")
    device = _device(_offer(host, policy))
    assert why_unusable(host.root, [device]) == ""
    node = host.folder / "dev/ttyUSB0"
    node.rename(node.with_name("sda"))
    node.symlink_to("sda")
    assert why_unusable(host.root, [device]).startswith("device ttyUSB0: /dev/ttyUSB0 is another")
    elsewhere = replace(device, nodes=(replace(device.nodes[0], identity=_identity(host)),))
    said = why_unusable(host.root, [elsewhere])
    assert said.startswith("device ttyUSB0: /dev/sda is not among the device nodes that are")


def test_a_node_with_another_number_is_refused_at_an_allocation(tmp_path: Path, host: Host) -> None:
    """D5: the same file, and so the same inode, by ``st_rdev`` alone another device."""
    device = _device(_offer(host, policy_of(tmp_path, "devices: {}\n")))
    before = _identity(host)
    (host.folder / "sys/dev/char/188:0").unlink()
    host.plug("ttyUSB0", minor=7)
    assert replace(_identity(host), device_number=before.device_number) == before
    assert "is another device than the one on offer" in why_unusable(host.root, [device])


def test_a_value_is_not_read_through_a_link_that_leads_outside(tmp_path: Path, host: Host) -> None:
    policy = policy_of(tmp_path, "devices: {}\nfiles: [/run]\n")
    (host.folder / "etc/shadow").write_text("secret")
    (host.folder / "run/state").write_text("up")
    values = {"v": ValueSource(kind=ValueKind.FILE, source=parse("/run/state"))}
    keys = {"values": values, "id": parse("$(value.v)")}
    assert _device(_offer(host, policy, **keys)).id == "up"
    (host.folder / "run/state").unlink()
    (host.folder / "run/state").symlink_to("../etc/shadow")
    (refused,) = _offer(host, policy, **keys).not_offered
    assert "'v': /etc/shadow is not among the files that are allowed" in refused.reason
