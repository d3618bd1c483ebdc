"""Asking ``genericdp explain`` in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"


def first_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, root: Path, resources: str, device: str
) -> str:
    """Ask, and give the answer's first line."""
    return answer(capsys, tmp_path, root, resources, device).splitlines()[0]


def answer(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    root: Path,
    resources: str,
    device: str,
    *more: str,
) -> str:
    """Ask, and give the answer to what is there."""
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + resources)
    words = ["explain", f"--config={config}", f"--root={root}", "--node-name=n"]
    code = main([*words, device, *more])
    printed = capsys.readouterr().out
    assert code == (1 if "there is no such device on this host" in printed else 0)
    return printed
