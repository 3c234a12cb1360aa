"""The binder at work in virtual time: which writes it makes, what interrupts it, and that it comes to the same end."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.binding import NO_PROVISIONER, SELECTED_NODE, VAC_PROTECTION
from mooring.api.core import EVENTS
from mooring.api.meta import Kind
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES
from mooring.cluster.binder import options
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.protection.reconcile import LOOK_AGAIN_S
from mooring.kube.errors import Conflict, ServerError, Unreachable
from tests.support.binding import (
    NODE,
    POD,
    PV,
    PVC,
    BinderWorld,
    Forbids,
    HeldWrites,
    Tenant,
    annotations,
    binding,
    finalizers,
)
from tests.support.builders import (
    Json,
    a_claim,
    a_class,
    a_pod,
    a_ready_node,
    a_volume,
    an_attributes_class,
    an_ephemeral_volume,
)
from tests.support.cluster_world import LateWatch, TornWatch
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time, run_virtual

pytestmark = in_virtual_time
PUT_PV, PUT_PV_STATUS = "update persistentvolumes", "update persistentvolumes/status"
PUT_PVC, PUT_PVC_STATUS = "update persistentvolumeclaims", "update persistentvolumeclaims/status"
BIND = [PUT_PV, PUT_PV_STATUS, PUT_PVC, PUT_PVC_STATUS]
WITHOUT_SCHEDULER = frozenset(options.PARTS) - {options.SCHEDULER}


# -- writes


async def test_B05_four_writes() -> None:
    async with binding() as (ours, world):
        await world.available()
        ours.cluster.requests.clear()
        await world.make_claim()
        await world.bound(world("claim"), world("pv"))
        await asyncio.sleep(60)
        assert BIND == ours.writes(world("claim"), world("pv"))


async def test_B43_writes_of_a_pod_with_a_volume() -> None:
    """Six with the provisioner's own."""
    async with binding() as (ours, world):
        node = await world.make_node()
        await world.make_waiting_pod()
        await world.selected(world("claim"), node)
        claim = await world.asked(world("claim"))
        await world.provision(claim)
        await world.scheduled(world("pod"), node)
        await asyncio.sleep(60)
        assert [PUT_PVC, PUT_PVC, PUT_PV_STATUS, PUT_PVC, PUT_PVC_STATUS] == ours.writes(world("claim"), world("pv"))
        assert ["create pods/binding"] == ours.writes(world("pod"))


async def test_B43_nobody_waits_for_a_second() -> None:
    """Differs from kube-scheduler, which looks once a second: no time passes but that of the test's own looks."""
    async with binding() as (ours, world):
        node = await world.make_node()
        await world.make_waiting_pod()
        await world.provision(await world.asked(world("claim")))
        before = ours.clock.now()
        await world.scheduled(world("pod"), node)
        assert ours.clock.now() - before < 0.1


async def test_B17_a_restart_writes_nothing_more() -> None:
    async with binding() as (ours, world):
        await world.make_pair()
    told = ours.writes(world("claim"), world("pv"))
    async with ours.binding() as again:
        await again.settle()
    assert told == ours.writes(world("claim"), world("pv"))


@each_row("lost", range(5))
@each_row("happened", [False, True])
async def test_B17_any_write_may_be_lost(lost: int, happened: bool) -> None:
    """The answer never comes, whether the write took effect or not; a later one finishes what is left."""
    ours = BinderWorld()
    rule = ours.cluster.refuse([PUT_PV_STATUS, *BIND][lost], error=Unreachable("cut"), after=happened)
    async with ours.binding() as world:
        await world.create(a_volume(world("pv"), sc=world("sc")))
        await world.make_claim()
        await world.bound(world("claim"), world("pv"))
        await world.phase(PV, world("pv"), "Bound")
        assert 1 == rule.hits


@each_row("write", sorted({PUT_PV, PUT_PV_STATUS, PUT_PVC, PUT_PVC_STATUS}))
@each_row(
    "error", [Conflict("changed", reason="Conflict"), ServerError("timed out", code=500)], ids=["conflict", "error"]
)
async def test_B17_a_write_is_refused(write: str, error: Exception) -> None:
    ours = BinderWorld()
    ours.cluster.refuse(write, error=error, times=2)  # type: ignore[arg-type]
    async with ours.binding() as world:
        await world.create(a_volume(world("pv"), sc=world("sc")))
        await world.make_claim()
        await world.bound(world("claim"), world("pv"))


# -- many at once


@each_row("seed", range(12))
def test_no_volume_is_bound_twice_whatever_the_order(seed: int) -> None:
    async def main() -> None:
        async with binding() as (ours, world):
            for number in range(12):
                await world.create(a_volume(world(f"pv{number}")))
                await world.create(a_claim(world(f"claim{number}")))
            claims = [await world.phase(PVC, world(f"claim{number}"), "Bound") for number in range(12)]
            assert 12 == len({claim["spec"]["volumeName"] for claim in claims})
            for claim in claims:
                volume = await world.phase(PV, claim["spec"]["volumeName"], "Bound")
                assert claim["metadata"]["uid"] == volume["spec"]["claimRef"]["uid"]
                assert 4 == len(ours.writes(claim["metadata"]["name"], volume["metadata"]["name"])) - 1, (
                    "and Available before"
                )

    run_virtual(main(), seed)


@each_row("seed", range(8))
def test_killed_again_and_again(seed: int) -> None:
    """kill -9 after each write in turn; whoever comes next goes on, and nothing is bound twice."""

    async def main() -> None:
        ours = BinderWorld()
        world = Tenant(ours.users)
        await world.make_class(wffc=True)
        await world.create(a_class("static"))
        node = await world.make_node()
        for number in range(3):
            await world.create(a_volume(world(f"pv{number}"), sc="static"))
            await world.create(a_claim(world(f"static{number}"), sc="static"))
        await world.make_claim("dynamic")
        await world.make_pod(world("dynamic"), world("static0"))
        for _ in range(40):
            async with ours.binding():
                before = len(ours.cluster.requests)
                await _one_more_write(ours, before)
            claim = await world.get(PVC, world("dynamic"))
            if "volume.kubernetes.io/storage-provisioner" in annotations(claim):
                break
        async with ours.binding():
            await world.provision(await world.asked(world("dynamic")), "made")
            await world.scheduled(world("pod"), node)
            names = [
                (await world.phase(PVC, world(f"static{number}"), "Bound"))["spec"]["volumeName"] for number in range(3)
            ]
            assert 3 == len(set(names))

    run_virtual(main(), seed)


async def _one_more_write(ours: BinderWorld, before: int) -> None:
    async with asyncio.timeout(5):
        while all(one.verb == "get" for one in ours.cluster.requests[before:]):
            await ours.clock.sleep(0)


# -- classes


async def test_B03_B04_a_default_appears() -> None:
    async with binding() as (ours, world):
        unset = await world.create(a_claim(world("unset"), sc=None))
        await world.create(a_claim(world("empty"), sc=""))
        await world.told(
            unset,
            "Normal",
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        )
        await world.make_class(default=True)
        assert world("sc") == (await world.asked(world("unset")))["spec"]["storageClassName"]
        assert "" == (await world.get(PVC, world("empty")))["spec"]["storageClassName"]
    assert b"retroactive_storageclass_total 1.0" in ours.metrics.render()


async def test_27c2_events_are_not_repeated_every_few_seconds_but_every_ten_minutes() -> None:
    async with binding() as (ours, world):
        await world.make_class()
        claim = await world.make_claim()
        await world.asked(world("claim"))
        await asyncio.sleep(590)
        assert 1 == sum(one.resource == "events" for one in ours.cluster.requests)
        await asyncio.sleep(590)
        (event,) = (await world.users.list(EVENTS)).items
        assert (claim["metadata"]["uid"], 2) == (event.involved_object.uid, event.count)


# -- what a cache that is behind must not cost


async def test_B36_a_pod_that_only_the_api_server_knows() -> None:
    async with binding(LateWatch("pods", seconds=5), parts=WITHOUT_SCHEDULER) as (_, world):
        await world.make_pair()
        await world.make_pod(world("claim"), node="n1")
        await world.delete(PVC, world("claim"))
        await asyncio.sleep(2)
        assert ["kubernetes.io/pvc-protection"] == finalizers(await world.get(PVC, world("claim")))
        await world.delete(POD, world("pod"))
        await world.gone(PVC, world("claim"))


async def test_B36_what_the_api_server_said_before_a_claim_was_deleted_does_not_count() -> None:
    """The pods were listed for another claim; the second one's pod came after that."""
    async with binding(LateWatch("pods", seconds=5), parts=WITHOUT_SCHEDULER) as (_, world):
        for base in ("first", "second"):
            await world.available(f"pv-{base}")
            await world.make_claim(base)
            await world.bound(world(base), world(f"pv-{base}"))
        await world.remove(PVC, world("first"))
        await world.make_pod(world("second"), node="n1")
        await world.delete(PVC, world("second"))
        await asyncio.sleep(2)
        assert ["kubernetes.io/pvc-protection"] == finalizers(await world.get(PVC, world("second")))


class LateList(LateWatch):
    """The watch of pods is late, and so are the answers to lists of them once `gate` is there. asked: one was answered
    late.
    """

    def __init__(self) -> None:
        super().__init__("pods", seconds=600)
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "list" and kind.plural == "pods" and not self.gate.is_set():
            self.asked.set()
            await self.gate.wait()


async def test_B36_what_the_api_server_said_about_a_claim_does_not_count_for_the_next_one_of_its_name() -> None:
    faults = LateList()
    async with binding(faults, parts=WITHOUT_SCHEDULER) as (_, world):
        await world.make_pair()
        faults.gate.clear()
        await world.delete(PVC, world("claim"))
        await faults.asked.wait()
        await world.patch(PVC, world("claim"), {"metadata": {"finalizers": None}})
        await world.gone(PVC, world("claim"))
        await world.make_claim()
        await world.shown(PVC, world("claim"), lambda body: bool(finalizers(body)), "protected")
        await world.make_pod(world("claim"), node="n1")
        await world.delete(PVC, world("claim"))
        await world.settle()
        faults.gate.set()
        await asyncio.sleep(5)
        assert ["kubernetes.io/pvc-protection"] == finalizers(await world.get(PVC, world("claim")))


async def test_B36_a_claim_goes_when_the_cache_never_saw_the_pod_that_held_it() -> None:
    """The pods are listed again after the pod's end: no event tells of it."""
    faults = TornWatch("pods")
    async with binding(faults, parts=WITHOUT_SCHEDULER) as (_, world):
        await world.make_pair()
        await world.settle()
        faults.hold()
        await world.make_pod(world("claim"), node="n1")
        await world.delete(PVC, world("claim"))
        await asyncio.sleep(LOOK_AGAIN_S + 5)
        assert ["kubernetes.io/pvc-protection"] == finalizers(await world.get(PVC, world("claim")))
        await world.remove(POD, world("pod"))
        faults.tear()
        await world.gone(PVC, world("claim"), wait_s=LOOK_AGAIN_S + 5)


async def test_B36_claims_that_are_looked_at_again_share_a_list() -> None:
    faults = TornWatch("pods")
    async with binding(faults, parts=WITHOUT_SCHEDULER) as (_, world):
        names = [world(f"claim{number}") for number in range(20)]
        for number in range(20):
            await world.available(f"pv{number}")
            await world.make_claim(f"claim{number}")
            await world.bound(world(f"claim{number}"), world(f"pv{number}"))
        faults.hold()
        await world.make_pod(*names, node="n1")
        for name in names:
            await world.delete(PVC, name)
        await asyncio.sleep(5)
        faults.lists.clear()
        await asyncio.sleep(10 * LOOK_AGAIN_S)
        assert 9 <= faults.lists.count("pods") <= 11


async def test_B27_a_claim_that_the_cache_lacks_keeps_its_volume() -> None:
    """The watch of claims is late: the volume must not be released."""
    async with binding(LateWatch("persistentvolumeclaims", seconds=5), parts=WITHOUT_SCHEDULER) as (ours, world):
        claim = await world.make_claim()
        await world.create(a_volume(world("pv"), sc=world("sc"), claim=claim))
        await world.bound(world("claim"), world("pv"))
        phases = [one.body["status"]["phase"] for one in ours.cluster.writes(PUT_PV_STATUS)]
        assert ["Bound"] == phases


@each_row(
    "damage", [{"namespace": None}, {"name": None}, {"name": None, "namespace": None}, {"name": "another"}], ids=str
)
async def test_B27_a_claim_keeps_its_volume_whatever_somebody_does_to_the_names_in_claimRef(damage: Json) -> None:
    async with binding(parts=WITHOUT_SCHEDULER) as (ours, world):
        await world.make_pair()
        await world.patch(PV, world("pv"), {"spec": {"claimRef": damage}})
        await asyncio.sleep(300)
        pv = await world.get(PV, world("pv"))
        assert ("Bound", world("claim")) == (pv["status"]["phase"], pv["spec"]["claimRef"].get("name"))
        assert "namespace" in pv["spec"]["claimRef"]
        phases = [one.body["status"]["phase"] for one in ours.cluster.writes(PUT_PV_STATUS)]
        assert ["Available", "Bound"] == phases
        await world.remove(PVC, world("claim"))
        await world.phase(PV, world("pv"), "Released")


@each_row("removed", [{"claimRef": None}, {"claimRef": {"uid": None}}], ids=str)
async def test_B27_a_bound_claim_loses_its_volume_to_no_other_when_claimRef_is_removed(removed: Json) -> None:
    """As by a tool that puts its own manifest of the volume back. Also when the claim's turn fails at first."""
    async with binding(parts=WITHOUT_SCHEDULER) as (ours, world):
        await world.make_pair()
        await world.make_claim("waiting")
        await world.settle()
        ours.cluster.refuse(PUT_PV, error=ServerError("timed out", code=500), times=2)
        await world.patch(PV, world("pv"), {"spec": removed})
        await asyncio.sleep(300)
        assert world("claim") == (await world.get(PV, world("pv")))["spec"]["claimRef"]["name"]
        await world.bound(world("claim"), world("pv"))
        assert "Pending" == (await world.get(PVC, world("waiting")))["status"]["phase"]


@each_row("names", [{}, {"name": "gone"}, {"namespace": "default"}], ids=str)
async def test_B27_a_volume_whose_claimRef_has_a_uid_and_names_no_claim_is_released(names: Json) -> None:
    async with binding(parts=WITHOUT_SCHEDULER) as (_, world):
        pv = a_volume(world("pv"), sc=world("sc"))
        pv["spec"]["claimRef"] = {"uid": "5d5b8d0e-0000-0000-0000-000000000000", **names}
        await world.create(pv)
        await world.phase(PV, world("pv"), "Released")


async def test_B22_a_class_that_the_cache_lacks_makes_its_claims_wait() -> None:
    """The watch of classes is late: the volume must not be bound before a pod says where."""
    async with binding(LateWatch("storageclasses", seconds=5)) as (_, world):
        await world.available()
        await world.make_class(wffc=True, provisioner=NO_PROVISIONER)
        claim = await world.make_claim()
        await world.told(claim, "Normal", "WaitForFirstConsumer", "waiting for first consumer")
        assert "" == (await world.get(PVC, world("claim")))["spec"].get("volumeName", "")


async def test_B05_a_class_that_nobody_has_is_asked_for_once() -> None:
    """Classes of hand-made volumes often are but a name."""
    async with binding() as (ours, world):
        await world.make_pair()
        assert 1 == sum(one.short == "get storageclasses" for one in ours.cluster.requests)


async def test_B35_the_event_says_which_pod_holds_the_claim() -> None:
    async with binding() as (_, world):
        await world.make_pair()
        await world.make_pod(world("claim"), node="n1")
        await world.patch(POD, world("pod"), {"status": {"phase": "Succeeded"}}, subresource="status")
        await world.delete(PVC, world("claim"))
        claim = await world.get(PVC, world("claim"))
        await world.told(claim, "Normal", "ClaimInUse", f'still used by pod "{world("pod")}", which is finished')


async def test_B35_the_event_is_still_there_after_two_hours() -> None:
    """The API server keeps Events for an hour."""
    async with binding() as (_, world):
        await world.make_pair()
        await world.make_pod(world("claim"), node="n1")
        await world.patch(POD, world("pod"), {"status": {"phase": "Succeeded"}}, subresource="status")
        await world.delete(PVC, world("claim"))
        await asyncio.sleep(7200)
        claim = await world.get(PVC, world("claim"))
        await world.told(claim, "Normal", "ClaimInUse", "which is finished")


# -- other parts


async def test_an_attributes_class_goes_when_nobody_names_it() -> None:
    async with binding() as (_, world):
        name = world("gold")
        await world.create(an_attributes_class(name))
        await world.available(volumeAttributesClassName=name)
        await world.delete(VOLUME_ATTRIBUTES_CLASSES, name)
        await world.settle()
        assert ["kubernetes.io/vac-protection"] == finalizers(await world.get(VOLUME_ATTRIBUTES_CLASSES, name))
        await world.delete(PV, world("pv"))
        await world.gone(VOLUME_ATTRIBUTES_CLASSES, name)


async def test_B38_an_ephemeral_claim_is_made_again_and_counted() -> None:
    async with binding() as (ours, world):
        await world.make_class()
        await world.make_pod(volumes=(an_ephemeral_volume(sc=world("sc")),))
        first = await world.asked(f"{world('pod')}-scratch")
        await world.delete(PVC, first["metadata"]["name"])
        await world.shown(
            PVC, first["metadata"]["name"], lambda one: one["metadata"]["uid"] != first["metadata"]["uid"], "made again"
        )
    assert b"ephemeral_volume_controller_create_total 2.0" in ours.metrics.render()


async def test_B57_a_pod_is_scheduled_anew_and_its_node_stays() -> None:
    async with binding(bind_timeout_s=30.0) as (ours, world):
        node = await world.make_node()
        pod = await world.make_waiting_pod()
        await world.selected(world("claim"), node)
        await asyncio.sleep(29)
        assert not ours.cluster.writes("patch pods/status")
        text = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
        await world.told(pod, "Warning", "FailedScheduling", text)
        claim = await world.selected(world("claim"), node)
        await world.provision(claim)
        await world.scheduled(world("pod"), node)


@each_row("error", [None, Unreachable("connection reset")], ids=["written", "its answer is lost"])
async def test_B44_a_node_that_vanishes_while_it_is_chosen_lets_go_of_its_claims(error: Unreachable | None) -> None:
    """The choice is written after the node's end was seen: no later event tells of it."""
    faults = HeldWrites()
    async with binding(faults) as (_, world):
        await world.make_class(wffc=True)
        first, second = await world.make_node("n1"), await world.make_node("n2")
        await world.make_claim()
        await world.shown(PVC, world("claim"), finalizers)
        faults.name = world("claim")
        await world.make_pod(world("claim"))
        await faults.begun.wait()
        await world.remove(NODE, first)
        await asyncio.sleep(1)
        faults.let_go(error, late=True)
        await world.selected(world("claim"), second)


async def test_B44_a_node_that_vanishes_lets_go_of_its_claims() -> None:
    """Differs from kube-scheduler, which leaves the pod pinned to it."""
    async with binding() as (_, world):
        one = await world.make_node("n1")
        await world.make_waiting_pod()
        await world.selected(world("claim"), one)
        await world.delete(NODE, one)
        two = await world.make_node("n2")
        await world.provision(await world.selected(world("claim"), two))
        await world.scheduled(world("pod"), two)


async def test_a_node_that_the_driver_refuses_is_not_tried_again_before_all_others() -> None:
    """Both are equal, and no capacity is reported: the driver is full on the one that is picked first."""
    async with binding() as (_, world):
        await world.make_class(wffc=True)
        nodes = [await world.make_node(base) for base in ("n1", "n2", "n3", "n4", "n5", "n6")]
        await world.make_claim()
        await world.make_pod(world("claim"))
        tried = []
        for _ in nodes:
            tried.append(selected_on(await world.shown(PVC, world("claim"), selected_on, "selected")))
            await world.patch(PVC, world("claim"), {"metadata": {"annotations": {SELECTED_NODE: None}}})
        assert sorted(nodes) == sorted(tried)


async def test_equal_nodes_are_picked_at_random() -> None:
    async with binding() as (_, world):
        await world.make_class(wffc=True)
        for base in ("n1", "n2", "n3"):
            await world.make_node(base)
        picked = set()
        for number in range(12):
            await world.make_claim(f"c{number}")
            await world.make_pod(world(f"c{number}"), base=f"p{number}")
            claim = await world.shown(PVC, world(f"c{number}"), selected_on, "selected")
            picked.add(selected_on(claim))
            await world.delete(POD, world(f"p{number}"))
            await world.delete(PVC, world(f"c{number}"))
            await asyncio.sleep(1)
        assert 3 == len(picked)


def selected_on(claim: Any) -> str:
    found: str = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
    return found


async def test_parts_that_are_off_do_nothing() -> None:
    async with binding(parts=frozenset({options.CLAIM_PROTECTION})) as (ours, world):
        await world.create(a_volume(world("pv"), sc=world("sc")))
        await world.make_claim()
        await world.create(a_ready_node(world("n1")))
        await world.create(a_pod(world("pod"), terminationGracePeriodSeconds=0))
        await asyncio.sleep(60)
        assert [] == ours.writes(world("pv"), world("claim"), world("pod"))
        await world.remove(PVC, world("claim"))


async def test_a_kind_that_it_may_not_list_is_named() -> None:
    ours = BinderWorld(Forbids("pods", "nodes"))
    binder = make_binder(ours.runtime, ours.options)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(binder.run())
        await asyncio.sleep(60)
        assert not binder.has_synced
        assert ["pods", "nodes"] == [
            told.removeprefix("can't follow ").partition(":")[0] for told in binder.obstacle.split("; ")
        ]
        running.cancel()


async def test_an_api_server_may_lack_the_classes_of_attributes_and_get_them_later() -> None:
    """They are v1 since Kubernetes 1.34. All else is bound meanwhile."""
    ours = BinderWorld()
    kind = next(one for one in ours.store.resources if one.plural == VOLUME_ATTRIBUTES_CLASSES.plural)
    ours.store.kinds.remove([kind.path])
    async with ours.binding() as world:
        await world.available()
        ours.store.kinds.put([kind])
        await world.create(an_attributes_class("gold", finalizers=[VAC_PROTECTION]))
        await asyncio.sleep(61)
        await world.remove(VOLUME_ATTRIBUTES_CLASSES, "gold")


async def test_drained_it_ends_by_itself() -> None:
    async with binding() as (ours, world):
        await world.available()
        assert ours.binder is not None
        assert (True, "") == (ours.binder.has_synced, ours.binder.obstacle)
        assert await ours.binder.drain(5)
        await world.make_claim()
        await asyncio.sleep(5)
        assert "Pending" == (await world.get(PVC, world("claim")))["status"]["phase"]


@each_row("seed", range(6))
def test_B06_volumes_that_come_late_find_the_claims_that_wait(seed: int) -> None:
    """Each is offered to one claim after the other; none is left over while a claim waits that it fits."""

    async def main() -> None:
        async with binding() as (_, world):
            for number in range(6):
                await world.create(a_claim(world(f"small{number}")))
                await world.create(a_claim(world(f"large{number}"), size="5Gi"))
            await asyncio.sleep(0.1)
            await world.delete(PVC, world("small0"))
            for number in range(6):
                await world.create(a_volume(world(f"pv{number}"), size="5Gi"))
                await world.create(a_volume(world(f"pv{number + 6}")))
            names = [world(f"small{number}") for number in range(1, 6)] + [
                world(f"large{number}") for number in range(6)
            ]
            await asyncio.sleep(1)
            free = [
                one
                for one in [await world.get(PV, world(f"pv{number}")) for number in range(12)]
                if one["status"]["phase"] != "Bound"
            ]
            waiting = [
                one for one in [await world.get(PVC, name) for name in names] if one["status"]["phase"] == "Pending"
            ]
            large = [one for one in free if one["spec"]["capacity"]["storage"] == "5Gi"]
            assert not (large and waiting), "a large volume is free, and somebody waits"
            assert not [one for one in waiting if one["spec"]["resources"]["requests"]["storage"] == "1Gi" and free]

    run_virtual(main(), seed)


async def test_B06_who_can_not_take_a_volume_does_not_keep_it() -> None:
    """The first claim's writes fail; the volume is the second's."""
    async with binding() as (ours, world):
        for base in ("first", "second"):
            await world.create(a_claim(world(base)))
        await asyncio.sleep(1)
        ours.cluster.refuse(PUT_PV, times=1)
        await world.create(a_volume(world("pv")))
        await world.bound(world("second"), world("pv"))


async def test_B43_a_node_that_a_pod_may_not_have_is_told() -> None:
    """Only where it is sure: after an answer that was lost the pod may be there."""
    ours = BinderWorld()
    lost = ours.cluster.refuse("create pods/binding", error=Unreachable("cut"), after=True)
    async with ours.binding() as world:
        node = await world.make_node()
        await world.make_pod(base="lost")
        await world.scheduled(world("lost"), node)
        await asyncio.sleep(30)
        assert (1, []) == (lost.hits, ours.cluster.writes("patch pods/status"))
        ours.cluster.refuse("create pods/binding")
        pod = await world.make_pod()
        await world.told(pod, "Warning", "FailedScheduling", 'running Bind plugin "DefaultBinder": not now')
        await world.scheduled(world("pod"), node)
