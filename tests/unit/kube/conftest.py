"""Fixtures of the clients' tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import ModuleType

import pytest

from mooring.kube.client import http, transport
from mooring.kube.client.http import HttpCluster
from tests.unit.kube.bad_server import BadServer, bad_server
from tests.unit.kube.clients import a_client


@pytest.fixture(params=["http1", "aiohttp"])
def both_transports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Runs a test with the client's own HTTP, and with aiohttp's: what they say and do is the same. Gives the module of
    the one in use.
    """
    if request.param == "http1":
        return transport
    from tests.support import aiohttp_transport

    monkeypatch.setattr(http, "HttpTransport", aiohttp_transport.AiohttpTransport)
    return aiohttp_transport


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
