"""Somebody takes the claimRef from a volume that was just made for a claim with a selected node: they are bound all the
same.

Differs from kube-controller-manager and external-provisioner, which leave such a claim to each other.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.binding import NO_PROVISIONER
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.kube.errors import Forbidden
from tests.support.binding import NODE, PV, PVC, BinderWorld, Tenant, annotations, binding
from tests.support.builders import Json, a_volume
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


def made_for(world: Tenant, claim: Json, prefix: str = "pvc", **more: Any) -> Json:
    """Its volume, without a claimRef. prefix: external-provisioner's --volume-name-prefix."""
    noted = {"pv.kubernetes.io/provisioned-by": world.driver}
    return a_volume(
        f"{prefix}-{claim['metadata']['uid']}", **{"sc": world("sc"), "phase": "Pending", "annotations": noted, **more}
    )


def name_of(body: Json) -> str:
    name: str = body["metadata"]["name"]
    return name


async def a_waiting_claim(world: Tenant, node: str) -> Json:
    """A pod's, for which the node is selected."""
    await world.make_waiting_pod()
    return await world.selected(world("claim"), node)


@each_row("prefix", ["pvc", "vol-of-a"])
async def test_the_claim_gets_its_volume_and_the_pod_runs(prefix: str) -> None:
    async with binding() as (_, world):
        node = await world.make_node()
        volume = made_for(world, await a_waiting_claim(world, node), prefix)
        await world.create(volume)
        await world.bound(world("claim"), name_of(volume))
        await world.scheduled(world("pod"), node)


class LateAnswer(ServerFaults):
    """The answer to the first PUT of one object comes late. done: the server has carried it out."""

    def __init__(self) -> None:
        self.name, self.done, self.go = "", asyncio.Event(), asyncio.Event()

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "replace" and name == self.name and not self.done.is_set():
            self.done.set()
            await self.go.wait()


async def test_also_when_the_volume_changes_while_the_binder_calls_it_available() -> None:
    faults = LateAnswer()
    async with binding(faults) as (_, world):
        node = await world.make_node()
        volume = made_for(world, await a_waiting_claim(world, node))
        faults.name = name_of(volume)
        await world.create(volume)
        await faults.done.wait()
        await world.patch(PV, name_of(volume), {"spec": {"mountOptions": ["noatime"]}})
        await asyncio.sleep(1)
        faults.go.set()
        await world.bound(world("claim"), name_of(volume))


class HeldClaiming(ServerFaults):
    """The second PUT of one object waits: the first is of its phase, the second of its claimRef."""

    def __init__(self) -> None:
        self.name, self.begun, self.go = "", asyncio.Event(), asyncio.Event()
        self._count = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "replace" and name == self.name:
            self._count += 1
            if self._count == 2:
                self.begun.set()
                await self.go.wait()


async def test_no_other_pod_gets_it_meanwhile() -> None:
    faults = HeldClaiming()
    async with binding(faults) as (_, world):
        node = await world.make_node()
        volume = made_for(world, await a_waiting_claim(world, node))
        await world.make_claim("other")
        faults.name = name_of(volume)
        await world.create(volume)
        await faults.begun.wait()
        await world.make_pod(world("other"), base="other-pod")
        await asyncio.sleep(1)
        faults.go.set()
        await world.bound(world("claim"), name_of(volume))


class Refused(ServerFaults):
    """PUTs of the claimRef of one object are refused; that of its phase, the first, is not."""

    def __init__(self) -> None:
        self.name, self.count = "", 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "replace" and name == self.name:
            self.count += 1
            if self.count > 1:
                raise Forbidden("a webhook denied the request", reason="Forbidden")


async def test_another_pod_gets_it_once_the_claim_is_gone() -> None:
    faults = Refused()
    async with binding(faults) as (_, world):
        node = await world.make_node()
        await world.make_class(wffc=True, provisioner=NO_PROVISIONER)
        volume = made_for(world, await world.make_claim(selected=node))
        faults.name = name_of(volume)
        await world.create(volume)
        await world.make_claim("other")
        await world.make_pod(world("other"), base="other-pod")
        await world.rejected(world("other-pod"), "didn't find available persistent volumes to bind")
        assert faults.count > 1
        await world.remove(PVC, world("claim"))
        faults.name = ""
        await world.bound(world("other"), name_of(volume))


async def test_a_claim_that_names_it_gets_it_also_after_a_restart() -> None:
    ours = BinderWorld()
    async with ours.binding() as world:
        node = await world.make_node()
        claim = await a_waiting_claim(world, node)
        volume = made_for(world, claim, phase="Available")
        await world.make_claim("named", volume=name_of(volume))
        await asyncio.sleep(5)
    await ours.create(volume)
    async with ours.binding():
        await world.bound(world("named"), name_of(volume))


async def test_the_claim_gets_it_once_nobody_names_it_any_more() -> None:
    async with binding() as (_, world):
        node = await world.make_node()
        volume = made_for(world, await a_waiting_claim(world, node))
        await world.make_claim("names-it", volume=name_of(volume), size="9Ti")
        await world.create(volume)
        await world.told(await world.get(PVC, world("names-it")), "Warning", "VolumeMismatch", "too small")
        assert not (await world.get(PVC, world("claim")))["spec"].get("volumeName")
        await world.delete(PVC, world("names-it"))
        await world.bound(world("claim"), name_of(volume))


async def test_once_its_node_is_gone_the_claim_goes_to_another_one() -> None:
    async with binding() as (_, world):
        gone = await world.make_node("n1")
        claim = await a_waiting_claim(world, gone)
        await world.remove(NODE, gone)
        await world.shown(
            PVC, world("claim"), lambda body: "volume.kubernetes.io/selected-node" not in annotations(body)
        )
        there = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [gone]}]}
        await world.create(
            made_for(world, claim, phase="Available", nodeAffinity={"required": {"nodeSelectorTerms": [there]}})
        )
        await world.available("local")
        await world.scheduled(world("pod"), await world.make_node("n2"))
