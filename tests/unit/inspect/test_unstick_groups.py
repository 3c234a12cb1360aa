"""`mooring unstick` (issue 29) on the content of a group snapshot, and what `mooring why` and `mooring timeline` say of
it.
"""

from __future__ import annotations

from typing import Any

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.snapshot_names import GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER
from mooring.base.clock import rfc3339_micro
from mooring.cli.unstick import CANNOT, CLEAN
from tests.support.builders import a_claim, a_group_content, a_group_snapshot, a_lease, a_snapshot
from tests.support.cluster_world import EPOCH_S
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS
from tests.support.unsticking import Grouping, Publishing, UnstickWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.inspect.test_unstick_kinds import a_world

pytestmark = in_virtual_time

VGSC = "vgsc/groupcontent"
MADE = {"status": {"volumeGroupSnapshotHandle": "g1"}}


async def going(servicer: Any = None, *, marks: tuple[str, ...] = (), **content: Any) -> UnstickWorld:
    """A content in deletion that its finalizer holds; all programs have ended."""
    world = await a_world(servicer=servicer)
    await world.create(a_group_content(**content))
    metadata = {"finalizers": [GROUP_CONTENT_FINALIZER], "annotations": dict.fromkeys(marks, "yes")}
    await world.patch(GROUP_SNAPSHOT_CONTENTS, "groupcontent", {"metadata": metadata})
    await world.delete(GROUP_SNAPSHOT_CONTENTS, "groupcontent")
    return world


async def test_a_group_that_the_driver_has_no_more_goes():
    world = await going(Grouping(), marks=(GROUP_BEING_DELETED,), **MADE)
    assert "the driver csi.test has no such group of snapshots any more" in await world.proved(VGSC)
    assert CLEAN == await world.unstick(VGSC, yes=True)
    await world.gone(GROUP_SNAPSHOT_CONTENTS, "groupcontent")


async def test_a_group_that_the_driver_has_stays():
    world = await going(Grouping("g1"), marks=(GROUP_BEING_DELETED,), **MADE)
    assert "the driver csi.test still has the group of snapshots: it would be leaked" in await world.against(VGSC)
    assert CANNOT == await world.unstick(VGSC, yes=True)


async def test_without_the_driver_s_word_it_may_be_there():
    world = await going(**MADE)
    assert [
        "nobody knows whether the driver still has the group of snapshots: it would be leaked"
    ] == await world.against(VGSC)
    world.servicer = Publishing()
    (verdict,) = (await world.judged(VGSC)).values()
    assert "GROUP_CONTROLLER_SERVICE" in verdict["against"][0]["wayOut"]


async def test_a_group_that_is_to_stay_on_the_storage_goes_from_the_cluster():
    assert CLEAN == await (await going(policy="Retain", **MADE)).unstick(VGSC, yes=True)


async def test_a_call_without_an_answer_may_have_made_it():
    world = await going(marks=(GROUP_BEING_CREATED,))
    (objection,) = await world.against(VGSC)
    assert "it may be there under a name that nobody knows" in objection
    assert CLEAN == await (await going()).unstick(VGSC, yes=True)


async def test_its_group_and_its_snapshots_go_first():
    world = await a_world()
    group = await world.create(a_group_snapshot())
    uid = group["metadata"]["uid"]
    owner = {"apiVersion": GROUP_SNAPSHOTS.api_version, "kind": "VolumeGroupSnapshot", "name": "group", "uid": uid}
    await world.create(a_snapshot("member", claim="claim", ownerReferences=[owner]))
    await world.create(
        a_claim(
            "restored", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "member"}
        )
    )
    await world.create(a_group_content(policy="Retain", ref_uid=uid, **MADE))
    await world.patch(GROUP_SNAPSHOT_CONTENTS, "groupcontent", {"metadata": {"finalizers": [GROUP_CONTENT_FINALIZER]}})
    await world.delete(GROUP_SNAPSHOT_CONTENTS, "groupcontent")
    assert [
        'its group snapshot "default/group" is there',
        'its snapshot "default/member" is there',
        'a claim waits for a volume that is filled from "default/member"',
    ] == await world.against(VGSC)


async def test_a_live_snapshotter_moves():
    world = await going(Grouping(), marks=(GROUP_BEING_DELETED,), **MADE)
    holder = world.renewing("mooring-controller-csi-test")
    assert any("it is the move of csi-snapshotter" in text for text in await world.against(VGSC))
    holder.cancel()


# -- why, and timeline


@each_row("is_going", [False, True])
async def test_it_is_explained(is_going: bool):
    world = WhyWorld()
    await world.make_snapshot_kinds((*SNAPSHOT_CRDS, *GROUP_CRDS))
    await world.create(a_group_content())
    if not is_going:
        _, text = await world.why("vgsc/groupcontent")
        assert 'its snapshot "default/group" does not exist: whoever makes it gets this content' in " ".join(
            text.split()
        )
        return
    await world.patch(GROUP_SNAPSHOT_CONTENTS, "groupcontent", {"metadata": {"finalizers": [GROUP_CONTENT_FINALIZER]}})
    await world.delete(GROUP_SNAPSHOT_CONTENTS, "groupcontent")
    await world.create(a_lease("external-snapshotter-leader-csi-test", renewTime=rfc3339_micro(EPOCH_S - 120)))
    link = await world.blocking("vgsc/groupcontent")
    assert f"finalizer {GROUP_CONTENT_FINALIZER}" == link["name"]
    assert any(
        "mooring unstick --dry-run volumegroupsnapshotcontent/groupcontent" in one["line"] for one in link["commands"]
    )
    code, text = await world.timeline("vgsc/groupcontent")
    assert 0 == code
    assert "vgsc" in text
    assert GROUP_CONTENT_FINALIZER in "".join(text.split()), "longer than its column, so it is broken"


async def test_a_live_snapshotter_that_fails_needs_the_driver_s_word():
    world = await going(Grouping(), marks=(GROUP_BEING_DELETED,), **MADE)
    holder = world.renewing("mooring-controller-csi-test")
    content = await world.get(GROUP_SNAPSHOT_CONTENTS, "groupcontent")
    ref = {"kind": "VolumeGroupSnapshotContent", "name": "groupcontent", "uid": content["metadata"]["uid"]}
    event = {"kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "involvedObject": ref}
    await world.create(
        {**event, "reason": "GroupSnapshotDeleteError", "message": "the array is busy", "type": "Warning"}
    )
    assert "csi-snapshotter of csi.test lives and fails: the array is busy" in await world.proved(VGSC)
    holder.cancel()
