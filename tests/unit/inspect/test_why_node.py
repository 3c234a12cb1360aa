"""`mooring why node/NAME` (issue 29): what each volume on the node waits for, and when its next move comes."""

from __future__ import annotations

from typing import Any

from mooring.api.core import NODES
from mooring.api.storage import STORAGE_CLASSES
from mooring.api.volume_names import attachment_name
from mooring.base.clock import rfc3339
from tests.support.builders import (
    DRIVER,
    KINDS,
    Json,
    a_bound_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod,
    a_volume,
    an_attached_va,
)
from tests.support.explaining import WhyWorld, a_kubelet_s_node
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

VA = attachment_name(DRIVER, "pv", "n1")
UNIQUE = f"kubernetes.io/csi/{DRIVER}^pv"
STAYS_S = 300


async def a_world(pod: Json | None, *, claim: str = "claim") -> WhyWorld:
    """The volume is attached to n1, whose kubelet has it in use."""
    world = WhyWorld()
    await world.create(
        a_class(), a_csi_driver(), *(a_kubelet_s_node(one) for one in ("n1", "n2")), a_csi_node("n1"), a_csi_node("n2")
    )
    made = await world.create(a_bound_claim(claim))
    await world.create(a_volume(claim=made, phase="Bound"), an_attached_va(VA, "pv", "n1"))
    if pod is not None:
        await world.create(pod)
    await world.patch(NODES, "n1", {"status": {"volumesInUse": [UNIQUE]}}, subresource="status")
    return world


def on_n1(name: str = "web", **more: Any) -> Json:
    stays = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAYS_S}
    tolerates = [{"key": f"node.kubernetes.io/{key}", **stays} for key in ("unreachable", "not-ready")]
    return a_pod(name, "claim", node="n1", phase="Running", tolerations=tolerates, **more)


async def falls_silent(world: WhyWorld, *, tainted: bool = True, key: str = "node.kubernetes.io/unreachable") -> None:
    at = rfc3339(world.clock.wall_s())
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": at}
    await world.patch(NODES, "n1", {"status": {"conditions": [condition]}}, subresource="status")
    if tainted:
        await world.patch(NODES, "n1", {"spec": {"taints": [{"key": key, "effect": "NoExecute", "timeAdded": at}]}})


async def told(world: WhyWorld) -> dict[str, Any]:
    """The link of the volume."""
    found = await world.values("node/n1")
    (link,) = (one for one in found["links"] if one["name"] == "volume pv")
    return link


async def test_a_volume_in_use_on_a_living_node_names_its_pod() -> None:
    world = await a_world(on_n1())
    link = await told(world)
    assert ("done", 'attached; the pod "default/web" has it') == (link["state"], link["text"])
    assert 0 == (await world.why("node/n1"))[0]
    await world.create(on_n1("other"))
    assert (await told(world))["text"].endswith("has it, and 1 other")


async def test_a_volume_that_no_pod_uses_is_the_kubelet_s_to_unmount() -> None:
    link = await told(await a_world(None))
    assert ("waiting", "cluster", "the kubelet of node n1") == (link["state"], link["mover"], link["who"])
    assert "waits until it is unmounted" in link["text"]


async def test_on_a_silent_node_the_pod_s_eviction_comes_first() -> None:
    world = await a_world(on_n1())
    await falls_silent(world)
    await world.clock.sleep(100)
    link = await told(world)
    assert ("waiting", "cluster") == (link["state"], link["mover"])
    assert (
        'attached; the pod "default/web" has it; the pod is evicted in 3m20s; then it is detached by force '
        "6m0s after the pod's deletion, "
        "unless forced detaches are off"
    ) == link["text"]
    assert "the pod is evicted in 3m20s" == link["nextTry"]
    await world.clock.sleep(STAYS_S)
    assert "the pod is evicted now" in (await told(world))["text"]
    code, text = await world.why("node/n1")
    assert (5, True) == (code, "node n1: FAILED at node" in text), "the node itself is what blocks"


async def test_without_a_taint_or_with_a_toleration_for_ever_no_eviction_comes() -> None:
    world = await a_world(on_n1())
    await falls_silent(world, tainted=False)
    assert "the node has no taint yet by which the pod would leave" in (await told(world))["text"]
    world = await a_world(a_pod("web", "claim", node="n1", phase="Running", tolerations=[{"operator": "Exists"}]))
    await falls_silent(world)
    link = await told(world)
    assert ("the owner of the pod", True) == (link["who"], "it stays until somebody deletes it" in link["text"])


async def test_a_pod_whose_end_the_silent_node_can_not_confirm_is_named() -> None:
    world = await a_world(on_n1())
    running = [{"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}]
    await world.patch(KINDS["Pod"], "web", {"status": {"containerStatuses": running}}, subresource="status")
    await falls_silent(world)
    await world.delete(KINDS["Pod"], "web")
    link = await told(world)
    assert "the pod is being deleted, which only its node can confirm" in link["text"]
    assert "or whoever fences it" in link["who"]


async def test_once_nobody_wants_it_the_forced_detach_is_counted_down() -> None:
    world = await a_world(None)
    await falls_silent(world)
    link = await told(world)
    assert (
        "no pod wants it; the node has it mounted, and does not report: it is detached by force in 6m0s at the latest"
        in link["text"]
    )
    assert link["nextTry"].startswith("by force in 6m0s")
    await world.patch(STORAGE_CLASSES, "sc", {"metadata": {"annotations": {"mooring.dev/force-detach-after": "90s"}}})
    assert "by force in 1m30s" in (await told(world))["text"]
    await world.patch(STORAGE_CLASSES, "sc", {"metadata": {"annotations": {"mooring.dev/force-detach-after": "never"}}})
    link = await told(world)
    assert link["nextTry"].startswith("never by itself")


async def test_a_statefulset_s_new_pod_tells_since_when_the_old_one_is_gone() -> None:
    """For the node, and for the pod that waits."""
    world = await a_world(None, claim="data-web-0")
    await falls_silent(world)
    await world.clock.sleep(60)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}
    pod = a_pod("web-0", "data-web-0", node="n2")
    await world.create({**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}})
    await world.clock.sleep(100)
    assert "by force in 4m20s at the latest" in (await told(world))["text"]
    assert (
        "by force in 4m20s at the latest, unless forced detaches are off"
        == (await world.blocking("pod/web-0"))["nextTry"]
    )
    await world.clock.sleep(300)
    assert "by force now, unless forced detaches are off" == (await world.blocking("pod/web-0"))["nextTry"]


async def test_a_node_out_of_service_waits_for_no_time() -> None:
    world = await a_world(on_n1())
    await falls_silent(world, key="node.kubernetes.io/out-of-service")
    link = await told(world)
    assert "the node is tainted out-of-service: the pod is deleted now; then it is detached at once" in link["text"]
    await world.delete(KINDS["Pod"], "web")
    link = await told(world)
    assert ("waiting", "the node is out of reach, detached by force: out-of-service") == (
        link["state"],
        link["text"].partition("; ")[2],
    )


async def test_a_node_that_was_made_anew_has_not_said_what_is_mounted() -> None:
    """A Node that is younger than the attachment, for its first minute, and as long as it is silent."""
    world = await a_world(None)
    await world.clock.sleep(2)
    await world.delete(NODES, "n1")
    await world.create(a_kubelet_s_node("n1"))
    waits = "the node was made anew and may have it mounted"
    await world.clock.sleep(50)
    assert waits in (await told(world))["text"]
    await falls_silent(world)
    await world.clock.sleep(200)
    assert "the node is out of reach" not in (await told(world))["text"]
    assert "by force in" in (await told(world))["text"]


async def test_a_node_that_was_made_anew_and_says_nothing_lets_go() -> None:
    world = await a_world(None)
    await world.clock.sleep(2)
    await world.delete(NODES, "n1")
    await world.create(a_kubelet_s_node("n1"))
    await world.clock.sleep(61)
    assert 'no pod on node "n1" wants it: asks whether the node has it mounted' == (await told(world))["text"]


async def test_the_objects_of_a_node_s_volumes_are_read_by_name() -> None:
    world = await a_world(on_n1())
    await falls_silent(world)
    await told(world)
    first, then = ["nodes", "csinodes", "leases", "volumeattachments"], ["persistentvolumes", "persistentvolumeclaims"]
    assert [f"get {plural}" for plural in (*first, *then, "csidrivers", "storageclasses")] == world.story, "each once"
