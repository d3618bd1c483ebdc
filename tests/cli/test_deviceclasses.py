"""``genericdp deviceclasses``: what an administrator creates for resources that DRA serves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.cli import main

from tests.cli.explain_output import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Classes = Callable[..., list[dict[str, Any]]]

SELECTOR = """\
device.driver == "genericdp.io" &&
device.attributes["genericdp.io"].resource == "example.com/serial\""""
SERIAL = "name: example.com/serial, servedBy: dra"
OBJECT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.fixture
def classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Classes:
    """Print the classes of resources."""

    def print_classes(*resources: str, more: str = "") -> list[dict[str, Any]]:
        config = tmp_path / "config.yaml"
        lines = [f"  - {{{keys}, match: [{{path: /dev/a}}]}}\n" for keys in resources]
        config.write_text(HEAD + "".join(lines))
        code = main(["deviceclasses", str(config), *more.split()])
        printed = capsys.readouterr()
        assert (code, printed.err) == ((0, "") if printed.out else (1, NONE))
        return [*yaml.safe_load_all(printed.out)]

    return print_classes


NONE = "genericdp: no resource of the config has servedBy: dra, and others need no DeviceClass\n"


def names(found: list[dict[str, Any]]) -> list[str]:
    return [document["metadata"]["name"] for document in found]


def test_a_resource_has_a_class_for_claims_and_one_for_limits(classes: Classes) -> None:
    own = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    for_limits = f'{SELECTOR} &&\ndevice.attributes["genericdp.io"].extendedResource'
    assert classes(SERIAL, "name: example.com/fuse") == [
        {
            **own,
            "metadata": {"name": "serial.example.com"},
            "spec": {"selectors": [{"cel": {"expression": SELECTOR}}]},
        },
        {
            **own,
            "metadata": {"name": "serial.example.com-limits"},
            "spec": {
                "selectors": [{"cel": {"expression": for_limits}}],
                "extendedResourceName": "example.com/serial",
            },
        },
    ]
    assert classes("name: example.com/fuse") == []


def test_the_driver_can_have_another_name(classes: Classes) -> None:
    own, other = classes(SERIAL), classes(SERIAL, more="--dra-driver dra.example.com")
    assert yaml.dump(other) == yaml.dump(own).replace("genericdp.io", "dra.example.com")


@pytest.mark.parametrize("name", ["Dra.example.com", "a/b", "-a", "a..b", "", "a." * 31 + "ab"])
def test_a_driver_that_kubernetes_refuses_is_refused(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deviceclasses", "--config", "x", f"--dra-driver={name}"]) == 2
    assert f"{name!r} is not a DRA driver's name" in capsys.readouterr().err


def test_names_of_classes_are_valid_and_differ_whatever_the_type(classes: Classes) -> None:
    types = ["example.com/A_b.C", "example.com/a_b.c", "example.com/a-b-c", f"a.b/{'x' * 60}"]
    found = names(classes(*(f"name: {name}, servedBy: dra" for name in types)))
    assert len(set(found)) == len(found) == 8
    assert all(OBJECT.fullmatch(name) and len(name) <= 253 for name in found)


def test_classes_are_those_of_all_names_that_may_result_on_any_node(classes: Classes) -> None:
    found = classes(
        "name: example.com/$(value.model), names: [example.com/l4, example.com/a2],"
        " servedBy: dra, values: {model: {text: $(device.name)}}",
        "name: example.com/card, servedBy: dra, nodeNames: [a]",
        "name: example.com/card, servedBy: dra, nodeNames: [b]",
        "name: example.com/card, servedBy: devicePlugin, nodeNames: [c]",
    )
    own = ["l4.example.com", "a2.example.com", "card.example.com"]
    assert names(found) == [name for base in own for name in (base, f"{base}-limits")]
