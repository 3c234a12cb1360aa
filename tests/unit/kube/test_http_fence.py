"""A write behind a fence is held back in the last moment before it would be sent; a read never is."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base import fence
from mooring.kube.client.http import HttpCluster
from mooring.kube.errors import Unreachable
from mooring.kube.patch import merge_patch
from tests.unit.kube.bad_server import BadServer, answer
from tests.unit.kube.clients import VA

WHY = "the Lease may have run out"


async def patch(cluster: HttpCluster) -> None:
    await cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({"a": 1}))


async def test_a_fence_that_closes_while_a_write_waits_for_its_connection_keeps_the_write_back(
    server: BadServer, cluster: HttpCluster
):
    server.otherwise = answer(200, VA)
    closed = [""]
    with fence.behind(lambda: closed[0]):
        writing = asyncio.get_running_loop().create_task(patch(cluster), name="write")
    await asyncio.sleep(0)
    closed[0] = WHY
    with pytest.raises(Unreachable, match=f"PATCH was not sent: {WHY}"):
        await writing
    assert [] == server.requests


async def test_on_a_connection_that_waits_a_write_is_held_back_too_and_a_read_is_not(
    server: BadServer, cluster: HttpCluster
):
    server.otherwise = answer(200, VA)
    await patch(cluster)
    with fence.behind(lambda: WHY):
        with pytest.raises(Unreachable, match=WHY):
            await patch(cluster)
        await cluster.get(VOLUME_ATTACHMENTS, "va")
    await patch(cluster)
    assert ["PATCH", "GET", "PATCH"] == [request.method for request in server.requests]


async def test_an_open_fence_holds_nothing_back(server: BadServer, cluster: HttpCluster):
    server.otherwise = answer(200, VA)
    with fence.behind(lambda: ""):
        await patch(cluster)
    assert ["PATCH"] == [request.method for request in server.requests]
