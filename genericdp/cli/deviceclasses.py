"""``genericdp deviceclasses``: what an administrator creates once for resources that DRA serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.loading import usable_resources
from genericdp.cli.options import add_config, add_dra_driver
from genericdp.cli.output import print_document, yaml_document
from genericdp.dra.classes import device_classes, names_served_by_dra
from genericdp.errors import GenericdpError

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  genericdp deviceclasses --config examples/configs/serial-dra.yaml\n"
    "  genericdp deviceclasses --config serial.yaml | kubectl apply -f -\n"
    "\n"
    "A resource with servedBy: dra has two classes: TYPE.DOMAIN, which claims name, and\n"
    "TYPE.DOMAIN-limits, by which containers with limits get its devices (from Kubernetes 1.36\n"
    "on). An administrator creates them once for the cluster: the daemon has no right to."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_config(parser)
    add_dra_driver(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the classes; no device is looked for."""
    names = names_served_by_dra(usable_resources(arguments))
    if not names:
        raise GenericdpError(
            "no resource of the config has servedBy: dra, and others need no DeviceClass"
        )
    for about, one in device_classes(names, arguments.dra_driver).items():
        print_document(f"---\n# {about}\n{yaml_document(one)}")
    return 0
