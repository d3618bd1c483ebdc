"""Rendered manifests, given to ``genericdp validate``."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest
import yaml
from genericdp.cli import main

from tests.deploy.chartvalues import VALUES
from tests.deploy.rendering import kustomizations, of_kind, render_helm, render_kustomize, tool

if TYPE_CHECKING:
    from tests.deploy.rendering import Manifest

pytestmark = pytest.mark.deploy


class _Stdin:
    def __init__(self, text: str) -> None:
        self.buffer = io.BytesIO(text.encode())


def _validated(
    made: list[Manifest], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "stdin", _Stdin(yaml.safe_dump_all(made)))
    code = main(["validate", "-"])
    said = capsys.readouterr().out
    assert code == 0, said
    return said


@pytest.mark.parametrize("name", kustomizations())
def test_what_kustomize_makes_is_valid(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = render_kustomize(tool("kubectl"), kustomizations()[name])
    said = _validated(made, monkeypatch, capsys)
    assert said.startswith("3 configs" if name == "node-groups" else "1 config ")


# The two have no config, or strings that stand for one.
@pytest.mark.parametrize("name", sorted(VALUES.keys() - {"files", "existing"}))
def test_what_helm_makes_is_valid(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = render_helm(tool("helm"), VALUES[name])
    assert "config" in _validated(made, monkeypatch, capsys)


def test_a_config_that_breaks_the_policy_beside_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = render_kustomize(tool("kubectl"), kustomizations()["policy"])
    (config,) = (
        m for m in of_kind(made, "ConfigMap") if m["metadata"]["name"] == "genericdp-config"
    )
    config["data"]["genericdp.yaml"] = config["data"]["genericdp.yaml"].replace(
        "/dev/fuse", "/dev/kvm"
    )
    monkeypatch.setattr(sys, "stdin", _Stdin(yaml.safe_dump_all(made)))
    assert main(["validate", "-"]) == 2
    said = capsys.readouterr().out
    assert "ConfigMap genericdp/genericdp-config .resources[0].match[0].path: '/dev/kvm'" in said
