"""The requests that `mooring call --from-pvc` and `--from-pv` build for a node's driver are those that the node's agent sends."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message

from mooring.api.meta import Key
from mooring.api.storage import CSI_DRIVERS
from mooring.csi.capabilities import rpcs
from mooring.csi.driver import Call
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.built import Built, NoRequest, Objects
from mooring.inspect.node_requests import NODE_BUILDERS, Where
from mooring.inspect.requests import Requests
from mooring.testing.cluster import AsyncCluster
from mooring.testing.opening import ClusterOfTest
from tests.unit.inspect.test_requests import a_class_with_secrets
from tests.unit.testing.test_cluster import Shelf

pytestmark = pytest.mark.slow

DATA = Key("default", "data")
KINDS = ("node-stage", "node-publish", "node-expand")
STATS_S = 150
"""A node has asked for the usage of a volume by then."""
_Rpc = csi.NodeServiceCapability.RPC


class Grouped(Shelf):
    """Stages volumes, and gives them to the group that a call names."""

    name = "grouped.csi.test"
    node_flags = (_Rpc.VOLUME_MOUNT_GROUP,)

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        return csi.NodeUnstageVolumeResponse()


async def requests_of(cluster: AsyncCluster) -> Requests:
    plane = cluster.plane
    client = plane.driver.on_node("n1", clock=plane.ports.clock)
    await client.connect(1.0, "")
    able = rpcs(await client.node_get_capabilities(csi.NodeGetCapabilitiesRequest(), Call(1.0)))
    await client.close()
    return Requests(Objects(plane.users, plane.ports.clock), capabilities_of(plane.info), able)


def on(cluster: AsyncCluster, node: str, pod: str = "", *, says_node: bool = False) -> Where:
    return Where(node if says_node or not pod else "", pod, cluster.plane.nodes[node].root)


def first(cluster: AsyncCluster, rpc: str) -> Any:
    return cluster.calls(rpc)[0].request


async def the_next(cluster: AsyncCluster, rpc: str, count: int = 0) -> Message:
    """The first request that comes after so many."""
    await cluster.until(lambda: _has(cluster, rpc, count), f"{rpc} is sent")
    request: Message = cluster.calls(rpc)[count].request
    return request


async def _has(cluster: AsyncCluster, rpc: str, count: int) -> bool:
    return len(cluster.calls(rpc)) > count


@pytest.mark.mooring_cluster(nodes=2)
async def test_each_is_the_one_that_the_agent_sends(mooring_cluster: ClusterOfTest) -> None:
    """Field by field, secrets included."""
    cluster = mooring_cluster.aio
    requests, class_name = await requests_of(cluster), await a_class_with_secrets(cluster, KINDS)
    claim = await (await cluster.claim("data", storage_class=class_name)).bound()
    pv = (await claim.volume())["metadata"]["name"]
    there = on(cluster, "n2", "web")
    agent = cluster.plane.nodes["n2"]
    await agent.stop()
    web = await cluster.pod("web", "data", node="n2")
    await cluster.passes(seconds=5)
    built = {rpc: await requests.from_claim(rpc, DATA, there) for rpc in ("NodeStageVolume", "NodePublishVolume")}
    await agent.start()
    await web.running()
    for rpc, before in built.items():
        now = await requests.from_volume(rpc, pv, there)
        assert before == now == Built(first(cluster, rpc)), "before and after the agent sends it"
        assert now == await requests.from_claim(rpc, DATA, on(cluster, "n2", "web", says_node=True))
        assert {"password": "of " + {"NodeStageVolume": "node-stage"}.get(rpc, "node-publish")} == dict(
            now.request.secrets
        )  # type: ignore[attr-defined]
    assert "default" == first(cluster, "NodePublishVolume").volume_context["csi.storage.k8s.io/pod.namespace"]
    assert (
        first(cluster, "NodeStageVolume")
        == (await requests.from_volume("NodeStageVolume", pv, on(cluster, "n2"))).request
    ), "by its node"

    await cluster.passes(seconds=STATS_S)
    assert await requests.from_claim("NodeGetVolumeStats", DATA, there) == Built(first(cluster, "NodeGetVolumeStats"))

    (note,) = (await requests.from_claim("NodeExpandVolume", DATA, there)).notes
    assert note == "it would not be sent now: the claim waits for no growth on its node"
    await agent.stop()
    await claim.patch({"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    await claim.until(lambda body: "NodeResizePending" in str(body["status"]), "waits for its node")
    grown = await requests.from_claim("NodeExpandVolume", DATA, there)
    await agent.start()
    assert grown == Built(await the_next(cluster, "NodeExpandVolume"))
    assert {"password": "of node-expand"} == dict(grown.request.secrets)  # type: ignore[attr-defined]
    await claim.until(lambda body: body["status"]["capacity"]["storage"] == "3Gi", "has grown")

    for rpc, said in (
        ("NodeUnpublishVolume", "Pod default/web lives"),
        ("NodeUnstageVolume", "pods use the volume: web"),
    ):
        (note,) = (await requests.from_claim(rpc, DATA, there)).notes
        assert note.startswith(f"it would not be sent now: {said}")
    await agent.stop()
    await web.delete()
    taken = {rpc: await requests.from_volume(rpc, pv, there) for rpc in ("NodeUnpublishVolume", "NodeUnstageVolume")}
    (note,) = (await requests.from_volume("NodePublishVolume", pv, there)).notes
    assert note == "it would not be sent now: Pod default/web has ended, or is being deleted"
    await agent.start()
    await web.gone()
    for rpc, one in taken.items():
        assert one == Built(await the_next(cluster, rpc))
    assert {*built, *taken, "NodeExpandVolume", "NodeGetVolumeStats"} == set(NODE_BUILDERS), "all are tried"


@pytest.mark.mooring_cluster(driver=Grouped, options={"shelf": {}}, nodes=1)
async def test_a_pod_s_group_goes_to_a_driver_that_sets_it_and_tokens_are_left_out(
    mooring_cluster: ClusterOfTest,
) -> None:
    cluster = mooring_cluster.aio
    requests, name = await requests_of(cluster), cluster.plane.info.name
    await (await cluster.claim("data")).bound()
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}}
    tokens = {"tokenRequests": [{"audience": "vault"}]}
    count, there = 0, on(cluster, "n1", "web")
    for more in ({}, tokens, {**tokens, "serviceAccountTokenInSecrets": True}):
        await cluster.delete("csidrivers", name)
        spec = {"attachRequired": False, "podInfoOnMount": True, **more}
        await cluster.plane.users.create(CSI_DRIVERS.whole(), {**head, "spec": spec})
        if not more:
            await (await cluster.pod("web", "data", node="n1", securityContext={"fsGroup": 3000})).running()
        built: Any = await requests.from_claim("NodePublishVolume", DATA, there)
        assert built.request == first(cluster, "NodePublishVolume")
        assert "3000" == built.request.volume_capability.mount.volume_mount_group
        count += len(built.notes)
        for note in built.notes:
            assert note.startswith(
                "left out: the tokens of service account default/default for vault, which the agent sends as "
            )
            assert ("--secrets-file" if "serviceAccountTokenInSecrets" in more else "as a word") in note
    assert 2 == count
    assert await requests.from_claim("NodeStageVolume", DATA, there) == Built(first(cluster, "NodeStageVolume"))
    assert "name one with --pod" in (await requests.from_claim("NodeStageVolume", DATA, on(cluster, "n1"))).notes[0]


@pytest.mark.mooring_cluster(driver=Grouped, options={"shelf": {}}, nodes=1)
async def test_a_reader_s_device_is_asked_for_as_the_agent_does(mooring_cluster: ClusterOfTest) -> None:
    """The driver makes no device, so that the pod does not run; it has got its calls by then."""
    cluster = mooring_cluster.aio
    requests = await requests_of(cluster)
    await (await cluster.claim("data", volumeMode="Block")).bound()
    devices = [{"name": "main", "image": "none", "volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]}]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}]
    await cluster.pod("web", node="n1", containers=devices, volumes=volumes)
    for rpc in ("NodeStageVolume", "NodePublishVolume"):
        sent: Any = await the_next(cluster, rpc)
        assert await requests.from_claim(rpc, DATA, on(cluster, "n1", "web")) == Built(sent)
        assert sent.volume_capability.HasField("block")
    assert sent.readonly
    target = (await requests.from_claim("NodeUnpublishVolume", DATA, on(cluster, "n1", "web"))).request
    assert sent.target_path == target.target_path  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rpc", "pod", "node", "said"),
    [
        ("NodePublishVolume", "", "n1", "give --pod, with the name of a Pod that uses the claim"),
        ("NodePublishVolume", "other", "", "Pod default/other does not use PersistentVolume"),
        ("NodeUnpublishVolume", "other", "", "Pod default/other does not use PersistentVolume"),
        (
            "NodeUnpublishVolume",
            "gone",
            "",
            "there is no Pod default/gone; of one that is gone, give the fields as words: volume_id=",
        ),
        ("NodeGetVolumeStats", "web", "n9", "Pod default/web is on node n1, not on n9: leave --node out"),
        ("NodeStageVolume", "", "", "give --node, with the name of the Node"),
    ],
)
@pytest.mark.mooring_cluster(nodes=1)
async def test_what_can_t_be_built_is_told_with_the_next_step(
    mooring_cluster: ClusterOfTest, rpc: str, pod: str, node: str, said: str
) -> None:
    cluster = mooring_cluster.aio
    await (await cluster.claim("data")).bound()
    await cluster.pod("web", "data", node="n1")
    await cluster.pod("other", node="n1")
    with pytest.raises(NoRequest) as refused:
        await (await requests_of(cluster)).from_claim(rpc, DATA, Where(node, pod))
    assert said in str(refused.value)
    assert 2 == refused.value.exit_code


async def test_a_volume_that_is_not_attached_to_the_node_says_so(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    await (await cluster.claim("data")).bound()
    (note,) = (await (await requests_of(cluster)).from_claim("NodeStageVolume", DATA, Where("n1"))).notes
    assert note.startswith("it would not be sent now: there is no VolumeAttachment csi-")


@pytest.mark.mooring_cluster(driver=Shelf, options={"shelf": {}}, nodes=1)
async def test_nobody_sends_what_the_driver_does_not_offer(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    await (await cluster.claim("data")).bound()
    requests, capabilities = (
        await requests_of(cluster),
        {"NodeStageVolume": "STAGE_UNSTAGE_VOLUME", "NodeUnstageVolume": "STAGE_UNSTAGE_VOLUME"},
    )
    for rpc, name in (
        capabilities | {"NodeExpandVolume": "EXPAND_VOLUME", "NodeGetVolumeStats": "GET_VOLUME_STATS"}
    ).items():
        with pytest.raises(
            NoRequest, match=f"nobody sends {rpc} to shelf.csi.test: its NodeGetCapabilities does not name {name}"
        ):
            await requests.from_claim(rpc, DATA, Where("n1", "web"))
