"""The chart: what Helm makes of values."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp import __version__
from genericdp.config.load import load

from tests.deploy.chartvalues import CONFIG, VALUES
from tests.deploy.expectations import (
    CDI_PATHS,
    HOST_PATHS,
    POD_RESOURCES,
    STATE,
    SURGE,
    dra_paths,
    expect_daemonset,
)
from tests.deploy.rendering import (
    CHART,
    MONITORING,
    ROOT,
    Manifest,
    RenderingError,
    daemon,
    host_paths,
    kustomizations,
    of_kind,
    only,
    pod_spec,
    render_helm,
    render_kustomize,
    tool,
    with_components,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deploy

DEFAULT = STATE | POD_RESOURCES
RIGHTS: dict[str, dict[str, Any]] = {
    "default": {},
    "files": {},
    "existing": {},
    "policy": {},
    "privileged": {"privileged": True},
    "host-network": {"host_network": True},
    "selinux": {"se_linux": {"type": "container_device_plugin_t"}},
    "stateless": {"more_paths": {}},
    "cdi": {"more_paths": DEFAULT | CDI_PATHS},
    "dra": {"more_paths": DEFAULT | dra_paths(), "token": True},
    "another-driver": {
        "more_paths": dra_paths("usb.example.com", "/var/lib/k0s/kubelet"),
        "token": True,
    },
    "tools": {"more_paths": DEFAULT | {"/opt/driver": "ro"}},
    "monitoring": {},
}


@pytest.fixture(scope="module")
def helm() -> Path:
    return tool("helm")


def _config_of(made: list[Manifest], directory: Path, name: str = "genericdp-config") -> Path:
    (found,) = [m for m in of_kind(made, "ConfigMap") if m["metadata"]["name"] == name]
    for file, text in found["data"].items():
        (directory / file).write_text(text)
    return directory


BASE = VALUES["stateless"]


SAME: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "site": ({}, "site", []),
    "base": (BASE, "base", []),
    "cdi": (BASE | VALUES["cdi"], "base", ["cdi"]),
    "dra": (BASE | VALUES["dra"], "base", ["dra"]),
    "site-dra": (VALUES["dra"], "base", ["state-dir", "pod-resources", "dra"]),
    "host-network": (BASE | VALUES["host-network"], "host-network", []),
    "privileged": (BASE | VALUES["privileged"], "base", ["privileged"]),
    "selinux": (BASE | VALUES["selinux"], "selinux", []),
    "policy": (BASE | {"existingPolicyConfigMap": "genericdp-policy"}, "base", ["policy"]),
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


@pytest.mark.parametrize("name", SAME)
def test_it_is_what_kustomize_makes(name: str, helm: Path, tmp_path: Path) -> None:
    """By default the overlay to copy, and without a state the base."""
    values, overlay, components = SAME[name]
    ours = _by_kind(render_helm(helm, values))
    directory = kustomizations()[overlay]
    directory = with_components(tmp_path, components) if components else directory
    theirs = _by_kind(render_kustomize(tool("kubectl"), directory))
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


def test_another_driver_is_the_same_everywhere(helm: Path) -> None:
    made = render_helm(helm, VALUES["another-driver"])
    args = daemon(only(made, "DaemonSet"))["args"]
    root = "/var/lib/k0s/kubelet"
    assert args[3:] == [
        f"--pod-resources={root}/pod-resources/kubelet.sock",
        "--dra-driver=usb.example.com",
        f"--kubelet-root={root}",
    ]
    policy = only(made, "ValidatingAdmissionPolicy")["spec"]
    assert "genericdp.io" not in json.dumps(policy)
    assert policy["validations"][1]["expression"].endswith(" == 'usb.example.com'")
    (condition,) = policy["matchConditions"]
    assert "'system:serviceaccount:genericdp:usb'" in condition["expression"]
    (subject,) = only(made, "ClusterRoleBinding")["subjects"]
    account = {"kind": "ServiceAccount", "name": "usb", "namespace": "genericdp"}
    assert subject == account
    assert (
        only(made, "NetworkPolicy")["spec"]["egress"] == VALUES["another-driver"]["dra"]["egress"]
    )


def test_no_account_gets_rights_that_nobody_named(helm: Path) -> None:
    """With ``create: false`` alone it would be the namespace's default one."""
    account: dict[str, Any] = {"create": False}
    with pytest.raises(RenderingError, match=r"serviceAccount\.name must say which account"):
        render_helm(helm, VALUES["dra"] | {"serviceAccount": account})
    made = render_helm(helm, VALUES["dra"] | {"serviceAccount": account | {"name": "mine"}})
    assert only(made, "ClusterRoleBinding")["subjects"][0]["name"] == "mine"


@pytest.mark.parametrize("name", RIGHTS)
def test_values_give_the_rights_that_they_name_and_no_others(name: str, helm: Path) -> None:
    daemonset = only(render_helm(helm, _without_env(VALUES[name])), "DaemonSet")
    expect_daemonset(daemonset, **{"more_paths": DEFAULT, **RIGHTS[name]})


def _without_env(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a person may want to set, but we never do."""
    return {key: value for key, value in values.items() if key != "extraEnv"}


def test_every_object_is_in_the_releases_namespace_and_labelled(helm: Path) -> None:
    for values in VALUES.values():
        for manifest in render_helm(helm, values):
            cluster = manifest["kind"].startswith(("ClusterRole", "ValidatingAdmissionPolicy"))
            namespace = None if cluster else "genericdp"
            assert manifest["metadata"].get("namespace") == namespace
            assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == "genericdp"


def test_another_config_changes_the_config_map_alone(helm: Path) -> None:
    """So an edit is a reload and no rollout."""
    before, after = render_helm(helm), render_helm(helm, {"config": CONFIG})
    changed = [entry["kind"] for entry, other in zip(before, after, strict=True) if entry != other]
    assert changed == ["ConfigMap"]


def test_files_keep_their_text(helm: Path) -> None:
    data = only(render_helm(helm, VALUES["files"]), "ConfigMap")["data"]
    assert data == {"a.yaml": "# a comment\nx: 1\n", "b.yml": "y: 2"} | {"b.yml": data["b.yml"]}
    assert data["b.yml"].strip() == "y: 2"


# As the project's own reader wants them: strings, however YAML's versions would read them bare.
TEXTS = ["0403", "1e10", "0000:03:00.0", "on", "y", "0x10", "1_000", "null", "~", "1:30", "+1"]
TEXTS += ["0b1", "0o17", ".inf", "2001-01-01", "true", "a: b", "*", "&a", "!t", "- x", "#x", "@x"]
TEXTS += ["%x", "[x]", "{x", "`x", "é", " x ", "$(usb.serial:-none)", "'", '"', "089", "12e03", "-"]


def test_texts_arrive_as_texts_and_numbers_as_numbers(helm: Path, tmp_path: Path) -> None:
    env = {f"V{number}": text for number, text in enumerate(TEXTS)}
    resource = {
        "name": "example.com/fuse",
        "match": [{"path": "/dev/fuse", "hardware": {"usb": {"vendor": ["0403", "1e10"]}}}],
        "forgetAfterSeconds": 1000000,
        "inject": {"env": env},
    }
    made = render_helm(helm, {"config": CONFIG | {"resources": [resource]}})
    loaded = load([_config_of(made, tmp_path)])
    assert loaded.problems == ()
    assert yaml.safe_load((tmp_path / "genericdp.yaml").read_text())["resources"] == [resource]


def test_existing_config_maps_are_mounted_and_none_is_made(helm: Path) -> None:
    made = render_helm(helm, VALUES["existing"])
    assert of_kind(made, "ConfigMap") == []
    names = [v["configMap"]["name"] for v in _volumes(made) if "configMap" in v]
    assert names == ["mine", "bounds"]
    container = daemon(only(made, "DaemonSet"))
    assert "--policy=/etc/genericdp-policy/policy.yaml" in container["args"]
    # So that `genericdp validate` in it says what the daemon says.
    policy = {"name": "GENERICDP_POLICY", "value": "/etc/genericdp-policy/policy.yaml"}
    assert policy in container["env"]


def _volumes(made: list[Manifest]) -> list[Manifest]:
    volumes: list[Manifest] = pod_spec(only(made, "DaemonSet"))["volumes"]
    return volumes


def test_a_policy_bounds_the_config_beside_it(helm: Path, tmp_path: Path) -> None:
    made = render_helm(helm, VALUES["policy"])
    policy = _config_of(made, tmp_path, "genericdp-policy") / "policy.yaml"
    directory = tmp_path / "config"
    directory.mkdir()
    assert load([_config_of(made, directory)], policy=policy).problems == ()


def test_each_group_of_nodes_has_what_it_says_and_shares_the_rest(helm: Path) -> None:
    made = render_helm(helm, VALUES["groups"])
    cameras, others = of_kind(made, "DaemonSet")
    assert [m["metadata"]["name"] for m in of_kind(made, "ConfigMap")] == [
        "genericdp-config-cameras"
    ]
    assert daemon(cameras)["securityContext"]["privileged"] is True
    assert daemon(others)["securityContext"]["privileged"] is False
    assert "tolerations" not in pod_spec(cameras)
    expect_daemonset(others, more_paths=DEFAULT)
    everywhere = {"kubernetes.io/os": "linux", "example.com/site": "north"}
    assert pod_spec(others)["nodeSelector"] == everywhere
    assert pod_spec(cameras)["nodeSelector"] == everywhere | {"example.com/kind": "cameras"}
    assert "affinity" not in pod_spec(cameras)
    assert pod_spec(others)["affinity"]["nodeAffinity"]
    selectors = [entry["spec"]["selector"]["matchLabels"] for entry in (cameras, others)]
    assert selectors[0] != selectors[1]
    shared = only(made, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert all(shared.items() <= selector.items() for selector in selectors)


def test_what_is_private_stays_private(helm: Path) -> None:
    made = render_helm(helm, VALUES["private"])
    daemonset = only(made, "DaemonSet")
    container = daemon(daemonset)
    assert daemonset["metadata"]["name"] == "devices"
    assert container["image"] == f"images/genericdp@sha256:{'0' * 64}"
    directory = "/var/lib/k0s/kubelet/device-plugins"
    assert container["args"] == [
        *("run", "--config=/etc/genericdp", "--listen=:9800", "--no-status"),
        *("--log-format=json", "--log-level=debug", f"--kubelet-dir={directory}"),
        "--state-dir=/var/lib/genericdp",
        "--pod-resources=/var/lib/kubelet/pod-resources/kubelet.sock",
    ]
    # What `genericdp status` in the container needs to find it.
    assert {"name": "GENERICDP_ADDRESS", "value": "127.0.0.1:9800"} in container["env"]
    moved = {path: how for path, how in HOST_PATHS.items() if how == "ro"} | {directory: "rw"}
    assert host_paths(daemonset) == moved | DEFAULT
    assert {*only(made, "NetworkPolicy")["spec"]} == {"podSelector", "policyTypes"}
    assert of_kind(made, "ServiceAccount") == []
    assert daemonset["spec"]["updateStrategy"]["rollingUpdate"] == SURGE


def test_monitoring_is_what_lies_in_its_directory(helm: Path) -> None:
    made = render_helm(helm, VALUES["monitoring"])
    monitor = only(made, "PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    labels = only(made, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= monitor["spec"]["selector"]["matchLabels"].items()
    theirs = ROOT / "deploy/kustomize/components/monitoring/podmonitor.yaml"
    endpoints = yaml.safe_load(theirs.read_text())["spec"]["podMetricsEndpoints"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint.pop("metricRelabelings")[0]["action"] == "drop"
    assert [endpoint] == endpoints
    rule = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    assert only(made, "PrometheusRule")["spec"] == rule["spec"]
    (board,) = [m for m in of_kind(made, "ConfigMap") if "dashboard" in m["metadata"]["name"]]
    for name, shipped in (("genericdp", "dashboard"), ("genericdp-fleet", "fleet")):
        content = json.loads((MONITORING / f"grafana-{shipped}.json").read_text())
        assert json.loads(board["data"][f"{name}.json"]) == content


@pytest.mark.parametrize("name", VALUES)
def test_the_notes_say_what_to_do_next(name: str, helm: Path, tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "chart")
    (chart / "templates/NOTES.txt").rename(chart / "NOTES")
    shown = 'kind: Notes\ntext: {{ tpl (.Files.Get "NOTES") . | toJson }}\n'
    (chart / "templates/notes.yaml").write_text(shown)
    made = render_helm(helm, VALUES[name], chart=chart)
    text = only(made, "Notes")["text"]
    for daemonset in of_kind(made, "DaemonSet")[:1]:
        assert f"rollout status ds/{daemonset['metadata']['name']}\n" in text
        mounted = {v["name"]: v for v in pod_spec(daemonset)["volumes"]}["config"]
        if mounted["configMap"]["name"] == "mine":
            assert "edit the ConfigMap mine" in text
    assert "pod-security.kubernetes.io/enforce=privileged" in text
    assert text.count("\n\n\n") == 0


def test_an_ipv6_address_is_in_brackets(helm: Path) -> None:
    made = render_helm(helm, {"http": {"address": "::1"}, "hostNetwork": True})
    container = daemon(only(made, "DaemonSet"))
    assert "--listen=[::1]:9733" in container["args"]
    assert {"name": "GENERICDP_ADDRESS", "value": "[::1]:9733"} in container["env"]
    assert container["livenessProbe"]["httpGet"]["host"] == "::1"


def test_an_address_that_nobody_reaches_is_refused(helm: Path) -> None:
    """Found by a new user: all pods ended forever, for the kubelet's probes failed."""
    with pytest.raises(RenderingError, match="the kubelet's probes ask the pod's own address"):
        render_helm(helm, {"http": {"address": "127.0.0.1"}})
    for odd in ("localhost", "[::1]", "a b", "http://1.2.3.4"):
        with pytest.raises(RenderingError, match=r"http.address"):
            render_helm(helm, {"http": {"address": odd}, "hostNetwork": True})
    monitored = VALUES["monitoring"] | {"hostNetwork": True}
    with pytest.raises(RenderingError, match="where Prometheus does not reach it"):
        render_helm(helm, monitored)
    render_helm(helm, monitored | {"http": {"address": "0.0.0.0", "status": False}})


def test_a_number_in_place_of_a_text_is_refused(helm: Path) -> None:
    """Found by a new user: ``vendor: 0403`` came to the nodes as 259, another vendor."""
    usb = {"hardware": {"usb": {"vendor": ["10c4", 259]}}, "udev": {"subsystem": "tty"}}
    serial = {"name": "example.com/serial", "match": [usb], "replicas": 3}
    at = re.escape("config.resources[0].match[0].hardware.usb.vendor[1] is read as the number 259")
    with pytest.raises(RenderingError, match=at):
        render_helm(helm, {"config": CONFIG | {"resources": [serial]}})
    probe = {"file": {"path": "/sys/x", "min": 2}, "periodSeconds": 3, "failureThreshold": 4}
    fine = {"name": "example.com/a", "match": [{"path": "/dev/a"}], "health": [probe]}
    counted = {"groupBy": "$(device.subsystem)", "groupNeeds": 2, "forgetAfterSeconds": 0.5}
    render_helm(helm, {"config": CONFIG | {"resources": [fine | counted]}})


def test_a_share_of_the_nodes_is_updated_at_a_time(helm: Path) -> None:
    """Found by a new user: what was not said of the two came from the API server, and clashed."""
    made = render_helm(helm, {"updateStrategy": {"rollingUpdate": {"maxSurge": "20%"}}})
    strategy = only(made, "DaemonSet")["spec"]["updateStrategy"]
    share = {"maxSurge": "20%", "maxUnavailable": 0}
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": share}
    made = render_helm(helm, {"updateStrategy": {"type": "OnDelete"}})
    assert only(made, "DaemonSet")["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_no_pod_waits_forever_for_the_port_of_the_node(helm: Path) -> None:
    """Pods with the host's network and one port cannot be two on a node."""
    host = VALUES["host-network"]
    for surge in (1, "5%"):
        strategy = {"rollingUpdate": {"maxSurge": surge}}
        with pytest.raises(RenderingError, match="hostNetwork the new pod of a node would wait"):
            render_helm(helm, host | {"updateStrategy": strategy})
    for limits in ({"maxUnavailable": 2}, {"maxSurge": 0, "maxUnavailable": 2}):
        made = render_helm(helm, host | {"updateStrategy": {"rollingUpdate": limits}})
        update = only(made, "DaemonSet")["spec"]["updateStrategy"]
        assert update["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 2}


def test_a_group_has_the_image_of_all_or_a_version_of_its_own(helm: Path) -> None:
    group = {"existingConfigMap": "mine"}
    digest = f"sha256:{'0' * 64}"
    groups = {
        "all": group,
        "tag": group | {"image": {"tag": "2.0"}},
        "digest": group | {"image": {"digest": digest}},
        "other": group | {"image": {"repository": "r.example/fork", "pullPolicy": "Always"}},
    }
    image = {"repository": "r.example/g", "tag": "1.0"}
    values = {"image": image, "nodeGroups": groups}
    made = of_kind(render_helm(helm, values), "DaemonSet")
    images = {
        daemonset["metadata"]["labels"]["genericdp.io/group"]: (
            daemon(daemonset)["image"],
            daemon(daemonset)["imagePullPolicy"],
            daemonset["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/version"],
        )
        for daemonset in made
    }
    assert images == {
        "all": ("r.example/g:1.0", "IfNotPresent", "1.0"),
        "tag": ("r.example/g:2.0", "IfNotPresent", "2.0"),
        "digest": (f"r.example/g@{digest}", "IfNotPresent", __version__),
        "other": ("r.example/fork:1.0", "Always", "1.0"),
    }
    image["digest"] = digest
    (canary,) = [
        daemon(daemonset)["image"]
        for daemonset in of_kind(render_helm(helm, values), "DaemonSet")
        if daemonset["metadata"]["name"].endswith("-tag")
    ]
    assert canary == "r.example/g:2.0"


@pytest.mark.parametrize("kind", ["HelmRelease", "Application"])
def test_the_canaries_of_the_docs_are_a_daemonset_of_their_own(kind: str, helm: Path) -> None:
    page = (ROOT / "docs/how-to/upgrading.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (spec,) = (
        document["spec"]
        for block in blocks
        for document in [yaml.safe_load(block)]
        if document.get("kind") == kind
    )
    values = spec["values"] if "values" in spec else spec["source"]["helm"]["valuesObject"]
    made = of_kind(render_helm(helm, values), "DaemonSet")
    images = {d["metadata"]["name"].rpartition("-")[2]: daemon(d)["image"] for d in made}
    repository = "registry.example/genericdp"
    assert images == {"canary": f"{repository}:0.2.0", "fleet": f"{repository}:0.1.0"}
    label = {"example.com/genericdp": "canary"}
    canary, fleet = (pod_spec(daemonset) for daemonset in made)  # each node belongs to one of them
    assert canary["nodeSelector"].items() >= label.items()
    assert "affinity" not in canary
    assert not {*label} & {*fleet["nodeSelector"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = fleet["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    ((key, value),) = label.items()
    assert term == {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]}


def test_a_resource_may_expect_a_number_of_devices(helm: Path) -> None:
    resource = CONFIG["resources"][0] | {"expect": 8}
    render_helm(helm, {"config": CONFIG | {"resources": [resource]}})
    limits = resource | {"expect": {"min": 1, "max": 8}}
    render_helm(helm, {"config": CONFIG | {"resources": [limits]}})


@pytest.mark.parametrize(
    "limits",
    [
        {"maxSurge": 0},
        {"maxSurge": "0%"},
        {"maxSurge": 0, "maxUnavailable": 0},
        {"maxSurge": "20%", "maxUnavailable": "10%"},
    ],
)
def test_what_kubernetes_refuses_of_an_update_is_refused_before(
    limits: dict[str, Any], helm: Path
) -> None:
    with pytest.raises(RenderingError, match="one of maxSurge and maxUnavailable is 0"):
        render_helm(helm, {"updateStrategy": {"rollingUpdate": limits}})


def test_alerts_look_for_what_the_release_is_called(helm: Path) -> None:
    """Found by a new user: with a name of their own four alerts could never fire."""
    made = render_helm(helm, VALUES["monitoring"] | {"fullnameOverride": "usb"})
    text = json.dumps(only(made, "PrometheusRule")["spec"])
    assert ".*genericdp.*" not in text
    rules = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())["spec"]
    assert text.count(".*usb.*") == json.dumps(rules).count(".*genericdp.*") > 0
    (board,) = [m for m in of_kind(made, "ConfigMap") if "dashboard" in m["metadata"]["name"]]
    assert ".*usb.*" in board["data"]["genericdp.json"]
    assert ".*genericdp.*" not in board["data"]["genericdp.json"]


def test_nothing_to_offer_is_refused(helm: Path) -> None:
    with pytest.raises(RenderingError, match="must say what the nodes offer"):
        render_helm(helm, {"config": None})
    with pytest.raises(RenderingError, match=r"nodeGroups\.a: config, configFiles or"):
        render_helm(helm, {"nodeGroups": {"a": {"privileged": True}}})


def test_what_excludes_each_other_is_refused(helm: Path) -> None:
    both = {"existingPolicyConfigMap": "bounds"} | VALUES["policy"]
    with pytest.raises(RenderingError, match="exclude each other"):
        render_helm(helm, both)
    twice = {"configFiles": {"genericdp.yaml": "x: 1"}}
    with pytest.raises(RenderingError, match="choose another name"):
        render_helm(helm, twice)
