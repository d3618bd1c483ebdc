"""``genericdp deviceclasses``: what an administrator creates for resources that DRA serves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from genericdp.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
SELECTOR = """\
device.driver == "genericdp.io" &&
device.attributes["genericdp.io"].resource == "example.com/serial\""""
OBJECT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def config(folder: Path, *resources: str) -> str:
    file = folder / "config.yaml"
    file.write_text(
        HEAD + "".join(f"  - {{{one}, match: [{{path: /dev/a}}]}}\n" for one in resources)
    )
    return str(file)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["deviceclasses", *words]) == 0
    return capsys.readouterr().out


def test_a_resource_has_a_class_for_claims_and_one_for_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path, "name: example.com/serial, servedBy: dra", "name: example.com/fuse")
    text = printed(capsys, "--config", file)
    first, second = yaml.safe_load_all(text)
    own = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    assert first == {
        **own,
        "metadata": {"name": "serial.example.com"},
        "spec": {"selectors": [{"cel": {"expression": SELECTOR}}]},
    }
    for_limits = f'{SELECTOR} &&\ndevice.attributes["genericdp.io"].extendedResource'
    assert second == {
        **own,
        "metadata": {"name": "serial.example.com-limits"},
        "spec": {
            "selectors": [{"cel": {"expression": for_limits}}],
            "extendedResourceName": "example.com/serial",
        },
    }
    assert "# For claims with deviceClassName: serial.example.com\n" in text


def test_the_driver_can_have_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path, "name: example.com/serial, servedBy: dra")
    found = yaml.safe_load_all(printed(capsys, "--config", file, "--dra-driver", "dra.example.com"))
    expressions = [one["spec"]["selectors"][0]["cel"]["expression"] for one in found]
    assert expressions[0] == SELECTOR.replace("genericdp.io", "dra.example.com")
    assert "genericdp.io" not in expressions[1]


@pytest.mark.parametrize("name", ["Dra.example.com", "a/b", "-a", "a..b", "", "a." * 31 + "ab"])
def test_a_driver_that_kubernetes_refuses_is_refused(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deviceclasses", "--config", "x", f"--dra-driver={name}"]) == 2
    assert f"{name!r} is no name of a DRA driver" in capsys.readouterr().err


def test_names_of_classes_are_valid_and_differ_whatever_the_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["example.com/A_b.C", "example.com/a_b.c", "example.com/a-b-c", f"a.b/{'x' * 60}"]
    file = config(tmp_path, *(f"name: {one}, servedBy: dra" for one in names))
    found = [
        one["metadata"]["name"] for one in yaml.safe_load_all(printed(capsys, "--config", file))
    ]
    assert len(set(found)) == len(found) == 8
    assert all(OBJECT.fullmatch(one) and len(one) <= 253 for one in found)


def test_classes_are_those_of_all_names_that_may_result_on_any_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = (
        "name: example.com/$(value.model), names: [example.com/l4, example.com/a2],"
        " servedBy: dra, values: {model: {text: $(device.name)}}"
    )
    file = config(
        tmp_path,
        template,
        "name: example.com/card, servedBy: dra, nodeNames: [a]",
        "name: example.com/card, servedBy: dra, nodeNames: [b]",
        "name: example.com/card, servedBy: devicePlugin, nodeNames: [c]",
    )
    found = [
        one["metadata"]["name"] for one in yaml.safe_load_all(printed(capsys, "--config", file))
    ]
    own = ["l4.example.com", "a2.example.com", "card.example.com"]
    assert found == [name for one in own for name in (one, f"{one}-limits")]


def test_a_config_without_dra_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deviceclasses", "--config", config(tmp_path, "name: example.com/fuse")]) == 1
    assert capsys.readouterr().err == (
        "genericdp: no resource of the config has servedBy: dra, and others need no DeviceClass\n"
    )
