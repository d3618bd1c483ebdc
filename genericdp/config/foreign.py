"""Files of other tools that are taken for a config, and how to proceed."""

from __future__ import annotations

import re

_KINDS: tuple[tuple[str, str, str], ...] = (
    (
        r"^[ \t]*(resource|module|data|variable|locals)\b[^\n:]*\{[ \t]*$",
        "this is Terraform",
        "give the YAML within it, as between <<EOF and EOF, a file of its own",
    ),
    (
        r"\{\{-?[ \t]*(/\*|if|range|with|define|include|toYaml|tpl|end|template|\.|\$)",
        "this is a template of Helm",
        "give what 'helm template' prints, or the values of the chart",
    ),
    (
        r"\{%|^[ \t]*with_items:",
        "this is a template of Jinja",
        "give what it makes; a config has no loops: path takes a list",
    ),
    (
        r"^[ \t]*(ACTION|SUBSYSTEMS?|KERNELS?|DRIVERS?|ATTRS?\{|ENV\{)[^\n]*==",
        "these are rules of udev",
        "select by udev: {subsystem: tty}, with hardware: {usb: {vendor: '0403'}} for ATTRS",
    ),
    (
        r"^services:|^[ \t]*devices:[ \t]*\n[ \t]*- *[\"']?/dev/[^:\s]+:/",
        "this is for Docker Compose",
        "select devices, as in match: [{path: /dev/ttyUSB0}]; what it adds goes into inject",
    ),
    (
        r"^lxc\.|^hostpci[0-9]+:|^usb[0-9]+: *host=",
        "this is a config of Proxmox or LXC",
        "select devices, as in match: [{path: /dev/ttyUSB0}]",
    ),
    (
        r"permittedHostDevices:",
        "this is an object of KubeVirt",
        "10DE:1EB8 there is pci: {vendor: '10de', device: '1eb8'} here",
    ),
    (
        r"^kind:\s*Kustomization\b",
        "this builds manifests",
        "check these: kubectl kustomize DIR | genericdp validate -",
    ),
    (
        r"^kind:\s*(HelmRelease|Application)\b",
        "this deploys a chart",
        "check what it makes: helm template ... | genericdp validate -",
    ),
    (
        r"^#!.*\bsh\b|^[ \t]*cat[ \t]+<<|^[ \t]*(docker|podman|nerdctl|kubectl|helm|sudo)[ \t]",
        "this is a shell script",
        "give what it applies, or a YAML list of arguments: [--device, '{name: ..., groups: ...}']",
    ),
    (
        r"\A\s*\{[\w, .\n]*\}:[ \t\n]",
        "this is Nix",
        "give the YAML or JSON that it makes",
    ),
    (
        r"\A\s*(//|/\*)|\A\s*[\[{](?s:.*?)^[ \t]*(//|/\*)",
        "this is JSON with comments",
        "remove the comments, or write # in place of //",
    ),
    (
        r"^kind:\s*SriovNetworkNodePolicy\b",
        "this is for the SR-IOV operator, which makes the plugin's config of it",
        "give its ConfigMap: kubectl get configmap -n NAMESPACE device-plugin-config -o yaml",
    ),
    (
        r"^kind:\s*ClusterPolicy\b|nvidia/k8s-device-plugin|\btimeSlicing:|\bmigStrategy:",
        "this is for NVIDIA's plugin, which cannot be converted",
        "see examples/configs/nvidia-gpu.yaml",
    ),
    (
        r"deviceplugin\.intel\.com/|intel/intel-[a-z]+-plugin",
        "this is for Intel's plugins, which cannot be converted",
        "see examples/configs/intel-gpu.yaml and intel-fpga.yaml",
    ),
    (
        r"^apiVersion:\s*amd\.com/|rocm/k8s-device-plugin",
        "this is for AMD's plugin, which cannot be converted",
        "see examples/configs/amd-gpu.yaml",
    ),
)
"""An expression for the text, what it is, and what to do.

Each is linear in the text: behind a ``^``, which holds at every line, nothing may match newlines.
"""


def named(text: str) -> tuple[str, str] | None:
    """Return the format of an unconverted string, and what to do; None if it is unknown."""
    for expression, what, advice in _KINDS:
        if re.search(expression, text, re.MULTILINE):
            return what, advice
    return None
