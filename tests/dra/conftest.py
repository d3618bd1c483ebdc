"""Fixtures of tests of DRA."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.server import ApiServer
from tests.dra.claims import plug_stick
from tests.dra.node import NODE, DraNode


@pytest.fixture
async def node(short_directory: Path) -> AsyncIterator[DraNode]:
    node = DraNode(short_directory)
    async with node.running():
        yield node


@pytest.fixture
def sticks(node: DraNode) -> DraNode:
    """A node with two USB serial adapters, each with a serial number."""
    node.host.unplug("ttyUSB0")
    plug_stick(node.host, 1, number=0, serial="A")
    plug_stick(node.host, 2, number=1, serial="B")
    return node


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        server.add_node(NODE)
        yield server
