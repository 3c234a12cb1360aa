"""Fixtures of the clients' tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mooring.kube.client.http import HttpCluster
from tests.unit.kube.bad_server import BadServer, bad_server
from tests.unit.kube.clients import a_client


@pytest.fixture
async def server() -> AsyncIterator[BadServer]:
    """A server that answers as it is told."""
    async with bad_server() as made:
        yield made


@pytest.fixture
async def cluster(server: BadServer) -> AsyncIterator[HttpCluster]:
    """A client of that server."""
    async with a_client(server.config()) as made:
        yield made
