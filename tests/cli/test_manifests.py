"""Rendered manifests as the config of a command: each ConfigMap as a DaemonSet mounts it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Output = pytest.CaptureFixture[str]

CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/fuse
    match: [{path: /dev/fuse}]
"""
POLICY = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginPolicy
devices: {paths: [PATH]}
"""


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def config_map(name: str, *texts: str, file: str = "genericdp.yaml") -> str:
    files = "".join(
        f"  {number or ''}{file}: |\n{_indented(text)}" for number, text in enumerate(texts)
    )
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n{files}---\n"


def daemon_set(args: str, volumes: str, mounts: str, env: str = "[]") -> str:
    return f"""\
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: genericdp}}
spec:
  template:
    spec:
      containers:
        - {{name: genericdp, args: {args}, env: {env}, volumeMounts: {mounts}}}
      volumes: {volumes}
---
"""


BOUNDED = daemon_set(
    "[run, --config=/etc/genericdp, --policy, /etc/genericdp-policy/policy.yaml]",
    "[{name: c, configMap: {name: one}}, {name: p, configMap: {name: bounds}}]",
    "[{name: c, mountPath: /etc/genericdp}, {name: p, mountPath: /etc/genericdp-policy}]",
)
TOGETHER = daemon_set(
    "[run]",
    "[{name: c, projected: {sources: [{configMap: {name: one}}, {configMap: {name: two}}]}}]",
    "[{name: c, mountPath: /etc/genericdp/}]",
    "[{name: GENERICDP_CONFIG, value: /etc/genericdp}]",
)
OTHER = config_map("other", "a: {{ b }}", file="values.yaml")
WRONG = CONFIG.replace("path:", "pth:")
BOUNDS = config_map("bounds", POLICY.replace("PATH", "/dev/ttyUSB*"), file="policy.yaml")


@pytest.mark.parametrize(
    ("manifests", "said"),
    [
        pytest.param(
            config_map("one", CONFIG) + config_map("two", CONFIG) + OTHER,
            "2 configs in 1 file, 2 resources: valid",
            id="each ConfigMap is a config of its own",
        ),
        pytest.param(
            config_map("one", CONFIG) + config_map("two", WRONG),
            "FILE:21:18: ConfigMap two .resources[0].match[0].pth:",
            id="a problem names the ConfigMap and its line",
        ),
        pytest.param(
            config_map("one", CONFIG) + config_map("two", CONFIG) + TOGETHER,
            "ConfigMap one, two .resources[0].name: 'example.com/fuse' is already",
            id="a projected volume is one config",
        ),
        pytest.param(
            config_map("one", CONFIG) + BOUNDS + BOUNDED,
            "ConfigMap one .resources[0].match[0].path: '/dev/fuse' is not allowed",
            id="the policy of a DaemonSet bounds its config",
        ),
        pytest.param(
            config_map("one", CONFIG) + BOUNDS,
            "1 config in 1 file, 1 resource: valid",
            id="a policy that no DaemonSet mounts bounds nothing",
        ),
        pytest.param(
            config_map("one", CONFIG) + BOUNDED,
            "checked without its policy: the ConfigMap bounds is not in this input",
            id="a policy that is not there is missed",
        ),
        pytest.param(
            config_map("one", CONFIG) + BOUNDS.replace("devices:", "device:") + BOUNDED,
            "ConfigMap bounds .device: unknown key",
            id="a mistake in a policy is one of its ConfigMap",
        ),
        pytest.param(
            BOUNDS.replace("devices:", "device:") + OTHER,
            "ConfigMap bounds .device: unknown key",
            id="a policy alone is checked, too",
        ),
        pytest.param(
            config_map("one", CONFIG) + config_map("two", "a: [") + TOGETHER,
            "ConfigMap one, two: not YAML",
            id="what a DaemonSet mounts has to be YAML",
        ),
        pytest.param(
            OTHER + OTHER.replace("other", "another"),
            "ConfigMap other: ",
            id="of manifests without any of ours, each is refused",
        ),
    ],
)
def test_rendered_manifests_are_judged_as_they_are_mounted(
    manifests: str, said: str, tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_text(manifests)
    code = main(["validate", str(file)])
    shown = capsys.readouterr().out.replace(str(file), "FILE")
    assert said in shown
    assert (code == 0) == ("valid" in shown.splitlines()[-1])


@pytest.mark.parametrize("texts", [{"one": CONFIG, "two": WRONG}, {"two": WRONG}])
def test_a_list_of_kubectl_is_its_objects(
    texts: dict[str, str], tmp_path: Path, capsys: Output
) -> None:
    items = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"a.yaml": text},
        }
        for name, text in texts.items()
    ]
    file = tmp_path / "list.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    assert main(["validate", "-o", "json", str(file)]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert {problem["path"].split(" .")[0] for problem in problems} == {"ConfigMap two"}


def test_a_node_gets_one_config_of_several(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "manifests.yaml"
    other = CONFIG.replace("fuse", "null")
    file.write_text(config_map("one", CONFIG) + config_map("two", other))
    assert main(["discover", str(file)]) == 2
    assert "choose with --config-map NAME (one, two)" in capsys.readouterr().err
    assert main(["discover", str(file), "--config-map", "tow"]) == 2
    assert "there are: one, two" in capsys.readouterr().err
    assert main(["discover", "-o", "json", str(file), "--config-map=two"]) == 0
    (resource,) = json.loads(capsys.readouterr().out)["resources"]
    assert resource["name"] == "example.com/null"
    assert main(["simulate", str(file), "--config-map=two", "--once"]) == 0
    assert "example.com/null" in capsys.readouterr().out
    changed = tmp_path / "changed.yaml"
    changed.write_text(config_map("two", CONFIG))
    diff = ["validate", "--diff", str(file), str(changed)]
    assert main(diff) == 2
    assert "choose with --config-map" in capsys.readouterr().err


def test_a_simulated_daemon_is_bounded_by_the_policy_of_the_manifests(
    tmp_path: Path, capsys: Output
) -> None:
    allowed = BOUNDS.replace("/dev/ttyUSB*", "/dev/null")
    file = tmp_path / "manifests.yaml"
    file.write_text(config_map("one", CONFIG.replace("fuse", "null")) + allowed + BOUNDED)
    assert main(["simulate", str(file), "--once"]) == 0
    assert "example.com/null" in capsys.readouterr().out
