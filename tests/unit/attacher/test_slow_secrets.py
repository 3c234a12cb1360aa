"""Secrets that are slow, or can't be read: whom that holds up."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.kube.errors import Unreachable
from tests.support.attaching import GET_SECRET, PUBLISH, AttacherWorld
from tests.support.builders import a_csi_node, a_held_pv, a_secret, a_va
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
SECRET = {"controllerPublishSecretRef": {"name": "secret", "namespace": "default"}}
COUNT = 60
"""More than there are workers."""


class SlowSecrets(ServerFaults):
    """seconds: of each GET. is_broken: it ends without an answer."""

    def __init__(self, seconds: float, *, is_broken: bool = False) -> None:
        self._seconds, self._is_broken = seconds, is_broken

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (verb, kind.plural) == ("get", "secrets"):
            await asyncio.sleep(self._seconds)
            if self._is_broken:
                raise Unreachable("timed out")


async def many_with_a_secret(faults: ServerFaults) -> AttacherWorld:
    world = AttacherWorld(faults=faults)
    volumes = [a_held_pv(f"s{number}", f"handle-{number}", **SECRET) for number in range(COUNT)]
    await world.create(a_csi_node(), a_held_pv(), a_secret(data={"token": "eA=="}), *volumes)
    await world.create(*(a_va(f"s{number}-node1", f"s{number}") for number in range(COUNT)))
    return world


async def test_a_secret_that_hangs_holds_up_only_who_needs_it():
    world = await many_with_a_secret(SlowSecrets(30.0, is_broken=True))
    async with world.attaching():
        await world.settle(1.0)
        await world.create(a_va())
        await world.attached(wait_s=0.1)


async def test_who_waits_for_a_secret_shares_one_error():
    """Else each would wait for a reading of its own, one after the other."""
    world = await many_with_a_secret(SlowSecrets(30.0, is_broken=True))
    async with world.attaching():
        for number in range(COUNT):
            await world.error(name=f"s{number}-node1")
        assert 31.0 > world.clock.now()
    assert 1 == world.story.count(GET_SECRET)


async def test_who_waits_for_a_secret_shares_one_answer():
    world = await many_with_a_secret(SlowSecrets(10.0))
    async with world.attaching():
        for number in range(COUNT):
            await world.attached(f"s{number}-node1")
    assert 1 == world.story.count(GET_SECRET)
    assert {"x"} == {call.request.secrets["token"] for call in world.driver.made(PUBLISH)}


async def test_who_had_to_wait_long_for_a_call_has_its_secret_still():
    """A Secret that was read again at each turn would lose the turn, again and again."""
    world = AttacherWorld(worker_threads=1)
    await world.create(
        a_csi_node(), a_secret(data={"token": "eA=="}), a_held_pv(), a_held_pv("s", "handle-s", **SECRET)
    )
    gate = world.driver.gate(PUBLISH)
    async with world.attaching(a_va(), a_va("s-node1", "s")):
        await world.settle(14.0)
        gate.set()
        await world.attached("s-node1", wait_s=1.0)
    assert 1 == world.story.count(GET_SECRET)
