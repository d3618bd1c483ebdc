"""k8s-rdma-shared-dev-plugin: what its documentation says is offered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.convert.offering import (
    DIRECTORY,
    FUNCTIONS,
    golden_of,
    offers,
    offers_of,
    problems_of,
    text_of,
)
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path

NODES = [f"/dev/infiniband/{node}" for node in ("rdma_cm", "umad1", "uverbs1")]


def shared(**more: object) -> str:
    """Make a config of one resource."""
    return json.dumps({"configList": [{"resourceName": "r", "rdmaHcaMax": 2, **more}]})


def test_its_example_offers_the_same_adapter(tmp_path: Path) -> None:
    golden = golden_of(DIRECTORY / "peers/rdma/configmap.yaml").read_text()
    nodes = ("issm0", "rdma_cm", "umad0", "uverbs0")
    assert offers(golden, path_of("infiniband"), tmp_path) == {
        "rdma/hca_shared_devices_a": [[f"/dev/infiniband/{node}" for node in nodes]]
    }


@pytest.mark.parametrize(
    ("selectors", "is_offered"),
    [
        ({"vendors": ["15b3"]}, True),
        ({"vendors": ["15b3"], "deviceIDs": ["1017"]}, False),
        ({"deviceIDs": ["1017", "101e"]}, True),
        ({"drivers": ["mlx5_core"]}, True),
        # The adapter has the interface ib1.8001, too: a child of ib1.
        ({"ifNames": ["ib0", "ib1"]}, True),
        ({"ifNames": ["ib0"]}, False),
        ({"linkTypes": ["infiniband"]}, True),
        ({"linkTypes": ["ether"]}, False),
    ],
    ids=str,
)
def test_selectors_choose_the_same_adapters(
    selectors: dict[str, list[str]], is_offered: bool, tmp_path: Path
) -> None:
    offered = offers_of("rdma", shared(selectors=selectors), FUNCTIONS, tmp_path)
    assert offered == ({"rdma/r": [NODES]} if is_offered else {})


def test_so_many_containers_share_all_of_it() -> None:
    text = text_of("rdma", shared(devices=["ib0"]))
    assert "    groupBy: hca\n    replicas: 2\n" in text


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{}", "not a config of k8s-rdma-shared-dev-plugin: configList is missing"),
        (shared(), "neither selectors nor devices"),
        (shared(devices=["a"], selectors={"vendors": ["15b3"]}), "both selectors and devices"),
        (shared(selectors={"linkTypes": ["token"]}), "read from sysfs"),
        (shared(devices="ib0"), "expected a list"),
        (shared(devices=["ib0"], rdmaHcaMax=0), "offers nothing"),
        (f"{shared(devices=['ib0'])}\n---\n{shared(devices=['ib0'])}", "is defined twice"),
    ],
)
def test_mistakes_are_told(config: str, said: str) -> None:
    assert any(said in problem for problem in problems_of("rdma", config))


def test_two_pools_of_the_same_adapters_offer_them_both(tmp_path: Path) -> None:
    """In the plugin, too, each pool has all adapters that its selectors fit."""
    pools = ", ".join(
        f"{{resourceName: {name}, rdmaHcaMax: 10, selectors: {{vendors: ['15b3']}}}}"
        for name in ("small", "large")
    )
    offered = offers_of("rdma", f"configList: [{pools}]", FUNCTIONS, tmp_path)
    assert offered["rdma/small"] == offered["rdma/large"] != []
