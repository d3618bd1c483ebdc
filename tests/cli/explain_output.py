"""Asking ``genericdp explain`` in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    Capture = pytest.CaptureFixture[str]

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
FTDI = """\
  - name: example.com/serial
    match:
      - udev: {subsystem: tty}
        hardware: {usb: {vendor: "0403", product: "6001"}}
"""
STICK = '  - name: example.com/stick\n    match: [{usb: {vendor: "1a86"}}]\n'
LINKS = "  - name: example.com/serial\n    match: [{path: /dev/serial/by-id/*}]\n"
BY_ID = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A10K5UHJ-if00-port0"


def first_line(
    capsys: Capture, tmp_path: Path, root: Path, resources: str, device: str, *more: str
) -> str:
    """Ask, and give the answer's first line."""
    return answer(capsys, tmp_path, root, resources, device, *more)[0]


def answer(
    capsys: Capture, tmp_path: Path, root: Path, resources: str, device: str, *more: str
) -> list[str]:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + resources)
    code = main(
        ["explain", "--config", str(config), "--root", str(root), "--node-name=n", device, *more]
    )
    printed = capsys.readouterr().out
    assert code == (1 if "there is no such device on this host" in printed else 0)
    return printed.splitlines()
