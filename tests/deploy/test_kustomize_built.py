"""The kustomization as kubectl makes it."""

from __future__ import annotations

import json
import re
import shutil
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.config.load import load

from tests.deploy.expectations import (
    CDI_PATHS,
    POD_RESOURCES,
    STATE,
    dra_paths,
    expect_daemonset,
)
from tests.deploy.rendering import (
    KUSTOMIZE,
    Manifest,
    components,
    daemon,
    kustomizations,
    of_kind,
    only,
    pod_spec,
    render_kustomize,
    tool,
    with_components,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.deploy

DRA_KINDS = [
    *("ClusterRole", "ClusterRoleBinding"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
]
KINDS = ["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet", "NetworkPolicy"]
SE_LINUX = {"type": "container_device_plugin_t"}

OVERLAYS: dict[str, dict[str, Any]] = {
    "base": {},
    "host-network": {"host_network": True},
    "policy": {},
    "privileged-probes": {"privileged": True},
    "selinux": {"se_linux": SE_LINUX},
    "site": {"more_paths": STATE | POD_RESOURCES},
    "tools": {},
}


@pytest.fixture(scope="module")
def kubectl() -> Path:
    return tool("kubectl")


def test_every_overlay_is_told_of_here() -> None:
    assert {*kustomizations()} == {*OVERLAYS, "node-groups"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_has_the_rights_that_it_says_and_no_others(name: str, kubectl: Path) -> None:
    made = render_kustomize(kubectl, kustomizations()[name])
    expect_daemonset(only(made, "DaemonSet"), **OVERLAYS[name])
    assert {manifest["kind"] for manifest in made} - {"Role"} == {*KINDS}
    _expect_one_namespace(made)


def _expect_one_namespace(made: list[Manifest]) -> None:
    namespaces = {m["metadata"].get("namespace") for m in made if m["kind"] != "Namespace"}
    assert namespaces == {"genericdp"}


@pytest.mark.parametrize("name", [*OVERLAYS, "node-groups"])
def test_every_config_map_that_is_mounted_is_made_and_valid(
    name: str, kubectl: Path, tmp_path: Path
) -> None:
    made = render_kustomize(kubectl, kustomizations()[name])
    maps = {
        manifest["metadata"]["name"]: manifest["data"] for manifest in of_kind(made, "ConfigMap")
    }
    mounted = {
        volume["configMap"]["name"]
        for daemonset in of_kind(made, "DaemonSet")
        for volume in pod_spec(daemonset)["volumes"]
        if "configMap" in volume
    }
    assert mounted == {*maps}
    for config in {name for name in maps if name.startswith("genericdp-config")}:
        directory = tmp_path / config
        directory.mkdir()
        for file, text in maps[config].items():
            (directory / file).write_text(text)
        assert load([directory]).problems == ()


def test_each_group_of_nodes_has_a_daemonset_of_its_own(kubectl: Path) -> None:
    made = render_kustomize(kubectl, kustomizations()["node-groups"])
    others, *groups = of_kind(made, "DaemonSet")
    for daemonset in (others, *groups):
        expect_daemonset(daemonset)
    for group in groups:
        name = group["metadata"]["name"].removeprefix("genericdp-")
        assert pod_spec(group)["nodeSelector"]["genericdp.io/group"] == name
        assert "affinity" not in pod_spec(group)
    affinity = pod_spec(others)["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "genericdp.io/group", "operator": "DoesNotExist"}]
    # No DaemonSet takes another's pods for its own, and each has its own policy of the network.
    selectors = [d["spec"]["selector"]["matchLabels"] for d in (others, *groups)]
    assert all(combination != other for combination, other in combinations(selectors, 2))
    assert [p["spec"]["podSelector"]["matchLabels"] for p in of_kind(made, "NetworkPolicy")] == (
        selectors
    )
    only(made, "Namespace")
    _expect_one_namespace(made)


def test_a_group_keeps_the_image_of_its_own(kubectl: Path, tmp_path: Path) -> None:
    """Canaries of docs/how-to/upgrading.md: that of the overlay above does not replace it."""
    copied = tmp_path / "kustomize"
    shutil.copytree(KUSTOMIZE, copied)
    overlay = copied / "overlays/node-groups"
    for directory, tag in ((overlay, "0.1.0"), (overlay / "cameras", "0.2.0")):
        image = {"name": "genericdp", "newName": "registry.example/genericdp", "newTag": tag}
        with (directory / "kustomization.yaml").open("a") as content:
            content.write(f"images: [{json.dumps(image)}]\n")
    assert {
        daemonset["metadata"]["name"]: daemon(daemonset)["image"]
        for daemonset in of_kind(render_kustomize(kubectl, overlay), "DaemonSet")
    } == {
        "genericdp": "registry.example/genericdp:0.1.0",
        "genericdp-cameras": "registry.example/genericdp:0.2.0",
        "genericdp-serial": "registry.example/genericdp:0.1.0",
    }


def test_all_components_go_together(kubectl: Path, tmp_path: Path) -> None:
    made = render_kustomize(kubectl, with_components(tmp_path, components()))
    daemonset = only(made, "DaemonSet")
    expect_daemonset(
        daemonset,
        more_paths=STATE | dra_paths(),
        privileged=True,
        host_network=True,
        se_linux=SE_LINUX,
        token=True,
    )
    policy = {"name": "GENERICDP_POLICY", "value": "/etc/genericdp-policy/policy.yaml"}
    assert daemon(daemonset)["env"][2:] == [policy]
    assert sorted(daemon(daemonset)["args"][3:]) == [
        "--dra-driver=genericdp.io",
        "--pod-resources=/var/lib/kubelet/pod-resources/kubelet.sock",
        "--policy=/etc/genericdp-policy/policy.yaml",
        "--state-dir=/var/lib/genericdp",
    ]
    assert daemonset["metadata"]["labels"].items() >= (
        only(made, "PodMonitor")["spec"]["selector"]["matchLabels"].items()
    )


def test_cdi_brings_its_two_directories_and_no_other_right(kubectl: Path, tmp_path: Path) -> None:
    made = render_kustomize(kubectl, with_components(tmp_path, ["cdi"]))
    daemonset = only(made, "DaemonSet")
    expect_daemonset(daemonset, more_paths=CDI_PATHS)
    # On a node where no runtime has made them yet, too.
    assert _types(daemonset).items() >= dict.fromkeys(CDI_PATHS, "DirectoryOrCreate").items()
    assert {manifest["kind"] for manifest in made} == {*KINDS}


def _types(daemonset: Manifest) -> dict[str, str]:
    paths = [v["hostPath"] for v in pod_spec(daemonset)["volumes"] if "hostPath" in v]
    return {path["path"]: path["type"] for path in paths}


def test_dra_brings_a_token_rights_and_directories(kubectl: Path, tmp_path: Path) -> None:
    made = render_kustomize(kubectl, with_components(tmp_path, ["dra"]))
    daemonset = only(made, "DaemonSet")
    expect_daemonset(daemonset, more_paths=dra_paths(), token=True)
    # What the kubelet has is there. What is the daemon's or the runtime's is made.
    assert {path for path, kind in _types(daemonset).items() if kind == "DirectoryOrCreate"} == {
        *("/var/lib/kubelet/plugins/genericdp.io", "/var/run/cdi", "/etc/cdi")
    }
    assert {manifest["kind"] for manifest in made} == {*KINDS, *DRA_KINDS}
    assert not only(made, "ServiceAccount")["automountServiceAccountToken"]
    (rule,) = only(made, "NetworkPolicy")["spec"]["egress"]
    assert [(port["port"], port["protocol"]) for port in rule["ports"]] == [
        *((443, "TCP"), (6443, "TCP"))
    ]


def test_in_another_namespace_the_daemon_has_no_rights_that_the_policy_misses(
    kubectl: Path, tmp_path: Path
) -> None:
    directory = with_components(tmp_path, ["dra"])
    file = directory / "kustomization.yaml"
    file.write_text(file.read_text().replace("namespace: genericdp", "namespace: other"))
    made = render_kustomize(kubectl, directory)
    assert only(made, "ServiceAccount")["metadata"]["namespace"] == "other"
    assert _account(made) == "system:serviceaccount:genericdp:genericdp"


def test_a_copy_of_the_component_serves_another_driver_and_namespace(
    kubectl: Path, tmp_path: Path
) -> None:
    """As its first lines say."""
    copy = shutil.copytree(components()["dra"], tmp_path / "copy")
    for file in copy.iterdir():
        text = file.read_text().replace("genericdp.io", "usb.example.com")
        file.write_text(text.replace("genericdp:genericdp", "other:genericdp"))
    file = with_components(tmp_path, ["dra"]) / "kustomization.yaml"
    text = file.read_text().replace("namespace: genericdp", "namespace: other")
    file.write_text(re.sub(r"- \S*components/dra", "- copy", text))
    made = render_kustomize(kubectl, tmp_path)
    daemonset = only(made, "DaemonSet")
    expect_daemonset(daemonset, more_paths=dra_paths("usb.example.com"), token=True)
    assert daemon(daemonset)["args"][-1] == "--dra-driver=usb.example.com"
    assert _account(made) == "system:serviceaccount:other:genericdp"
    validations = only(made, "ValidatingAdmissionPolicy")["spec"]["validations"]
    assert "variables.slice.spec.driver == 'usb.example.com'" in (
        validation["expression"] for validation in validations
    )


def _account(made: list[Manifest]) -> str:
    """Give the user name that has the rights, and that the policy is for."""
    (subject,) = only(made, "ClusterRoleBinding")["subjects"]
    (condition,) = only(made, "ValidatingAdmissionPolicy")["spec"]["matchConditions"]
    assert f"'{subject['name']}'" in condition["expression"]
    return str(subject["name"])


def test_monitoring_brings_alerts_and_a_dashboard(kubectl: Path, tmp_path: Path) -> None:
    made = render_kustomize(kubectl, with_components(tmp_path, ["monitoring"]))
    assert only(made, "PrometheusRule")["metadata"]["namespace"] == "genericdp"
    (board,) = [m for m in of_kind(made, "ConfigMap") if "dashboard" in m["metadata"]["name"]]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    only(made, "PodMonitor")


def test_components_go_together_in_any_order(kubectl: Path, tmp_path: Path) -> None:
    made = render_kustomize(kubectl, with_components(tmp_path, reversed([*components()])))
    daemonset = only(made, "DaemonSet")
    assert len(daemon(daemonset)["args"]) == 7
    assert pod_spec(daemonset)["hostNetwork"] is True


def test_the_tools_are_where_the_config_looks_for_them(kubectl: Path) -> None:
    made = render_kustomize(kubectl, kustomizations()["tools"])
    pod = pod_spec(only(made, "DaemonSet"))
    (copying,) = pod["initContainers"]
    program = copying["command"][-1]
    scripts = next(m for m in of_kind(made, "ConfigMap") if "scripts" in m["metadata"]["name"])
    text = next(m for m in of_kind(made, "ConfigMap") if "config" in m["metadata"]["name"])["data"]
    assert program in text["genericdp.yaml"]
    for script in scripts["data"]:
        assert f"/opt/scripts/{script}" in text["genericdp.yaml"]
    mounts = {
        m["mountPath"]: m.get("readOnly", False) for m in pod["containers"][0]["volumeMounts"]
    }
    assert mounts["/opt/tools"] and mounts["/opt/scripts"]
