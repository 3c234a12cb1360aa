"""Growth, snapshots, clones and groups on the whole plane: sizes that come back, groups of one moment, and drivers
without either.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.seed_objects import claim, group_snapshot, restored
from mooring.driver.hostpath.state import State
from mooring.driver.hostpath.statefile import read_state
from mooring.driver.sdk import Plugin
from mooring.testing.opening import ClusterOfTest

GiB = 1 << 30
CLONE = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "books"}}


def state_of(cluster: ClusterOfTest) -> State:
    """What the reference driver has."""
    return read_state(cluster.aio.plane.ports.folder / "driver")


def is_ready(snapshot: dict[str, Any]) -> bool:
    return bool((snapshot.get("status") or {}).get("readyToUse"))


def test_a_restore_and_a_clone_of_a_grown_volume_have_its_size(mooring_cluster: ClusterOfTest) -> None:
    """Less is refused, with an event; more is given."""
    books = mooring_cluster.claim("books").bound()
    mooring_cluster.pod("reader", books).running()
    books.grows_to("3Gi")
    mooring_cluster.snapshot("shelf", books).ready()
    for name, source in {"restored": restored("shelf"), "cloned": CLONE}.items():
        for size, given in {"3Gi": name, "4Gi": f"{name}-larger"}.items():
            made = mooring_cluster.claim(given, size, **source).bound()
            assert size == made.object["status"]["capacity"]["storage"]
        smaller = mooring_cluster.claim(f"{name}-smaller", "2Gi", **source)
        told = mooring_cluster.until(lambda claim=smaller: _refusals(mooring_cluster, claim.name), "it is refused")[0]  # type: ignore[misc]
        assert str(2 * GiB) in told
        assert str(3 * GiB) in told
        assert "Pending" == smaller.object["status"]["phase"]
    assert [3, 3, 3, 4, 4] == sorted(one.capacity_bytes // GiB for one in state_of(mooring_cluster).volumes.values())


def _refusals(cluster: ClusterOfTest, name: str) -> list[str]:
    return [message for reason, message in cluster.events(name) if reason == "ProvisioningFailed"]


def test_a_group_of_volumes_is_photographed_at_one_moment_and_each_can_be_restored(
    mooring_cluster: ClusterOfTest,
) -> None:
    cluster, shelf = mooring_cluster, {"shelf": "a"}
    for name in ("books", "maps"):
        body = claim(name, "hostpath")
        body["metadata"]["labels"] = shelf
        cluster.create(body)
        cluster.claim_named(name).bound()
    cluster.claim("other").bound()
    cluster.create(group_snapshot("shelves", shelf))
    cluster.until(lambda: all(map(is_ready, cluster.objects("volumegroupsnapshots"))), "the group is ready")
    cluster.until(lambda: all(map(is_ready, cluster.objects("volumesnapshots"))), "each of its snapshots is ready")
    members = cluster.objects("volumesnapshots")
    assert {"books", "maps"} == {one["spec"]["source"]["persistentVolumeClaimName"] for one in members}
    cluster.claim("again", **restored(members[0]["metadata"]["name"])).bound()
    assert 2 == len(state_of(cluster).snapshots)
    cluster.delete("volumegroupsnapshots", "shelves")
    kinds = ("volumegroupsnapshots", "volumesnapshots", "volumegroupsnapshotcontents", "volumesnapshotcontents")
    cluster.until(lambda: not any(map(cluster.objects, kinds)), "nothing is left of the group")
    assert {} == state_of(cluster).snapshots


class Bare(Plugin):
    """Makes and deletes volumes, and nothing else."""

    name = "bare.csi.test"
    vendor_version = "1"

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        return csi.CreateVolumeResponse(
            volume={"volume_id": request.name, "capacity_bytes": request.capacity_range.required_bytes}
        )

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        return csi.DeleteVolumeResponse()


@pytest.mark.mooring_cluster(driver=Bare)
def test_a_driver_without_growth_and_snapshots_has_neither_and_its_classes_do_not_promise_them(
    mooring_cluster: ClusterOfTest,
) -> None:
    mooring_cluster.claim("data").bound()
    with pytest.raises(ConfigError, match="serves no 'volumesnapshots'"):
        mooring_cluster.objects("volumesnapshots")
    assert [None, None] == [one.get("allowVolumeExpansion") for one in mooring_cluster.objects("storageclasses")]
    assert [] == mooring_cluster.objects("volumeattributesclasses")
    assert not {"resizer", "snapshotter", "snapshot-controller"} & {*mooring_cluster.controllers}
