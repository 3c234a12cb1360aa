"""What a StorageClass says about forced detaches, while it can't be read: that is no word of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import STORAGE_CLASSES
from mooring.apiserver.local import ServerFaults
from mooring.cluster.attachdetach.identity import FORCE_AFTER
from mooring.kube.errors import ApiError, Forbidden, NotServed, ServerError, Unreachable
from tests.support.attachdetaching import DELETE, AttachDetachWorld, Vol, attaching
from tests.support.builders import a_class
from tests.support.cluster_world import HeldWatch
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

ERRORS: list[ApiError] = [
    Forbidden("no right"),
    ServerError("etcd leader changed"),
    Unreachable("connection refused"),
    NotServed("not now"),
]
READ = "get storageclasses"


async def dead(world: AttachDetachWorld, says: str) -> tuple[Vol, str]:
    """A volume of a class that says this, mounted on a node that has fallen silent; no pod wants it any more."""
    await world.create(a_class("sc", annotations={FORCE_AFTER: says}))
    volume = await world.volume(storageClassName="sc")
    return volume, await falls_silent(world, volume)


async def falls_silent(world: AttachDetachWorld, volume: Vol) -> str:
    """A node that has it mounted; its pod goes."""
    node, pod = await world.attached(volume)
    await world.set_in_use(node, volume)
    await world.settle()
    await world.set_ready(node, False)
    await world.delete_pod(pod)
    return node


async def look_again(world: AttachDetachWorld, volume: Vol, other: str) -> None:
    """The volume is decided about anew, after what its class said is no longer fresh."""
    await world.settle(100)
    await world.delete_pod(await world.pod(other, volume))


@each_row("error", ERRORS)
@in_virtual_time
async def test_nothing_is_forced_before_its_class_was_read(error: ApiError, capsys: pytest.CaptureFixture[str]) -> None:
    async with attaching() as world:
        rule = world.cluster.refuse(READ, times=None, error=error)
        volume, node = await dead(world, "90s")
        waiting = await world.pod(await world.node(), volume)
        await world.settle(1000)
        assert await world.va(volume, node)
        assert rule.hits < 30
        text = f'can not read StorageClass "sc", which may say when a detach is forced: {error}'
        assert await world.wait_told(volume.claim, "FailedDetachVolume", text)
        assert await world.wait_told(
            waiting,
            "FailedAttachVolume",
            "StorageClass sc, which may say when it is detached by force, can not be read",
        )
        assert re.search(f'^E.*"failed to attach or detach the volume: {error}"', capsys.readouterr().err, re.MULTILINE)
        rule.times = rule.hits
        await world.settle(130)
        assert await world.va(volume, node) is None
        assert 1 == world.forced("timeout")


@each_row("times", [1, None], ids=["once", "always"])
@each_row("error", ERRORS)
@in_virtual_time
async def test_a_class_that_can_not_be_read_any_more_keeps_what_it_said(
    error: ApiError, times: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with attaching() as world:
        volume, node = await dead(world, "never")
        other = await world.node()
        await world.settle(1000)
        rule = world.cluster.refuse(READ, times=times, error=error)
        for _ in range(5):
            await look_again(world, volume, other)
        await world.settle(1000)
        assert await world.va(volume, node)
        assert rule.hits
        assert await world.wait_told(volume.claim, "FailedDetachVolume", "can not read StorageClass")
        assert re.search(
            "^W.*can't read the StorageClass, what it said last says when", capsys.readouterr().err, re.MULTILINE
        )


@in_virtual_time
async def test_a_time_that_a_class_gave_runs_out_though_it_can_not_be_read_any_more() -> None:
    async with attaching() as world:
        volume, node = await dead(world, "90s")
        await world.settle(10)
        world.cluster.refuse(READ, times=None, error=Forbidden("no right"))
        await world.settle(78)
        assert await world.va(volume, node)
        await world.settle(4)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_class_that_is_gone_says_nothing() -> None:
    async with attaching() as world:
        volume, node = await dead(world, "never")
        await world.settle(1000)
        await world.remove(STORAGE_CLASSES, "sc")
        await look_again(world, volume, await world.node())
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_of_two_objects_of_one_volume_the_class_that_forbids_counts() -> None:
    """Whichever of both a pod used."""
    async with attaching() as world:
        await world.create(
            a_class("a", annotations={FORCE_AFTER: "10s"}), a_class("b", annotations={FORCE_AFTER: "never"})
        )
        volume, _ = await world.volume("h", storageClassName="a"), await world.volume("h", storageClassName="b")
        node = await falls_silent(world, volume)
        await world.settle(1000)
        assert await world.va(volume, node)


@in_virtual_time
async def test_what_the_class_said_counts_though_the_volume_s_object_is_gone() -> None:
    async with attaching() as world:
        volume, node = await dead(world, "never")
        for kind, name in ((PERSISTENT_VOLUMES, volume.pv), (PERSISTENT_VOLUME_CLAIMS, volume.claim)):
            await world.patch(kind, name, {"metadata": {"finalizers": None}})
            await world.remove(kind, name)
        await world.settle(1000)
        assert await world.va(volume, node)
        await world.taint(node)
        await world.wait_no_va(volume, node)


class _NoNodes(ServerFaults):
    refuses = False

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if self.refuses and (verb, kind.plural) == ("list", "nodes"):
            raise ServerError("not yet")


async def tear(world: AttachDetachWorld, volume: Vol) -> None:
    """Its PersistentVolume goes, whatever protects it."""
    await world.patch(PERSISTENT_VOLUMES, volume.pv, {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUMES, volume.pv)


@in_virtual_time
async def test_a_volume_that_is_attached_nowhere_leaves_no_class_behind() -> None:
    world = AttachDetachWorld()
    async with world.controlling() as controller:
        never, once = await world.volume(storageClassName="gold"), await world.volume(storageClassName="gold")
        node, pod = await world.attached(once)
        await world.delete_pod(pod)
        await world.wait_no_va(once, node)
        for volume in (never, once):
            await tear(world, volume)
        await world.settle(60)
        assert {} == controller.view.memory._last_classes


@in_virtual_time
async def test_what_the_class_said_counts_though_the_volume_s_object_went_while_the_controller_started() -> None:
    """It had listed the volume, and could not list Nodes yet."""
    faults = _NoNodes()
    world = AttachDetachWorld(faults)
    async with world.controlling():
        volume, node = await dead(world, "never")
    faults.refuses = True
    async with world.controlling():
        await world.settle(30)
        await tear(world, volume)
        await world.settle(30)
        faults.refuses = False
        await world.settle(1000)
        assert await world.va(volume, node)
        await world.taint(node)
        await world.wait_no_va(volume, node)


@each_row("is_last", [True, False], ids=["last", "first"])
@in_virtual_time
async def test_of_two_objects_that_go_at_once_the_last_one_s_class_counts(is_last: bool) -> None:
    watch = HeldWatch("persistentvolumes")
    async with attaching(watch) as world:
        await world.create(
            a_class("a", annotations={FORCE_AFTER: "10s"}), a_class("b", annotations={FORCE_AFTER: "never"})
        )
        several = [await world.volume("h", storageClassName=name) for name in ("a", "b")]
        node, pod = await world.attached(several[0])
        await world.set_in_use(node, several[0])
        await world.settle()
        await world.set_ready(node, False)
        watch.hold()
        for volume in several if is_last else reversed(several):
            await tear(world, volume)
        watch.let_go()
        await world.delete_pod(pod)
        await world.settle(1000)
        assert is_last == (await world.va(several[0], node) is not None)


@each_row("says", ["never", "48h"])
@in_virtual_time
async def test_a_class_that_comes_to_allow_force_is_heard_though_nothing_else_happens(says: str) -> None:
    """Nobody watches classes: one that said never was never asked again."""
    async with attaching() as world:
        volume, node = await dead(world, says)
        await world.settle(100)
        assert await world.va(volume, node)
        await world.patch(STORAGE_CLASSES, "sc", {"metadata": {"annotations": {FORCE_AFTER: "90s"}}})
        await world.settle(130)
        assert await world.va(volume, node) is None
        assert 1 == world.forced("timeout")
        assert len(world.of(READ)) < 6


@each_row("error", [None, Forbidden("no right")], ids=["answers", "can-not-be-read"])
@in_virtual_time
async def test_what_the_class_says_is_read_just_before_a_detach_is_forced(error: ApiError | None) -> None:
    """Somebody has written never a moment ago; where it can't be read, what it said last counts."""
    async with attaching() as world:
        volume, node = await dead(world, "90s")
        await world.settle(85)
        await world.patch(STORAGE_CLASSES, "sc", {"metadata": {"annotations": {FORCE_AFTER: "never"}}})
        if error is not None:
            world.cluster.refuse(READ, times=None, error=error)
        await world.settle(1000)
        assert (error is None) == (await world.va(volume, node) is not None)
        assert len(world.of(READ)) < 20


@each_row("refused_s", [1, 20, 60, 61, 100])
@in_virtual_time
async def test_a_forced_detach_that_was_refused_for_a_while_comes_to_pass(refused_s: int) -> None:
    """Meanwhile what the class said is no longer fresh: it is read again, and the detach goes on by itself."""
    async with attaching() as world:
        volume, node = await dead(world, "350s")
        rule = world.cluster.refuse(DELETE, times=None, error=ServerError("not now"))
        await world.settle(350 + refused_s)
        assert await world.va(volume, node)
        rule.times = rule.hits
        await world.settle(150)
        assert await world.va(volume, node) is None
