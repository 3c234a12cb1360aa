"""`mooring why` (issue 29) of a volume that a pod wants on its node: the attach/detach controller's own judgement of
who is in the way.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name
from mooring.base.clock import rfc3339
from mooring.cluster.attachdetach.silence import WAITS_SINCE
from tests.support.builders import DRIVER, FINALIZER, KINDS, Json, a_pod, a_va, an_attached_va
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

VA = attachment_name(DRIVER, "pv", "n1")
OWN = attachment_name(DRIVER, "pv", "n2")
UNIQUE = f"kubernetes.io/csi/{DRIVER}^pv"
DEAD = {
    "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
}


def a_deployment_s_pod(name: str, node: str, digest: str, **more: Any) -> Json:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"web-{digest}",
        "uid": f"uid-{digest}",
        "controller": True,
    }
    pod = a_pod(name, "claim", node=node, **more)
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner], "labels": {"pod-template-hash": digest}}}


async def a_world(*, mounted: bool = False, attachment: bool = True, **va: Any) -> WhyWorld:
    """The pod `web` waits on n2; the volume is attached to n1. mounted: n1's kubelet has it in use."""
    world = WhyWorld()
    await world.bound(pod_on="n2")
    if attachment:
        await world.create(an_attached_va(VA, "pv", "n1", **va))
    if mounted:
        await world.patch(NODES, "n1", {"status": {"volumesInUse": [UNIQUE]}}, subresource="status")
    return world


async def blocked(world: WhyWorld) -> tuple[str, str, str]:
    """State, mover and text of the link of the attach."""
    found = await world.values("pod/web")
    link = next(one for one in found["links"] if one["name"] == "attach claim")
    return link["state"], link["mover"], link["text"]


# -- pods in the way


async def test_a_rolling_update_that_never_ends_is_the_deployment_s() -> None:
    world = WhyWorld()
    await world.bound(pod_on="n2")
    await world.create(a_deployment_s_pod("new", "n2", "5d9"), a_deployment_s_pod("old", "n1", "4c8", phase="Running"))
    await world.create(an_attached_va(VA, "pv", "n1"))
    link = await world.blocking("pod/new")
    assert ("failed", "user") == (link["state"], link["mover"])
    assert "is of the same Deployment web, which waits for this pod before it deletes that one" in link["text"]
    assert link["commands"][0]["line"].startswith("kubectl -n default patch deployment web -p ")
    assert not link["commands"][0]["safe"]


async def test_pods_of_two_deployments_are_no_rolling_update() -> None:
    world = await a_world()
    await world.create(a_pod("old", "claim", node="n1", phase="Running"))
    assert ("failed", "user", 'the pod "default/old" has it on node n1') == await blocked(world)


async def test_a_pod_that_is_being_deleted_is_its_kubelet_s() -> None:
    world = await a_world()
    running = [{"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}]
    await world.create(a_pod("old", "claim", node="n1", phase="Running"))
    await world.patch(KINDS["Pod"], "old", {"status": {"containerStatuses": running}}, subresource="status")
    await world.delete(KINDS["Pod"], "old")
    state, mover, text = await blocked(world)
    assert ("waiting", "cluster") == (state, mover)
    assert "pod old on node n1 is being deleted; this ends when its containers have ended" == text


# -- nodes in the way


async def test_a_node_that_has_it_mounted_for_nobody_is_waited_for() -> None:
    world = await a_world(mounted=True)
    state, mover, text = await blocked(world)
    assert ("waiting", "cluster") == (state, mover)
    assert (
        "no pod uses it any more, and node n1 still has it mounted; this ends when its kubelet has unmounted it" == text
    )


async def test_a_node_that_lets_go_is_the_controller_s_move() -> None:
    assert ("waiting", "cluster", "node n1 is about to let go of it") == await blocked(await a_world())


async def test_a_dead_node_that_has_it_mounted_says_when_it_is_forced_at_the_latest() -> None:
    world = await a_world(mounted=True)
    await world.patch(NODES, "n1", DEAD, subresource="status")
    link = await world.blocking("pod/web")
    assert ("failed", "operator", "node n1 has it, and the node does not report any more") == (
        link["state"],
        link["mover"],
        link["text"],
    )
    assert "by force in 6m0s at the latest, unless forced detaches are off" == link["nextTry"]
    assert "mooring fence n1" == link["commands"][0]["line"]


async def test_the_time_that_the_attachment_has_written_down_counts() -> None:
    world = await a_world(mounted=True)
    await world.patch(NODES, "n1", DEAD, subresource="status")
    mark = f"{rfc3339(world.clock.wall_s() - 270)} 2026-01-01T00:00:00Z"
    (name,) = [one["metadata"]["name"] for one in await world.list(VOLUME_ATTACHMENTS)]
    await world.patch(VOLUME_ATTACHMENTS, name, {"metadata": {"annotations": {WAITS_SINCE: mark}}})
    assert (
        "by force in 1m30s at the latest, unless forced detaches are off"
        == (await world.blocking("pod/web"))["nextTry"]
    )


async def test_a_driver_that_has_forced_detaches_off_says_never() -> None:
    world = await a_world(mounted=True)
    await world.patch(NODES, "n1", DEAD, subresource="status")
    await world.patch(CSI_DRIVERS, DRIVER, {"metadata": {"annotations": {"mooring.dev/force-detach-after": "never"}}})
    assert (await world.blocking("pod/web"))["nextTry"].startswith("never by itself")


async def test_a_pod_on_a_dead_node_holds_it_until_it_is_deleted() -> None:
    world = await a_world(mounted=True)
    await world.create(a_pod("old", "claim", node="n1", phase="Running"))
    await world.patch(NODES, "n1", DEAD, subresource="status")
    link = await world.blocking("pod/web")
    assert 'the pod "default/old" has it on node n1, and the node does not report any more' == link["text"]
    assert "by force 6m0s after the pod's deletion, unless forced detaches are off" == link["nextTry"]


async def test_a_node_out_of_service_is_detached_now() -> None:
    world = await a_world(mounted=True)
    await world.create(a_pod("old", "claim", node="n1", phase="Running"))
    await world.patch(NODES, "n1", DEAD, subresource="status")
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await world.patch(NODES, "n1", {"spec": {"taints": [taint]}})
    state, mover, text = await blocked(world)
    assert ("waiting", "cluster") == (state, mover)
    assert "the node is tainted out-of-service, so the volume is detached now" in text


# -- attachments in the way


async def test_a_detach_is_the_attacher_s_and_its_failure_the_driver_s() -> None:
    world = await a_world()
    await world.patch(PERSISTENT_VOLUMES, "pv", {"metadata": {"finalizers": [FINALIZER]}})
    await world.delete(VOLUME_ATTACHMENTS, VA)
    assert ("waiting", "cluster", "it is being detached from node n1 first") == await blocked(world)
    error = {"status": {"attached": True, "detachError": {"message": "rpc error: code = Internal desc = busy"}}}
    await world.patch(VOLUME_ATTACHMENTS, VA, error, subresource="status")
    state, mover, _ = await blocked(world)
    assert ("failed", "driver") == (state, mover)


async def test_an_attachment_that_only_others_finalizers_hold_is_theirs() -> None:
    world = await a_world(finalizers=["backup.example.com/hold"])
    await world.delete(VOLUME_ATTACHMENTS, VA)
    state, mover, text = await blocked(world)
    assert ("failed", "operator") == (state, mover)
    assert "is kept by the finalizers backup.example.com/hold" in text
    assert f"mooring why volumeattachment/{VA}" == (await world.blocking("pod/web"))["commands"][0]["line"]


async def test_an_attachment_by_hand_is_whoever_s_made_it() -> None:
    world = await a_world(attachment=False)
    await world.create(an_attached_va("by-hand", "pv", "n1"))
    state, mover, text = await blocked(world)
    assert ("failed", "operator") == (state, mover)
    assert "VolumeAttachment by-hand, which was not made for a pod, attaches it to node n1" in text


async def test_a_wish_for_what_is_being_detached_from_the_same_node_waits_for_its_end() -> None:
    world = await a_world(attachment=False)
    await world.create(an_attached_va(OWN, "pv", "n2"))
    await world.delete(VOLUME_ATTACHMENTS, OWN)
    state, _, text = await blocked(world)
    assert ("waiting", 'waits for the end of the detach from node "n2", to attach the volume there again') == (
        state,
        text,
    )


async def test_an_attachment_of_its_name_about_something_else_is_told() -> None:
    world = await a_world(attachment=False)
    await world.create(a_va(OWN, "pv", "n2", attacher="csi.other"))
    state, mover, text = await blocked(world)
    assert ("failed", "operator") == (state, mover)
    assert "has the name of this volume" in text


# -- nobody in the way


async def test_a_node_whose_kubelet_attaches_by_itself_is_left_alone_by_controllers() -> None:
    world = await a_world(attachment=False)
    await world.patch(
        NODES, "n2", {"metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": None}}}
    )
    state, mover, text = await blocked(world)
    assert ("failed", "operator") == (state, mover)
    assert "no controller attaches volumes to node n2" in text


async def test_a_volume_that_is_not_reserved_for_its_claim_is_not_attached() -> None:
    world = await a_world(attachment=False)
    await world.patch(PERSISTENT_VOLUMES, "pv", {"spec": {"claimRef": {"uid": "another"}}})
    found = await world.values("pod/web")
    link = next(one for one in found["links"] if one["name"] == "attach claim")
    assert 'PersistentVolume "pv" of PersistentVolumeClaim "claim" is not reserved for it' in link["text"]
    assert "failed" == link["state"]


async def test_a_node_that_is_gone_takes_its_pod_with_it() -> None:
    world = await a_world(attachment=False)
    await world.delete(NODES, "n2")
    assert ("waiting", "cluster", "its node n2 does not exist any more: the pod's object goes") == await blocked(world)


@each_row("modes", [["ReadWriteMany"], ["ReadWriteOnce"]])
async def test_a_volume_for_many_nodes_has_nobody_in_its_way(modes: list[str]) -> None:
    world = WhyWorld()
    await world.bound(pod_on="n2")
    await world.patch(PERSISTENT_VOLUMES, "pv", {"spec": {"accessModes": modes}})
    await world.create(an_attached_va(VA, "pv", "n1"), a_pod("old", "claim", node="n1", phase="Running"))
    state, _, text = await blocked(world)
    assert ("nobody has asked the attacher yet" in text) == (modes == ["ReadWriteMany"])
    assert ("waiting" if modes == ["ReadWriteMany"] else "failed") == state
