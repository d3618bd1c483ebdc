"""Groups: what they cost, and that the order of their members changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.allocation import edits
from genericdp.model import Inject, Mount, ValueKind, ValueSource
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.known import Known
from tests.devices.making import (
    decide,
    healthy,
    node,
    refusals,
    resource,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.devicelist import DeviceList


def test_what_does_not_differ_between_members_is_looked_at_once() -> None:
    """2,000 members and 4,000 mounts took more than a minute of each reconcile."""
    asked: list[str] = []

    class Host(Known):
        def exists_on_host(self, path: str) -> bool:
            asked.append(path)
            return True

    ports = [node(f"/dev/ttyUSB{n}", (188, n)) for n in range(30)]
    paths = [*(f"/opt/{n}" for n in range(20)), "/opt/of-$(device.name)"]
    mounts = tuple(
        Mount(host_path=parse(path), container_path=parse(path), optional=True) for path in paths
    )
    spec = resource("sound", "/dev/ttyUSB*", given=Inject(mounts=mounts), group_by=parse("all"))
    (offered,) = decide([spec], ports, facts=Host())["example.com/sound"].devices.values()
    assert len(asked) == 20 + 30
    assert [mount.host_path for mount in offered.device.mounts] == [
        *(f"/opt/{n}" for n in range(20)),
        *(f"/opt/of-ttyUSB{n}" for n in range(30)),
    ]


def _told(offers: Mapping[str, DeviceList]) -> tuple[object, ...]:
    offer = offers["example.com/sound"]
    devices = {name: edits([device.device]) for name, device in offer.devices.items()}
    return list(devices.items()), sorted(refusals(offers, "sound").items())


@given(
    numbers=st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from("ABC")), min_size=1, max_size=12, unique=True
    ),
    random=st.randoms(use_true_random=False),
    needs=st.sampled_from([None, 1, 2, 3]),
)
def test_any_candidates_in_any_order_give_the_same_devices_ids_and_answers(
    numbers: list[tuple[int, str]], random: st.DataObject, needs: int | None
) -> None:
    files = [
        node(
            f"/dev/{group}{n}", (10, n * 3 + "ABC".index(group)), syspath=f"/sys/devices/{group}{n}"
        )
        for n, group in numbers
    ]
    key = ValueSource(kind=ValueKind.TEXT, source=parse("$(device.path)"), regex="/dev/([A-Z])")
    spec = resource(
        "sound",
        "/dev/*",
        values={"key": key},
        group_by=parse("$(value.key)"),
        group_needs=needs,
        replicas=2,
    )
    reasons = _told(decide([spec], files))
    random.shuffle(files)  # type: ignore[attr-defined]
    assert _told(decide([spec], files)) == reasons
    sizes = {group: sum(other == group for _, other in numbers) for _, group in numbers}
    offered = healthy(decide([spec], files), "sound")
    assert offered == sorted(group for group, size in sizes.items() if size >= (needs or 1))
