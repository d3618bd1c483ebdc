"""Resources as the model has them, and a host as the readers of one take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.host.root import Root
from genericdp.model import (
    DeviceNodeSelector,
    EnvVar,
    Inject,
    PathSelector,
    Place,
    Resource,
    Selector,
)
from genericdp.template import parse

from tests.world import Host as CopiedTree

if TYPE_CHECKING:
    from pathlib import Path


PLACE = Place(file="test.yaml", line=1, column=1)


def resource(
    name: str, *globs: str, replicas: int = 1, forget: int = 300, inject: Inject | None = None
) -> Resource:
    """A resource of path selectors."""
    return Resource(
        name=name,
        place=PLACE,
        match=tuple(Selector(candidates=PathSelector(globs=(glob,))) for glob in globs),
        replicas=replicas,
        forget_after_seconds=forget,
        inject=inject or Inject(),
    )


def serial(name: str = "example.com/serial", **keys: int) -> Resource:
    """Serial adapters, several of which fit into one container."""
    return resource(
        name,
        "/dev/ttyUSB*",
        inject=Inject(
            devices=(
                DeviceNodeSelector(
                    path=parse("$(device.path)"),
                    container_path=parse("/dev/serial$(allocation.index)"),
                ),
            ),
            env={"SERIAL": EnvVar(value=parse("$(device.name)"))},
        ),
        **keys,
    )


class Host(CopiedTree):
    """A copied tree, as the supervisor takes it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.root = Root(directory)
