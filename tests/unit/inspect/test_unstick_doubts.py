"""`mooring unstick` (issue 29) where an answer seems to prove more than it does: other spellings, other objects, half a
list.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.group_snapshot import GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import CONTENT_FINALIZER, IN_GROUP_FINALIZER, MANAGED_BY
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.cli.unstick import CANNOT, CLEAN
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.points import Objection, Proof
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.snapshots import restored_from_snapshot
from mooring.inspect.whole import decoded
from mooring.sidecars.provisioner.names import SNAPSHOT_FINALIZER
from tests.support.builders import (
    DRIVER,
    a_claim,
    a_csi_driver,
    a_csi_node,
    a_group_snapshot,
    a_held_pv,
    a_new_content,
    a_node,
    a_snapshot,
    an_attached_va,
)
from tests.support.snapshot_crds import SNAPSHOT_CRDS, group_crds_in
from tests.support.unsticking import Publishing, UnstickWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.inspect.test_unstick import FENCED, LOCK, VA, a_world, in_use
from tests.unit.inspect.test_unstick_kinds import a_world as a_full_world
from tests.unit.inspect.test_unstick_kinds import going

pytestmark = in_virtual_time


# -- another object of the same name


async def a_volume_made_anew(servicer: Any) -> UnstickWorld:
    """The attachment is of the volume handle1; its PersistentVolume was forced away, and names another volume since."""
    world = await a_world(servicer=servicer)
    await asyncio.sleep(5)
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUMES, "pv1")
    await world.create(a_held_pv("pv1", "handle9"))
    return world


async def test_a_volume_that_was_made_after_its_attachment_is_another_one():
    servicer = Publishing("handle1", "handle9")
    servicer.published_on["handle1"] = ("nodeID1",)
    world = await a_volume_made_anew(servicer)
    (verdict,) = (await world.judged(VA)).values()
    assert "nobody knows the volume's handle" in verdict["against"][0]["wayOut"]
    assert CANNOT == await world.unstick(VA, yes=True)


async def test_any_volume_in_use_counts_where_nobody_knows_the_handle():
    world = await a_volume_made_anew(None)
    await world.patch(NODES, "node1", {"spec": FENCED})
    await in_use(world, "handle1")
    assert ["the kubelet of node1 reports it as in use"] == await world.against(VA)


# -- other spellings of a node, and of a volume


async def test_a_node_that_nobody_knows_may_be_this_one_under_another_name():
    servicer = Publishing("handle1")
    world = await a_world(servicer=servicer)
    servicer.published_on["handle1"] = ("zones/a/nodeid1",)
    (objection,) = [one for one in await world.against(VA) if "driver" in one]
    assert "published on zones/a/nodeid1, which is no other node's id: it may be node1 under another name" in objection
    await world.create(a_node("node2"), a_csi_node("node2", {DRIVER: "zones/a/nodeid1"}))
    assert CLEAN == await world.unstick(VA, yes=True)


async def test_a_handle_with_gaps_is_not_looked_up():
    disk = {"gcePersistentDisk": {"pdName": "disk1"}}
    driver = "pd.csi.storage.gke.io"
    servicer = Publishing(gets=True)
    servicer.name = driver
    world = UnstickWorld(servicer=servicer)
    await world.create(a_node("node1"), a_csi_node("node1", {driver: "nodeID1"}), a_csi_driver(driver))
    finalizer = "external-attacher/pd-csi-storage-gke-io"
    await world.create(a_held_pv("pv1", source=disk, finalizers=(finalizer,)))
    await world.create(an_attached_va("pv1-node1", attacher=driver, finalizers=[finalizer]))
    await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
    await world.dead_lease("external-attacher-leader-pd-csi-storage-gke-io")
    (verdict,) = (await world.judged(VA)).values()
    assert "UNSPECIFIED" in verdict["against"][0]["wayOut"]


async def test_a_list_with_the_handle_inside_of_another_word_is_no_proof():
    world = await a_world(servicer=Publishing("pool#handle1#10Gi"))
    assert ["its volume may be attached to node1 (node id nodeID1)"] == await world.against(VA)


async def test_a_list_that_has_none_of_the_clusters_volumes_is_no_proof():
    world = await a_world(servicer=Publishing())
    await world.create(a_held_pv("pv2", "handle2"), a_held_pv("pv3", "handle3"))
    (verdict,) = (await world.judged(VA)).values()
    assert "the driver lists none of the cluster's other volumes" in verdict["against"][0]["wayOut"]
    world.servicer = Publishing("handle2")
    assert "the driver csi.test has no such volume any more" in await world.proved(VA)


class Shifting(Publishing):
    """Between its two pages a volume of the first is deleted, so that the second page begins one volume too late."""

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        if request.starting_token:
            self.volumes.pop("a", None)
        return await super().list_volumes(request)


async def test_a_volume_that_slips_between_two_pages_is_seen_at_the_second_look():
    servicer = Shifting("a", "b", "handle1", "z")
    servicer.published_on["handle1"] = ("nodeID1",)
    world = await a_world(servicer=servicer)
    assert "the driver says that the volume is published on nodeID1" in await world.against(VA)


class Silent(Publishing):
    """Looks a volume up, and says nothing of its status."""

    async def controller_get_volume(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        answer = await super().controller_get_volume(request)
        answer.ClearField("status")
        return answer


async def test_a_volume_without_a_status_may_be_published_anywhere():
    world = await a_world(servicer=Silent("handle1", gets=True))
    assert ["its volume may be attached to node1 (node id nodeID1)"] == await world.against(VA)


# -- a node that is back


async def test_a_taint_that_was_left_on_a_node_that_is_ready_says_nothing():
    world = await a_world(node=FENCED, servicer=Publishing("other"))
    await world.patch(
        NODES, "node1", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
    )
    await in_use(world, "handle1")
    assert ["the kubelet of node1 reports it as in use"] == await world.against(VA)
    world.servicer = None
    await in_use(world)
    assert ["its volume may be attached to node1 (node id nodeID1)"] == await world.against(VA)


# -- snapshots


class Deaf(Publishing):
    """Lists its snapshots whatever it is asked for, one a page."""

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        found = sorted(self.snapshots)
        return csi.ListSnapshotsResponse(entries=[{"snapshot": {"snapshot_id": found[0]}}], next_token="1")


async def a_content(servicer: Publishing, node: str = "") -> UnstickWorld:
    world = await a_full_world(servicer=servicer)
    labels = {"labels": {MANAGED_BY: node}} if node else {}
    await going(world, a_new_content(status={"snapshotHandle": "s2"}), CONTENT_FINALIZER)
    if labels:
        await world.patch(VOLUME_SNAPSHOT_CONTENTS, "content", {"metadata": labels})
    return world


async def test_a_list_of_other_snapshots_than_the_one_that_was_asked_for_is_no_proof():
    servicer = Deaf()
    servicer.snapshots = {"s1", "s2"}
    world = await a_content(servicer)
    (verdict,) = (await world.judged("vsc/content")).values()
    assert "the driver was asked for this snapshot alone, and lists others" in verdict["against"][0]["wayOut"]


async def test_a_snapshot_that_one_node_alone_has_is_asked_for_there():
    world = await a_content(Publishing(gets=True), "n1")
    (verdict,) = (await world.judged("vsc/content")).values()
    assert "the snapshot is on node n1: ask the driver there" in verdict["against"][0]["wayOut"]
    await world.create(a_csi_node("n1", {DRIVER: "id"}))
    assert CLEAN == await world.unstick("vsc/content", yes=True)


async def test_a_content_that_is_not_bound_yet_waits_for_the_snapshot_that_is_there():
    world = await a_full_world()
    await world.create(a_snapshot(claim="claim", content="content"))
    await going(world, a_new_content(handle="s1", ref_uid=None, policy="Retain"), CONTENT_FINALIZER)
    assert ['its snapshot "default/snap" is there'] == await world.against("vsc/content")


async def test_a_group_of_an_older_version_still_has_its_snapshots():
    """The cluster's definitions are those of an older snapshot controller."""
    world = UnstickWorld()
    await world.make_snapshot_kinds(SNAPSHOT_CRDS)
    await world.make_snapshot_kinds(group_crds_in("v1beta1"))
    kind = msgspec.structs.replace(GROUP_SNAPSHOTS, version="v1beta1").whole()
    body = {**a_group_snapshot(), "apiVersion": kind.api_version}
    group = await world.users.create(kind, body, "default")
    owner = {"apiVersion": kind.api_version, "kind": kind.name, "name": "group", "uid": group["metadata"]["uid"]}
    await going(world, a_snapshot(claim="claim", ownerReferences=[owner]), IN_GROUP_FINALIZER)
    await world.dead_lease("snapshot-controller-leader")
    (objection,) = await world.against("vs/snap")
    assert "group" in objection


async def test_a_claim_of_another_namespace_that_is_being_filled_counts_too():
    """A server with the gate CrossNamespaceVolumeDataSource keeps the namespace; ours takes the source out, so that it
    is judged here.
    """
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap", "namespace": "default"}
    facts = Facts(
        decoded(VOLUME_SNAPSHOTS, {**a_snapshot(claim="claim"), "metadata": {"name": "snap", "namespace": "default"}}),
        "vs",
    )
    assert [Proof] == [type(one) for one in restored_from_snapshot(facts, SNAPSHOT_FINALIZER)]
    body = a_claim("restored", dataSourceRef=source)
    facts.scene.claims.put(
        decoded(PERSISTENT_VOLUME_CLAIMS, {**body, "metadata": {"name": "restored", "namespace": "far"}})
    )
    assert [Objection] == [type(one) for one in restored_from_snapshot(facts, SNAPSHOT_FINALIZER)]


# -- a program that nobody sees


async def test_a_lease_that_was_given_up_before_is_not_that_of_the_program():
    """The attacher runs without leader election by now; its Lease of last year is still there."""
    world = UnstickWorld()
    await world.dead_lease(LOCK)
    await asyncio.sleep(3600)
    await world.create(a_csi_driver(DRIVER), a_held_pv("pv1"), an_attached_va("pv1-node1"))
    await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
    (objection,) = await world.against(VA)
    assert "it may run without leader election" in objection
