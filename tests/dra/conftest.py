"""Fixtures of tests of DRA."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.server import ApiServer
from tests.dra.node import NODE, DraNode


@pytest.fixture
async def node(short_directory: Path) -> AsyncIterator[DraNode]:
    node = DraNode(short_directory)
    async with node.running():
        yield node


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        server.add_node(NODE)
        yield server
