"""Clusters with group snapshots of an older version than v1: `mooring why`, `timeline` and `unstick` ask for what is
served.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.meta import Kind
from mooring.api.snapshot_names import GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER, GROUP_FINALIZER
from mooring.cli.unstick import CANNOT, CLEAN
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.served import as_served
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import NotFound, NotServed
from tests.support.builders import Json, a_bound_claim, a_claim, a_group_content, a_group_snapshot
from tests.support.cluster_world import ClusterWorld
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS, group_crds_in
from tests.support.unsticking import Grouping, UnstickWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.inspect.test_unstick_kinds import a_world
from tests.unit.inspect.test_why_snapshots import APP

pytestmark = in_virtual_time

OLDER = [("v1beta1",), ("v1beta2",), ("v1beta1", "v1beta2")]
VGSC = "vgsc/groupcontent"
PAIRS = [{"volumeHandle": "vol-a", "snapshotHandle": "snap-a"}, {"volumeHandle": "vol-b", "snapshotHandle": "snap-b"}]


async def make(world: ClusterWorld, kind: Kind[Any], version: str, body: Json) -> Json:
    """In this version, with its status."""
    older = msgspec.structs.replace(kind.whole(), version=version)
    made: Json = await world.users.create(
        older, {**body, "apiVersion": older.api_version}, "default" if kind.namespaced else ""
    )
    if "status" in body:
        patch = Patch(PatchType.MERGE, {"metadata": {"uid": made["metadata"]["uid"]}, "status": body["status"]})
        made = await world.users.patch(older, made["metadata"]["name"], patch, subresource="status")
    return made


class Remembering(Grouping):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []

    async def get_volume_group_snapshot(
        self, request: csi.GetVolumeGroupSnapshotRequest
    ) -> csi.GetVolumeGroupSnapshotResponse:
        self.asked.append(list(request.snapshot_ids))
        return await super().get_volume_group_snapshot(request)


async def going(versions: tuple[str, ...], servicer: Any) -> UnstickWorld:
    world = await a_world(servicer=servicer, groups=group_crds_in(*versions))
    members = "volumeSnapshotHandlePairList" if versions[-1] == "v1beta1" else "volumeSnapshotInfoList"
    body = a_group_content(status={"volumeGroupSnapshotHandle": "g1", members: PAIRS})
    meta = {**body["metadata"], "finalizers": [GROUP_CONTENT_FINALIZER], "annotations": {GROUP_BEING_DELETED: "yes"}}
    await make(world, GROUP_SNAPSHOT_CONTENTS, versions[-1], {**body, "metadata": meta})
    await as_served(world.users).delete(GROUP_SNAPSHOT_CONTENTS, "groupcontent")
    return world


@each_row("versions", OLDER)
async def test_the_content_of_an_older_group_is_freed_once_the_driver_has_it_no_more(versions: tuple[str, ...]) -> None:
    """The driver is asked with the group's members."""
    servicer = Remembering()
    world = await going(versions, servicer)
    servicer.groups = {"g1"}
    assert CANNOT == await world.unstick(VGSC, yes=True)
    servicer.groups = set()
    assert CLEAN == await world.unstick(VGSC, yes=True)
    assert ["snap-a", "snap-b"] == servicer.asked[-1]
    with pytest.raises(NotFound):
        await as_served(world.users).get(GROUP_SNAPSHOT_CONTENTS, "groupcontent")


@each_row("versions", OLDER)
async def test_an_older_group_is_freed(versions: tuple[str, ...]) -> None:
    world = await a_world(groups=group_crds_in(*versions))
    await make(world, GROUP_SNAPSHOTS, versions[0], a_group_snapshot(finalizers=[GROUP_FINALIZER]))
    await as_served(world.users).delete(GROUP_SNAPSHOTS, "group", "default")
    assert CLEAN == await world.unstick("vgs/group", yes=True)


@each_row("versions", OLDER)
async def test_why_explains_an_older_group(versions: tuple[str, ...]) -> None:
    world = WhyWorld()
    await world.make_snapshot_kinds((*SNAPSHOT_CRDS, *group_crds_in(*versions)))
    await world.create(a_bound_claim("a", "pv", labels=APP))
    await make(world, GROUP_SNAPSHOTS, versions[0], a_group_snapshot())
    link = await world.blocking("group/group")
    assert ("class", 'its VolumeGroupSnapshotClass "groupclass" does not exist') == (link["name"], link["text"])
    assert f"apiVersion: groupsnapshot.storage.k8s.io/{versions[-1]}\\n" in link["commands"][0]["line"]
    await world.create(a_claim("b", sc="nosuch", labels=APP))
    assert (await world.blocking("vgs/group"))["commands"][0]["line"].startswith("kubectl -n default get pvc b")
    code, text = await world.timeline("vgs/group")
    assert (0, True) == (code, "group" in text)


async def test_where_no_version_is_served_that_is_asked_once() -> None:
    world = WhyWorld()
    await world.make_snapshot_kinds(SNAPSHOT_CRDS)
    cluster = as_served(world.cluster)
    for kind in (GROUP_SNAPSHOTS, GROUP_SNAPSHOT_CONTENTS):
        with pytest.raises(NotServed):
            await cluster.list(kind)
    assert 3 == sum(step.startswith("serves") for step in world.story)
    assert cluster is as_served(cluster)


async def test_where_v1_is_served_nothing_more_is_asked() -> None:
    world = WhyWorld()
    await world.make_snapshot_kinds((*SNAPSHOT_CRDS, *GROUP_CRDS))
    await world.create(a_group_snapshot())
    await world.why("vgs/group")
    assert [] == [step for step in world.story if step.startswith("serves")]
