"""One course of events after another, on our node health and on kube-controller-manager's three controllers: both come
to the same.

HealthWorld runs in process and in virtual time. The real ones, and ours on the real API server, live through all
courses at once, on a control plane of their own: each course has zones of its own, with a node that stays alive, so
that no zone is taken for disrupted.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.api.core import EVENTS, NODES
from mooring.api.pods import PODS
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.nodehealth.controller import NodeHealth
from mooring.cluster.nodehealth.options import PARTS, NodeHealthOptions
from mooring.control.runtime import Runtime
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.builders import Json, a_pod
from tests.support.control_plane import ControlPlane
from tests.support.health import CONDITIONS, NOT_READY, OUT_OF_SERVICE, UNREACHABLE, HealthWorld, NodeTenant
from tests.support.rows import each_row
from tests.support.virtual_loop import run_virtual

Life = Callable[[NodeTenant], Awaitable[None]]
LIVES: dict[str, Life] = {}
GRACE_S, STARTUP_S, RENEW_S, TERMINATED_MAX = 6, 8, 1.0, 3
ZONE = "topology.kubernetes.io/zone"
BOTH_UNREACHABLE = ((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
BOTH_NOT_READY = ((NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute"))
STOPPED = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
NEVER = ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.")
EVICTION = "taint-eviction-controller"
COMPONENTS = ("node-controller", EVICTION)
HOLD = ["kit.example.com/hold"]


def life(body: Life) -> Life:
    LIVES[body.__name__] = body
    return body


async def with_node(world: NodeTenant, *, alive: bool = True, conditions: bool = True) -> None:
    """A node that stays alive, and the one that it is about, each in a zone of its own."""
    await world.add_node("anchor", **{ZONE: world("steady")})
    await world.add_node(alive=alive, conditions=conditions, **{ZONE: world("other")})


def for_seconds(seconds: int) -> list[Json]:
    return [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]


async def shows(world: NodeTenant, type: str, status: str, base: str = "pod") -> Json:
    """The pod's condition, once it has this status."""

    async def check() -> Json | None:
        condition = await world.pod_condition(type, base)
        return condition if condition is not None and condition["status"] == status else None

    found: Json = await world.until(check, what=f"{type} of {base} is {status}")
    return found


# -- the life of nodes


@life
async def a_node_dies_and_comes_back(world: NodeTenant) -> None:
    await with_node(world)
    await world.add_pod(tolerations=[{"operator": "Exists"}])
    await world.until_tainted()
    await world.silence()
    await world.until_tainted(*BOTH_UNREACHABLE)
    assert dict.fromkeys(CONDITIONS, STOPPED) == await world.conditions()
    node = await world.get(NODES, world("n"))
    assert all("timeAdded" in taint for taint in node["spec"]["taints"])
    assert all("lastHeartbeatTime" in condition for condition in node["status"]["conditions"])
    name = world("n")
    await world.until_told("n", "node-controller", "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
    await shows(world, "Ready", "False")
    await world.until_told("pod", "node-controller", "Warning", "NodeNotReady", "Node is not ready")
    assert (await shows(world, "ContainersReady", "True")) is not None
    await world.revive()
    await world.post_status()
    await world.until_tainted()


@life
async def a_node_that_never_posts_a_status(world: NodeTenant) -> None:
    await with_node(world, alive=False, conditions=False)
    await world.until_tainted()  # the one that admission had put there is gone
    await world.until_tainted(*BOTH_UNREACHABLE)
    assert dict.fromkeys(CONDITIONS, NEVER) == await world.conditions()


@life
async def not_ready_and_then_silent(world: NodeTenant) -> None:
    await with_node(world)
    await world.post_status(Ready="False")
    await world.until_tainted(*BOTH_NOT_READY)
    await world.silence()
    await world.until_tainted(*BOTH_UNREACHABLE)


@life
async def pressure_and_cordon(world: NodeTenant) -> None:
    await with_node(world)
    await world.post_status(MemoryPressure="True", PIDPressure="True", DiskPressure="Unknown")
    await world.until_tainted(
        *((f"node.kubernetes.io/{name}", "NoSchedule") for name in ("memory-pressure", "pid-pressure"))
    )
    await world.patch(NODES, world("n"), {"spec": {"unschedulable": True}})
    await world.post_status()
    await world.until_tainted(("node.kubernetes.io/unschedulable", "NoSchedule"))
    await world.patch(NODES, world("n"), {"spec": {"unschedulable": None}})
    await world.until_tainted()


@life
async def labels_and_events_of_nodes(world: NodeTenant) -> None:
    await world.add_node("anchor")
    await world.add_node(
        **{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "arm"}
    )

    def follows(node: Json) -> bool:
        labels = node["metadata"]["labels"]
        return (labels.get("beta.kubernetes.io/os"), labels.get("beta.kubernetes.io/arch")) == ("linux", "amd64")

    await world.shown(NODES, world("n"), follows, "has the beta labels")
    name = world("n")
    await world.until_told(
        "n", "node-controller", "Normal", "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller"
    )
    await world.silence()
    await world.delete(NODES, name)
    await world.until_told(
        "n", "node-controller", "Normal", "RemovingNode", f"Node {name} event: Removing Node {name} from Controller"
    )


# -- evictions


@life
async def a_pod_leaves_when_its_time_is_up(world: NodeTenant) -> None:
    await with_node(world)
    await world.add_pod(tolerations=for_seconds(3))
    await world.silence()
    await world.until_leaving()
    condition = await shows(world, "DisruptionTarget", "True")
    said = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    assert (*said, 1) == (condition["reason"], condition["message"], condition["observedGeneration"])
    await world.until_told(
        "pod", EVICTION, "Normal", "TaintManagerEviction", f"Marking for deletion Pod default/{world('pod')}"
    )


@life
async def the_default_toleration(world: NodeTenant) -> None:
    await with_node(world)
    pod = await world.add_pod()
    given = {
        (one["key"], one["operator"], one["effect"], one["tolerationSeconds"]) for one in pod["spec"]["tolerations"]
    }
    assert {(key, "Exists", "NoExecute", 300) for key in (NOT_READY, UNREACHABLE)} == given


@life
async def the_node_is_back_before_the_time_is_up(world: NodeTenant) -> None:
    await with_node(world)
    await world.add_pod(tolerations=for_seconds(600))
    await world.silence()
    await world.until_tainted(*BOTH_UNREACHABLE)
    await asyncio.sleep(1)
    await world.revive()
    await world.post_status()
    await world.until_told(
        "pod", EVICTION, "Normal", "TaintManagerEviction", f"Cancelling deletion of Pod default/{world('pod')}"
    )
    assert "deletionTimestamp" not in (await world.get(PODS, world("pod")))["metadata"]


@life
async def a_taint_of_a_user(world: NodeTenant) -> None:
    await with_node(world)
    await world.add_pod()
    await world.add_pod("daemon", tolerations=[{"operator": "Exists", "effect": "NoExecute"}])
    await world.add_pod(
        "other", tolerations=[{"key": "maintenance", "operator": "Equal", "value": "disk", "effect": "NoExecute"}]
    )
    await world.taint("n", {"key": "maintenance", "value": "disk", "effect": "NoExecute"})
    await world.until_leaving()
    for base in ("daemon", "other"):
        assert "deletionTimestamp" not in (await world.get(PODS, world(base)))["metadata"]


# -- pods that no kubelet removes


@life
async def out_of_service(world: NodeTenant) -> None:
    await with_node(world)
    await world.add_pod()
    await world.silence()
    await world.until_ready_is("Unknown")
    await world.taint("n", OUT_OF_SERVICE)
    await world.until_gone()


@life
async def pods_of_a_deleted_node(world: NodeTenant) -> None:
    await with_node(world)
    await world.add_pod(finalizers=HOLD)
    await world.silence()
    await world.delete(NODES, world("n"))
    pod = await world.until_leaving()
    assert ("Failed", 0) == (pod["status"]["phase"], pod["metadata"]["deletionGracePeriodSeconds"])
    condition = await shows(world, "DisruptionTarget", "True")
    assert ("DeletionByPodGC", "PodGC: node no longer exists", 1) == (
        condition["reason"],
        condition["message"],
        condition["observedGeneration"],
    )


@life
async def a_pod_that_never_had_a_node(world: NodeTenant) -> None:
    await world.add_pod(node=None, finalizers=HOLD)
    await world.delete(PODS, world("pod"))
    await world.shown(PODS, world("pod"), lambda pod: pod["status"]["phase"] == "Failed", "has failed")
    assert await world.pod_condition("DisruptionTarget") is None


@life
async def too_many_pods_that_have_ended(world: NodeTenant) -> None:
    await with_node(world)
    for number in range(TERMINATED_MAX + 2):
        await world.create(a_pod(world(f"pod{number}"), node=world("n")))
        await world.patch(PODS, world(f"pod{number}"), {"status": {"phase": "Succeeded"}}, subresource="status")
        await asyncio.sleep(1.1)
    await world.until_gone("pod0")
    await world.get(PODS, world(f"pod{TERMINATED_MAX + 1}"))


# -- run


OPTIONS: dict[str, Any] = {
    "node_monitor_grace_period_s": GRACE_S,
    "node_startup_grace_period_s": STARTUP_S,
    "node_eviction_rate": 10.0,
    "terminated_pod_gc_threshold": TERMINATED_MAX,
}


@each_row("name", LIVES)
def test_ours(name: str) -> None:
    async def main() -> None:
        world = HealthWorld(**OPTIONS)
        world.renew_s = RENEW_S
        async with world.working():
            await LIVES[name](world)

    run_virtual(main())


@pytest.mark.long
def test_the_real_ones_agree(new_control_plane: Callable[..., ControlPlane]) -> None:
    """The lives above are what they do, too."""
    plane = new_control_plane()
    flags = [
        f"--node-monitor-grace-period={GRACE_S}s",
        f"--node-startup-grace-period={STARTUP_S}s",
        "--node-monitor-period=1s",
        "--node-eviction-rate=10",
        f"--terminated-pod-gc-threshold={TERMINATED_MAX}",
        *("--kube-api-qps=1000", "--kube-api-burst=2000"),
    ]
    plane.start_controllers(*PARTS, flags=flags)
    failures = asyncio.run(_all_on(plane))
    assert {} == failures


@pytest.mark.long
def test_ours_on_the_real_api_server(new_control_plane: Callable[..., ControlPlane]) -> None:
    """The same lives, with our controllers in the place of the real ones."""
    assert {} == asyncio.run(_ours_on(new_control_plane()))


async def _ours_on(plane: ControlPlane) -> dict[str, str]:
    config = load(str(plane.kubeconfig()), {})
    async with HttpCluster(config, clock=LoopClock(), randomness=Random(), user_agent="node-health") as cluster:
        health = NodeHealth(Runtime(cluster, LoopClock(), Random(), Metrics()), options=NodeHealthOptions(**OPTIONS))
        running = asyncio.create_task(health.run(), name="node-health")
        try:
            failures = await _all_on(plane)
            events = (await cluster.list(EVENTS.whole())).items
            assert [] == [
                one
                for one in events
                if one["source"].get("component") in COMPONENTS and not one["involvedObject"].get("name")
            ]
            return failures
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _all_on(plane: ControlPlane) -> dict[str, str]:
    config = load(str(plane.kubeconfig()), {})
    async with HttpCluster(config, clock=LoopClock(), randomness=Random(), user_agent="node-lives") as cluster:
        worlds = {name: NodeTenant(cluster, wait_s=120, look_s=0.2, renew_s=RENEW_S) for name in LIVES}
        tasks = {name: asyncio.create_task(_one(body, worlds[name])) for name, body in LIVES.items()}
        ended = {name: await task for name, task in tasks.items()}
        for world in worlds.values():
            await world.end()
    return {name: said for name, said in ended.items() if said}


async def _one(body: Life, world: NodeTenant) -> str:
    try:
        await body(world)
    except Exception:
        return traceback.format_exc()
    return ""
