"""The config that the cluster's tests begin with, and how they change it."""

from __future__ import annotations

from pathlib import Path

FUSE = "example.com/fuse"
LOOP = "example.com/loop"
HEAD = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
"""
_CONFIG = """\
  - name: example.com/fuse
    match:
      - path: /dev/fuse
    replicas: {fuses}
    inject:
      devices: [{{path: $(device.path)}}]
      env: {{FUSE_ID: $(device.id)}}
  - name: example.com/loop
    match:
      - path: /dev/loop6[0-9]
    forgetAfterSeconds: 2
"""


def config_with(*, fuses: int = 3) -> str:
    """Give it, with so many shares of /dev/fuse; loop devices come later."""
    return HEAD + _CONFIG.format(fuses=fuses)


def one(*more: str) -> str:
    """Give one with three shares of /dev/fuse and nothing else, but for more lines of it."""
    lines = (f"  - name: {FUSE}", "    match: [{path: /dev/fuse}]", "    replicas: 3", *more)
    return HEAD + "\n".join(lines) + "\n"


def many(count: int) -> str:
    """Give a config with so many resources, ``example.com/many-0`` and on, each of one device."""
    line = "  - {{name: example.com/many-{0}, match: [{{path: /dev/{1}}}]}}\n"
    nodes = sorted(path.name for path in Path("/dev").iterdir() if path.is_char_device())
    return HEAD + "".join(line.format(number, nodes[number]) for number in range(count))
