"""The requests that `mooring call --from-snapshot` and `--from-content` build are those that a plane's snapshotter sends."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Awaitable
from typing import Any

import pytest

from mooring.api.core import SECRETS
from mooring.api.meta import Key
from mooring.api.snapshot_names import SECRET_NAME, SECRET_NAMESPACE
from mooring.csi.driver_capabilities import DriverCapabilities, capabilities_of
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.seed_objects import claim, group_snapshot, snapshot
from mooring.inspect.built import Built, NoRequest, Objects
from mooring.inspect.requests import Requests
from mooring.inspect.snapshot_requests import KNOWN, SnapshotRequests
from mooring.testing.cluster import AsyncCluster
from mooring.testing.opening import ClusterOfTest
from tests.unit.inspect.test_requests import sent_when_it_goes_on
from tests.unit.testing.test_cluster import Shelf

pytestmark = pytest.mark.slow

THEN = Key("default", "then")
SNAPSHOT_API, GROUP_API = "snapshot.storage.k8s.io/v1", "groupsnapshot.storage.k8s.io/v1"
NOT_NOW = "it would not be sent now: "


class Slow(Shelf):
    """Makes snapshots that are never ready, gets them, and lists them."""

    name = "slow.csi.test"

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        handle = self.shelf.setdefault(request.name, f"{request.source_volume_id}/{request.name}")
        return csi.CreateSnapshotResponse(snapshot=self._described(handle))

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        return csi.DeleteSnapshotResponse()

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        return csi.GetSnapshotResponse(snapshot=self._described(request.snapshot_id))

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        return csi.ListSnapshotsResponse(entries=[{"snapshot": self._described(request.snapshot_id)}])

    def _described(self, handle: str) -> csi.Snapshot:
        return csi.Snapshot(snapshot_id=handle, source_volume_id=handle.partition("/")[0], creation_time={"seconds": 1})


def able_of(cluster: AsyncCluster, **changes: Any) -> DriverCapabilities:
    return dataclasses.replace(capabilities_of(cluster.plane.info), **changes)


def requests_of(cluster: AsyncCluster, secrets: dict[str, str] | None = None, **changes: bool) -> SnapshotRequests:
    return SnapshotRequests(
        Objects(cluster.plane.users, cluster.plane.ports.clock, secrets), able_of(cluster, **changes)
    )


async def a_class_with_secrets(cluster: AsyncCluster, *kinds: str, group: bool = False) -> None:
    """`secretive`: the driver's class whose Secrets have the names of their uses."""
    parameters = {"depth": "deep"}
    for kind in kinds:
        secret = {"metadata": {"name": kind}, "data": {"password": base64.b64encode(f"of {kind}".encode()).decode()}}
        await cluster.plane.users.create(SECRETS.whole(), {"apiVersion": "v1", "kind": "Secret", **secret}, "default")
        parameters |= {
            f"csi.storage.k8s.io/{kind}-secret-name": kind,
            f"csi.storage.k8s.io/{kind}-secret-namespace": "default",
        }
    api, name = (GROUP_API, "VolumeGroupSnapshotClass") if group else (SNAPSHOT_API, "VolumeSnapshotClass")
    body = {"apiVersion": api, "kind": name, "metadata": {"name": "secretive"}, "driver": cluster.plane.info.name}
    await cluster.create({**body, "deletionPolicy": "Delete", "parameters": parameters})


async def a_snapshot(cluster: AsyncCluster, name: str = "then", *, secretive: bool = False, of: str = "data") -> None:
    body = snapshot(name, of)
    await cluster.create(
        {**body, "spec": {**body["spec"], **({"volumeSnapshotClassName": "secretive"} if secretive else {})}}
    )


async def the_content(cluster: AsyncCluster, plural: str = "volumesnapshotcontents", *, of: str = "then") -> str:
    """The name of the content, once it is there."""
    ref = "volumeGroupSnapshotRef" if "group" in plural else "volumeSnapshotRef"

    async def found() -> str:
        return next(
            (one["metadata"]["name"] for one in await cluster.objects(plural) if one["spec"][ref]["name"] == of), ""
        )

    name: str = await cluster.until(found, f"there is a content of {of}")
    await cluster.passes(seconds=5)
    return name


def an_import(cluster: AsyncCluster, name: str, handle: str, **spec: Any) -> dict[str, Any]:
    """A content of a snapshot that was there before."""
    ref = {"name": f"of-{name}", "namespace": "default"}
    whole = {
        "driver": cluster.plane.info.name,
        "deletionPolicy": "Retain",
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": ref,
    }
    return {
        "apiVersion": SNAPSHOT_API,
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {**whole, **spec},
    }


def password(built: Built) -> str:
    request: Any = built.request
    return str(request.secrets["password"])


async def gone(cluster: AsyncCluster, plural: str) -> None:
    async def are_none() -> bool:
        return not await cluster.objects(plural)

    await cluster.until(are_none, f"there are no {plural}")


async def is_sent(cluster: AsyncCluster, rpc: str) -> None:
    before = len(cluster.calls(rpc))

    async def has_come() -> bool:
        return len(cluster.calls(rpc)) > before

    await cluster.until(has_come, f"{rpc} is sent")


def sent_next(cluster: AsyncCluster, rpc: str, done: Awaitable[Any] | None = None) -> Awaitable[Any]:
    """The first request that the snapshotter sends after its pause."""
    return sent_when_it_goes_on(cluster, "snapshotter", rpc, is_sent(cluster, rpc) if done is None else done)


async def test_each_is_the_one_that_the_snapshotter_sends(mooring_cluster: ClusterOfTest) -> None:
    """Field by field, secrets included."""
    cluster = mooring_cluster.aio
    requests = requests_of(cluster)
    await a_class_with_secrets(cluster, "snapshotter", "snapshotter-list")
    await (await cluster.claim("data")).bound()
    await cluster.pause("snapshotter")
    await a_snapshot(cluster, secretive=True)
    content = await the_content(cluster)
    built = await requests.from_snapshot("CreateSnapshot", THEN)
    assert built == await requests.from_content("CreateSnapshot", content)
    assert built == Built(await sent_next(cluster, "CreateSnapshot"))
    assert "of snapshotter" == password(built)

    await cluster.passes(seconds=5)
    await cluster.pause("snapshotter")
    await cluster.delete("volumesnapshots", "then")
    await cluster.passes(seconds=5)
    built = await requests.from_snapshot("DeleteSnapshot", THEN)
    assert built == await requests.from_content("DeleteSnapshot", content)
    assert built == Built(await sent_next(cluster, "DeleteSnapshot", gone(cluster, "volumesnapshotcontents")))
    assert "of snapshotter" == password(built)

    await cluster.pause("snapshotter")
    await cluster.create(an_import(cluster, "old", "snap-old", volumeSnapshotClassName="secretive"))
    naming = {"source": {"volumeSnapshotContentName": "old"}, "volumeSnapshotClassName": "secretive"}
    await cluster.create({**snapshot("of-old", ""), "spec": naming})
    built = await requests.from_snapshot("ListSnapshots", Key("default", "of-old"))
    assert built == await requests.from_content("ListSnapshots", "old")
    assert (f"{NOT_NOW}ListSnapshots would be",) == (await requests.from_content("GetSnapshot", "old")).notes
    assert built == Built(await sent_next(cluster, "ListSnapshots"))
    assert "of snapshotter-list" == password(built)


@pytest.mark.mooring_cluster(driver=Slow, options={"shelf": {}}, nodes=1)
async def test_a_snapshot_that_is_not_ready_is_asked_for_as_the_snapshotter_does(
    mooring_cluster: ClusterOfTest,
) -> None:
    """By GetSnapshot where the driver has it, else by ListSnapshots."""
    cluster = mooring_cluster.aio
    await a_class_with_secrets(cluster, "snapshotter-list")
    await (await cluster.claim("data")).bound()
    await a_snapshot(cluster, secretive=True)
    await is_sent(cluster, "GetSnapshot")
    built = await requests_of(cluster).from_snapshot("GetSnapshot", THEN)
    assert built == Built(cluster.calls("GetSnapshot")[0].request)
    assert "of snapshotter-list" == password(built)
    listed = await requests_of(cluster).from_snapshot("ListSnapshots", THEN)
    assert (f"{NOT_NOW}GetSnapshot would be",) == listed.notes
    assert (listed.request,) == (
        (await requests_of(cluster, gets_snapshots=False).from_snapshot("ListSnapshots", THEN)).request,
    )
    assert () == (await requests_of(cluster, gets_snapshots=False).from_snapshot("ListSnapshots", THEN)).notes
    (note,) = (await requests_of(cluster).from_snapshot("CreateSnapshot", THEN)).notes
    assert note.startswith(f"{NOT_NOW}snapshot ")
    assert note.endswith("is asked for it by GetSnapshot")


@pytest.mark.mooring_cluster(driver=Slow, options={"shelf": {}}, nodes=1)
async def test_a_driver_that_gets_and_does_not_list_is_asked_for_an_import_by_get(
    mooring_cluster: ClusterOfTest,
) -> None:
    cluster = mooring_cluster.aio
    await cluster.create(an_import(cluster, "old", "vol/old"))
    await is_sent(cluster, "ListSnapshots")
    assert await requests_of(cluster).from_content("ListSnapshots", "old") == Built(
        cluster.calls("ListSnapshots")[0].request
    )
    built = await requests_of(cluster, lists_snapshots=False).from_content("GetSnapshot", "old")
    assert built == Built(csi.GetSnapshotRequest(snapshot_id="vol/old"))


async def test_each_of_a_group_is_the_one_that_the_snapshotter_sends(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    requests, shelf = requests_of(cluster), {"shelf": "a"}
    await a_class_with_secrets(cluster, "group-snapshotter", "group-snapshotter-get", group=True)
    for name in ("books", "maps"):
        body = claim(name, "hostpath")
        body["metadata"]["labels"] = shelf
        await cluster.create(body)
        await cluster.claim_named(name).bound()
    await cluster.pause("snapshotter")
    body = group_snapshot("then", shelf)
    await cluster.create({**body, "spec": {**body["spec"], "volumeGroupSnapshotClassName": "secretive"}})
    content = await the_content(cluster, "volumegroupsnapshotcontents")
    built: Any = await requests.from_snapshot("CreateVolumeGroupSnapshot", THEN)
    assert built == await requests.from_content("CreateVolumeGroupSnapshot", content)
    assert built == Built(await sent_next(cluster, "CreateVolumeGroupSnapshot"))
    assert 2 == len(built.request.source_volume_ids)
    assert "of group-snapshotter" == password(built)

    await cluster.passes(minutes=1)
    member = await the_content(cluster, of=(await cluster.objects("volumesnapshots"))[0]["metadata"]["name"])
    for rpc, whole in {
        "CreateSnapshot": "CreateVolumeGroupSnapshot",
        "DeleteSnapshot": "DeleteVolumeGroupSnapshot",
    }.items():
        with pytest.raises(NoRequest, match=f"is of a group's snapshot, which {whole} "):
            await requests.from_content(rpc, member)
    (note,) = (await requests.from_snapshot("GetVolumeGroupSnapshot", THEN)).notes
    assert note == f"{NOT_NOW}ready to use"
    (note,) = (await requests.from_snapshot("DeleteVolumeGroupSnapshot", THEN)).notes
    assert note == f"{NOT_NOW}nobody has deleted the group snapshot"

    await cluster.pause("snapshotter")
    await cluster.delete("volumegroupsnapshots", "then")
    await cluster.passes(seconds=30)
    built = await requests.from_content("DeleteVolumeGroupSnapshot", content)
    assert built == Built(await sent_next(cluster, "DeleteVolumeGroupSnapshot"))
    assert 2 == len(built.request.snapshot_ids)
    assert "of group-snapshotter" == password(built)

    await cluster.pause("snapshotter")
    handles = {"volumeGroupSnapshotHandle": "group-old", "volumeSnapshotHandles": ["snap-a", "snap-b"]}
    ref = {"name": "of-old", "namespace": "default"}
    spec = {"driver": cluster.plane.info.name, "deletionPolicy": "Retain", "source": {"groupSnapshotHandles": handles}}
    spec |= {"volumeGroupSnapshotRef": ref, "volumeGroupSnapshotClassName": "secretive"}
    await cluster.create(
        {"apiVersion": GROUP_API, "kind": "VolumeGroupSnapshotContent", "metadata": {"name": "old"}, "spec": spec}
    )
    built = await requests.from_content("GetVolumeGroupSnapshot", "old")
    assert built == Built(await sent_next(cluster, "GetVolumeGroupSnapshot"))
    assert "of group-snapshotter-get" == password(built)
    tried = {"CreateSnapshot", "DeleteSnapshot", "ListSnapshots", "GetSnapshot"}
    assert {*tried, "CreateVolumeGroupSnapshot", "DeleteVolumeGroupSnapshot", "GetVolumeGroupSnapshot"} == set(KNOWN), (
        "all are tried"
    )


async def test_what_would_not_be_sent_now_is_built_and_says_so(mooring_cluster: ClusterOfTest) -> None:
    cluster, requests = mooring_cluster.aio, requests_of(mooring_cluster.aio)
    await (await cluster.claim("data")).bound()
    await cluster.pause("snapshotter")
    await a_snapshot(cluster)
    content = await the_content(cluster)
    unmade: Any = await requests.from_content("ListSnapshots", content)
    assert (
        unmade.request.source_volume_id
        == (await requests.from_content("CreateSnapshot", content)).request.source_volume_id
    )  # type: ignore[attr-defined]
    assert unmade.notes[0].startswith(f"{NOT_NOW}the list of a volume is asked only for a deleted snapshot")
    await cluster.resume("snapshotter")
    await cluster.passes(minutes=1)

    built = await requests.from_content("CreateSnapshot", content)
    assert built == Built(cluster.calls("CreateSnapshot")[0].request, (f"{NOT_NOW}ready to use",)), (
        "to be sent as after a lost answer"
    )
    for rpc in ("ListSnapshots", "GetSnapshot"):
        assert (f"{NOT_NOW}ready to use",) == (await requests.from_content(rpc, content)).notes
    assert (f"{NOT_NOW}nobody has deleted the snapshot",) == (
        await requests.from_content("DeleteSnapshot", content)
    ).notes

    handle = (await requests.from_content("DeleteSnapshot", content)).request.snapshot_id  # type: ignore[attr-defined]
    await cluster.pause("snapshot-controller")
    await cluster.delete("volumesnapshotcontents", content)
    assert (f"{NOT_NOW}the content is deleted, and its snapshot is not",) == (
        await requests.from_content("DeleteSnapshot", content)
    ).notes
    await cluster.create(an_import(cluster, "twin", handle))
    await cluster.pause("snapshotter")
    await cluster.resume("snapshot-controller")
    await cluster.delete("volumesnapshots", "then")
    await cluster.passes(seconds=30)
    (note,) = (await requests.from_content("DeleteSnapshot", content)).notes
    assert note == f'{NOT_NOW}its finalizer is removed without a call: content "twin" stands for its snapshot, too'


@pytest.mark.parametrize(
    ("rpc", "name", "said"),
    [
        (
            "CreateVolume",
            "old",
            "CreateVolume is not built from snapshots; these are: CreateSnapshot, DeleteSnapshot, ",
        ),
        ("CreateSnapshot", "old", "old is of a snapshot that was there before: nobody makes it"),
        (
            "CreateSnapshot",
            "foreign",
            "VolumeSnapshotContent foreign is of driver other.csi, and hostpath.csi.mooring answers",
        ),
        ("CreateSnapshot", "misled", "class theirs is of driver other.csi, and hostpath.csi.mooring answers"),
        (
            "CreateSnapshot",
            "new",
            "VolumeSnapshotContent new: failed to get snapshot class none: volumesnapshotclass.snapshot.storage.k8s.io",
        ),
        ("DeleteSnapshot", "new", "new names no snapshot that the driver has made: it has no handle yet"),
        ("GetSnapshot", "new", "new names no snapshot that the driver has made: it has no handle yet"),
        ("DeleteSnapshot", "old", "old names no snapshot that the driver has made: it has no handle yet"),
        (
            "CreateSnapshot",
            "secret",
            "there is no Secret default/lost, which the call needs: give --secrets-file instead",
        ),
    ],
)
async def test_what_can_t_be_built_is_told_with_the_next_step(
    mooring_cluster: ClusterOfTest, rpc: str, name: str, said: str
) -> None:
    cluster = mooring_cluster.aio
    await cluster.kill("snapshotter")
    theirs = {
        "apiVersion": SNAPSHOT_API,
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": "theirs"},
        "driver": "other.csi",
    }
    await cluster.create({**theirs, "deletionPolicy": "Delete"})
    of_volume, bound = {"source": {"volumeHandle": "vol"}}, {"name": "of-secret", "namespace": "default", "uid": "u"}
    bodies = {
        "old": an_import(cluster, "old", "snap-old"),
        "foreign": an_import(cluster, "foreign", "snap", driver="other.csi"),
        "misled": an_import(cluster, "misled", "", **of_volume, volumeSnapshotClassName="theirs"),
        "new": an_import(cluster, "new", "", **of_volume, volumeSnapshotClassName="none"),
        "secret": an_import(
            cluster, "secret", "", **of_volume, volumeSnapshotClassName="hostpath", volumeSnapshotRef=bound
        ),
    }
    bodies["secret"]["metadata"]["annotations"] = {SECRET_NAME: "lost", SECRET_NAMESPACE: "default"}
    await cluster.create(bodies[name])
    with pytest.raises(NoRequest) as refused:
        await requests_of(cluster).from_content(rpc, name)
    assert said in str(refused.value)
    assert 2 == refused.value.exit_code


async def test_a_snapshot_without_a_content_has_no_request(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    await cluster.claim("data", storage_class=f"{cluster.storage_class}-wait")
    await a_snapshot(cluster)
    await cluster.passes(seconds=5)
    with pytest.raises(
        NoRequest, match="the VolumeSnapshot default/then has no content yet: nothing is sent before"
    ) as refused:
        await requests_of(cluster).from_snapshot("CreateSnapshot", THEN)
    assert 2 == refused.value.exit_code
    await cluster.create({**snapshot("of-old", ""), "spec": {"source": {"volumeSnapshotContentName": "taken"}}})
    with pytest.raises(NoRequest, match="the VolumeSnapshot default/of-old has no content yet"):
        await requests_of(cluster).from_snapshot("ListSnapshots", Key("default", "of-old"))
    await cluster.create(an_import(cluster, "taken", "snap"))
    with pytest.raises(NoRequest, match="default/of-old names taken, which is of another one: default/of-taken"):
        await requests_of(cluster).from_snapshot("ListSnapshots", Key("default", "of-old"))
    of_volumes = Requests(Objects(cluster.plane.users, cluster.plane.ports.clock), able_of(cluster))
    with pytest.raises(
        NoRequest, match="DeleteSnapshot is sent for a snapshot: give --from-snapshot or --from-content"
    ):
        await of_volumes.from_claim("DeleteSnapshot", Key("default", "data"))


async def test_the_secrets_of_a_file_go_before_those_of_the_cluster(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    await a_class_with_secrets(cluster, "snapshotter")
    await (await cluster.claim("data")).bound()
    await a_snapshot(cluster, secretive=True)
    await the_content(cluster)
    await cluster.delete("secrets", "snapshotter")
    assert "of a file" == password(
        await requests_of(cluster, {"password": "of a file"}).from_snapshot("CreateSnapshot", THEN)
    )


@pytest.mark.parametrize(
    ("rpc", "lacks", "said"),
    [
        ("CreateSnapshot", "snapshots", "its ControllerGetCapabilities does not name CREATE_DELETE_SNAPSHOT"),
        ("ListSnapshots", "lists_snapshots", "its ControllerGetCapabilities does not name LIST_SNAPSHOTS"),
        ("GetSnapshot", "gets_snapshots", "its ControllerGetCapabilities does not name GET_SNAPSHOT"),
        (
            "GetVolumeGroupSnapshot",
            "group_snapshots",
            "its GetPluginCapabilities does not name GROUP_CONTROLLER_SERVICE",
        ),
    ],
)
async def test_nobody_sends_what_the_driver_does_not_offer(
    mooring_cluster: ClusterOfTest, rpc: str, lacks: str, said: str
) -> None:
    with pytest.raises(NoRequest) as refused:
        await requests_of(mooring_cluster.aio, None, **{lacks: False}).from_content(rpc, "any")
    assert f"nobody sends {rpc} to hostpath.csi.mooring: {said}" == str(refused.value)
    assert 2 == refused.value.exit_code
