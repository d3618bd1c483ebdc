"""A simulated API server and a client of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.apiserver import ApiClient

from tests.apiserver.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[ApiClient]:
    async with ApiClient(server.access) as client:
        yield client
