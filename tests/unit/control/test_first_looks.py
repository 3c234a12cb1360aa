"""The first looks of binder, provisioner and snapshot controller: each key once, the newest first, and nobody is told
of what is there.

That of attach/detach: tests/unit/attachdetach/test_first_look.py.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mooring.kube.errors import LATE_S, Unreachable
from mooring.sidecars.attacher import decide
from tests.support.attaching import AttacherWorld
from tests.support.binding import NODE, PV, PVC, BinderWorld, Forbids
from tests.support.builders import a_claim, a_class, a_ready_node, a_va, a_volume
from tests.support.explained import Explained
from tests.support.provisioning import ProvisioningWorld
from tests.support.rows import each_row
from tests.support.snapshotting import CREATE_VSC, VS, VSC, SnapshotWorld, finalizers
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

COUNT = 20


class _Binding(Explained, BinderWorld):
    pass


class _Provisioning(Explained, ProvisioningWorld):
    pass


class _Snapshots(Explained, SnapshotWorld):
    pass


def _once(world: Explained) -> dict[str, int]:
    """How many keys each controller decided on; each of them once."""
    assert {1} == set(Counter(world.decided).values())
    return dict(Counter(controller for controller, _ in world.decided))


async def test_the_binder_looks_at_each_claim_and_each_volume_once() -> None:
    """A claim's volume, its pods and its class would have woken it as well."""
    world = _Binding(workers=1)
    async with world.binding():
        for number in range(COUNT):
            await world.create(a_volume(f"pv{number:02}"), a_claim(f"c{number:02}"))
            await world.shown(PVC, f"c{number:02}", lambda body: body["status"]["phase"] == "Bound")
        await world.settle(60)
    world.decided.clear()
    before = world.worked_on()
    async with world.binding():
        await world.settle(60)
    assert {"claims": COUNT, "volumes": COUNT} == _once(world)
    assert before == world.worked_on(), "all is bound: there is nothing to do"
    assert f"default/c{COUNT - 1:02}" == world.keys_of("claims")[0], "the newest first"


async def test_the_binder_works_on_what_is_due() -> None:
    world = _Binding(workers=1)
    names = [f"{number:02}" for number in range(COUNT)]
    async with world.binding():
        for name in names:
            await world.create(a_volume(f"bound{name}"), a_claim(f"c{name}"))
            await world.shown(PVC, f"c{name}", lambda body: body["status"]["phase"] == "Bound")
    for name in names:
        await world.patch(PVC, f"c{name}", {"status": {"phase": "Pending"}}, "default", "status")
        await world.create(a_volume(f"free{name}", phase=""))
    async with world.binding():
        await world.settle(60)
    assert {"Bound"} == {one["status"]["phase"] for one in await world.list(PVC)}
    assert {"Bound", "Available"} == {one["status"]["phase"] for one in await world.list(PV)}


async def test_a_bug_about_one_object_does_not_end_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key becomes work, which fails again and again."""
    real = decide._decide_present

    def decides(view: Any, attachment: Any) -> Any:
        if attachment.metadata.name == "bad":
            raise ValueError("a bug")
        return real(view, attachment)

    monkeypatch.setattr(decide, "_decide_present", decides)
    world = await AttacherWorld().base()
    await world.create(a_va("bad", "pv1", "node1"))
    async with world.attaching(a_va("pv1-node1", "pv1", "node1")):
        await world.attached()


@each_row("is_there", [True, False], ids=["the-volume-is-there", "the-volume-comes-later"])
async def test_of_claims_that_wait_for_a_volume_since_before_the_start_the_oldest_gets_it(is_there: bool) -> None:
    world = BinderWorld(workers=1)
    for name in ("oldest", "middle", "newest"):
        await world.create(a_claim(name))
        await world.settle(2)
    await world.patch(PVC, "oldest", {"metadata": {"labels": {"changed": "last"}}}, "default")
    await world.patch(PVC, "newest", {"metadata": {"labels": {"changed": "last"}}}, "default")
    if is_there:
        await world.create(a_volume())
    async with world.binding():
        if not is_there:
            await world.settle(60)
            await world.create(a_volume())
        bound = await world.shown(PV, "pv", lambda body: body["status"]["phase"] == "Bound")
    assert "oldest" == bound["spec"]["claimRef"]["name"]


@each_row("are_there", [True, False], ids=["volumes-are-there", "volumes-come-later"])
async def test_claims_get_volumes_in_the_order_of_their_age(are_there: bool) -> None:
    """One that changes while the caches are filled is not older for it."""
    faults = Forbids("pods")
    world = BinderWorld(faults, workers=1)
    for number in range(4):
        await world.create(a_claim(f"c{number}"))
        await world.settle(2)
    if are_there:
        await world.create(*(a_volume(f"pv{number}") for number in range(3)))
    async with world.binding():
        await world.settle(30)
        if not are_there:
            await world.patch(PVC, "c3", {"metadata": {"labels": {"changed": "last"}}}, "default")
        faults.plurals = ()
        await world.settle(60)
        if not are_there:
            await world.create(*(a_volume(f"pv{number}") for number in range(3)))
        await world.settle(60)
        phases = [(await world.get(PVC, f"c{number}", "default"))["status"]["phase"] for number in range(4)]
    assert ["Bound", "Bound", "Bound", "Pending"] == phases


@each_row("plural", ["persistentvolumeclaims", ""], ids=["claims-come-later", "claims-are-there"])
async def test_a_claim_is_free_of_a_node_that_goes_while_the_caches_are_filled(plural: str) -> None:
    faults = Forbids()
    world = BinderWorld(faults)
    notes = {"volume.kubernetes.io/selected-node": "n1", "volume.kubernetes.io/storage-provisioner": "csi.test"}
    await world.create(a_class("sc", wffc=True), a_ready_node("n1"), a_ready_node("n2"), a_claim(annotations=notes))
    faults.plurals = (plural,)
    async with world.binding():
        await world.settle(30)
        await world.delete(NODE, "n1")
        await world.settle(5)
        faults.plurals = ()
        await world.settle(200)
        claim = await world.get(PVC, "claim", "default")
    assert "volume.kubernetes.io/selected-node" not in claim["metadata"]["annotations"]


@each_row("change", [{"capacity": {"storage": "5Gi"}}, None], ids=["changed", "gone"])
async def test_a_free_volume_that_changes_before_the_caches_are_filled_is_known_as_it_is(change: Any) -> None:
    faults = Forbids("pods")
    world = BinderWorld(faults)
    await world.create(a_volume())
    async with world.binding():
        await world.settle(30)
        if change is None:
            await world.delete(PV, "pv")
            await world.create(a_volume("other", capacity={"storage": "5Gi"}))
        else:
            await world.patch(PV, "pv", {"spec": change})
        await world.settle(30)
        faults.plurals = ()
        await world.create(a_claim(size="3Gi"))
        await world.shown(PVC, "claim", lambda body: body["status"]["phase"] == "Bound")


async def test_the_provisioner_looks_at_its_volumes_and_at_claims_without_one() -> None:
    world = _Provisioning(worker_threads=1)
    await world.make_class()
    async with world.provisioning():
        for number in range(COUNT):
            name = f"c{number:02}"
            await world.make_claim(name)
            volume = await world.provisioned(name)
            await world.patch(PVC, name, {"spec": {"volumeName": volume["metadata"]["name"]}}, "default")
        await world.settle(60)
    world.decided.clear()
    before = world.worked_on()
    uid = (await world.make_claim("due"))["metadata"]["uid"]
    async with world.provisioning():
        await world.provisioned("due")
        assert [uid] == world.keys_of("claims")[:1] == list(set(world.keys_of("claims")))
        await world.settle(60)
    counts = Counter(world.keys_of("volumes"))
    del counts[f"pvc-{uid}"]
    assert (COUNT, {1}) == (len(counts), set(counts.values()))
    assert world.worked_on() - before < COUNT, "the volumes are in use: there is nothing to do"


async def test_the_snapshot_controller_looks_at_each_snapshot_and_each_content_once() -> None:
    """The classes, claims and volumes of a snapshot would have woken it as well."""
    world = _Snapshots()
    await world.base()
    async with world.both():
        for number in range(COUNT):
            await world.snap(f"s{number:02}")
            await world.ready(f"s{number:02}")
        await world.settle(60)
    world.decided.clear()
    async with world.controlling():
        await world.settle(60)
    assert {"snapshot-controller-snapshot": COUNT, "snapshot-controller-content": COUNT} == _once(world)
    assert "default/s19" == world.keys_of("snapshot-controller-snapshot")[0], "the newest first"
    assert all(finalizers(body) for body in await world.list(VSC))


@each_row("is_late", [True, False], ids=["while-the-caches-are-filled", "once-they-are"])
async def test_a_snapshot_that_is_deleted_soon_after_a_start_waits_for_what_the_former_process_may_have_sent(
    is_late: bool,
) -> None:
    """Else the content that comes late stays for ever, and so does the driver's snapshot."""
    faults = Forbids()
    world = await SnapshotWorld(faults=faults).base()
    world.cluster.refuse(CREATE_VSC, error=Unreachable("timed out"), late_s=40.0)
    slow = {"retry_interval_start_s": 300.0, "retry_interval_max_s": 300.0}
    async with world.controlling(**slow):
        await world.snap()
        await world.settle(1)
    faults.plurals = ("persistentvolumes",) if is_late else ()
    async with world.both(**slow):
        await world.settle(5)
        await world.delete(VS, "snap")
        await world.settle(1)
        faults.plurals = ()
        await world.gone(VS, "snap")
        await world.settle(LATE_S)
        assert ([], {}) == (await world.list(VSC), world.driver.snapshots)
