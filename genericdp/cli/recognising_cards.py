"""What ``genericdp init`` recognises of cards: GPUs, accelerators, networks, virtual functions."""

from __future__ import annotations

from genericdp.cli.recogniser import Recogniser

CARDS = (
    Recogniser(
        "NVIDIA GPUs, under the name that NVIDIA's own plugin has (run only one of the two).\n"
        "UUIDs for ids, health by XID and sharing: see nvidia-gpu.yaml among the examples.",
        """\
name: nvidia.com/gpu
match:
  - path: /dev/nvidia[0-9]*
inject:
  devices:
    - path: $(device.path)
    - {path: /dev/nvidiactl, optional: true}
    - {path: /dev/nvidia-uvm, optional: true}
    - {path: /dev/nvidia-uvm-tools, optional: true}
    - {path: /dev/nvidia-modeset, optional: true}""",
    ),
    Recogniser(
        "AMD GPUs, under the name that AMD's own plugin has (run only one of the two).",
        """\
name: amd.com/gpu
match:
  - pci: {vendor: "1002", driver: amdgpu}
inject:
  devices:
    - {path: /dev/kfd, optional: true}
    - {subsystem: drm, name: "card*"}
    - {subsystem: drm, name: "renderD*"}""",
    ),
    Recogniser(
        "Intel GPUs. Their drivers share a card well: raise replicas for several containers.",
        """\
name: gpu.intel.com/gpu
match:
  - pci: {vendor: "8086", class: "03*", driver: [i915, xe]}
inject:
  devices:
    - {subsystem: drm, name: "card*"}
    - {subsystem: drm, name: "renderD*"}""",
    ),
    Recogniser(
        "Other graphics cards that can compute or draw off screen.",
        """\
name: example.com/render
match:
  - udev: {subsystem: drm, name: "renderD*"}
replicas: 10""",
    ),
    Recogniser(
        "Google Coral on PCI Express or M.2.",
        """\
name: example.com/coral-pcie
match:
  - pci: {vendor: "1ac1", device: "089a"}
inject:
  devices:
    - {subsystem: apex}""",
    ),
    Recogniser(
        "Virtual functions (SR-IOV) that are bound to VFIO, for DPDK and virtual machines.",
        """\
name: example.com/vf-vfio
match:
  - pci: {function: virtual, driver: vfio-pci}
inject:
  devices:
    - path: /dev/vfio/vfio
    - path: /dev/vfio/$(pci.iommuGroup)
  env:
    VFIO_VF_ADDRESSES: $(pci.address)""",
    ),
    Recogniser(
        "Virtual functions (SR-IOV) with a network interface. A plugin of the pod network moves\n"
        "it into the pod, by the address that is told here: see sriov-vf.yaml among the examples.",
        """\
name: example.com/vf-net
match:
  - pci: {function: virtual, class: "02*"}
inject:
  devices:
    - {subsystem: infiniband_verbs, optional: true}    # of one that can RDMA
    - {path: /dev/infiniband/rdma_cm, optional: true}
  env:
    NET_VF_ADDRESSES: $(pci.address)""",
    ),
    Recogniser(
        "RDMA: InfiniBand and RoCE. An adapter can serve many: raise replicas for that.\n"
        "Virtual functions (SR-IOV) are excluded: example.com/vf-net has those that there are.",
        """\
name: example.com/rdma
match:
  - udev: {subsystem: infiniband}
exclude:
  - pci: {function: virtual}
inject:
  devices:
    - {subsystem: infiniband_verbs}
    - {subsystem: infiniband_mad, optional: true}
    - {path: /dev/infiniband/rdma_cm, optional: true}
  env:
    RDMA_DEVICES: $(device.name)""",
    ),
    Recogniser(
        "CAN bus adapters. They have no device file: the pod has to be in the host's network.",
        """\
name: example.com/can
match:
  - net: {linkType: can}
exclude:
  - net: {name: ["vcan*", "vxcan*"]}
inject:
  env:
    CAN_INTERFACES: $(net.name)""",
    ),
    Recogniser(
        "FPGAs with the kernel's DFL drivers: the ports, which are for applications.",
        """\
name: example.com/fpga-port
match:
  - udev: {subsystem: platform, name: "dfl-port.[0-9]*"}""",
    ),
    Recogniser(
        "Devices that are bound to VFIO, whole IOMMU groups, for virtual machines and DPDK.",
        """\
name: example.com/vfio
match:
  - path: /dev/vfio/[0-9]*
inject:
  devices:
    - path: $(device.path)
    - path: /dev/vfio/vfio""",
    ),
)
"""Special ones first; see ``recognising``."""
