"""``genericdp deviceclasses``: prints the DeviceClasses of resources that DRA serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.cli.loading import usable_resources
from genericdp.cli.output import print_document, yaml_document
from genericdp.devices.resourcenames import class_names
from genericdp.errors import GenericdpError
from genericdp.model import ServedBy

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EXAMPLE = (
    "  genericdp deviceclasses examples/configs/serial-dra.yaml\n"
    "  genericdp deviceclasses serial.yaml | kubectl apply -f -\n"
    "\n"
    "A resource with servedBy: dra has two classes: TYPE.DOMAIN, which claims name, and\n"
    "TYPE.DOMAIN-limits, by which containers with limits get its devices (from Kubernetes 1.36\n"
    "on). An administrator creates them once for the cluster: the daemon has no right to."
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the classes, without discovering devices."""
    served = (
        resource for resource in usable_resources(arguments) if resource.served_by is ServedBy.DRA
    )
    # Resources for different nodes may have equal names.
    names = dict.fromkeys(
        name for resource in served for name in resource.names or (resource.name,)
    )
    if not names:
        raise GenericdpError(
            "no resource of the config has servedBy: dra, and others need no DeviceClass"
        )
    for name in names:
        for about, manifest in _classes(name, arguments.dra_driver):
            print_document(f"---\n# {about}\n{yaml_document(manifest)}")
    return 0


def _classes(name: str, driver: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the DeviceClasses of a resource, each with a line about its purpose.

    The class for plain ``limits`` selects only nodes whose kubelet prepares such claims: other
    kubelets would start the container without the device.
    """
    own, for_limits = class_names(name)
    attributes = f'device.attributes["{driver}"]'
    selector = f'device.driver == "{driver}" &&\n{attributes}.resource == "{name}"'
    yield f"For claims with deviceClassName: {own}", _class(own, selector)
    selector = f"{selector} &&\n{attributes}.extendedResource"
    about = f"For containers with limits: {{{name}: 1}}, from Kubernetes 1.36 on"
    yield about, _class(for_limits, selector, extendedResourceName=name)


def _class(name: str, expression: str, **spec: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }
