"""The kustomization as it lies there: what can be said of it without kustomize."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from genericdp import __version__
from genericdp.config.load import load
from tests.deploy.expectations import HOST_PATHS, expect_daemonset
from tests.deploy.rendering import KUSTOMIZE, Manifest, components, daemon, kustomizations

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIGS = sorted(
    path for path in KUSTOMIZE.rglob("*.yaml") if "kind: DevicePluginConfig" in path.read_text()
)
KUSTOMIZATIONS = sorted(KUSTOMIZE.rglob("kustomization.yaml"))

POD = "/spec/template/spec"
CONTAINER = f"{POD}/containers/0"
WHAT_COMPONENTS_CHANGE = {
    "cdi": {f"{CONTAINER}/volumeMounts/-", f"{POD}/volumes/-"},
    "dra": {
        f"{POD}/automountServiceAccountToken",
        f"{CONTAINER}/args/-",
        f"{CONTAINER}/volumeMounts/-",
        f"{POD}/volumes/-",
        "/spec/egress",
    },
    "host-network": {
        f"{POD}/hostNetwork",
        "/spec/updateStrategy/rollingUpdate",
        f"{CONTAINER}/args/2",
        f"{CONTAINER}/startupProbe/httpGet/host",
        f"{CONTAINER}/livenessProbe/httpGet/host",
        f"{CONTAINER}/readinessProbe/httpGet/host",
    },
    "monitoring": set(),
    "pod-resources": {f"{CONTAINER}/args/-", f"{CONTAINER}/volumeMounts/-", f"{POD}/volumes/-"},
    "policy": {
        f"{CONTAINER}/env/-",
        f"{CONTAINER}/args/-",
        f"{CONTAINER}/volumeMounts/-",
        f"{POD}/volumes/-",
    },
    "privileged": {
        f"{CONTAINER}/securityContext/privileged",
        f"{CONTAINER}/securityContext/allowPrivilegeEscalation",
        f"{CONTAINER}/securityContext/capabilities",
    },
    "selinux": {f"{POD}/securityContext/seLinuxOptions"},
    "state-dir": {f"{CONTAINER}/args/-", f"{CONTAINER}/volumeMounts/-", f"{POD}/volumes/-"},
}
WRITABLE = {
    "cdi": ["/var/run/cdi"],
    "dra": [
        "/var/lib/kubelet/plugins/genericdp.io",
        "/var/lib/kubelet/plugins_registry",
        "/var/run/cdi",
    ],
    "state-dir": ["/var/lib/genericdp"],
}
WHAT_OVERLAYS_USE = {
    "host-network": ["host-network"],
    "node-groups": [],
    "policy": ["policy"],
    "privileged-probes": ["privileged"],
    "selinux": ["selinux"],
    "site": ["state-dir", "pod-resources"],
    "tools": [],
}


def _read(path: Path) -> Manifest:
    content: Manifest = yaml.safe_load(path.read_text())
    return content


def test_the_daemonset_asks_for_what_it_needs_and_no_more() -> None:
    expect_daemonset(_read(KUSTOMIZE / "base/daemonset.yaml"))


def test_every_host_path_exists_or_is_made_where_that_does_no_harm() -> None:
    """A folder that the runtime makes because it is missing hides a mistake; /run/udev does not."""
    volumes = _read(KUSTOMIZE / "base/daemonset.yaml")["spec"]["template"]["spec"]["volumes"]
    types = {v["hostPath"]["path"]: v["hostPath"]["type"] for v in volumes if "hostPath" in v}
    assert types == dict.fromkeys(HOST_PATHS, "Directory") | {"/run/udev": ""}


def test_the_namespace_lets_host_paths_in_and_the_account_has_no_token() -> None:
    labels = _read(KUSTOMIZE / "base/namespace.yaml")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert not _read(KUSTOMIZE / "base/serviceaccount.yaml")["automountServiceAccountToken"]


def test_only_prometheus_reaches_the_port_and_the_daemon_reaches_nobody() -> None:
    spec = _read(KUSTOMIZE / "base/networkpolicy.yaml")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in spec
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"port": "http", "protocol": "TCP"}]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"]


@pytest.mark.parametrize("name", WHAT_COMPONENTS_CHANGE)
def test_a_component_changes_what_it_is_for_and_nothing_else(name: str) -> None:
    content = _read(components()[name] / "kustomization.yaml")
    operations = [op for patch in content.get("patches", []) for op in _operations(patch)]
    assert {operation["path"] for operation in operations} == WHAT_COMPONENTS_CHANGE[name]
    mounts = [op["value"] for op in operations if op["path"].endswith("/volumeMounts/-")]
    assert [m["mountPath"] for m in mounts if not m.get("readOnly")] == WRITABLE.get(name, [])


def _operations(patch: Manifest) -> list[Manifest]:
    content: Manifest | list[Manifest] = yaml.safe_load(patch["patch"])
    kind = "NetworkPolicy" if "/spec/egress" in patch["patch"] else "DaemonSet"
    label = "app.kubernetes.io/name=genericdp"
    assert patch["target"] == {"kind": kind, "labelSelector": label}
    return content if isinstance(content, list) else [*_merged(content)]


def _merged(patch: Manifest) -> Iterator[Manifest]:
    """Give what a patch that is merged adds, as operations."""
    template = patch["spec"].pop("template")["spec"]
    (container,) = template.pop("containers")
    assert container.pop("name") == "genericdp"
    assert patch["spec"] == {}
    for below, added in ((CONTAINER, container), (POD, template)):
        for key, values in added.items():
            yield from ({"path": f"{below}/{key}/-", "value": value} for value in values)


def test_the_rights_for_dra_are_bound_to_the_account_that_the_policy_is_for() -> None:
    """By its user name: kustomize changes neither, so there are never rights without the policy."""
    folder = components()["dra"]
    _, binding = yaml.safe_load_all((folder / "rbac.yaml").read_text())
    (subject,) = binding["subjects"]
    assert subject["kind"] == "User"
    policy, bound = yaml.safe_load_all((folder / "admission.yaml").read_text())
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{subject['name']}'"
    assert bound["spec"]["policyName"] == policy["metadata"]["name"]
    assert bound["spec"]["validationActions"] == ["Deny"]


def test_every_component_and_overlay_is_told_of_here() -> None:
    assert {*components()} == {*WHAT_COMPONENTS_CHANGE}
    assert {*kustomizations()} == {"base", *WHAT_OVERLAYS_USE}


@pytest.mark.parametrize("name", WHAT_OVERLAYS_USE)
def test_an_overlay_is_the_base_with_components(name: str) -> None:
    folder = kustomizations()[name]
    content = _read(folder / "kustomization.yaml")
    used = [Path(entry).name for entry in content.get("components", [])]
    assert used == WHAT_OVERLAYS_USE[name]
    assert content["resources"][0] == "../../base"


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: path.parent.name)
def test_no_config_map_changes_its_name_with_its_content(path: Path) -> None:
    """Else an edit would be a rollout and not a reload."""
    content = _read(path)
    if "configMapGenerator" in content:
        assert content["generatorOptions"] == {"disableNameSuffixHash": True}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(KUSTOMIZE)))
def test_every_config_that_is_shipped_is_valid(path: Path) -> None:
    loaded = load([path])
    assert (loaded.problems, loaded.warnings) == ((), ())
    assert loaded.resources


def test_the_config_of_the_policys_overlay_keeps_to_it() -> None:
    """It is the base's: the overlay has no other."""
    policy = KUSTOMIZE / "overlays/policy/policy/policy.yaml"
    assert load([KUSTOMIZE / "base/config"], policy=policy).problems == ()


def test_the_image_is_that_of_this_version() -> None:
    image = daemon(_read(KUSTOMIZE / "base/daemonset.yaml"))["image"]
    assert image == f"genericdp:{__version__}"
    (named,) = _read(KUSTOMIZE / "overlays/site/kustomization.yaml")["images"]
    assert named["newTag"] == __version__


def test_labels_are_those_of_this_version() -> None:
    labels = _read(KUSTOMIZE / "base/kustomization.yaml")["labels"]
    pairs = {name: value for one in labels for name, value in one["pairs"].items()}
    assert pairs["app.kubernetes.io/version"] == __version__
