"""The requests that `mooring call --from-pvc` and `--from-pv` build are those that the controllers of a plane send for the same objects."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
from google.protobuf.message import Message

from mooring.api.core import SECRETS
from mooring.api.meta import Key
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.built import Built, NoRequest, Objects
from mooring.inspect.node_requests import Where
from mooring.inspect.requests import KNOWN, Requests
from mooring.testing.cluster import AsyncCluster
from mooring.testing.objects import AsyncClaim
from mooring.testing.opening import ClusterOfTest
from tests.unit.testing.test_cluster import Shelf

pytestmark = pytest.mark.slow

DATA = Key("default", "data")
SECRET_KINDS = ("provisioner", "controller-publish", "controller-expand")


class Zoned(Shelf):
    """A driver with zones, one for each node."""

    name = "zoned.csi.test"
    plugin_flags = (csi.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,)

    def __init__(self, shelf: dict[str, str], node_id: str) -> None:
        super().__init__(shelf, node_id)
        self.node_segments = {"zoned.csi.test/zone": f"zone-of-{node_id}"}


def requests_of(cluster: AsyncCluster, secrets: dict[str, str] | None = None) -> Requests:
    plane = cluster.plane
    return Requests(Objects(plane.users, plane.ports.clock, secrets), capabilities_of(plane.info))


async def sent_when_it_goes_on(cluster: AsyncCluster, who: str, rpc: str, done: Awaitable[Any]) -> Message:
    """The first request of the call that the controller sends after a pause."""
    before = len(cluster.calls(rpc))
    await cluster.resume(who)
    await done
    request: Message = cluster.calls(rpc)[before].request
    return request


async def a_class_with_secrets(cluster: AsyncCluster, kinds: Sequence[str] = SECRET_KINDS) -> str:
    parameters = {"speed": "fast"}
    for kind in kinds:
        body = {"metadata": {"name": kind}, "data": {"password": base64.b64encode(f"of {kind}".encode()).decode()}}
        await cluster.plane.users.create(SECRETS.whole(), {"apiVersion": "v1", "kind": "Secret", **body}, "default")
        parameters |= {
            f"csi.storage.k8s.io/{kind}-secret-name": kind,
            f"csi.storage.k8s.io/{kind}-secret-namespace": "default",
        }
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "secretive"}}
    await cluster.create(
        {**head, "provisioner": cluster.plane.info.name, "parameters": parameters, "allowVolumeExpansion": True}
    )
    return "secretive"


async def test_each_is_the_one_that_the_controller_sends(mooring_cluster: ClusterOfTest) -> None:
    """Field by field, secrets included."""
    cluster = mooring_cluster.aio
    requests, class_name = requests_of(cluster), await a_class_with_secrets(cluster)
    await cluster.pause("provisioner")
    claim = await cluster.claim("data", storage_class=class_name)
    await cluster.passes(seconds=5)
    built = await requests.from_claim("CreateVolume", DATA)
    assert built == Built(await sent_when_it_goes_on(cluster, "provisioner", "CreateVolume", claim.bound()))
    assert {"password": "of provisioner"} == dict(built.request.secrets)  # type: ignore[attr-defined]
    pv = (await claim.volume())["metadata"]["name"]

    await cluster.pause("attacher")
    web = await cluster.pod("web", "data", node="n2")
    await cluster.passes(seconds=5)
    built = await requests.from_volume("ControllerPublishVolume", pv, Where("n2"))
    assert built == Built(await sent_when_it_goes_on(cluster, "attacher", "ControllerPublishVolume", web.running()))
    assert built == await requests.from_claim("ControllerPublishVolume", DATA, Where("n2"))

    await cluster.pause("resizer")
    await claim.patch({"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    built = await requests.from_claim("ControllerExpandVolume", DATA)
    assert built == Built(
        await sent_when_it_goes_on(cluster, "resizer", "ControllerExpandVolume", claim.grows_to("3Gi"))
    )

    await cluster.pause("resizer")
    await claim.patch({"spec": {"volumeAttributesClassName": "gold"}})
    built = await requests.from_claim("ControllerModifyVolume", DATA)
    has_it = claim.until(lambda body: body["status"].get("currentVolumeAttributesClassName") == "gold", "is gold")
    assert built == Built(await sent_when_it_goes_on(cluster, "resizer", "ControllerModifyVolume", has_it))

    await cluster.pause("attacher")
    await (await web.delete()).gone()
    await cluster.delete("csinodes", "n2")
    built = await requests.from_volume("ControllerUnpublishVolume", pv, Where("n2"))
    assert built == Built(
        await sent_when_it_goes_on(cluster, "attacher", "ControllerUnpublishVolume", cluster.passes(minutes=1))
    )
    assert [] == await cluster.objects("volumeattachments")
    await cluster.node("n2").agent_restarts()
    assert built == await requests.from_volume("ControllerUnpublishVolume", pv, Where("n2")), "without the attachment"

    await cluster.pause("provisioner")
    await claim.delete()
    await cluster.passes(seconds=5)
    assert await claim.find() is None
    built = await requests.from_volume("DeleteVolume", pv)
    assert built == Built(await sent_when_it_goes_on(cluster, "provisioner", "DeleteVolume", cluster.passes(minutes=1)))
    assert {"password": "of provisioner"} == dict(built.request.secrets)  # type: ignore[attr-defined]
    others = {call for call in KNOWN if call.startswith(("Controller", "Node"))}
    assert {"CreateVolume", "DeleteVolume", *others} == set(KNOWN), (
        "all are tried, those to nodes in test_node_requests"
    )


async def the_same_copy(cluster: AsyncCluster, **spec: Any) -> Message:
    """The request for a claim `copy`, which is the one that was sent."""
    await cluster.pause("provisioner")
    copy = await cluster.claim("copy", "2Gi", **spec)
    await cluster.passes(seconds=5)
    built = await requests_of(cluster).from_claim("CreateVolume", copy.key)
    assert built == Built(await sent_when_it_goes_on(cluster, "provisioner", "CreateVolume", copy.bound()))
    return built.request


async def test_a_clone_s_names_the_volume_of_its_source(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    claim: AsyncClaim = await (await cluster.claim("data")).bound()
    source = {"kind": "PersistentVolumeClaim", "name": "data"}
    request: Any = await the_same_copy(cluster, storage_class=cluster.storage_class, dataSource=source)
    assert await claim.handle() == request.volume_content_source.volume.volume_id


async def test_a_restored_one_s_names_the_snapshot(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    await (await cluster.claim("data")).bound()
    await (await cluster.snapshot("then", "data")).ready()
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "then"}
    request: Any = await the_same_copy(cluster, dataSource=source)
    assert request.volume_content_source.snapshot.snapshot_id


@pytest.mark.mooring_cluster(driver=Zoned, options={"shelf": {}}, nodes=2)
async def test_it_names_the_places_of_the_nodes(mooring_cluster: ClusterOfTest) -> None:
    request: Any = await the_same_copy(mooring_cluster.aio)
    zones = [one.segments["zoned.csi.test/zone"] for one in request.accessibility_requirements.requisite]
    assert {"zone-of-n1", "zone-of-n2"} == set(zones)


async def test_the_secrets_of_a_file_go_before_those_of_the_cluster(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    await cluster.claim("data", storage_class=await a_class_with_secrets(cluster))
    for kind in SECRET_KINDS:
        await cluster.delete("secrets", kind)
    built: Any = await requests_of(cluster, {"password": "of a file"}).from_claim("CreateVolume", DATA)
    assert {"password": "of a file"} == dict(built.request.secrets)
    with pytest.raises(NoRequest, match="error getting secret provisioner in namespace default"):
        await requests_of(cluster).from_claim("CreateVolume", DATA)


async def test_what_would_not_be_sent_now_is_built_and_says_so(mooring_cluster: ClusterOfTest) -> None:
    cluster, requests = mooring_cluster.aio, requests_of(mooring_cluster.aio)
    claim: AsyncClaim = await (await cluster.claim("data")).bound()
    sent = cluster.calls("CreateVolume")[0].request
    built = await requests.from_claim("CreateVolume", DATA)
    assert built.request == sent, "to be sent once more, as after a lost answer"
    (note,) = built.notes
    assert note.startswith("it would not be sent now: ")
    pv = (await claim.volume())["metadata"]["name"]
    notes = {
        "DeleteVolume": "it would not be sent now: the volume is Bound, its policy Delete",
        "ControllerExpandVolume": "it would not be sent now: the claim has the size that it wants",
    }
    for rpc, said in notes.items():
        assert (await requests.from_volume(rpc, pv)).notes == (said,)
    waiting = await cluster.claim("waiting", storage_class=f"{cluster.storage_class}-wait")
    assert "it would not be sent now" in (await requests.from_claim("CreateVolume", waiting.key)).notes[0]


@pytest.mark.parametrize(
    ("rpc", "said"),
    [
        ("GetCapacity", "GetCapacity is not built from objects; these are: CreateVolume, DeleteVolume"),
        ("ControllerPublishVolume", "give --node, with the name of the Node"),
        ("ControllerPublishVolume n9", "the driver hostpath.csi.mooring is not registered on node n9"),
        ("ControllerModifyVolume", "the claim names no VolumeAttributesClass"),
    ],
)
async def test_what_can_t_be_built_is_told_with_the_next_step(
    mooring_cluster: ClusterOfTest, rpc: str, said: str
) -> None:
    cluster = mooring_cluster.aio
    await (await cluster.claim("data")).bound()
    name, _, node = rpc.partition(" ")
    with pytest.raises(NoRequest) as refused:
        await requests_of(cluster).from_claim(name, DATA, Where(node))
    assert said in str(refused.value)
    assert 2 == refused.value.exit_code


async def test_an_object_of_another_driver_is_refused(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster.aio
    claim: AsyncClaim = await (await cluster.claim("data")).bound()
    capabilities = capabilities_of(cluster.plane.info)
    other = Requests(
        Objects(cluster.plane.users, cluster.plane.ports.clock), dataclasses.replace(capabilities, name="other.csi")
    )
    pv = (await claim.volume())["metadata"]["name"]
    with pytest.raises(NoRequest, match=r"hostpath\.csi\.mooring, and other\.csi answers"):
        await other.from_volume("DeleteVolume", pv)
    with pytest.raises(NoRequest, match=r"hostpath\.csi\.mooring, and other\.csi answers"):
        await other.from_claim("CreateVolume", DATA)
    with pytest.raises(NoRequest, match="give --from-pvc"):
        await requests_of(cluster).from_volume("CreateVolume", pv)
    unbound = await cluster.claim("unbound", storage_class=f"{cluster.storage_class}-wait")
    with pytest.raises(NoRequest, match="has no volume yet: there is CreateVolume alone"):
        await requests_of(cluster).from_claim("DeleteVolume", unbound.key)
