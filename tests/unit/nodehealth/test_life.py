"""Node health at work in virtual time: a node dies, its pods leave, it comes back."""

from __future__ import annotations

import asyncio
import itertools

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import EVENTS, NODES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.apiserver.local import ServerFaults
from mooring.cluster.nodehealth import options
from mooring.cluster.nodehealth.controller import NodeHealth
from mooring.kube.errors import ServerError
from tests.support.builders import a_pod
from tests.support.cluster_world import HeldWatch, metric
from tests.support.health import NOT_READY, OUT_OF_SERVICE, UNREACHABLE, HealthWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

BOTH = ((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
STOPPED = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
EVICTED = ("taint-eviction-controller", "Normal", "TaintManagerEviction", "Marking for deletion Pod default/pod")
STAYS = ("taint-eviction-controller", "Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/pod")
FOREVER = [{"operator": "Exists"}]


class Failing(ServerFaults):
    """Requests of this verb to these objects fail so often."""

    def __init__(self, verb: str, plural: str, times: int) -> None:
        self._verb, self._plural, self.times = verb, plural, times

    async def before(self, verb: str, kind: Kind[object], name: str) -> None:
        if (verb, kind.plural) == (self._verb, self._plural) and self.times > 0:
            self.times -= 1
            raise ServerError("broken", reason="InternalError")


class Slow(ServerFaults):
    """Requests of this verb to these objects take a while."""

    def __init__(self, verb: str, plural: str) -> None:
        self._verb, self._plural = verb, plural

    async def before(self, verb: str, kind: Kind[object], name: str) -> None:
        if (verb, kind.plural) == (self._verb, self._plural):
            await asyncio.sleep(0.1)


# -- silence, and the way back


async def test_NL1_NL3_NL4_a_node_dies_and_comes_back() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.add_pod(tolerations=FOREVER)
        await asyncio.sleep(300)
        assert set() == await world.taints()
        await world.silence()
        died_s = world.now()
        await world.until_ready_is("Unknown")
        assert 40 <= world.now() - died_s <= 50.3
        await world.until_tainted(*BOTH)
        node = await world.get(NODES, "n")
        assert {world.stamp} == {taint["timeAdded"] for taint in node["spec"]["taints"]}
        assert {STOPPED} == set((await world.conditions()).values())
        assert "False" == (await world.pod_condition("Ready"))["status"]
        assert ("node-controller", "Normal", "NodeNotReady", "Node n status is now: NodeNotReady") in await world.told(
            "n"
        )
        assert ("node-controller", "Warning", "NodeNotReady", "Node is not ready") in await world.told("pod")
        await world.revive()
        await world.post_status()
        await world.until_tainted()
        assert set() == await world.taints("other")


async def test_NL9_a_lease_is_enough_to_live_and_so_is_a_heartbeat() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("leased")
        await world.add_node("beating", alive=False)
        for _ in range(10):
            await asyncio.sleep(40)
            await world.post_status("beating")
        assert "True" == (await world.conditions("leased"))["Ready"][0]
        assert "True" == (await world.conditions("beating"))["Ready"][0]


async def test_NL2_a_node_that_never_says_a_word() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node(alive=False, conditions=False)
        await asyncio.sleep(59)
        assert {} == await world.conditions()
        await world.until_ready_is("Unknown")
        assert ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.") == (await world.conditions())[
            "DiskPressure"
        ]


async def test_NL14_the_lease_is_read_before_a_node_is_given_up() -> None:
    """The watch of Leases is cut off: the cache knows nothing of the renewals."""

    class Deaf(ServerFaults):
        async def deliver(self, kind: Kind[object], event: object) -> None:
            if kind.plural == "leases":
                await asyncio.sleep(10_000)

    async with HealthWorld(Deaf()).working() as world:
        await world.add_node()
        await asyncio.sleep(500)
        assert "True" == (await world.conditions())["Ready"][0]
        await world.silence()
        await world.until_ready_is("Unknown")


async def test_NL14_while_the_lease_can_not_be_read_nobody_is_given_up() -> None:
    async with HealthWorld(Failing("get", "leases", 5)).working() as world:
        await world.add_node()
        await world.silence()
        died_s = world.now()
        await world.until_ready_is("Unknown")
        assert world.now() - died_s > 51


async def test_NL9_a_heartbeat_at_the_last_moment_counts() -> None:
    """It comes between the decision that the node is silent and the write."""

    class LastMoment(ServerFaults):
        async def before(self, verb: str, kind: Kind[object], name: str) -> None:
            if (verb, kind.plural) == ("get", "leases"):
                await world.post_status()

    world = HealthWorld(LastMoment())
    async with world.working():
        await world.add_node(alive=False)
        await asyncio.sleep(500)
        assert "True" == (await world.conditions())["Ready"][0]
        assert "NodeNotReady" not in [reason for _, _, reason, _ in await world.told("n")]


async def test_NL13_coming_and_going_is_told() -> None:
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.until_told(
            "n", "node-controller", "Normal", "RegisteredNode", "Node n event: Registered Node n in Controller"
        )
        await world.silence()
        await world.delete(NODES, "n")
        await world.until_told(
            "n", "node-controller", "Normal", "RemovingNode", "Node n event: Removing Node n from Controller"
        )


async def test_NL7_all_nodes_fall_silent_and_nobody_is_evicted() -> None:
    async with HealthWorld().working() as world:
        for base in ("n", "m"):
            await world.add_node(base)
        await world.add_pod()
        for base in ("n", "m"):
            await world.silence(base)
        for base in ("n", "m"):
            await world.until_ready_is("Unknown", base)
        await asyncio.sleep(1000)
        assert {(UNREACHABLE, "NoSchedule")} == await world.taints() == await world.taints("m")
        assert "deletionTimestamp" not in (await world.get(PODS, "pod"))["metadata"]
        await world.revive("m")
        await world.post_status("m")
        back_s = world.now()
        await world.until_tainted(*BOTH)
        assert world.now() - back_s >= 10


async def test_NL7_when_a_node_is_ready_again_all_others_have_their_grace_anew() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("m", alive=False)
        await world.until_ready_is("Unknown", "m")
        await world.add_node(conditions=False)
        await world.post_status(Ready="False")
        await asyncio.sleep(40)
        await world.silence()
        await asyncio.sleep(30)
        await world.revive("m")
        await world.post_status("m")
        back_s = world.now()
        await world.until_ready_is("Unknown")
        assert 50 <= world.now() - back_s


async def test_NL11_nodes_are_tainted_one_after_the_other() -> None:
    async with HealthWorld().working() as world:
        bases = [f"n{number}" for number in range(3)]
        for base in (*bases, "a", "b", "c", "d"):
            await world.add_node(base)
        for base in bases:
            await world.silence(base)
        tainted_s = []
        for base in bases:
            await world.until_ready_is("Unknown", base)
        for count in range(1, 4):

            async def are_tainted(count: int = count) -> bool:
                return count <= sum([(UNREACHABLE, "NoExecute") in await world.taints(base) for base in bases])

            await world.until(are_tainted)
            tainted_s.append(world.now())
        assert [10, 10] == [round(later - earlier) for earlier, later in itertools.pairwise(tainted_s)]
        assert 3.0 == metric(world.ours.metrics, "node_collector_evictions_total", zone="")


async def test_NL10_pods_that_are_ready_on_a_silent_node_at_the_start() -> None:
    world = HealthWorld()
    await world.add_node(alive=False)
    await world.post_status(Ready="Unknown")
    await world.add_pod(tolerations=FOREVER)
    async with world.working():

        async def is_marked() -> bool:
            ready = await world.pod_condition("Ready")
            return ready is not None and ready["status"] == "False"

        await world.until(is_marked, 1.0)


async def test_NL15_a_start_leaves_the_taints_of_dead_nodes_alone() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node(alive=False)
        await world.until_tainted(*BOTH)
        before = (await world.get(NODES, "n"))["metadata"]["resourceVersion"]
        async with world.ours.running(NodeHealth(world.ours.runtime).run()):
            await asyncio.sleep(500)
        assert before == (await world.get(NODES, "n"))["metadata"]["resourceVersion"]


# -- evictions


async def test_TE2_pods_leave_after_the_default_five_minutes() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.add_pod()
        await world.silence()
        await world.until_tainted(*BOTH)
        tainted_s = world.now()
        pod = await world.until_leaving()
        assert 300 == round(world.now() - tainted_s)
        assert 30 == pod["metadata"]["deletionGracePeriodSeconds"]
        condition = await world.pod_condition("DisruptionTarget")
        assert condition is not None
        assert ("True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint") == (
            condition["status"],
            condition["reason"],
            condition["message"],
        )
        assert [EVICTED] == [event for event in await world.told("pod") if event[2] == EVICTED[2]]
        assert 1.0 == metric(world.ours.metrics, "taint_eviction_controller_pod_deletions_total")


async def test_TE2_pods_leave_in_time_though_no_process_lives_that_long() -> None:
    world = HealthWorld()

    async def is_leaving(pod: str) -> bool:
        return "deletionTimestamp" in (await world.get(PODS, pod))["metadata"]

    async def lives_s(seconds: float) -> None:
        async with world.working_once():
            await asyncio.sleep(seconds)

    await world.add_node("other")
    await world.add_node()
    await world.add_pod()
    await world.silence()
    await lives_s(100)
    await world.add_pod("late")
    begins_s = world.now() - 50
    while not await is_leaving("pod"):
        await lives_s(5)
    assert 295 <= world.now() - begins_s <= 306
    assert not await is_leaving("late"), "it came later"
    while not await is_leaving("late"):
        await lives_s(5)
    assert 345 <= world.now() - begins_s <= 356
    await world.end()


async def test_TE2_a_taint_that_a_pod_tolerates_for_ever_does_not_begin_its_time() -> None:
    """A node that is set apart for certain pods dies: these have their five minutes, as on any other node."""
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.taint("n", {"key": "dedicated", "effect": "NoExecute", "timeAdded": world.stamp})
        await world.add_pod(tolerations=[{"key": "dedicated", "operator": "Exists"}])
        await asyncio.sleep(1000)
        await world.silence()
        await world.until_tainted(*BOTH, ("dedicated", "NoExecute"))
        tainted_s = world.now()
        await world.until_leaving()
        assert 300 == round(world.now() - tainted_s)


async def test_TE4_a_node_that_comes_back_while_no_process_lives_keeps_its_pods() -> None:
    """Nobody has taken the taint off yet, and the time that its pods tolerate it is over when a process starts."""
    world = HealthWorld(Slow("patch", "nodes"))
    await world.add_node("other")
    await world.add_node()
    for number in range(5):
        await world.add_pod(f"pod{number}")
    async with world.working_once():
        await world.silence()
        await world.until_tainted(*BOTH)
    await world.revive()
    await world.post_status()
    await asyncio.sleep(1000)
    async with world.working_once():
        await world.until_tainted()
        await asyncio.sleep(100)
    for pod in await world.list(PODS):
        assert "deletionTimestamp" not in pod["metadata"]
    await world.end()


async def test_TE4_a_node_that_comes_back_keeps_its_pods() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.add_pod()
        await world.silence()
        await world.until_tainted(*BOTH)
        await asyncio.sleep(200)
        await world.revive()
        await world.post_status()
        await world.until_told("pod", *STAYS)
        await asyncio.sleep(1000)
        assert "deletionTimestamp" not in (await world.get(PODS, "pod"))["metadata"]
        assert EVICTED not in await world.told("pod")


async def test_TE1_a_taint_of_a_user_evicts_at_once() -> None:
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.add_pod()
        await world.add_pod("daemon", tolerations=FOREVER)
        await world.taint("n", {"key": "maintenance", "effect": "NoExecute"})
        await world.until_leaving()
        await asyncio.sleep(1000)
        assert "deletionTimestamp" not in (await world.get(PODS, "daemon"))["metadata"]


async def test_TE1_an_eviction_that_fails_is_tried_again_and_told_once() -> None:
    async with HealthWorld(Failing("delete", "pods", 3)).working() as world:
        await world.add_node()
        await world.add_pod()
        await world.taint("n", {"key": "maintenance", "effect": "NoExecute"})
        await world.until_leaving()
        await world.until_told("pod", *EVICTED)
        assert [1] == [event["count"] for event in await world.list(EVENTS) if event["involvedObject"]["name"] == "pod"]


async def test_a_pod_stays_where_the_node_is_well_by_now_and_the_watch_is_behind() -> None:
    """Seed 733 of the plane: each pod that was made in place of an evicted one was evicted at once, for as long as the
    watch was behind.
    """
    watch = HeldWatch("nodes")
    async with HealthWorld(watch).working() as world:
        await world.add_node()
        await world.add_pod("daemon", tolerations=FOREVER)
        await world.taint("n", {"key": "maintenance", "effect": "NoExecute"})
        await asyncio.sleep(5)
        watch.hold()
        await world.patch(NODES, "n", {"spec": {"taints": None}})
        await world.add_pod()
        await asyncio.sleep(20)
        assert "deletionTimestamp" not in (await world.get(PODS, "pod"))["metadata"]
        assert EVICTED not in await world.told("pod")
        watch.let_go()


async def test_a_taint_that_goes_just_after_a_first_pod_was_evicted_evicts_no_other() -> None:
    watch = HeldWatch("nodes")
    async with HealthWorld(watch).working() as world:
        await world.add_node()
        await world.taint("n", {"key": "maintenance", "effect": "NoExecute"})
        await asyncio.sleep(5)
        watch.hold()
        await world.add_pod("first")
        await world.until_leaving("first")
        await world.patch(NODES, "n", {"spec": {"taints": None}})
        await world.add_pod()
        await asyncio.sleep(20)
        assert "deletionTimestamp" not in (await world.get(PODS, "pod"))["metadata"]
        watch.let_go()


# -- pods that no kubelet removes


async def test_PG1_pods_of_a_deleted_node() -> None:
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.add_pod(finalizers=["kit/hold"])
        await world.silence()
        await world.delete(NODES, "n")
        deleted_s = world.now()
        pod = await world.until_leaving()
        assert 40 == round(world.now() - deleted_s)
        assert "Failed" == pod["status"]["phase"]
        condition = await world.pod_condition("DisruptionTarget")
        assert condition is not None
        assert ("DeletionByPodGC", "PodGC: node no longer exists") == (condition["reason"], condition["message"])
        asked = list(world.ours.story)
        await asyncio.sleep(1000)
        assert asked == world.ours.story, "a finalizer keeps it: it is not removed again and again"
        await world.patch(PODS, "pod", {"metadata": {"finalizers": None}})
        await world.until_gone()


async def test_PG1_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.add_pod(tolerations=FOREVER)
        await world.silence()
        await world.delete(NODES, "n")
        await asyncio.sleep(39)
        await world.add_node()
        await asyncio.sleep(10)
        await world.silence()
        await world.delete(NODES, "n")
        await asyncio.sleep(39)
        assert "deletionTimestamp" not in (await world.get(PODS, "pod"))["metadata"]


async def test_PG1_the_api_server_is_asked_for_a_node_that_the_cache_lacks() -> None:
    class Hidden(ServerFaults):
        async def deliver(self, kind: Kind[object], event: object) -> None:
            if kind.plural == "nodes":
                await asyncio.sleep(10_000)

    async with HealthWorld(Hidden()).working() as world:
        await world.add_node()
        await world.add_pod()
        await asyncio.sleep(500)
        assert "deletionTimestamp" not in (await world.get(PODS, "pod"))["metadata"]
        assert "get nodes" in world.ours.story


async def test_PG2_the_out_of_service_taint_frees_a_dead_node() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.add_pod()
        await world.silence()
        await world.until_ready_is("Unknown")
        await world.taint("n", OUT_OF_SERVICE)
        await world.until_gone()
        assert 1.0 == metric(
            world.ours.metrics, "pod_gc_collector_force_delete_pods_total", namespace="default", reason="out-of-service"
        )


async def test_PG2_on_a_node_that_is_ready_a_kubelet_ends_the_pod() -> None:
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.add_pod()
        await world.taint("n", OUT_OF_SERVICE)
        await world.until_leaving()
        await asyncio.sleep(30)
        await world.get(PODS, "pod")
        await world.silence()
        await world.until_gone()


async def test_PG5_too_many_pods_that_have_ended() -> None:
    async with HealthWorld(terminated_pod_gc_threshold=2).working() as world:
        await world.add_node()
        for number in range(5):
            await world.create(a_pod(f"pod{number}", node="n", phase="Succeeded"))
            await asyncio.sleep(1)
        assert ["pod3", "pod4"] == sorted(pod["metadata"]["name"] for pod in await world.list(PODS))


async def test_a_part_that_is_switched_off_does_nothing() -> None:
    async with HealthWorld(parts=frozenset({options.POD_GC})).working() as world:
        await world.add_node(alive=False)
        await asyncio.sleep(500)
        assert "True" == (await world.conditions())["Ready"][0]
        assert {"podgc", "podgc-ended"} == {getattr(worker, "name", "") for worker in world.health._workers}


async def test_at_rest_nothing_is_asked() -> None:
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.add_pod()
        await asyncio.sleep(60)
        world.ours.story.clear()
        await asyncio.sleep(3600)
        assert [] == [step for step in world.ours.story if not step.startswith("watch")]


async def test_a_lease_that_goes_is_no_death_by_itself() -> None:
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.silence()
        await world.delete(LEASES, "n", NODE_LEASE_NAMESPACE)
        await asyncio.sleep(30)
        assert "True" == (await world.conditions())["Ready"][0]
        await world.until_ready_is("Unknown")


async def test_NL5_not_ready_and_then_silent() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.post_status(Ready="False")
        await world.until_tainted((NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute"))
        await world.silence()
        await world.until_tainted(*BOTH)
