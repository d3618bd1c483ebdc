"""A config whose every resource is for other nodes: each command says so, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.fixtures.make_tree import serial_node

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    nodeNames: ["edge-*", lab]
    match: [{path: /dev/ttyUSB*}]
"""
REASON = "no resource is for this node core-1 (nodeNames: edge-*, lab)"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["discover"], 0, f"warning: {REASON}\n"),
        (["discover", "-o", "json"], 0, f"warning: {REASON}\n"),
        (["explain", "/dev/ttyUSB0"], 0, f"warning: {REASON}\n"),
        (["allocate", "example.com/serial=1"], 1, f"genericdp: {REASON}\n"),
        (["simulate"], 1, f"genericdp: {REASON}\n"),
        (["simulate", "--once"], 1, f"genericdp: {REASON}\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_says_so_at_once(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    root = serial_node(tmp_path / "host").folder
    argv = [*words, f"--config={config}", f"--root={root}", "--node-name=core-1"]
    assert main(argv) == code
    assert capsys.readouterr().err == said
