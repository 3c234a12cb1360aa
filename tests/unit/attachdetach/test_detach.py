"""Detaching, in virtual time: what no pod wants is taken from a node that has let go of it. Ids:
docs/behaviours/attachdetach.md.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.core import NAMESPACES, NODES
from mooring.api.pods import PODS
from mooring.kube.errors import ServerError, Unreachable
from tests.support.attachdetaching import DELETE, FENCE, PATCH_NODE, POST, AttachDetachWorld, Vol, attaching
from tests.support.builders import RWX
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time


@in_virtual_time
async def test_AD04_the_node_is_told_before_the_attachment_is_deleted() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle(30)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        assert [] == await world.reported(node)
        assert [POST, PATCH_NODE, PATCH_NODE, DELETE] == world.writes()
        assert [] == world.of("get nodes"), "the answer to the PATCH shows what is mounted"


@in_virtual_time
async def test_AD05_a_volume_stays_while_the_node_has_it_mounted() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.set_in_use(node, volume)
        await world.settle()
        before = world.writes()
        await world.delete_pod(pod)
        await world.settle(3600)
        assert before == world.writes()
        assert [volume.unique] == await world.reported(node)
        await world.set_in_use(node)
        await world.wait_no_va(volume, node)
        assert [*before, PATCH_NODE, DELETE] == world.writes()


ERRORS = {
    "refused": (ServerError("not now"), False),
    "answer-lost": (Unreachable("lost"), True),
    "failed-after-it-was-stored": (ServerError("etcdserver: request timed out"), True),
}


@each_row(("error", "after"), ERRORS.values(), ids=ERRORS)
@in_virtual_time
async def test_AD06_nothing_is_deleted_before_the_node_was_surely_told(error: Any, after: bool) -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle()
        rule = world.cluster.refuse(PATCH_NODE, times=None, error=error, after=after)
        await world.delete_pod(pod)
        await world.settle(300)
        assert rule.hits > 2
        assert [] == world.of(DELETE)
        rule.times = rule.hits
        await world.wait_no_va(volume, node)
        assert [] == await world.reported(node)


async def two_pods(
    world: AttachDetachWorld, volume: Vol, other: Vol | None = None, **pod: Any
) -> tuple[str, str, str, str]:
    """The volume is attached to one node, and a pod of another one wants it: node, pod, node, pod."""
    one, holder = await world.attached(volume)
    two = await world.node()
    return one, holder, two, await world.pod(two, other or volume, **pod)


@in_virtual_time
async def test_AD08_a_volume_for_one_node_is_not_attached_to_a_second() -> None:
    async with attaching() as world:
        volume = await world.volume()
        _, holder, two, pod = await two_pods(world, volume)
        await world.settle()
        text = f'Multi-Attach error for volume "{volume.pv}" Volume is already used by pod(s) {holder}'
        assert [("Warning", "FailedAttachVolume", text, 1)] == await world.events(pod)
        assert await world.va(volume, two) is None


async def in_another_namespace(world: AttachDetachWorld, volume: Vol) -> Vol:
    await world.users.create(NAMESPACES.whole(), {"metadata": {"name": "far"}})
    return await world.volume(volume.handle, namespace="far")


@in_virtual_time
async def test_AD09_pods_of_other_namespaces_are_counted_and_not_named() -> None:
    async with attaching() as world:
        volume = await world.volume()
        other = await in_another_namespace(world, volume)
        _, holder, two, pod = await two_pods(world, volume, other, namespace="far")
        await world.settle(30)
        texts = [text for _, _, text in await world.told(pod)]
        assert (
            f'Multi-Attach error for volume "{other.pv}" Volume is already used by 1 pod(s) in different namespaces'
            == texts[0]
        )
        assert "a pod of another namespace has it" in texts[1]
        assert not [text for text in texts if f" {holder} " in f"{text} "]
        assert await world.va(volume, two) is None


@in_virtual_time
async def test_AD10_a_volume_that_no_pod_uses_is_exclusively_attached() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, holder = await world.attached(volume)
        await world.set_in_use(node, volume)
        await world.delete_pod(holder)
        two = await world.node()
        pod = await world.pod(two, volume)
        await world.settle()
        text = "Volume is already exclusively attached to one node and can't be attached to another"
        assert [f'Multi-Attach error for volume "{volume.pv}" {text}'] == [told for _, _, told in await world.told(pod)]
        assert await world.va(volume, two) is None


@in_virtual_time
async def test_AD25_the_attacher_has_its_two_minutes_however_long_another_node_had_the_volume() -> None:
    async with attaching() as world:
        volume = await world.volume()
        _, holder, two, pod = await two_pods(world, volume)
        await world.settle(300)
        await world.delete_pod(holder)
        await world.wait_va(volume, two)
        await world.settle(110)
        assert not any("timed out" in told for _, _, told in await world.told(pod))
        await world.settle(20)
        assert any("timed out waiting for external-attacher" in told for _, _, told in await world.told(pod))


@in_virtual_time
async def test_AD11_a_volume_moves_once_it_is_detached() -> None:
    async with attaching() as world:
        volume = await world.volume()
        one, holder, two, _ = await two_pods(world, volume)
        await world.settle(2)
        await world.delete_pod(holder)
        await world.attach(volume, two)
        assert await world.va(volume, one) is None
        assert ([], [volume.unique]) == (await world.reported(one), await world.reported(two))
        assert [POST, PATCH_NODE, PATCH_NODE, DELETE, POST, PATCH_NODE] == world.writes()


@in_virtual_time
async def test_AD12_the_last_pod_of_a_node_lets_go() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        first, second = await world.pod(node, volume), await world.pod(node, volume)
        await world.attach(volume, node)
        await world.delete_pod(first)
        await world.settle(30)
        assert [POST, PATCH_NODE] == world.writes()
        await world.delete_pod(second)
        await world.wait_no_va(volume, node)


TERMINATING = {
    "AD13_running": ("running", True),
    "AD13_none": ("none", True),
    "AD14_terminated": ("terminated", False),
    "AD14_waiting": ("waiting", False),
}


@each_row(("state", "stays"), TERMINATING.values(), ids=TERMINATING)
@in_virtual_time
async def test_AD13_AD14_a_pod_that_is_being_deleted_counts_while_a_container_runs(state: str, stays: bool) -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.pod_status(pod, state="running")
        await world.terminate_pod(pod)
        await world.pod_status(pod, state=state)
        await world.settle(30)
        assert stays is (await world.va(volume, node) is not None)
        assert await world.find(PODS, pod)


@each_row("phase", ["Succeeded", "Failed"])
@in_virtual_time
async def test_AD15_a_pod_that_has_ended_counts_as_gone(phase: str) -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.pod_status(pod, phase)
        await world.wait_no_va(volume, node)
        assert await world.find(PODS, pod)


@in_virtual_time
async def test_AD28_a_failed_detach_is_the_attachers_and_holds_the_volume() -> None:
    async with attaching() as world:
        volume = await world.volume()
        one, holder = await world.attached(volume, hold=True)
        await world.delete_pod(holder)
        await world.wait_deleting(volume, one)
        two = await world.node()
        pod = await world.pod(two, volume)
        error = {"message": "busy", "time": "2026-01-01T00:00:00Z"}
        await world.va_status(volume, one, attached=True, detachError=error)
        heard = await world.wait_told(volume.claim, "FailedDetachVolume")
        assert f'DetachVolume.Detach failed for volume "{volume.pv}" on node "{one}" : busy' == heard
        assert await world.wait_told(pod, "FailedAttachVolume", f"the driver {volume.driver} failed: busy")
        await world.settle(600)
        assert ([], None) == (await world.reported(one), await world.va(volume, two))
        assert 1 == len(world.of(DELETE))
        await world.release(volume, one)
        await world.attach(volume, two)


async def mounted(world: AttachDetachWorld, **pv: Any) -> tuple[Vol, str, str]:
    volume = await world.volume(**pv)
    node, pod = await world.attached(volume)
    await world.set_in_use(node, volume)
    return volume, node, pod


@in_virtual_time
async def test_AD29_after_six_minutes_a_dead_node_loses_what_it_had_mounted() -> None:
    async with attaching() as world:
        volume, node, pod = await mounted(world)
        await world.set_ready(node, False)
        await world.settle()
        await world.delete_pod(pod)
        await world.settle(358)
        assert ([], 0) == (world.of(DELETE), world.forced("timeout"))
        await world.settle(4)
        assert await world.va(volume, node) is None
        assert (1, 0) == (world.forced("timeout"), world.forced("out-of-service"))
        assert 1 == len(world.of("get nodes")), "it may be back"
        assert [] == await world.reported(node)


@in_virtual_time
async def test_AD29_the_time_counts_from_when_the_node_was_not_ready_and_nobody_wanted_it() -> None:
    async with attaching() as world:
        volume, node, pod = await mounted(world)
        await world.delete_pod(pod)
        await world.settle(1000)
        await world.set_ready(node, False)
        await world.settle(300)
        await world.set_ready(node, True)
        await world.set_ready(node, False)
        await world.settle(355)
        assert [] == world.of(DELETE)
        await world.settle(10)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_AD30_a_healthy_node_is_never_forced() -> None:
    async with attaching() as world:
        _, _, pod = await mounted(world)
        await world.delete_pod(pod)
        await world.settle(3600)
        assert [] == world.of(DELETE)


@in_virtual_time
async def test_AD31_forcing_by_time_can_be_switched_off() -> None:
    async with attaching(disable_force_detach=True) as world:
        volume, node, pod = await mounted(world)
        await world.set_ready(node, False)
        await world.delete_pod(pod)
        await world.settle(3600)
        assert [] == world.of(DELETE)
        await world.taint(node)
        await world.wait_no_va(volume, node)
        assert (0, 1) == (world.forced("timeout"), world.forced("out-of-service"))


@in_virtual_time
async def test_AD32_a_node_out_of_service_is_forced_at_once() -> None:
    async with attaching() as world:
        volume, node, pod = await mounted(world)
        await world.set_ready(node, False)
        await world.delete_pod(pod)
        await world.settle()
        assert await world.va(volume, node)
        await world.taint(node)
        await world.settle()
        assert (None, []) == (await world.va(volume, node), await world.reported(node))
        assert (0, 1) == (world.forced("timeout"), world.forced("out-of-service"))


@in_virtual_time
async def test_AD32_a_node_that_is_back_in_service_when_it_is_read_keeps_what_it_has_mounted() -> None:
    """The taint went a moment ago, and the watch does not show that yet."""
    async with attaching() as world:
        volume, node, pod = await mounted(world)
        await world.settle(1)
        look = world.cluster.hold("get nodes")
        await world.taint(node)
        await world.delete_pod(pod)
        async with asyncio.timeout(60):
            await look.begun.wait()
        await world.patch(NODES, node, {"spec": {"taints": None}})
        look.go.set()
        await world.settle(60)
        assert await world.va(volume, node)


@in_virtual_time
async def test_AD33_a_wanted_volume_stays_on_a_node_out_of_service() -> None:
    async with attaching() as world:
        volume, node, _ = await mounted(world)
        await world.taint(node)
        await world.settle(3600)
        assert ([], [volume.unique]) == (world.of(DELETE), await world.reported(node))


@in_virtual_time
async def test_AD34_a_pod_that_comes_meanwhile_ends_the_time() -> None:
    async with attaching() as world:
        volume, node, pod = await mounted(world)
        await world.set_ready(node, False)
        await world.delete_pod(pod)
        for _ in range(10):
            await world.settle(80)
            again = await world.pod(node, volume)
            await world.settle(80)
            await world.delete_pod(again)
        await world.settle(80)
        assert [POST, PATCH_NODE] == [one for one in world.writes() if one != FENCE]
        await world.settle(275)
        assert await world.va(volume, node)
        await world.settle(10)
        assert await world.va(volume, node) is None


@each_row("in_use", [True, False], ids=["AD41", "AD42"])
@in_virtual_time
async def test_AD41_AD42_a_deleted_node_keeps_what_it_had_mounted_for_six_minutes(in_use: bool) -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        if in_use:
            await world.set_in_use(node, volume)
        await world.settle()
        await world.remove(NODES, node)
        await world.settle()
        await world.delete_pod(pod)
        if in_use:
            await world.settle(358)
            assert await world.va(volume, node)
        await world.settle(4)
        assert await world.va(volume, node) is None
        assert (1 if in_use else 0) == world.forced("timeout")
        assert 1 == len(world.of(PATCH_NODE)), "a node that is gone is not written to"


@in_virtual_time
async def test_AD44_an_attachment_that_is_gone_is_detached() -> None:
    from mooring.kube.errors import NotFound

    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        rule = world.cluster.refuse(DELETE, error=NotFound("gone"), after=True)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        await world.pod(await world.node(), volume)
        await world.settle(60)
        assert (1, 2) == (rule.hits, len(world.of(POST)))
        assert 1 == len(world.of(DELETE))


@in_virtual_time
async def test_AD45_a_refused_delete_is_tried_again_with_back_off() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        world.cluster.refuse(DELETE, times=2)
        began = world.clock.now()
        await world.delete_pod(pod)
        await world.settle(0.3)
        assert 1 == len(world.of(DELETE))
        await world.wait_no_va(volume, node)
        assert 1.4 <= world.clock.now() - began <= 2.0
        assert 3 == len(world.of(DELETE))


@in_virtual_time
async def test_AD50_a_volume_for_one_pod_is_for_one_node() -> None:
    async with attaching() as world:
        volume = await world.volume(modes=("ReadWriteOncePod",))
        _, holder, two, pod = await two_pods(world, volume)
        await world.wait_told(pod, "FailedAttachVolume", f"Volume is already used by pod(s) {holder}")
        assert await world.va(volume, two) is None


@in_virtual_time
async def test_AD51_two_persistent_volumes_of_one_handle_share_an_attachment() -> None:
    async with attaching() as world:
        one = await world.volume()
        other, node = await world.volume(one.handle), await world.node()
        first, second = await world.pod(node, one), await world.pod(node, other)
        await world.attach(one, node)
        await world.settle()
        assert 1 == len(world.of(POST))
        await world.delete_pod(first)
        await world.settle(30)
        assert [] == world.of(DELETE)
        await world.delete_pod(second)
        await world.wait_no_va(one, node)


@in_virtual_time
async def test_AD52_a_pod_that_was_made_anew_on_another_node_takes_its_volume_along() -> None:
    async with attaching() as world:
        volume = await world.volume()
        one, pod = await world.attached(volume)
        two = await world.node()
        await world.users.delete(PODS, pod, "default", grace_period_s=0)
        await world.pod(two, volume, name=pod)
        await world.attach(volume, two)
        assert (None, []) == (await world.va(volume, one), await world.reported(one))


@in_virtual_time
async def test_AD53_without_an_answer_about_the_node_nothing_is_deleted() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        await world.wait_va(volume, node)
        rule = world.cluster.refuse("get nodes", times=3, error=ServerError("not now"))
        await world.delete_pod(pod)  # nothing was ever reported: there is no write whose answer would tell
        await world.settle(0.4)
        assert (1, []) == (rule.hits, world.of(DELETE))
        await world.wait_no_va(volume, node)
        assert 3 == rule.hits


WAITS = {
    "class": ({"sc": {"mooring.dev/force-detach-after": "90s"}}, 90.0),
    "driver": ({"driver": {"mooring.dev/force-detach-after": "2m"}}, 120.0),
    "class-first": (
        {"sc": {"mooring.dev/force-detach-after": "90s"}, "driver": {"mooring.dev/force-detach-after": "2m"}},
        90.0,
    ),
    "unreadable": ({"sc": {"mooring.dev/force-detach-after": "Never"}}, None),
    "negative": ({"sc": {"mooring.dev/force-detach-after": "-1s"}}, None),
    "never": ({"sc": {"mooring.dev/force-detach-after": "never"}}, None),
}


@each_row(("annotations", "wait_s"), WAITS.values(), ids=WAITS)
@in_virtual_time
async def test_a_class_or_a_driver_says_when_a_detach_is_forced(
    annotations: dict[str, Any], wait_s: float | None
) -> None:
    from tests.support.builders import a_class

    async with attaching() as world:
        await world.create(a_class("sc", annotations=annotations.get("sc")))
        await world.csi_driver(annotations=annotations.get("driver"))
        volume, node, pod = await mounted(world, storageClassName="sc")
        await world.set_ready(node, False)
        await world.delete_pod(pod)
        await world.settle(3600 if wait_s is None else wait_s - 2)
        assert await world.va(volume, node)
        if wait_s is not None:
            await world.settle(4)
            assert await world.va(volume, node) is None


async def made_anew(world: AttachDetachWorld) -> tuple[Vol, str]:
    """A Node with a mounted volume is deleted, its pod goes, and its kubelet registers anew before it has looked what
    is mounted.
    """
    volume = await world.volume()
    node, pod = await world.attached(volume)
    await world.set_in_use(node, volume)
    await world.settle()
    await world.remove(NODES, node)
    await world.delete_pod(pod)
    await world.settle(60)
    return volume, await world.node(node)


@in_virtual_time
async def test_a_node_that_was_made_anew_keeps_what_it_had_mounted_until_its_kubelet_has_looked() -> None:
    async with attaching() as world:
        volume, node = await made_anew(world)
        other = await world.pod(await world.node(), volume)
        await world.wait_told(other, "FailedAttachVolume", f"node {node} was made anew and may have it mounted")
        await world.set_in_use(node, volume)
        await world.settle(600)
        assert await world.va(volume, node)
        await world.set_in_use(node)
        await world.settle(1)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_node_that_was_made_anew_and_says_nothing_lets_go_after_a_minute() -> None:
    async with attaching() as world:
        volume, node = await made_anew(world)
        await world.settle(59)
        assert await world.va(volume, node)
        await world.settle(2)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_node_that_was_made_anew_and_falls_silent_has_not_said_what_is_mounted() -> None:
    """Its machine runs on. It counts as any silent node does: its minute begins when it is ready again, and the time
    for force before.
    """
    async with attaching() as world:
        volume, node = await made_anew(world)
        other = await world.pod(await world.node(), volume)
        await world.settle(1)
        await world.set_ready(node, False)
        await world.wait_told(
            other, "FailedAttachVolume", "which is not ready, had it mounted when it was last heard of"
        )
        await world.settle(300)
        assert await world.va(volume, node)
        await world.set_ready(node, True)
        await world.settle(58)
        assert await world.va(volume, node)
        await world.settle(3)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_silent_node_that_was_made_anew_loses_its_volume_by_force() -> None:
    async with attaching() as world:
        volume, node = await made_anew(world)
        await world.set_ready(node, False)
        await world.settle(355)
        assert await world.va(volume, node)
        await world.settle(10)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_node_that_is_made_anew_twice_keeps_what_it_had_mounted() -> None:
    """Its kubelet has looked at nothing in between."""
    async with attaching() as world:
        volume, node = await made_anew(world)
        await world.settle(1)
        await world.remove(NODES, node)
        await world.settle(100)
        await world.node(node)
        await world.settle(58)
        assert await world.va(volume, node)
        await world.settle(3)
        assert await world.va(volume, node) is None


@each_row("ready", [True, False])
@in_virtual_time
async def test_a_process_that_never_saw_the_node_before_holds_what_was_attached_to_that(ready: bool) -> None:
    """The attachment is older than the Node. It holds for a minute, or as long as for any silent node."""
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await world.make_va(volume, node)
    await world.remove(NODES, node)
    await world.settle(2)
    await world.node(node)
    await world.set_ready(node, ready)
    async with world.controlling():
        await world.settle(58 if ready else 355)
        assert await world.va(volume, node)
        await world.wait_no_va(volume, node)
        assert (0 if ready else 1) == world.forced("timeout")


@in_virtual_time
async def test_a_node_that_is_found_silent_soon_after_its_minute_was_silent_in_it() -> None:
    """Nobody else says so in time: the monitor of nodes waits for most of a minute."""
    async with attaching() as world:
        volume, node = await made_anew(world)
        await world.pod(node, volume, name="holds")
        await world.settle(70)
        await world.set_ready(node, False)
        await world.delete_pod("holds")
        await world.settle(300)
        assert await world.va(volume, node)


@in_virtual_time
async def test_a_node_that_was_made_anew_and_names_others_has_looked() -> None:
    async with attaching() as world:
        volume, node = await made_anew(world)
        await world.set_in_use(node, await world.volume())
        await world.settle(1)
        assert await world.va(volume, node) is None


@each_row("count", [1, 64])
@in_virtual_time
async def test_deletions_that_hang_hold_up_no_attach(count: int) -> None:
    """An admission webhook that does not answer, or a slow etcd. One volume is attached to several nodes."""
    async with attaching() as world:
        shared = await world.volume(modes=RWX)
        _, pod = await world.attached(shared)
        nodes = [await world.node() for _ in range(8)]
        more = [(await world.attached(await world.volume(), node=nodes[i % 8]))[1] for i in range(count - 1)]
        hold = world.cluster.hold(DELETE)
        for one in (pod, *more):
            await world.delete_pod(one)
        await world.settle(5)
        assert world.of(DELETE)
        other = await world.volume()
        await world.pod(nodes[0], other)
        await world.pod(nodes[1], shared)
        await world.settle(1)
        assert await world.va(other, nodes[0])
        assert await world.va(shared, nodes[1])
        hold.go.set()


@in_virtual_time
async def test_deletions_that_hang_hold_up_no_other_deletion() -> None:
    async with attaching() as world:
        nodes = [await world.node() for _ in range(8)]
        hanging = [await world.volume() for _ in range(64)]
        hangs = [world.cluster.hold(DELETE, name=one.va(nodes[i % 8])) for i, one in enumerate(hanging)]
        pods = [(await world.attached(one, node=nodes[i % 8]))[1] for i, one in enumerate(hanging)]
        other = await world.volume()
        pods.append((await world.attached(other, node=nodes[0]))[1])
        for pod in pods:
            await world.delete_pod(pod)
        await world.wait_no_va(other, nodes[0])
        assert all(hold.begun.is_set() for hold in hangs)
        for hold in hangs:
            hold.go.set()
        for i, one in enumerate(hanging):
            await world.wait_no_va(one, nodes[i % 8])


@in_virtual_time
async def test_a_pod_that_comes_back_while_the_deletion_hangs_gets_a_new_attachment() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        uid = (await world.wait_va(volume, node))["metadata"]["uid"]
        hold = world.cluster.hold(DELETE)
        await world.delete_pod(pod)
        await hold.begun.wait()
        await world.pod(node, volume)
        await world.settle(20)
        assert [] == await world.reported(node), "nothing is done to a volume on a node beside something else"
        hold.go.set()
        await world.settle(1)
        await world.attach(volume, node)
        await world.wait_reported(node, volume)
        assert uid != (await world.wait_va(volume, node))["metadata"]["uid"]
        assert 1 == len(world.of(DELETE))
