"""The config that the cluster's tests begin with, and how they change it."""

from __future__ import annotations

FUSE = "example.com/fuse"
LOOP = "example.com/loop"
_CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
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
    return _CONFIG.format(fuses=fuses)
