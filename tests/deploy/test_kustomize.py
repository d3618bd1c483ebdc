"""The kustomization as it lies there: what can be said of it without kustomize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from genericdp import __version__
from genericdp.config.load import load

from tests.deploy.expectations import HOST_PATHS, expect_daemonset
from tests.deploy.rendering import KUSTOMIZE, Manifest, components, daemon

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = sorted(
    path for path in KUSTOMIZE.rglob("*.yaml") if "kind: DevicePluginConfig" in path.read_text()
)
KUSTOMIZATIONS = sorted(KUSTOMIZE.rglob("kustomization.yaml"))


def _read(path: Path) -> Manifest:
    content: Manifest = yaml.safe_load(path.read_text())
    return content


def test_the_daemonset_asks_for_what_it_needs_and_no_more() -> None:
    expect_daemonset(_read(KUSTOMIZE / "base/daemonset.yaml"))


def test_every_host_path_exists_or_is_made_where_that_does_no_harm() -> None:
    """A missing directory that the runtime makes hides a mistake; /run/udev does not."""
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


def test_the_rights_for_dra_are_bound_to_the_account_that_the_policy_is_for() -> None:
    """By its user name: kustomize changes neither, so there are never rights without the policy."""
    directory = components()["dra"]
    _, binding = yaml.safe_load_all((directory / "rbac.yaml").read_text())
    (subject,) = binding["subjects"]
    assert subject["kind"] == "User"
    policy, bound = yaml.safe_load_all((directory / "admission.yaml").read_text())
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{subject['name']}'"
    assert bound["spec"]["policyName"] == policy["metadata"]["name"]
    assert bound["spec"]["validationActions"] == ["Deny"]


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
    pairs = {name: value for label in labels for name, value in label["pairs"].items()}
    assert pairs["app.kubernetes.io/version"] == __version__
