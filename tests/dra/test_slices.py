"""ResourceSlices: names, devices, which slice has which, and what is written when."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.devices.attributes import AttributeValue
from genericdp.devices.resourcenames import label
from genericdp.dra.slices import (
    Offered,
    devices_of,
    has_extended_resources,
    pool_name,
)
from genericdp.model import AttributeType
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import decide, node, resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.devices.inventory import FoundFile

USB0, USB1 = node("/dev/ttyUSB0", (188, 0)), node("/dev/ttyUSB1", (188, 1))
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("zram0", "zram0"),
        ("0", "0"),
        ("a" * 63, "a" * 63),
        ("a" * 64, f"{'a' * 54}-ffe054fe"),
        ("ttyUSB0", "ttyusb0-8acffaea"),
        ("zram0::1", "zram0--1-1137cf7d"),
        ("1-1.4:1.0-tty", "1-1-4-1-0-tty-635f26bd"),
        ("-a-", "a-a75a468f"),
        ("", "e3b0c442"),
        ("…", "b4935894"),
    ],
)
def test_a_name_is_the_id_where_that_is_a_dns_label_else_one_with_its_digest(
    text: str, name: str
) -> None:
    assert label(text) == name


@given(st.text(max_size=80))
def test_any_text_becomes_a_dns_label(text: str) -> None:
    assert LABEL.fullmatch(label(text))


@pytest.mark.parametrize(
    ("node_name", "name", "pool"),
    [
        ("node-1", "example.com/zram", "node-1/example.com/zram"),
        ("node-1.example.com", "example.com/Serial_2", "node-1.example.com/example.com/serial-2-x"),
        ("n" * 253, "example.com/zram", f"{'n' * 244}-x"),
        ("n" * 243, "example.com/zram", f"{'n' * 243}-x"),
    ],
)
def test_a_pool_is_named_by_node_and_resource(node_name: str, name: str, pool: str) -> None:
    found = pool_name(node_name, name)
    assert re.sub(r"-[0-9a-f]{8}$", "-x", found) == pool
    assert len(found) <= 253


@pytest.mark.parametrize(
    ("version", "has_them"),
    [
        ("v1.36.0", True),
        ("v1.36.1-gke.1000", True),
        ("v1.37.0+k3s1", True),
        ("v2.0.0", True),
        ("v1.35.9", False),
        ("v1.4.36", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_claims_for_plain_limits_need_a_kubelet_of_version_1_36(
    version: str, *, has_them: bool
) -> None:
    assert has_extended_resources(version) is has_them


def offered(files: Iterable[FoundFile] = (USB0, USB1), **keys: Any) -> Offered:
    extended_resource = keys.pop("extended_resource", True)
    attributes: Mapping[str, AttributeValue] = keys.pop("attributes", {})
    spec = resource("serial", "/dev/ttyUSB*", **keys)
    devices = decide([spec], files)[spec.name]
    entries = tuple(
        replace(entry, device=replace(entry.device, attributes=attributes))
        for entry in devices.devices.values()
    )
    found = replace(devices, entries=entries)
    return devices_of(spec.name, found, extended_resource=extended_resource)


def test_a_device_has_its_attributes_its_resource_and_its_id() -> None:
    attributes = {
        "maker": AttributeValue(AttributeType.STRING, "FTDI"),
        "speed": AttributeValue(AttributeType.INT, 12),
        "isolated": AttributeValue(AttributeType.BOOL, value=False),
        "firmware": AttributeValue(AttributeType.VERSION, "1.2.0"),
        "resource.kubernetes.io/numaNode": AttributeValue(AttributeType.INT, 0),
    }
    name = label("ttyUSB0")
    assert offered([USB0], attributes=attributes, extended_resource=False).devices == {
        name: {
            "name": name,
            "attributes": {
                "maker": {"string": "FTDI"},
                "speed": {"int": 12},
                "isolated": {"bool": False},
                "firmware": {"version": "1.2.0"},
                "resource.kubernetes.io/numaNode": {"int": 0},
                "resource": {"string": "example.com/serial"},
                "extendedResource": {"bool": False},
                "id": {"string": "ttyUSB0"},
            },
        }
    }


def test_each_share_is_a_device() -> None:
    found = offered([USB0], replicas=2)
    assert found.shares == {label("ttyUSB0"): "ttyUSB0", label("ttyUSB0::1"): "ttyUSB0::1"}
    ids = [device["attributes"]["id"]["string"] for device in found.devices.values()]
    assert ids == ["ttyUSB0", "ttyUSB0::1"]


def test_what_is_unhealthy_is_named_but_not_on_offer() -> None:
    spec = resource("serial", "/dev/ttyUSB*")
    before = decide([spec], [USB0, USB1])
    lists = decide([spec], [USB1], before)
    found = devices_of(spec.name, lists[spec.name], extended_resource=True)
    assert list(found.shares.values()) == ["ttyUSB0", "ttyUSB1"]
    assert list(found.devices) == [label("ttyUSB1")]


def test_of_two_shares_with_one_name_the_second_is_not_offered() -> None:
    taken = label("ttyUSB0")
    spec = resource("serial", "/dev/*")
    devices = decide([spec], [node(f"/dev/{taken}", (188, 9)), USB0])[spec.name]
    found = devices_of(spec.name, devices, extended_resource=True)
    first, second = devices.devices
    assert found.shares == {taken: first}
    assert found.not_offered == {second: f"in ResourceSlices its name is that of {first}: {taken}"}
