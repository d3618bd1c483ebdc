"""The chart as it lies there, and what its schema refuses."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from genericdp import __version__
from genericdp.config.load import load

from tests.deploy.chartvalues import CONFIG, VALUES
from tests.deploy.rendering import CHART, ROOT, RenderingError, render_helm, tool

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
POLICY = json.loads((ROOT / "schemas/genericdp-policy.v1alpha1.json").read_text())


def _with(values: dict[str, Any], base: dict[str, Any] = DEFAULTS) -> dict[str, Any]:
    """Merge values into the defaults as Helm does."""
    merged = dict(base)
    for key, value in values.items():
        below = base.get(key)
        both = isinstance(value, dict) and isinstance(below, dict)
        merged[key] = _with(value, below) if both else value  # type: ignore[arg-type]
    return merged


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


@pytest.mark.parametrize("name", VALUES)
def test_the_schema_takes_what_people_write(name: str) -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(_with(VALUES[name]))


def test_a_policy_may_say_all_that_a_policy_may_say() -> None:
    assert {*SCHEMA["properties"]["policy"]["properties"]} == {*POLICY["properties"]}


BLOCKS = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_readmes_examples_are_values_with_valid_configs(block: str, tmp_path: Path) -> None:
    values = yaml.safe_load(block)
    jsonschema.Draft7Validator(SCHEMA).validate(_with(values))
    for group in [values, *values.get("nodeGroups", {}).values()]:
        if "config" in group:
            (tmp_path / "config.yaml").write_text(json.dumps(group["config"]))
            assert load([tmp_path / "config.yaml"]).problems == ()


CANARY: dict[str, Any] = {"existingConfigMap": "mine"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"privilegd": True}, "additional properties 'privilegd' not allowed"),
    ({"privileged": "yes"}, "at '/privileged': got string, want boolean"),
    ({"cdi": {"enable": True}}, "at '/cdi': additional properties 'enable' not allowed"),
    ({"dra": {"driver": "Genericdp.io"}}, "at '/dra/driver': 'Genericdp.io' does not match"),
    ({"dra": {"driver": "a/b"}}, "at '/dra/driver': 'a/b' does not match"),
    ({"dra": {"driver": "a" * 64}}, "at '/dra/driver': maxLength: got 64, want 63"),
    ({"kubelet": {"rootDir": ""}}, "at '/kubelet/rootDir': '' does not match"),
    ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy': value must be one of"),
    ({"image": {"digest": "sha256:1"}}, "at '/image/digest': 'sha256:1' does not match"),
    ({"http": {"port": 0}}, "at '/http/port': minimum"),
    ({"stateDir": "state"}, "at '/stateDir': 'state' does not match"),
    ({"fullnameOverride": "USB_devices"}, "at '/fullnameOverride': 'USB_devices' does not match"),
    ({"fullnameOverride": "usb-"}, "at '/fullnameOverride': 'usb-' does not match"),
    ({"fullnameOverride": "7"}, "at '/fullnameOverride': '7' does not match"),
    ({"updateStrategy": {"type": "Recreate"}}, "at '/updateStrategy/type': value must be one of"),
    ({"updateStrategy": {"maxSurge": "5%"}}, "additional properties 'maxSurge' not allowed"),
    ({"updateStrategy": {"rollingUpdate": {"maxsurge": 1}}}, "properties 'maxsurge' not allowed"),
    ({"updateStrategy": {"rollingUpdate": {"maxSurge": "5"}}}, "maxSurge': '5' does not match"),
    ({"updateStrategy": {"rollingUpdate": {"maxSurge": 0.05}}}, "got number, want integer or str"),
    ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}, "'101%' does not match"),
    ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": -1}}}, "maxUnavailable': minimum"),
    ({"nodeGroups": {"a": CANARY | {"image": "0.2.0"}}}, "at '/nodeGroups/a/image': got string"),
    ({"nodeGroups": {"a": CANARY | {"image": {"tag": 0.2}}}}, "a/image/tag': got number, want str"),
    ({"nodeGroups": {"a": CANARY | {"image": {"version": "0.2.0"}}}}, "'version' not allowed"),
    ({"nodeGroups": {"a": CANARY | {"image": {"digest": "0" * 64}}}}, "image/digest': '000"),
    ({"nodeGroups": {"a": CANARY | {"image": {"repository": ""}}}}, "image/repository': minLength"),
    ({"nodeGroups": {"a": CANARY | {"image": {"pullPolicy": "No"}}}}, "pullPolicy': value must be"),
    ({"config": {"resource": []}}, "at '/config': additional properties 'resource' not allowed"),
    ({"config": {"resources": []}}, "at '/config/resources': minItems"),
    ({"config": {"kind": "ConfigMap"}}, "at '/config/kind': value must be 'DevicePluginConfig'"),
    ({"configFiles": {"a.txt": "x"}}, "at '/configFiles': additional properties 'a.txt'"),
    ({"nodeGroups": {"Cameras": {"config": CONFIG}}}, "additional properties 'Cameras' not"),
    (
        {"nodeGroups": {"a" * 64: {"config": CONFIG}}},
        "at '/nodeGroups': additional properties 'aaa",
    ),
    ({"podLabels": {"app.kubernetes.io/name": "x"}}, "at '/podLabels/app.kubernetes.io~1name': "),
    ({"podLabels": {"genericdp.io/group": "x"}}, "at '/podLabels/genericdp.io~1group': "),
    ({"nodeGroups": {"a": {"configs": CONFIG}}}, "additional properties 'configs' not allowed"),
    ({"policy": {"devices": {}}}, "at '/policy': missing properties 'apiVersion', 'kind'"),
    ({"tools": [{"name": "a"}]}, "at '/tools/0': missing properties 'image', 'command'"),
    ({"monitoring": {"podMonitor": {"interval": 30}}}, "interval': got number, want string"),
]


@pytest.mark.parametrize(("values", "said"), REFUSED, ids=lambda entry: str(entry)[:50])
def test_the_schema_refuses_mistakes(values: dict[str, Any], said: str) -> None:
    assert [*jsonschema.Draft7Validator(SCHEMA).iter_errors(_with(values))] != []


@pytest.mark.deploy
@pytest.mark.parametrize(("values", "said"), REFUSED, ids=lambda entry: str(entry)[:50])
def test_helm_says_which_value_is_wrong(values: dict[str, Any], said: str) -> None:
    with pytest.raises(RenderingError) as refused:
        render_helm(tool("helm"), values)
    assert said in str(refused.value)


@pytest.mark.deploy
def test_helm_finds_nothing_to_say_of_the_chart() -> None:
    command = [str(tool("helm")), "lint", "--strict", "--kube-version", "1.37.0", str(CHART)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "[WARNING]" not in ended.stdout
