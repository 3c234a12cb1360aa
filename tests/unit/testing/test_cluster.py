"""The cluster of a test: its words, its faults, its time, and what it says when something does not come."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

import pytest

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.sdk import Plugin
from mooring.testing.opening import ClusterOfTest, a_cluster
from mooring.testing.waiting import NotYet
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row


class Shelf(Plugin):
    """Volumes are names on a shelf that outlives its objects. A target is a link, since nothing is mounted."""

    name = "shelf.csi.test"
    vendor_version = "1"

    def __init__(self, shelf: dict[str, str], node_id: str) -> None:
        self.shelf, self.node_id = shelf, node_id

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        handle = self.shelf.setdefault(request.name, f"vol-{len(self.shelf)}")
        return csi.CreateVolumeResponse(
            volume=csi.Volume(volume_id=handle, capacity_bytes=request.capacity_range.required_bytes)
        )

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        for name in [name for name, handle in self.shelf.items() if handle == request.volume_id]:
            del self.shelf[name]
        return csi.DeleteVolumeResponse()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        os.makedirs(request.target_path, exist_ok=True)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(request.target_path)
        return csi.NodeUnpublishVolumeResponse()


class Forgetful(Shelf):
    """Makes another volume for a name that it has made one for."""

    name = "forgetful.csi.test"

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        self.shelf[f"{request.name}-{len(self.shelf)}"] = handle = f"vol-{len(self.shelf)}"
        return csi.CreateVolumeResponse(
            volume=csi.Volume(volume_id=handle, capacity_bytes=request.capacity_range.required_bytes)
        )


@pytest.mark.mooring_cluster(driver=Shelf, options={"shelf": {}}, nodes=1)
def test_a_class_is_a_driver(mooring_cluster: ClusterOfTest) -> None:
    claim = mooring_cluster.claim("data").bound()
    pod = mooring_cluster.pod("web", claim).running()
    assert pod.folder(claim).is_dir()
    assert claim.handle == "vol-0"
    pod.delete().gone()
    assert [""] == [call.where for call in mooring_cluster.calls("CreateVolume")]
    assert ["n1"] == [call.where for call in mooring_cluster.calls("NodePublishVolume")]


async def test_a_coroutine_runs_on_the_plane_s_own_time(mooring_cluster: ClusterOfTest) -> None:
    cluster, loop = mooring_cluster.aio, asyncio.get_running_loop()
    began = loop.time()
    claim = await cluster.claim("data")
    await asyncio.gather(claim.bound(), cluster.passes(hours=2))
    assert loop.time() - began >= 7200


class Counting(Shelf):
    """Notes each of its objects, and which of them was asked to make a volume."""

    def __init__(self, shelf: dict[str, str], made: list[Counting], node_id: str) -> None:
        super().__init__(shelf, node_id)
        self.asked = 0
        made.append(self)

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        self.asked += 1
        return await super().create_volume(request)


def test_a_lost_answer_was_given() -> None:
    made: list[Counting] = []
    shelf: dict[str, str] = {}
    with a_cluster(Counting, options={"shelf": shelf, "made": made}) as cluster:
        cluster.faults.lose_answer("CreateVolume")
        cluster.claim("data").bound()
        lost, answered = cluster.calls("CreateVolume")
    assert lost.error is not None
    assert answered.error is None
    assert 2 == made[0].asked
    assert 1 == len(shelf)


def test_a_call_that_fails_after_its_effect_was_carried_out_and_one_before_was_not() -> None:
    for after, asked in ((True, 2), (False, 1)):
        made: list[Counting] = []
        with a_cluster(Counting, options={"shelf": {}, "made": made}) as cluster:
            cluster.faults.fail("CreateVolume", "UNAVAILABLE", "as it is said", after=after)
            cluster.claim("data").bound()
            assert "as it is said" in str(cluster.calls("CreateVolume")[0].error)
        assert asked == made[0].asked


def test_a_restarted_driver_is_new_objects_and_a_node_that_returns_has_a_new_one() -> None:
    made: list[Counting] = []
    with a_cluster(Counting, options={"shelf": {}, "made": made}) as cluster:
        assert ["n1", "n2"] == [one.node_id for one in made]
        dead = cluster.node("n2").dies()
        assert not cluster.aio.plane.driver.on_node(
            "n2", clock=cluster.aio.plane.ports.clock, metrics=None
        ).is_connected  # type: ignore[arg-type]
        dead.returns()
        assert ["n2"] == [one.node_id for one in made[2:]]
        cluster.restart_driver()
        assert ["n1", "n2"] == [one.node_id for one in made[3:]]
        cluster.claim("data").bound()
        assert [0, 0, 0, 1, 0] == [one.asked for one in made]


def test_a_breach_is_known_by_its_rule() -> None:
    with a_cluster(Forgetful, options={"shelf": {}}) as cluster:
        cluster.faults.lose_answer("CreateVolume")
        cluster.claim("data").bound()
        assert {"CSI201"} == {breach.rule.number for breach in cluster.breaches}
        cluster.allow_breaches("CSI201")
        assert not cluster.breaches


class Keeper(Shelf):
    """Deletes no volume."""

    name = "keeper.csi.test"

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        raise DriverError(Code.INTERNAL, "the disk is in use")


@pytest.mark.mooring_cluster(driver=Keeper, options={"shelf": {}})
def test_a_claim_is_gone_with_its_volume(mooring_cluster: ClusterOfTest) -> None:
    claim = mooring_cluster.claim("data").bound()
    name = claim.volume["metadata"]["name"]
    with pytest.raises(
        NotYet,
        match=f"the PersistentVolumeClaim default/data is gone, its PersistentVolume {name} too has not come true",
    ):
        claim.delete().gone()


def test_what_has_not_come_says_what_it_waits_for(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.faults.fail("CreateVolume", "RESOURCE_EXHAUSTED", "the shelf is full", times=1000)
    with pytest.raises(NotYet) as failure:
        mooring_cluster.claim("data").bound()
    text = str(failure.value)
    assert "the PersistentVolumeClaim default/data is Bound has not come true within 15m" in text
    assert "the shelf is full" in text


LIMITED: list[tuple[str, Callable[[ClusterOfTest], object]]] = [
    ("the PersistentVolumeClaim default/data is Bound", lambda cluster: cluster.claim_named("data").bound(wait_s=60)),
    ("the PersistentVolumeClaim default/data is gone", lambda cluster: cluster.claim_named("data").gone(wait_s=60)),
    (
        "the PersistentVolumeClaim default/data is blue",
        lambda cluster: cluster.claim_named("data").until(lambda _: False, "is blue", 60),
    ),
    ("the Pod default/web is Running", lambda cluster: cluster.pod("web", "data").running(wait_s=60)),
    (
        "the VolumeSnapshot default/snap is ready to use",
        lambda cluster: cluster.snapshot("snap", "data").ready(wait_s=60),
    ),
    ("the Node n1 is not Ready", lambda cluster: cluster.node("n1").not_ready(wait_s=60)),
]


def test_each_wait_takes_a_limit_and_says_what_it_waits_for(
    mooring_cluster: ClusterOfTest, subtests: pytest.Subtests
) -> None:
    """Of the cluster's time: a quarter of an hour is minutes where the driver is a command."""
    mooring_cluster.faults.fail("CreateVolume", "INTERNAL", "the shelf is full", times=1000)
    mooring_cluster.claim("data")
    clock = mooring_cluster.aio.plane.ports.clock
    for what, wait in LIMITED:
        with subtests.test(what):
            began_s = mooring_cluster.run(now(clock))
            with pytest.raises(NotYet) as failure:
                wait(mooring_cluster)
            assert 60 == pytest.approx(mooring_cluster.run(now(clock)) - began_s, abs=1)
            first, _, answer = str(failure.value).partition("\n\n")
            assert f"{what} has not come true within 1m0s of the cluster's time" == first
            assert answer.strip()


async def now(clock: Clock) -> float:
    return clock.now()


def test_a_call_that_hangs_ends_with_its_caller_s_patience(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.faults.hang("CreateVolume")
    mooring_cluster.claim("data").bound()
    hung, answered = mooring_cluster.calls("CreateVolume")
    assert "deadline" in str(hung.error)
    assert hung.at_s >= 10.0
    assert answered.error is None


def test_a_killed_provisioner_makes_nothing_until_it_is_back(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.kill("provisioner")
    claim = mooring_cluster.claim("data")
    mooring_cluster.passes(minutes=5)
    assert not mooring_cluster.calls("CreateVolume")
    mooring_cluster.start("provisioner")
    claim.bound()
    with pytest.raises(ConfigError, match="no controller 'scheduler' here"):
        mooring_cluster.kill("scheduler")


def test_rights_that_are_taken_away_come_back(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.faults.forbid("create", "persistentvolumes", of="provisioner")
    claim = mooring_cluster.claim("data")
    mooring_cluster.passes(minutes=2)
    assert "Pending" == claim.object["status"]["phase"]
    assert mooring_cluster.calls("CreateVolume")
    mooring_cluster.faults.allow("create", "persistentvolumes", of="provisioner")
    claim.bound()


def test_the_answer_to_a_write_is_lost_and_no_volume_with_it(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.faults.lose_api_answer("create", "persistentvolumes")
    mooring_cluster.claim("data").bound()
    assert "connection reset by peer" in mooring_cluster.story
    assert 1 == len(mooring_cluster.objects("persistentvolumes"))


def test_an_api_server_that_is_away_is_waited_for(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.faults.api_server_goes()
    claim = mooring_cluster.claim("data")
    mooring_cluster.passes(minutes=1)
    assert "Pending" == claim.object["status"]["phase"]
    mooring_cluster.faults.api_server_returns()
    claim.bound()


def test_a_node_returns_with_its_pod(mooring_cluster: ClusterOfTest) -> None:
    claim = mooring_cluster.claim("data").bound()
    pod = mooring_cluster.pod("web", claim).running()
    node = mooring_cluster.node_of(pod).dies().not_ready()
    assert not node.is_on
    node.returns().ready()
    assert pod.folder(claim).is_dir()
    mooring_cluster.restart_driver()
    pod.delete().gone()
    claim.delete().gone()


def test_a_claim_grows_and_a_snapshot_is_taken(mooring_cluster: ClusterOfTest) -> None:
    claim = mooring_cluster.claim("data", "1Gi").bound()
    mooring_cluster.pod("web", claim).running()
    claim.grows_to("2Gi")
    mooring_cluster.snapshot("copy", claim).ready()
    assert "2Gi" == claim.object["status"]["capacity"]["storage"]


def test_other_objects_are_made_from_yaml(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: here}, data: {a: b}}")
    assert "here" in [one["metadata"]["name"] for one in mooring_cluster.objects("configmaps", "default")]
    with pytest.raises(ConfigError, match="did you mean configmaps"):
        mooring_cluster.objects("configmap")


def test_no_two_looks_at_the_wall_clock_are_the_same(mooring_cluster: ClusterOfTest) -> None:
    clock = mooring_cluster.aio.plane.ports.clock

    async def looks() -> set[float]:
        return {clock.wall_s() for _ in range(100)}

    assert 100 == len(mooring_cluster.run(looks()))


def test_two_runs_are_the_same() -> None:
    assert _life() == _life()


def _life() -> list[tuple[str, float]]:
    with a_cluster() as cluster:
        cluster.faults.lose_answer("ControllerPublishVolume")
        claim = cluster.claim("data").bound()
        cluster.pod("web", claim).running()
        return [(call.rpc, call.at_s) for call in cluster.calls()]


def test_a_driver_that_does_not_start_is_told_with_its_reason() -> None:
    with pytest.raises(ConfigError, match="no class 'Nobody'"), a_cluster("tests.unit.testing.test_cluster:Nobody"):
        pass


def test_a_paused_provisioner_makes_nothing_and_learns_no_answer_until_it_goes_on(
    mooring_cluster: ClusterOfTest,
) -> None:
    mooring_cluster.pause("provisioner")
    claim = mooring_cluster.claim("data")
    mooring_cluster.passes(hours=1)
    assert () == tuple(mooring_cluster.calls("CreateVolume"))
    mooring_cluster.resume("provisioner")
    claim.bound()


def test_a_controller_that_is_paused_during_a_call_writes_nothing_after_it(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.faults.hang("CreateVolume", after=True)
    claim = mooring_cluster.claim("data")
    mooring_cluster.passes(seconds=1)
    mooring_cluster.pause("provisioner")
    mooring_cluster.passes(minutes=10)
    assert 1 == len(mooring_cluster.calls("CreateVolume"))
    assert [] == [reason for reason, _ in mooring_cluster.events("data") if "Fail" in reason]
    mooring_cluster.resume("provisioner")
    claim.bound()
    assert 2 == len(mooring_cluster.calls("CreateVolume"))


def test_a_paused_controller_can_be_killed_and_starts_unpaused(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.pause("provisioner")
    claim = mooring_cluster.claim("data")
    mooring_cluster.passes(minutes=1)
    mooring_cluster.restart("provisioner")
    claim.bound()


@each_row("serves", [False, True])
def test_what_an_owner_or_a_namespace_leaves_behind_is_collected(*, serves: bool) -> None:
    with a_cluster(nodes=1, serves=serves) as cluster:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": cluster.aio.storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
        pod = cluster.pod("job", volumes=[scratch], containers=[{"name": "main", "image": "none"}]).running()
        pod.delete().gone()
        cluster.claim_named("job-scratch").gone()
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        claim = cluster.claim("data", namespace="team").bound()
        cluster.delete("namespaces", "team")
        claim.gone()
        cluster.until(
            lambda: "team" not in [one["metadata"]["name"] for one in cluster.objects("namespaces")],
            "the namespace is gone",
        )
