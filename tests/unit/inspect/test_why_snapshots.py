"""`mooring why` about snapshots, group snapshots and contents (issue 29), in virtual time: while they are made, and
while they go.
"""

from __future__ import annotations

import ast
import importlib
import inspect

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.group_snapshot import GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    GROUP_FINALIZER,
    content_name,
)
from mooring.base.clock import rfc3339_micro
from mooring.cluster.snapshots import reasons
from mooring.inspect.why import snapshots_end, snapshotting
from mooring.inspect.why.diagnosis import diagnosed
from mooring.sidecars.provisioner.names import SNAPSHOT_FINALIZER
from tests.support.builders import (
    APP,
    Json,
    a_bound_claim,
    a_claim,
    a_group_snapshot,
    a_lease,
    a_new_content,
    a_new_snapshot,
    a_snapshot_class,
    typed,
)
from tests.support.cluster_world import EPOCH_S
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

NO_ROOM = "rpc error: code = ResourceExhausted desc = no room for snapshots"


async def a_world(*, groups: bool = False) -> WhyWorld:
    """A bound claim, and the kinds of snapshots."""
    world = WhyWorld()
    await world.make_snapshot_kinds((*SNAPSHOT_CRDS, *(GROUP_CRDS if groups else ())))
    await world.bound()
    return world


async def its_content(world: WhyWorld, snapshot: Json, **more: object) -> Json:
    """The content of a snapshot, as the snapshot controller makes it."""
    return await world.create(
        a_new_content(content_name(typed(snapshot)), snapshot=snapshot, ref_uid=snapshot["metadata"]["uid"], **more)
    )


async def test_a_snapshot_without_its_class_gets_one() -> None:
    world = await a_world()
    await world.create(a_new_snapshot())
    link = await world.blocking("vs/snap")
    assert ("class", "user") == (link["name"], link["mover"])
    assert "driver: csi.test" in link["commands"][0]["line"]
    await world.create(a_snapshot_class())
    assert "snapshot" == (await world.blocking("vs/snap"))["name"]


async def test_a_snapshot_that_names_no_class_gets_the_one_of_its_driver_marked() -> None:
    world = await a_world()
    await world.create(a_new_snapshot(snapshot_class=None), a_snapshot_class("only"))
    link = await world.blocking("vs/snap")
    assert ("class", "user") == (link["name"], link["mover"])
    line = (
        "kubectl annotate volumesnapshotclasses.snapshot.storage.k8s.io only "
        "snapshot.storage.kubernetes.io/is-default-class=true"
    )
    assert line == link["commands"][0]["line"]


async def test_a_class_of_another_driver_is_named() -> None:
    world = await a_world()
    await world.create(a_new_snapshot(), a_snapshot_class(driver="other.csi.test"))
    link = await world.blocking("vs/snap")
    assert ("failed", "user") == (link["state"], link["mover"])
    assert 'class "snapclass" is of driver "other.csi.test", and volume "pv" of driver "csi.test"' in link["text"]


async def test_without_definitions_the_command_that_installs_them_is_given() -> None:
    world = WhyWorld()
    link = (await world.values("vs/snap"))["links"][0]
    assert ("failed", "operator") == (link["state"], link["mover"])
    assert "does not serve volumesnapshots" in link["text"]
    assert link["commands"][0]["line"].startswith(
        "kubectl apply -k https://github.com/kubernetes-csi/external-snapshotter"
    )


async def test_a_controller_that_does_not_renew_its_lease_is_the_cause() -> None:
    world = await a_world()
    await world.create(a_new_snapshot(), a_snapshot_class())
    long_ago = rfc3339_micro(EPOCH_S - 3600)
    spec = {"holderIdentity": "pod-1", "renewTime": long_ago, "leaseDurationSeconds": 15}
    await world.create(a_lease("snapshot-controller-leader", **spec))
    link = await world.blocking("vs/snap")
    assert ("failed", "operator") == (link["state"], link["mover"])
    assert "snapshot-controller does not run: nobody renews its Lease" in link["text"]


async def test_the_driver_s_error_stands_on_the_content() -> None:
    world = await a_world()
    await world.create(a_snapshot_class())
    snapshot = await world.create(a_new_snapshot())
    await its_content(world, snapshot, status={"error": {"message": NO_ROOM, "time": "2026-01-01T00:00:00Z"}})
    link = await world.blocking("vs/snap")
    assert ("failed", "driver", "ResourceExhausted", NO_ROOM) == (
        link["state"],
        link["mover"],
        link["code"],
        link["error"],
    )
    assert "driver" == (await world.blocking("vsc", content_name(typed(snapshot))))["mover"], (
        "the content leads there, too"
    )


async def test_a_group_names_the_claim_that_keeps_it() -> None:
    world = await a_world(groups=True)
    await world.create(a_bound_claim("a", "pv", labels=APP), a_claim("b", sc="nosuch", labels=APP), a_group_snapshot())
    link = await world.blocking("vgs/group")
    assert ("claim b", "user") == (link["name"], link["mover"])


async def test_a_group_without_its_class_gets_one() -> None:
    world = await a_world(groups=True)
    await world.create(a_bound_claim("a", "pv", labels=APP), a_group_snapshot())
    link = await world.blocking("group/group")
    assert ("class", "user", 'its VolumeGroupSnapshotClass "groupclass" does not exist') == (
        link["name"],
        link["mover"],
        link["text"],
    )
    assert "kind: VolumeGroupSnapshotClass" in link["commands"][0]["line"]


# -- what is to go


async def test_a_snapshot_stays_while_a_claim_is_restored_from_it() -> None:
    world = await a_world()
    await world.create(a_snapshot_class())
    snapshot = await world.create(a_new_snapshot(finalizers=[AS_SOURCE_FINALIZER, BOUND_FINALIZER]))
    await its_content(world, snapshot, finalizers=[CONTENT_FINALIZER])
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
    await world.create(a_claim("restored", dataSource=source))
    await world.delete(VOLUME_SNAPSHOTS, "snap", namespace="default")
    link = await world.blocking("vs/snap")
    assert "a claim that waits for its volume restores from it" in link["text"]
    assert "csi-provisioner" == link["who"]


async def test_the_provisioner_s_hold_on_a_snapshot_names_the_claim_that_is_filled_from_it() -> None:
    world = await a_world()
    await world.create(a_snapshot_class(), a_new_snapshot(finalizers=[SNAPSHOT_FINALIZER]))
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
    await world.create(a_claim("restored", dataSource=source), a_claim("other"))
    await world.delete(VOLUME_SNAPSHOTS, "snap", namespace="default")
    link = await world.blocking("vs/snap")
    assert ("waiting", "cluster") == (link["state"], link["mover"])
    assert ("claims are being filled from it: restored", "csi-provisioner of its driver") == (link["text"], link["who"])
    assert "mooring why -n default pvc/restored" == link["commands"][0]["line"]


async def test_a_snapshot_waits_for_the_driver_that_can_t_delete_it() -> None:
    world = await a_world()
    await world.create(a_snapshot_class())
    snapshot = await world.create(a_new_snapshot(finalizers=[BOUND_FINALIZER]))
    content = await its_content(world, snapshot, finalizers=[CONTENT_FINALIZER], status={"snapshotHandle": "h"})
    await world.tell(content, "SnapshotDeleteError", "rpc error: code = FailedPrecondition desc = it has clones")
    await world.delete(VOLUME_SNAPSHOTS, "snap", namespace="default")
    await world.delete(VOLUME_SNAPSHOT_CONTENTS, content["metadata"]["name"])
    link = await world.blocking("vs/snap")
    assert ("failed", "driver", "FailedPrecondition") == (link["state"], link["mover"], link["code"])
    assert f"finalizer {BOUND_FINALIZER}" == link["name"]


async def test_a_content_whose_snapshot_is_gone_is_for_somebody_to_decide() -> None:
    world = await a_world()
    gone = a_new_snapshot(uid="uid-gone")
    content = await its_content(world, gone, finalizers=[CONTENT_FINALIZER])
    name = content["metadata"]["name"]
    await world.delete(VOLUME_SNAPSHOT_CONTENTS, name)
    link = await world.blocking("vsc", name)
    assert ("failed", "operator", [False, False]) == (
        link["state"],
        link["mover"],
        [one["safe"] for one in link["commands"]],
    )
    assert "which does not exist" in link["text"]


async def test_a_claim_is_held_by_a_snapshot_in_the_making() -> None:
    world = await a_world()
    await world.create(
        a_snapshot_class(), a_bound_claim("kept", "pv", finalizers=[CLAIM_FINALIZER]), a_new_snapshot(claim="kept")
    )
    await world.delete(PERSISTENT_VOLUME_CLAIMS, "kept", namespace="default")
    link = await world.blocking("pvc/kept")
    assert 'snapshot "snap" is not ready yet, and needs it' == link["text"]


async def test_a_group_that_goes_waits_for_its_controller() -> None:
    world = await a_world(groups=True)
    await world.create(a_group_snapshot(finalizers=[GROUP_FINALIZER]))
    await world.delete(GROUP_SNAPSHOTS, "group", namespace="default")
    link = await world.blocking("vgs/group")
    assert ("waiting", "snapshot-controller") == (link["state"], link["who"])


# -- the house


MAKING = ("mooring.cluster.snapshots.decide",)
GOING = ("mooring.cluster.snapshots.decide_deletion", "mooring.cluster.snapshots.decide_protection")


@each_row(
    ("modules", "advice"), [(MAKING, snapshotting.ADVICE), (GOING, snapshots_end.ADVICE)], ids=["making", "going"]
)
def test_every_reason_of_the_snapshot_controller_has_its_advice(
    modules: tuple[str, ...], advice: dict[type, object]
) -> None:
    named = {name for module in modules for name in _constructed_in(module)}
    assert named, "none was found"
    assert set() == named - {one.__name__ for one in advice} - {"Gone"}


def _constructed_in(module: str) -> set[str]:
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    used = {
        one.attr
        for one in calls
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "why"
    }
    return {name for name in used if hasattr(reasons, name)}


@each_row(("program", "what"), [(name, f"the object of {name}") for name in ("csi-snapshotter", "csi-attacher")])
def test_who_wrote_what_a_driver_does_not_accept_fits_each_kind(program: str, what: str) -> None:
    told = diagnosed("rpc error: code = InvalidArgument desc = no", driver="csi.test", namespace="", program=program)
    assert what in told.who
    assert "claim" not in told.who, "a snapshot and an attachment have none"
