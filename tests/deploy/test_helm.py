"""The chart: what Helm makes of values, next to ``becomes.yaml``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from genericdp import __version__
from genericdp.config.load import load

from tests.deploy.rendering import (
    CHART,
    KUSTOMIZE,
    MONITORING,
    ROOT,
    VALUES,
    Manifest,
    daemon,
    of_kind,
    only,
    pod_spec,
    render,
    render_helm,
    tool,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
CONFIG: Manifest = VALUES["tools"]["config"]
BASE = VALUES["stateless"]
SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "site": ({}, {"overlay": "site"}),
    "base": (BASE, {"overlay": "base"}),
    "cdi": (BASE | VALUES["cdi"], {"components": ["cdi"]}),
    "dra": (BASE | VALUES["dra"], {"components": ["dra"]}),
    "site-dra": (VALUES["dra"], {"components": ["state-dir", "pod-resources", "dra"]}),
    "host-network": (BASE | VALUES["host-network"], {"overlay": "host-network"}),
    "privileged": (BASE | VALUES["privileged"], {"components": ["privileged"]}),
    "selinux": (BASE | VALUES["selinux"], {"overlay": "selinux"}),
    "policy": (BASE | {"existingPolicyConfigMap": "genericdp-policy"}, {"components": ["policy"]}),
}


EVERYWHERE = {
    "metadata.labels.app.kubernetes.io/managed-by",  # Helm, or kustomize
    "metadata.labels.helm.sh/chart",
}
DIFFERENT: dict[str, set[str]] = {
    # It is an example of several files, and of a device that must be there to be seen.
    "site": {"ConfigMap data.genericdp.yaml", "ConfigMap data.serial.yaml"},
    # It is of no use but for what the kernel shows in the host's network namespace.
    "host-network": {"ConfigMap data.genericdp.yaml.resources"},
}
"""What the chart and an overlay make differently on purpose. All else is the same."""
_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
DRA = {
    # A component has no labels of the base.
    *(
        f"{kind} metadata.labels.app.kubernetes.io/version"
        for kind in ("ClusterRole", "ClusterRoleBinding", *_POLICIES)
    ),
    # By user name, which kustomize leaves as it is: so does the text of the admission policy.
    "ClusterRoleBinding subjects",
    # kustomize does not know that they belong to no namespace.
    *(f"{kind} metadata.namespace" for kind in _POLICIES),
}
DIFFERENT |= {"dra": DRA, "site-dra": DRA}


@pytest.mark.deploy
@pytest.mark.parametrize("name", SAME)
def test_it_is_what_kustomize_makes(name: str, tmp_path: Path) -> None:
    """By default the overlay to copy, and without a state the base."""
    values, entry = SAME[name]
    ours, theirs = _by_kind(render_helm(values)), _by_kind(render(entry, tmp_path))
    # Helm has an option that makes it: --create-namespace.
    assert {*theirs} - {*ours} == {"Namespace"}
    del theirs["Namespace"]
    expected = {f"{kind} {path}" for kind in ours for path in EVERYWHERE}
    assert {*_differences(ours, theirs)} == expected | DIFFERENT.get(name, set())


def _by_kind(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Give the object of each kind, with the files of the config as what they say."""
    made = {manifest["kind"]: _sorted(manifest) for manifest in manifests}
    assert len(made) == len(manifests)
    made["ConfigMap"]["data"] = {
        name: yaml.safe_load(text) for name, text in made["ConfigMap"]["data"].items()
    }
    return made


def _differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Give where both differ, as `KIND key.key`; a list is one thing."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        if ours != theirs:
            yield path
        return
    separator = "." if " " in path else " " if path else ""
    for key in {*ours, *theirs}:
        yield from _differences(ours.get(key), theirs.get(key), f"{path}{separator}{key}")


def _sorted(value: Any) -> Any:
    """Give it with lists of what has names in the order of those."""
    if isinstance(value, dict):
        return {key: _sorted(below) for key, below in value.items()}
    if not isinstance(value, list):
        return value
    named = all(isinstance(each_part, dict) and "name" in each_part for each_part in value)
    parts = [_sorted(part) for part in value]
    return sorted(parts, key=lambda entry: str(entry["name"])) if named else parts


@pytest.mark.deploy
def test_another_config_changes_the_config_map_alone() -> None:
    """So an edit is a reload and no rollout."""
    before, after = render_helm(), render_helm({"config": CONFIG})
    changed = [entry["kind"] for entry, other in zip(before, after, strict=True) if entry != other]
    assert changed == ["ConfigMap"]


# As the project's own reader wants them: strings, however YAML's versions would read them bare.
TEXTS = ["0403", "1e10", "0000:03:00.0", "on", "y", "0x10", "1_000", "null", "~", "1:30", "+1"]
TEXTS += ["0b1", "0o17", ".inf", "2001-01-01", "true", "a: b", "*", "&a", "!t", "- x", "#x", "@x"]
TEXTS += ["%x", "[x]", "{x", "`x", "é", " x ", "$(usb.serial:-none)", "'", '"', "089", "12e03", "-"]


@pytest.mark.deploy
def test_texts_arrive_as_texts_and_numbers_as_numbers(tmp_path: Path) -> None:
    resource = {
        "name": "example.com/fuse",
        "match": [{"path": "/dev/fuse", "hardware": {"usb": {"vendor": ["0403", "1e10"]}}}],
        "forgetAfterSeconds": 1000000,
        "inject": {"env": {f"V{number}": text for number, text in enumerate(TEXTS)}},
    }
    made = render_helm({"config": CONFIG | {"resources": [resource]}})
    file = tmp_path / "genericdp.yaml"
    file.write_text(only(made, "ConfigMap")["data"][file.name])
    assert load([file]).problems == ()
    assert yaml.safe_load(file.read_text())["resources"] == [resource]


@pytest.mark.deploy
def test_monitoring_is_what_lies_in_its_directory_and_looks_for_the_releases_name() -> None:
    """With a name of its own, too: four alerts could never fire."""
    theirs = yaml.safe_load((KUSTOMIZE / "components/monitoring/podmonitor.yaml").read_text())
    rules = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())["spec"]
    boards = {
        f"genericdp{name}.json": json.loads((MONITORING / f"grafana-{file}.json").read_text())
        for name, file in (("", "dashboard"), ("-fleet", "fleet"))
    }
    for name in ("genericdp", "usb"):
        made = render_helm(VALUES["monitoring"] | {"fullnameOverride": name})
        renamed = {".*genericdp.*": f".*{name}.*"}
        assert only(made, "PrometheusRule")["spec"] == _replaced(rules, renamed)
        (shown,) = [m for m in of_kind(made, "ConfigMap") if "dashboard" in m["metadata"]["name"]]
        data = {file: json.loads(text) for file, text in shown["data"].items()}
        assert data == _replaced(boards, renamed)
        (endpoint,) = only(made, "PodMonitor")["spec"]["podMetricsEndpoints"]
        del endpoint["metricRelabelings"]
        assert [endpoint] == theirs["spec"]["podMetricsEndpoints"]


def _replaced(content: Any, texts: dict[str, str]) -> Any:
    encoded = json.dumps(content)
    for text, other in texts.items():
        assert text in encoded
        encoded = encoded.replace(text, other)
    return json.loads(encoded)


@pytest.mark.deploy
@pytest.mark.parametrize("name", ["default", "existing", "groups", "private"])
def test_the_notes_say_what_to_do_next(name: str, tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "chart")
    (chart / "templates/NOTES.txt").rename(chart / "NOTES")
    shown = 'kind: Notes\ntext: {{ tpl (.Files.Get "NOTES") . | toJson }}\n'
    (chart / "templates/notes.yaml").write_text(shown)
    made = render_helm(VALUES[name], chart=chart)
    text = only(made, "Notes")["text"]
    daemonset = of_kind(made, "DaemonSet")[0]["metadata"]["name"]
    assert f"rollout status ds/{daemonset}\n" in text
    assert ("edit the ConfigMap mine" in text) == (name == "existing")
    assert "pod-security.kubernetes.io/enforce=privileged" in text
    assert text.count("\n\n\n") == 0


@pytest.mark.deploy
@pytest.mark.parametrize("kind", ["HelmRelease", "Application"])
def test_the_canaries_of_the_docs_are_a_daemonset_of_their_own(kind: str) -> None:
    page = (ROOT / "docs/how-to/upgrading.md").read_text()
    blocks = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    (spec,) = (block["spec"] for block in blocks if block.get("kind") == kind)
    values = spec["values"] if "values" in spec else spec["source"]["helm"]["valuesObject"]
    canary, fleet = of_kind(render_helm(values), "DaemonSet")
    assert daemon(canary)["image"] == "registry.example/genericdp:0.2.0"
    assert daemon(fleet)["image"] == "registry.example/genericdp:0.1.0"
    # Each node belongs to one of them.
    key, value = "example.com/genericdp", "canary"
    assert pod_spec(canary)["nodeSelector"][key] == value
    assert "affinity" not in pod_spec(canary)
    assert key not in pod_spec(fleet)["nodeSelector"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = pod_spec(fleet)["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]}


def test_the_chart_is_that_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_every_value_has_a_default_and_is_told_of() -> None:
    assert {*SCHEMA["properties"]} - {"global"} == {*DEFAULTS}
    untold = [name for name, value in SCHEMA["properties"].items() if "description" not in value]
    assert untold == []
    for name, value in SCHEMA["properties"].items():
        if value.get("properties") and DEFAULTS.get(name) and name != "config":
            assert {*value["properties"]} == {*DEFAULTS[name]}, name
    policy = json.loads((ROOT / "schemas/genericdp-policy.v1alpha1.json").read_text())
    assert {*SCHEMA["properties"]["policy"]["properties"]} == {*policy["properties"]}


BLOCKS = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_readmes_examples_are_values_with_valid_configs(block: str, tmp_path: Path) -> None:
    values = yaml.safe_load(block)
    jsonschema.Draft7Validator(SCHEMA).validate(_with(values))
    for group in [values, *values.get("nodeGroups", {}).values()]:
        if "config" in group:
            (tmp_path / "config.yaml").write_text(json.dumps(group["config"]))
            assert load([tmp_path / "config.yaml"]).problems == ()


def _with(values: dict[str, Any], base: dict[str, Any] = DEFAULTS) -> dict[str, Any]:
    """Merge values into the defaults as Helm does."""
    merged = dict(base)
    for key, value in values.items():
        below = base.get(key)
        both = isinstance(value, dict) and isinstance(below, dict)
        merged[key] = _with(value, below) if both else value  # type: ignore[arg-type]
    return merged


@pytest.mark.deploy
def test_helm_finds_nothing_to_say_of_the_chart() -> None:
    command = (tool("helm"), "lint", "--strict", "--kube-version=1.37.0", CHART)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "[WARNING]" not in ended.stdout
