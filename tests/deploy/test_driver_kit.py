"""The chart of examples/driver, which runs a driver of its own next to others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.deploy.rendering import (
    CHART,
    ROOT,
    Manifest,
    daemon,
    host_paths,
    of_kind,
    only,
    pod_spec,
    render_helm,
)
from tests.deploy.rights import ALWAYS, CDI, of_driver

pytestmark = pytest.mark.deploy

KIT = ROOT / "examples/driver"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    kit = shutil.copytree(KIT, tmp_path_factory.mktemp("kit") / "driver")
    shutil.copytree(CHART, kit / "charts/genericdp")
    return render_helm(chart=kit)


def test_the_daemon_gets_config_policy_and_name_of_the_driver(made: list[Manifest]) -> None:
    daemonset = only(made, "DaemonSet")
    volumes = {volume["name"]: volume for volume in pod_spec(daemonset)["volumes"]}
    maps = {found["metadata"]["name"]: found["data"] for found in of_kind(made, "ConfigMap")}
    assert maps[volumes["config"]["configMap"]["name"]] == text_of("config/driver.yaml")
    assert maps[volumes["policy"]["configMap"]["name"]] == text_of("policy.yaml")
    assert {"--dra-driver=acme.example", "--policy=/etc/genericdp-policy/policy.yaml"} <= {
        *daemon(daemonset)["args"]
    }
    assert of_kind(made, "DeviceClass") == [
        *yaml.safe_load_all((KIT / "deviceclasses.yaml").read_text())
    ]


def text_of(file: str) -> dict[str, str]:
    return {Path(file).name: (KIT / file).read_text()}


def test_it_shares_nothing_with_another_driver_but_what_all_share(made: list[Manifest]) -> None:
    other = render_helm({"dra": {"enabled": True}})
    assert names_of(made) & names_of(other) == set()
    ours, theirs = (only(found, "DaemonSet") for found in (made, other))
    written = [
        {path for path, how in host_paths(found).items() if how == "rw"} for found in (ours, theirs)
    ]
    shared = ALWAYS | CDI | of_driver("-")
    assert written[0] & written[1] <= {path for path, how in shared.items() if how == "rw"}


def names_of(manifests: list[Manifest]) -> set[tuple[str, str]]:
    return {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
