"""Users' changes to the kustomization: namespaces, images, drivers and tools of their own."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.deploy.rendering import (
    KUSTOMIZE,
    components,
    daemon,
    of_kind,
    only,
    pod_spec,
    render_kustomize,
    with_components,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deploy.rendering import Manifest

pytestmark = pytest.mark.deploy


def test_a_group_keeps_the_image_of_its_own(tmp_path: Path) -> None:
    """Canaries of docs/how-to/upgrading.md: that of the overlay above does not replace it."""
    overlay = shutil.copytree(KUSTOMIZE, tmp_path / "kustomize") / "overlays/node-groups"
    for directory, tag in ((overlay, "0.1.0"), (overlay / "cameras", "0.2.0")):
        image = {"name": "genericdp", "newName": "registry.example/genericdp", "newTag": tag}
        with (directory / "kustomization.yaml").open("a") as content:
            content.write(f"images: [{json.dumps(image)}]\n")
    assert {
        daemonset["metadata"]["name"]: daemon(daemonset)["image"]
        for daemonset in of_kind(render_kustomize(overlay), "DaemonSet")
    } == {
        "genericdp": "registry.example/genericdp:0.1.0",
        "genericdp-cameras": "registry.example/genericdp:0.2.0",
        "genericdp-serial": "registry.example/genericdp:0.1.0",
    }


def test_in_another_namespace_the_daemon_has_no_rights_that_the_policy_misses(
    tmp_path: Path,
) -> None:
    made = render_kustomize(_moved(with_components(tmp_path, ["dra"])))
    assert only(made, "ServiceAccount")["metadata"]["namespace"] == "other"
    assert _account(made) == "system:serviceaccount:genericdp:genericdp"


def test_a_copy_of_the_component_serves_another_driver_and_namespace(tmp_path: Path) -> None:
    """As its first lines say."""
    for file in shutil.copytree(components()["dra"], tmp_path / "copy").iterdir():
        text = file.read_text().replace("genericdp.io", "usb.example.com")
        file.write_text(text.replace("genericdp:genericdp", "other:genericdp"))
    file = _moved(with_components(tmp_path, ["dra"])) / "kustomization.yaml"
    file.write_text(re.sub(r"- \S*components/dra", "- copy", file.read_text()))
    made = render_kustomize(tmp_path)
    daemonset = only(made, "DaemonSet")
    assert daemon(daemonset)["args"][-1] == "--dra-driver=usb.example.com"
    volumes = {volume["name"]: volume for volume in pod_spec(daemonset)["volumes"]}
    path = "/var/lib/kubelet/plugins/usb.example.com"
    assert volumes["dra-plugin"]["hostPath"]["path"] == path
    assert _account(made) == "system:serviceaccount:other:genericdp"
    assert "genericdp.io" not in str(only(made, "ValidatingAdmissionPolicy")["spec"])


def _moved(directory: Path) -> Path:
    file = directory / "kustomization.yaml"
    file.write_text(file.read_text().replace("namespace: genericdp", "namespace: other"))
    return directory


def _account(made: list[Manifest]) -> str:
    """Give the user name that has the rights, and that the policy is for."""
    (subject,) = only(made, "ClusterRoleBinding")["subjects"]
    (condition,) = only(made, "ValidatingAdmissionPolicy")["spec"]["matchConditions"]
    assert f"'{subject['name']}'" in condition["expression"]
    return str(subject["name"])


def test_the_tools_are_where_the_config_looks_for_them() -> None:
    made = render_kustomize(KUSTOMIZE / "overlays/tools")
    pod = pod_spec(only(made, "DaemonSet"))
    (copying,) = pod["initContainers"]
    maps = {found["metadata"]["name"]: found["data"] for found in of_kind(made, "ConfigMap")}
    config = maps["genericdp-config"]["genericdp.yaml"]
    scripts = [f"/opt/scripts/{script}" for script in maps["genericdp-scripts"]]
    assert [path for path in (copying["command"][-1], *scripts) if path not in config] == []
    mounts = pod["containers"][0]["volumeMounts"]
    read_only = {mount["mountPath"] for mount in mounts if mount.get("readOnly")}
    assert {"/opt/tools", "/opt/scripts"} <= read_only
