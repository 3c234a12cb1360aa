"""`mooring unstick` (issue 29) on volumes, claims, snapshots and contents: what proves that each finalizer may go. In
virtual time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.group_snapshot import GROUP_SNAPSHOTS
from mooring.api.meta import Key
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_CREATED,
    BEING_DELETED,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    GROUP_FINALIZER,
)
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import unique_name
from mooring.apiserver.local import ServerFaults
from mooring.cli.unstick import CANNOT, CLEAN, LEFT
from mooring.inspect.unstick.look import Look
from mooring.kube.errors import Forbidden
from mooring.sidecars.provisioner.names import CLONE_FINALIZER, SNAPSHOT_FINALIZER, VOLUME_FINALIZER
from tests.support.builders import (
    DRIVER,
    Json,
    a_bound_claim,
    a_claim,
    a_csi_driver,
    a_group_snapshot,
    a_new_content,
    a_new_snapshot,
    a_node,
    a_pod,
    a_snapshot,
    a_va,
    a_volume,
)
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS
from tests.support.unsticking import Publishing, UnstickWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

PROTECTED, HELD = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
KCM, PROVISIONER, SNAPSHOTTER = "kube-controller-manager", "csi-test", "external-snapshotter-leader-csi-test"
CONTROLLER = "snapshot-controller-leader"


async def a_world(
    *, servicer: Any = None, faults: ServerFaults | None = None, groups: Iterable[Json] = GROUP_CRDS
) -> UnstickWorld:
    """All programs have ended, and left their Leases. groups: the definitions of group snapshots."""
    world = UnstickWorld(faults, servicer)
    await world.make_snapshot_kinds((*SNAPSHOT_CRDS, *groups))
    await world.create(a_csi_driver(DRIVER), a_node("n1"))
    for name in (KCM, PROVISIONER, SNAPSHOTTER, CONTROLLER):
        await world.dead_lease(name)
    return world


async def going(world: UnstickWorld, body: Json, *finalizers: str) -> Json:
    """Made with these finalizers alone, and deleted."""
    made = await world.create(body)
    kind = {"PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS, "PersistentVolume": PERSISTENT_VOLUMES}.get(body["kind"])
    kind = kind or {"VolumeSnapshot": VOLUME_SNAPSHOTS, "VolumeSnapshotContent": VOLUME_SNAPSHOT_CONTENTS}.get(
        body["kind"], GROUP_SNAPSHOTS
    )
    await world.patch(kind, made["metadata"]["name"], {"metadata": {"finalizers": list(finalizers)}})
    await world.delete(kind, made["metadata"]["name"])
    return made


async def in_use(world: UnstickWorld, *handles: str) -> None:
    names = [unique_name(DRIVER, handle) for handle in handles]
    await world.patch(NODES, "n1", {"status": {"volumesInUse": names}}, subresource="status")


async def without_protection(world: UnstickWorld, claim: str) -> None:
    """Nobody here takes the finalizer off a claim that is not needed any more."""
    await world.patch(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUME_CLAIMS, claim)


# -- volumes


async def test_a_volume_whose_claim_is_gone_loses_its_protection():
    world = await a_world()
    claim = await world.create(a_bound_claim())
    await going(world, a_volume(claim=claim, phase="Bound"), HELD)
    assert ['the claim "default/claim" is bound to it'] == await world.against("pv/pv")
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUME_CLAIMS, "claim")
    assert CLEAN == await world.unstick("pv/pv", yes=True)
    await world.gone(PERSISTENT_VOLUMES, "pv")


async def test_a_new_claim_of_the_same_name_is_not_bound_to_it():
    world = await a_world()
    await world.create(a_claim())
    await going(world, a_volume(claim={"metadata": {"name": "claim", "uid": "an-old-one"}}), HELD)
    assert [] == await world.against("pv/pv")


async def test_a_volume_that_a_pod_or_a_kubelet_has_keeps_its_protection():
    world = await a_world()
    claim = {"metadata": {"name": "claim", "uid": "forced-away"}}
    await world.create(a_pod("web", "claim", node="n1"))
    await in_use(world, "pv")
    await going(world, a_volume(claim=claim), HELD, VOLUME_FINALIZER)
    wanted = ["it is in use by pod default/web on n1", "the kubelet of n1 reports it as in use"]
    found = await world.judged("pv/pv")
    assert all(wanted == [one["what"] for one in found[name]["against"]][:2] for name in (HELD, VOLUME_FINALIZER))


async def test_a_claim_that_nobody_deletes_is_told_nothing_else():
    world = await a_world()
    await world.create(a_claim())
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": [PROTECTED]}})
    assert ["the object is not being deleted, so nothing waits for the finalizer to go"] == await world.against(
        "pvc/claim"
    )


async def test_while_the_protection_controller_lives_it_is_its_move():
    world = await a_world()
    await going(world, a_volume(), HELD)
    holder = world.renewing("mooring-binder")
    (objection,) = await world.against("pv/pv")
    assert objection.startswith(
        "it is the move of the protection controller: alive_1 renews the Lease default/mooring-binder"
    )
    holder.cancel()


async def test_a_volume_that_the_driver_has_not_any_more_goes():
    servicer = Publishing("pv")
    world = await a_world(servicer=servicer)
    await going(world, a_volume(policy="Delete"), VOLUME_FINALIZER)
    assert ["the driver csi.test still has the volume: it would be leaked"] == await world.against("pv/pv")
    assert CANNOT == await world.unstick("pv/pv", yes=True)
    servicer.volumes.clear()
    assert "the driver csi.test has no such volume any more" in await world.proved("pv/pv")
    assert CLEAN == await world.unstick("pv/pv", yes=True)


async def test_without_the_drivers_word_its_data_may_be_leaked():
    world = await a_world()
    await going(world, a_volume(policy="Delete"), VOLUME_FINALIZER)
    assert ["nobody knows whether the driver still has the volume: it would be leaked"] == await world.against("pv/pv")


async def test_a_volume_that_is_to_stay_on_the_storage_goes_with_a_word_about_its_data():
    world = await a_world()
    await going(world, a_volume(policy="Retain"), VOLUME_FINALIZER)
    assert "the volume pv stays on the storage, and no object names it from then on" in (await world.proved("pv/pv"))[0]
    assert CLEAN == await world.unstick("pv/pv", yes=True)


async def test_a_volume_with_an_attachment_keeps_its_data():
    world = await a_world()
    await world.create(a_va("va", "pv", "n1"))
    await going(world, a_volume(policy="Retain"), VOLUME_FINALIZER)
    assert ["VolumeAttachment va names it"] == await world.against("pv/pv")
    await world.remove(VOLUME_ATTACHMENTS, "va")
    assert [] == await world.against("pv/pv")


async def test_a_provisioner_that_lives_and_fails_needs_the_drivers_word():
    """Its driver answers with an error for a volume that is gone."""
    world = await a_world()
    made = await going(world, a_volume(policy="Delete"), VOLUME_FINALIZER)
    holder = world.renewing("mooring-controller-csi-test")
    assert any(text.startswith("it is the move of csi-provisioner") for text in await world.against("pv/pv"))
    ref = {"kind": "PersistentVolume", "name": "pv", "uid": made["metadata"]["uid"], "namespace": ""}
    event = {
        "metadata": {"name": "pv.1", "namespace": "default"},
        "involvedObject": ref,
        "reason": "VolumeFailedDelete",
        "type": "Warning",
    }
    await world.create({"kind": "Event", **event, "message": "rpc error: code = Internal desc = no volume\x1b[2J"})
    assert any("only the driver's own answer counts: rpc error" in text for text in await world.against("pv/pv"))
    world.servicer = Publishing()
    assert CLEAN == await world.unstick("pv/pv", yes=True)
    assert "\x1b" not in world.out.getvalue()
    holder.cancel()


# -- claims


async def test_a_claim_that_no_pod_uses_goes():
    world = await a_world()
    await world.create(a_volume(phase="Bound"))
    await going(world, a_bound_claim(), PROTECTED)
    await world.create(a_pod("web", "claim", node="n1"))
    assert ['still used by pod "web"'] == await world.against("pvc/claim")
    await world.patch(PODS, "web", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert ['still used by pod "web", which is finished and counts until it is deleted'] == await world.against(
        "pvc/claim"
    )
    await world.remove(PODS, "web")
    assert CLEAN == await world.unstick("pvc/claim", yes=True)
    await world.gone(PERSISTENT_VOLUME_CLAIMS, "claim")


async def test_a_claim_whose_volume_a_kubelet_still_has_stays():
    """Its pod was forced away."""
    world = await a_world()
    await world.create(a_volume(phase="Bound"))
    await going(world, a_bound_claim(), PROTECTED)
    await in_use(world, "pv")
    assert ["the kubelet of n1 reports its volume as in use"] == await world.against("pvc/claim")
    await world.patch(
        NODES, "n1", {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}
    )
    assert [] == await world.against("pvc/claim")


async def test_the_source_of_a_copy_stays_until_the_copy_is_made():
    world = await a_world()
    await going(world, a_bound_claim(), CLONE_FINALIZER)
    source = {"kind": "PersistentVolumeClaim", "name": "claim"}
    await world.create(a_claim("copy", dataSource=source))
    assert ['the claim "default/copy" waits for a copy of it'] == await world.against("pvc/claim")
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "copy", {"spec": {"volumeName": "pv-2"}})
    assert CLEAN == await world.unstick("pvc/claim", yes=True)


async def test_the_source_of_a_snapshot_stays_until_that_is_made():
    world = await a_world()
    await world.create(a_volume(phase="Bound"))
    await going(world, a_bound_claim(), CLAIM_FINALIZER)
    await world.create(a_new_snapshot("snap", claim="claim"))
    (objection,) = await world.against("pvc/claim")
    assert 'snapshot "snap" is not ready yet, and needs it' == objection
    await world.remove(VOLUME_SNAPSHOTS, "snap")
    assert CLEAN == await world.unstick("pvc/claim", yes=True)


class NoContents(ServerFaults):
    """A user without the right to contents of snapshots."""

    async def before(self, verb: str, kind: Any, name: str) -> None:
        if kind.plural == "volumesnapshotcontents":
            raise Forbidden("volumesnapshotcontents is forbidden")


async def test_what_may_not_be_seen_is_no_proof():
    world = await a_world(faults=NoContents())
    await going(world, a_bound_claim(), CLAIM_FINALIZER)
    with pytest.raises(Forbidden, match="volumesnapshotcontents is forbidden"):
        await world.unstick("pvc/claim", yes=True)


# -- snapshots and contents


async def test_a_snapshot_goes_once_nothing_is_restored_from_it_and_its_content_is_gone():
    world = await a_world()
    snapshot = await going(world, a_snapshot(claim="claim", content="content"), AS_SOURCE_FINALIZER, BOUND_FINALIZER)
    await world.create(a_new_content(snapshot=snapshot, status={"snapshotHandle": "s1", "readyToUse": True}))
    await world.create(
        a_claim(
            "restored", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
        )
    )
    assert 2 * ["a claim that waits for its volume restores from it, or from a snapshot of it"] == await world.against(
        "vs/snap"
    )
    await without_protection(world, "restored")
    found = await world.judged("vs/snap")
    assert (True, False) == (found[AS_SOURCE_FINALIZER]["mayGo"], found[BOUND_FINALIZER]["mayGo"])
    assert LEFT == await world.unstick("vs/snap", yes=True)
    await world.remove(VOLUME_SNAPSHOT_CONTENTS, "content")
    assert CLEAN == await world.unstick("vs/snap", yes=True)
    await world.gone(VOLUME_SNAPSHOTS, "snap")


async def test_the_provisioners_protection_of_a_snapshot():
    world = await a_world()
    await going(world, a_snapshot(claim="claim"), SNAPSHOT_FINALIZER)
    await world.create(
        a_claim(
            "restored", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
        )
    )
    assert ["a claim waits for a volume that is filled from it"] == await world.against("vs/snap")
    await without_protection(world, "restored")
    assert CLEAN == await world.unstick("vs/snap", yes=True)


async def test_a_group_that_has_nothing_left_goes():
    world = await a_world()
    await going(world, a_group_snapshot(), GROUP_FINALIZER)
    assert CLEAN == await world.unstick("vgs/group", yes=True)


@each_row("gets", [False, True])
async def test_a_content_goes_once_the_driver_has_its_snapshot_no_more(gets: bool):
    servicer = Publishing(gets=gets)
    servicer.snapshots.add("s1")
    world = await a_world(servicer=servicer)
    await going(world, a_new_content(status={"snapshotHandle": "s1", "readyToUse": True}), CONTENT_FINALIZER)
    assert ["the driver csi.test still has the snapshot: it would be leaked"] == await world.against("vsc/content")
    servicer.snapshots.clear()
    assert CLEAN == await world.unstick("vsc/content", yes=True)
    await world.gone(VOLUME_SNAPSHOT_CONTENTS, "content")


async def test_a_content_without_the_drivers_word_goes_only_if_its_data_are_to_stay():
    world = await a_world()
    made = {"snapshotHandle": "s1", "readyToUse": True}
    await going(world, a_new_content(status=made), CONTENT_FINALIZER)
    await going(world, a_new_content("kept", policy="Retain", status=made), CONTENT_FINALIZER)
    assert ["nobody knows whether the driver still has the snapshot: it would be leaked"] == await world.against(
        "vsc/content"
    )
    assert CLEAN == await world.unstick("vsc/kept", yes=True)


async def test_a_content_that_no_program_will_ever_move_needs_no_dead_snapshotter():
    world = await a_world()
    holder = world.renewing("mooring-controller-csi-test")
    made = {"snapshotHandle": "s1", "readyToUse": True}
    await going(world, a_new_content(policy="Retain", status=made), CONTENT_FINALIZER)
    assert [] == await world.against("vsc/content")
    await world.patch(VOLUME_SNAPSHOT_CONTENTS, "content", {"metadata": {"annotations": {BEING_DELETED: "yes"}}})
    assert any(text.startswith("it is the move of csi-snapshotter") for text in await world.against("vsc/content"))
    holder.cancel()


async def test_a_content_whose_snapshot_is_there_stays():
    world = await a_world()
    snapshot = await world.create(a_snapshot(claim="claim", content="content"))
    await going(
        world, a_new_content(snapshot=snapshot, policy="Retain", status={"snapshotHandle": "s1"}), CONTENT_FINALIZER
    )
    assert ['its snapshot "default/snap" is there'] == await world.against("vsc/content")


async def test_a_content_whose_request_had_no_answer_stays():
    world = await a_world()
    await going(world, a_new_content(annotations={BEING_CREATED: "yes"}), CONTENT_FINALIZER)
    assert [
        "the driver was asked for a snapshot, and gave no answer: it may be there under a name that nobody knows"
    ] == await world.against("vsc/content")
    await world.patch(VOLUME_SNAPSHOT_CONTENTS, "content", {"metadata": {"annotations": {BEING_CREATED: None}}})
    assert CLEAN == await world.unstick("vsc/content", yes=True)


async def test_a_claim_of_another_kind_of_finalizer_names_its_author():
    world = await a_world()
    await going(world, a_claim(), "example.com/keep")
    (verdict,) = (await world.judged("pvc/claim")).values()
    assert not verdict["mayGo"]
    assert verdict["against"][0]["wayOut"].startswith("ask whoever")


async def test_a_snapshot_of_a_group_goes_with_the_group():
    world = await a_world()
    marked = {"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle": "g1"}
    await going(
        world, a_new_content(policy="Retain", annotations=marked, status={"snapshotHandle": "s1"}), CONTENT_FINALIZER
    )
    assert ["it belongs to a group snapshot, and its data go with the group"] == await world.against("vsc/content")


async def test_a_content_from_which_a_claim_is_filled_stays():
    world = await a_world()
    await going(world, a_new_content(policy="Retain", status={"snapshotHandle": "s1"}), CONTENT_FINALIZER)
    await world.create(
        a_claim(
            "restored", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
        )
    )
    assert ["a claim waits for a volume that is filled from it"] == await world.against("vsc/content")


async def test_a_volume_of_another_node_than_the_drivers_is_not_its_to_judge():
    """One driver per node: each lists its own node's volumes alone."""
    servicer = Publishing(place={"zone": "b"})
    world = await a_world(servicer=servicer)
    await going(world, a_volume(policy="Delete", affinity={"zone": "a"}), VOLUME_FINALIZER)
    (verdict,) = (await world.judged("pv/pv")).values()
    assert "the volume is on another node than this driver: ask the driver there" in verdict["against"][0]["wayOut"]


async def test_another_object_of_its_name_is_left_alone():
    """It was deleted, and made anew, while somebody read the question."""
    world = await a_world()
    first = await going(world, a_volume(policy="Retain"), VOLUME_FINALIZER)
    look = Look(world.cluster, world.clock, "pv", Key("", "pv"), None, lambda text: None)
    assert (await look.first()).obj.metadata.uid == first["metadata"]["uid"]
    await world.patch(PERSISTENT_VOLUMES, "pv", {"metadata": {"finalizers": None}})
    await world.gone(PERSISTENT_VOLUMES, "pv")
    await going(world, a_volume(policy="Retain"), VOLUME_FINALIZER)
    assert await look.again() is None


async def test_a_pod_with_a_new_claim_of_the_name_does_not_use_the_volume_of_the_old_one():
    world = await a_world()
    await world.create(a_claim("claim", uid="new"), a_pod("user", "claim", node="n1", phase="Running"))
    old = {"metadata": {"name": "claim", "uid": "old"}, "kind": "PersistentVolumeClaim"}
    await going(world, a_volume(claim=old), HELD)
    assert CLEAN == await world.unstick("pv/pv", yes=True)
