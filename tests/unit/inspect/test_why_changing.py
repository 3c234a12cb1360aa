"""`mooring why` (issue 29) of a volume that grows or gets another class: the resizer's own judgement, and failures of
the state at hand.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339
from mooring.inspect.why.chain import Mover
from mooring.kube.errors import Forbidden
from tests.support.builders import Json, a_bound_claim, a_class, a_csi_driver, a_pod, a_volume, an_attributes_class
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

FAILED = 'resize volume "pv" by resizer "csi.test" failed: rpc error: code = Internal desc = the array is busy'


async def a_world(faults: ServerFaults | None = None, **claim: Any) -> WhyWorld:
    """A bound claim, and its volume of the same size."""
    world = WhyWorld(faults)
    await world.create(a_class(allowVolumeExpansion=True), a_csi_driver())
    claim_ = await world.create(a_bound_claim(**claim))
    await world.create(a_volume(claim=claim_, phase="Bound"))
    return world


async def a_growing_world(step: str = "", **status: Any) -> WhyWorld:
    """step: of allocatedResourceStatuses."""
    world = await a_world(size="2Gi")
    steps = {"allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": step}} if step else {}
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"status": {**steps, **status}}, subresource="status")
    return world


async def grown_by_the_driver(world: WhyWorld, step: str = "NodeResizePending") -> None:
    """The storage has grown, and the node is to do its part."""
    await world.patch(PERSISTENT_VOLUMES, "pv", {"spec": {"capacity": {"storage": "2Gi"}}})
    pending = {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": rfc3339(world.clock.wall_s())}
    steps = {"allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": step}}
    await world.patch(
        PERSISTENT_VOLUME_CLAIMS, "claim", {"status": {**steps, "conditions": [pending]}}, subresource="status"
    )


async def claim_of(world: WhyWorld) -> Json:
    return {"kind": "PersistentVolumeClaim", **(await world.get(PERSISTENT_VOLUME_CLAIMS, "claim"))}


# -- growth


async def test_a_growth_waits_for_the_driver_as_the_resizer_says() -> None:
    world = await a_growing_world()
    link = await world.blocking("pvc/claim")
    assert ("growth claim", "waiting", "cluster") == (link["name"], link["state"], link["mover"])
    assert "the volume grows to 2Gi: waiting for the driver" == link["text"]


async def test_a_failure_of_the_growth_that_is_under_way_is_told() -> None:
    world = await a_growing_world("ControllerResizeInProgress")
    await world.tell(await claim_of(world), "VolumeResizeFailed", FAILED)
    link = await world.blocking("pvc/claim")
    assert ("failed", "driver", FAILED) == (link["state"], link["mover"], link["error"])


async def test_the_node_s_turn_is_newer_than_a_failure_of_the_driver() -> None:
    """The Event stays for an hour after the driver has grown the volume all the same."""
    world = await a_growing_world("ControllerResizeInProgress")
    await world.tell(await claim_of(world), "VolumeResizeFailed", FAILED)
    await world.clock.sleep(60)
    await grown_by_the_driver(world)
    link = await world.blocking("pvc/claim")
    assert ("waiting", "user", "whoever creates a pod with this claim") == (link["state"], link["mover"], link["who"])
    assert "error" not in link
    assert "the volume has 2Gi, and the node has to do its part" in link["text"]


async def test_a_failure_of_an_earlier_growth_is_not_that_of_this_one() -> None:
    world = await a_growing_world()
    await world.tell(await claim_of(world), "VolumeResizeFailed", FAILED)
    await world.clock.sleep(60)
    begun = {"type": "Resizing", "status": "True", "lastTransitionTime": rfc3339(world.clock.wall_s())}
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"status": {"conditions": [begun]}}, subresource="status")
    assert "waiting" == (await world.blocking("pvc/claim"))["state"]


async def test_the_kubelet_s_failure_is_told_on_its_pod_and_found_there() -> None:
    world = await a_growing_world("ControllerResizeInProgress")
    await grown_by_the_driver(world)
    pod = await world.create(a_pod("web", "claim", node="n1"))
    link = await world.blocking("pvc/claim")
    assert ("waiting", "the kubelet of node n1") == (link["state"], link["who"])
    await world.tell(pod, "FileSystemResizeFailed", "resize2fs: bad magic number")
    link = await world.blocking("pvc/claim")
    assert ("failed", "resize2fs: bad magic number") == (link["state"], link["error"])


async def test_a_node_that_can_t_grow_it_is_named() -> None:
    world = await a_growing_world("ControllerResizeInProgress")
    await grown_by_the_driver(world, "NodeResizeInfeasible")
    error = {
        "type": "NodeResizeError",
        "status": "True",
        "message": "rpc error: code = OutOfRange desc = too large for xfs",
    }
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"status": {"conditions": [error]}}, subresource="status")
    link = await world.blocking("pvc/claim")
    assert ("failed", "the node can't grow the file system", "OutOfRange") == (
        link["state"],
        link["text"],
        link["code"],
    )


async def test_a_driver_that_grows_only_what_nobody_uses_waits_for_the_pods() -> None:
    world = await a_growing_world("ControllerResizeInProgress")
    await world.create(a_pod("web", "claim", node="n1"))
    refused = {
        "type": "ControllerResizeError",
        "status": "True",
        "reason": "FailedPrecondition",
        "message": "volume is in use",
    }
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"status": {"conditions": [refused]}}, subresource="status")
    link = await world.blocking("pvc/claim")
    assert ("failed", "user", "volume is in use") == (link["state"], link["mover"], link["error"])
    assert 'the driver grows it only while no pod uses it, and the pod "web" does' == link["text"]
    assert {"line": "kubectl -n default delete pod web", "safe": False}.items() <= link["commands"][0].items()


async def test_a_size_beyond_csi_is_the_owner_s() -> None:
    world = await a_world(size="10E")
    link = await world.blocking("pvc/claim")
    assert ("failed", "user") == (link["state"], link["mover"])
    assert "the claim has to ask for less" in link["text"]


async def test_a_volume_of_no_csi_driver_is_no_resizer_s() -> None:
    world = WhyWorld()
    await world.create(a_class(allowVolumeExpansion=True))
    claim = await world.create(a_bound_claim(size="2Gi"))
    await world.create(a_volume(claim=claim, phase="Bound", source={"hostPath": {"path": "/data"}}))
    assert "no CSI driver grows its volume" in (await world.blocking("pvc/claim"))["text"]


# -- another class


async def a_modified_world(faults: ServerFaults | None = None, **status: Any) -> WhyWorld:
    world = await a_world(faults, volumeAttributesClassName="gold")
    if status:
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"status": status}, subresource="status")
    return world


async def test_a_class_that_does_not_exist_is_known_before_the_resizer_says_so() -> None:
    world = await a_modified_world()
    link = await world.blocking("pvc/claim")
    assert ("class claim", "failed", "user") == (link["name"], link["state"], link["mover"])
    assert 'the VolumeAttributesClass "gold" does not exist' == link["text"]


async def test_a_modification_waits_for_the_driver_and_names_the_class_that_is_begun() -> None:
    world = await a_modified_world(
        modifyVolumeStatus={"targetVolumeAttributesClassName": "silver", "status": "InProgress"}
    )
    await world.create(an_attributes_class("gold"), an_attributes_class("silver"))
    link = await world.blocking("pvc/claim")
    assert ("waiting", "cluster") == (link["state"], link["mover"])
    assert (
        'the volume is modified to the class "silver", which the driver may be at work on: waiting for the driver'
        == link["text"]
    )


async def test_a_modification_that_fails_is_the_driver_s() -> None:
    error = {"type": "ModifyVolumeError", "status": "True", "message": "rpc error: code = Internal desc = no such tier"}
    modify = {"targetVolumeAttributesClassName": "gold", "status": "InProgress"}
    world = await a_modified_world(conditions=[error], modifyVolumeStatus=modify)
    await world.create(an_attributes_class("gold"))
    link = await world.blocking("pvc/claim")
    assert ("failed", "driver", error["message"]) == (link["state"], link["mover"], link["error"])


class NoClasses(ServerFaults):
    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if kind.plural == "volumeattributesclasses":
            raise Forbidden("no right to classes")


@each_row(("pending", "mover"), [(False, Mover.UNKNOWN), (True, Mover.USER)])
async def test_a_class_that_can_t_be_seen_is_missing_only_if_the_resizer_says_so(pending: bool, mover: Mover) -> None:
    status = {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "Pending"}} if pending else {}
    world = await a_modified_world(NoClasses(), **status)
    assert mover.value == (await world.why("pvc/claim"))[0]
