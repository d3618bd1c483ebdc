"""The pure parts, for any input: sets of devices, merging, the checkpoint."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.simulator import checkpoint
from genericdp.simulator.allocations import Allocation, Allocations, merged
from genericdp.simulator.checkpoint import Checkpoint
from genericdp.simulator.devices import HEALTHY, Devices, Told

IDS = st.text("ab\u00e9", max_size=2)
TOLD = st.builds(Told, id=IDS, health=st.sampled_from(["Healthy", "Unhealthy", "odd"]))
PATHS = st.sampled_from(["/dev/a", "/dev/b"])
RESPONSES = st.builds(
    pb.ContainerAllocateResponse,
    envs=st.dictionaries(st.sampled_from("AB"), st.text(max_size=2), max_size=2),
    devices=st.lists(st.builds(pb.DeviceSpec, container_path=PATHS, host_path=PATHS), max_size=2),
    cdi_devices=st.lists(st.builds(pb.CDIDevice, name=st.sampled_from("xyz")), max_size=3),
)
ALLOCATIONS = st.builds(
    Allocation,
    pod_uid=st.sampled_from("pq"),
    container=st.sampled_from("cd"),
    resource=st.sampled_from(["example.com/r", "example.com/s"]),
    ids_by_numa=st.dictionaries(
        st.integers(-1, 2), st.lists(IDS, min_size=1, max_size=3).map(tuple), max_size=2
    ),
    response=RESPONSES,
)


@given(st.lists(st.lists(TOLD)))
def test_only_the_last_list_counts_and_a_loss_keeps_the_ids(lists: list[list[Told]]) -> None:
    devices = Devices()
    for listed in lists:
        devices.replace("r", listed)
    last = lists[-1] if lists else []
    well = {told.id for told in last if told.health == HEALTHY}
    ill = {told.id for told in last if told.health != HEALTHY}
    assert (devices.healthy.get("r", set()), devices.unhealthy.get("r", set())) == (well, ill)
    devices.lose("r")
    assert devices.health("r") == dict.fromkeys(well | ill, "Unhealthy")


@given(st.lists(RESPONSES, max_size=4))
def test_what_comes_first_is_kept(responses: list[pb.ContainerAllocateResponse]) -> None:
    given_ = merged(responses)
    for name, value in given_.env.items():
        assert value == next(r.envs[name] for r in responses if name in r.envs)
    for path, (host, _) in given_.devices.items():
        first = next(d for r in responses for d in r.devices if d.container_path == path)
        assert host == first.host_path
    names = [cdi.name for response in responses for cdi in response.cdi_devices]
    assert given_.cdi == tuple(dict.fromkeys(names))


@given(st.lists(ALLOCATIONS, max_size=4))
def test_the_checkpoint_gives_back_what_was_written(allocations: list[Allocation]) -> None:
    written = Checkpoint(
        allocations=tuple(allocations), registered={"example.com/r": ("a", "\u00e9")}
    )
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.Writer(Path(folder)).write(written)
        assert checkpoint.read(Path(folder)) == written


def test_each_checkpoint_has_the_ids_of_its_day(tmp_path: Path) -> None:
    """Bites if ids are known by their resource's name alone."""
    writer = checkpoint.Writer(tmp_path)
    for ids in ((), ("a", "b"), ("a",), ("b",)):
        written = Checkpoint(registered={"example.com/q": ("x",), "example.com/r": ids})
        writer.write(written)
        assert checkpoint.read(tmp_path) == written
    writer.write(Checkpoint(registered={}))
    assert checkpoint.read(tmp_path) == Checkpoint(registered={})


@given(st.lists(ALLOCATIONS, max_size=6), st.sets(st.sampled_from("pq")))
def test_releasing_pods_leaves_what_the_others_hold(
    allocations: list[Allocation], gone: set[str]
) -> None:
    held = Allocations()
    for allocation in allocations:
        held.insert(allocation)
    kept = [allocation for allocation in held if allocation.pod_uid not in gone]
    held.release(gone)
    assert list(held) == kept
    assert held.pods().isdisjoint(gone)
    for resource, ids in held.by_resource().items():
        assert ids == {i for a in kept if a.resource == resource for i in a.ids}
