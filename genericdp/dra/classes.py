"""DeviceClasses: the names by which pods get devices that DRA serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.labels import class_names
from genericdp.model import ServedBy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.dra.slices import Json
    from genericdp.model import Resource


def names_served_by_dra(resources: Iterable[Resource]) -> list[str]:
    """Return the names of resources that DRA serves, also those that result from a template."""
    served = (one for one in resources if one.served_by is ServedBy.DRA)
    # Those of several nodes may be equal.
    return list(dict.fromkeys(name for one in served for name in one.names or (one.name,)))


def device_classes(names: Iterable[str], driver: str) -> dict[str, Json]:
    """Return two DeviceClasses for each name of a resource, with what each of them is for.

    One is for claims. The other one is for plain ``limits``, and only on nodes whose kubelet
    prepares them: others would start the container without the device.
    """
    return {about: one for name in names for about, one in _classes(name, driver)}


def _classes(name: str, driver: str) -> Iterator[tuple[str, Json]]:
    own, for_limits = class_names(name)
    attributes = f'device.attributes["{driver}"]'
    selector = f'device.driver == "{driver}" &&\n{attributes}.resource == "{name}"'
    yield f"For claims with deviceClassName: {own}", _class(own, selector)
    selector = f"{selector} &&\n{attributes}.extendedResource"
    about = f"For containers with limits: {{{name}: 1}}, from Kubernetes 1.36 on"
    yield about, _class(for_limits, selector, extendedResourceName=name)


def _class(name: str, expression: str, **spec: str) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }
