"""The config of these tests."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.scenarios import HEAD

FUSE = "example.com/fuse"
DISK = "example.com/disk"
MANY = "example.com/many"
STICK = "example.com/stick"
"""A pod is evicted from one that fails."""
PART = "example.com/part"
"""Of a loop device that pods share by capacity."""
NODES = Path("/dev/genericdp-many")
_CONFIG = """\
  - name: example.com/fuse
    servedBy: dra
    match:
      - path: /dev/fuse
    replicas: 40
    inject:
      devices: [{path: $(device.path)}]
      env: {FUSE_IDS: $(device.id)}
  - name: example.com/disk
    servedBy: dra
    match:
      - path: /dev/loop6[0-9]
    forgetAfterSeconds: 2
    attributes:
      number: {int: $(device.minor)}
      file: $(attribute.loop/backing_file)
    metadata: true
    parameters:
      depth: {int: {min: 1, max: 64, default: 8}}
    inject:
      devices: [{path: $(device.path)}]
      env: {DISKS: $(device.id), DISK_DEPTH: $(claim.parameters.depth)}
    hooks:
      allocate: {exec: {command: [/bin/sh, -c, 'echo allocate "$0" >>SCRATCH/hooks', $(device.id)]}}
      release: {exec: {command: [/bin/sh, -c, 'echo release "$0" >>SCRATCH/hooks', $(device.id)]}}
  - name: example.com/stick
    servedBy: dra
    unhealthyTaint: NoExecute
    forgetAfterSeconds: 2
    match:
      - path: /dev/loop8[0-4]
    inject:
      devices: [{path: $(device.path), containerPath: "/dev/$(claim.name)/$(claim.request)"}]
      env: {STICK: $(device.name)}
    health:
      - exec: {command: [/bin/sh, -c, 'test ! -e SCRATCH/broken-"$0"', $(device.name)]}
        periodSeconds: 1
        failureThreshold: 1
  - name: example.com/part
    servedBy: dra
    match:
      - path: /dev/loop74
    forgetAfterSeconds: 2
    sharing: capacity
    capacity:
      sectors: {value: 16k, default: 4k, min: 4k, step: 4k}
    inject:
      devices: [{path: $(device.path), containerPath: /dev/$(claim.request)}]
      env: {SECTORS: $(claim.capacity.sectors)}
    hooks:
      allocate: {exec: {command: [/bin/sh, -c, 'echo allocate "$0" >>SCRATCH/hooks', $(device.id)]}}
      release: {exec: {command: [/bin/sh, -c, 'echo release "$0" >>SCRATCH/hooks', $(device.id)]}}
  - name: example.com/many
    servedBy: dra
    match:
      - path: NODES/*
    forgetAfterSeconds: 600
"""


def config(directory: Path) -> str:
    """Give it; hooks show in ``directory`` that they run."""
    return HEAD + _CONFIG.replace("SCRATCH", str(directory)).replace("NODES", str(NODES))
