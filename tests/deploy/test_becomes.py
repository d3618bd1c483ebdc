"""The results of kustomize and Helm: what ``becomes.yaml`` says of each, and rules for all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp import __version__
from genericdp.cli import main

from tests.deploy.rendering import (
    ENTRIES,
    KUSTOMIZE,
    RenderingError,
    components,
    daemon,
    of_kind,
    render,
    render_helm,
    title,
)
from tests.deploy.rights import expect_rights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.deploy.rendering import Manifest

    Shipped = dict[str, list[Manifest]]

pytestmark = pytest.mark.deploy


def named(key: str) -> pytest.MarkDecorator:
    """Run a test for each entry that says this."""
    return pytest.mark.parametrize("entry", [e for e in ENTRIES if key in e], ids=title)


@named("gives")
def test_what_is_made_has_what_is_said(entry: Manifest, tmp_path: Path) -> None:
    made: Manifest = {}
    for manifest in render(entry, tmp_path):
        parts = {manifest["kind"]: manifest}
        if manifest["kind"] == "DaemonSet":
            parts |= {"Pod": manifest["spec"]["template"], "Container": daemon(manifest)}
        for kind, part in parts.items():
            made |= {kind: part, f"{kind}/{manifest['metadata']['name']}": part}
    assert [*differences(entry["gives"], made, "")] == []


def differences(said: Any, made: Any, at: str) -> Iterator[str]:
    """Yield where something is not as it is said; what nothing is said of may be there."""
    if isinstance(said, dict) and isinstance(made, list):
        made = {part["name"]: part for part in made}
    if isinstance(said, dict) and isinstance(made, dict):
        for key, value in said.items():
            yield from differences(value, made.get(key), f"{at} {key}")
    elif isinstance(said, list) and isinstance(made, list) and len(said) == len(made):
        for index, (value, part) in enumerate(zip(said, made, strict=True)):
            yield from differences(value, part, f"{at} {index}")
    elif said != made:
        yield f"{at}: {said!r}, not {made!r}"


@named("refused")
def test_what_makes_no_sense_is_refused_with_the_reason(entry: Manifest) -> None:
    with pytest.raises(RenderingError) as refused:
        render_helm(entry["values"])
    assert [said for said in entry["refused"] if said not in str(refused.value)] == []


@named("rights")
def test_the_daemon_gets_the_rights_that_are_named_and_no_others(
    entry: Manifest, shipped: Shipped
) -> None:
    made = shipped[title(entry)]
    for daemonset in of_kind(made, "DaemonSet"):
        expect_rights(daemonset, entry["rights"])
    bound = {m["kind"] for m in made if m["kind"].endswith("Binding")}
    assert ("ClusterRoleBinding" in bound) == ("dra" in entry["rights"])
    assert ("ValidatingAdmissionPolicyBinding" in bound) == ("dra" in entry["rights"])


def test_every_overlay_and_component_is_told_of() -> None:
    overlays = {path.parent.name for path in KUSTOMIZE.glob("overlays/*/kustomization.yaml")}
    assert {entry["overlay"] for entry in ENTRIES if "overlay" in entry} == {"base", *overlays}
    together = [entry["components"] for entry in ENTRIES if "components" in entry]
    assert max(map(len, together)) == len(components())


ABOUT = "app.kubernetes.io"
RECOMMENDED = {f"{ABOUT}/{name}" for name in ("name", "instance", "component", "part-of")}
OF_THE_CLUSTER = ("Namespace", "ClusterRole", "ValidatingAdmissionPolicy")


def test_everything_is_labeled_and_in_the_namespace_of_its_release(shipped: Shipped) -> None:
    for name, made in shipped.items():
        for manifest in made:
            metadata = manifest["metadata"]
            if not manifest["kind"].startswith(OF_THE_CLUSTER):
                assert metadata["namespace"] == "genericdp"
            elif name.startswith("helm"):
                assert "namespace" not in metadata
            labels = metadata["labels"]
            assert labels.keys() >= RECOMMENDED, (name, manifest["kind"])
        for daemonset in of_kind(made, "DaemonSet"):
            labels = daemonset["metadata"]["labels"]
            by = "Helm" if name.startswith("helm") else "kustomize"
            assert labels[f"{ABOUT}/managed-by"] == by
            assert labels[f"{ABOUT}/version"] == __version__


def test_a_selector_has_what_stays_and_selects_the_pods_of_one_daemonset(
    shipped: Shipped,
) -> None:
    """The selector of a DaemonSet cannot be changed, so an update must not change it."""
    for name, made in shipped.items():
        daemonsets = of_kind(made, "DaemonSet")
        pods = [entry["spec"]["template"]["metadata"]["labels"] for entry in daemonsets]
        for daemonset in daemonsets:
            selector = daemonset["spec"]["selector"]["matchLabels"]
            assert selector.keys() <= {f"{ABOUT}/name", f"{ABOUT}/instance", "genericdp.io/group"}
            assert [selector.items() <= labels.items() for labels in pods].count(True) == 1, name
        allowed = [p["spec"]["podSelector"]["matchLabels"] for p in of_kind(made, "NetworkPolicy")]
        for labels in pods:
            assert any(selector.items() <= labels.items() for selector in allowed), name


def test_every_config_is_mounted_and_valid_beside_its_policy(
    shipped: Shipped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "manifests.yaml"
    for name, made in shipped.items():
        if name in {"helm files", "helm existing"}:
            continue  # they have none, or strings that stand for one
        names = [config["metadata"]["name"] for config in of_kind(made, "ConfigMap")]
        assert not [each for each in names if re.search("-[0-9a-z]{10}$", each)], "of its content"
        file.write_text(yaml.safe_dump_all(made))
        code = main(["validate", str(file)])
        said = capsys.readouterr().out
        assert code == 0, said
        configs = 3 if name == "kustomize node-groups" else 1
        assert f"\n{configs} config" in f"\n{said}", name


def test_a_config_that_breaks_the_policy_beside_it_is_refused(
    shipped: Shipped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = yaml.safe_dump_all(shipped["kustomize policy"]).replace(
        "path: /dev/fuse", "path: /dev/kvm"
    )
    (tmp_path / "manifests.yaml").write_text(text)
    assert main(["validate", str(tmp_path / "manifests.yaml")]) == 2
    assert "genericdp-config .resources[0].match[0].path: '/dev/kvm'" in capsys.readouterr().out
