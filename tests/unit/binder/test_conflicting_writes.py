"""What others write between a decision and its writes: nobody's volume is taken, nobody's choice is overwritten."""

from __future__ import annotations

import asyncio

from mooring.api.binding import NO_PROVISIONER, SELECTED_NODE
from tests.support.binding import NODE, POD, PV, PVC, HeldWrites, annotations, binding, rejection
from tests.support.builders import a_claim
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


async def test_B08_the_scheduler_does_not_take_a_volume_that_somebody_took_meanwhile() -> None:
    """A pod's first volume is being written; its second one gets another owner, whose data must not change hands."""
    held = HeldWrites()
    async with binding(held) as (_, world):
        await world.make_node()
        await world.make_class(wffc=True, provisioner=NO_PROVISIONER)
        await world.available("small")
        await world.available("large", size="2Gi")
        await world.make_claim("first")
        await world.make_claim("second", size="2Gi")
        held.name = world("small")
        await world.make_pod(world("first"), world("second"))
        await held.begun.wait()
        owner = await world.make_claim("owner", size="2Gi", volume=world("large"))
        await world.bound(world("owner"), world("large"))
        held.let_go()
        await world.bound(world("first"), world("small"))
        await world.rejected(world("pod"), "didn't find available persistent volumes to bind")
        assert "Bound" == (await world.get(PVC, world("owner")))["status"]["phase"]
        assert owner["metadata"]["uid"] == (await world.get(PV, world("large")))["spec"]["claimRef"]["uid"]


async def test_B14_a_claim_that_chose_another_volume_meanwhile_is_not_given_this_one() -> None:
    held = HeldWrites()
    async with binding(held) as (ours, world):
        await world.make_node()
        await world.make_class(wffc=True, provisioner=NO_PROVISIONER)
        for base, size in (("small", "1Gi"), ("large", "2Gi"), ("chosen", "3Gi")):
            await world.available(base, size=size)
        await world.make_claim("first")
        await world.make_claim("second", size="2Gi")
        held.name = world("small")
        await world.make_pod(world("first"), world("second"))
        await held.begun.wait()
        await world.patch(PVC, world("second"), {"spec": {"volumeName": world("chosen")}})
        await world.bound(world("second"), world("chosen"))
        held.let_go()
        await world.scheduled(world("pod"), world("n1"))
        assert [] == [one for one in ours.writes(world("large")) if one == "update persistentvolumes"]


async def test_B21_the_scheduler_does_not_overwrite_a_node_that_was_chosen_meanwhile() -> None:
    held = HeldWrites()
    async with binding(held) as (ours, world):
        one = await world.make_node("n1")
        await world.make_class(wffc=True)
        for base in ("first", "second"):
            await world.make_claim(base)
        held.name = world("first")
        await world.make_pod(world("first"), world("second"))
        await held.begun.wait()
        two = await world.make_node("n2")
        await world.patch(PVC, world("second"), {"metadata": {"annotations": {SELECTED_NODE: two}}})
        await asyncio.sleep(1)
        await world.delete(NODE, one)
        held.let_go()
        await asyncio.sleep(5)
        written = [
            request.body
            for request in ours.cluster.writes("update persistentvolumeclaims")
            if request.name == world("second")
        ]
        assert {two} == {annotations(body).get(SELECTED_NODE) for body in written}


async def test_B21_a_claim_of_the_same_name_gets_no_node_by_mistake() -> None:
    """The claim that the node was chosen for is gone; its namesake wants another pod's node, or none."""
    held = HeldWrites()
    async with binding(held) as (_, world):
        await world.make_node()
        await world.make_class(wffc=True)
        for base in ("first", "second"):
            await world.make_claim(base)
        held.name = world("first")
        await world.make_pod(world("first"), world("second"))
        await held.begun.wait()
        await world.remove(PVC, world("second"))
        await world.create(a_claim(world("second"), sc=None))
        await world.delete(POD, world("pod"))
        held.let_go()
        await asyncio.sleep(5)
        assert {} == annotations(await world.get(PVC, world("second")))


async def test_a_pod_of_the_same_name_is_not_told_what_its_predecessor_waited_for() -> None:
    held = HeldWrites("patch")
    async with binding(held) as (_, world):
        held.name = world("pod")
        await world.make_pod(world("missing"))
        await held.begun.wait()
        await world.remove(POD, world("pod"))
        await world.make_pod(schedulerName="another")  # nobody corrects what it is told
        held.let_go()
        await asyncio.sleep(5)
        assert "" == rejection(await world.get(POD, world("pod")))


async def test_B08_a_volume_is_not_given_twice_while_a_write_of_ours_to_it_is_under_way() -> None:
    """What the cache is shown meanwhile is told later: the available volumes still have one that is bound by now."""
    held = HeldWrites()
    async with binding(held) as (_, world):
        await world.make_class()
        await world.available("pv")
        held.name = world("pv")
        await world.patch(PV, world("pv"), {"metadata": {"finalizers": None}})
        await held.begun.wait()
        owner = await world.make_claim("owner")
        await world.bound(world("owner"), world("pv"))
        await world.make_claim("late")
        await world.asked(world("late"))
        held.let_go()
        await asyncio.sleep(5)
        assert "Bound" == (await world.get(PVC, world("owner")))["status"]["phase"]
        assert owner["metadata"]["uid"] == (await world.get(PV, world("pv")))["spec"]["claimRef"]["uid"]
