"""Issue 27, C.1: each sidecar and its Go program take each other's place under the rights of deploy/, with volumes in
mid-life.

In each course one begins a thing and is killed while the driver works on it; the next one ends that, does a thing of
its own, begins another, and is killed as well; the first one's kind ends that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.api.group_snapshot import GROUP_SNAPSHOTS
from mooring.api.snapshot_names import AS_SOURCE_FINALIZER, GROUP_FINALIZER, IN_GROUP_FINALIZER
from mooring.wire.grpc.codes import Code
from tests.e2e import provisioner_world, resizer_world, snapshot_world
from tests.e2e.processes import on_server
from tests.support.binding import PV, PVC
from tests.support.builders import APP, Json, a_group_class, a_group_snapshot, a_new_content
from tests.support.control_plane import ControlPlane
from tests.support.resizing import EXPAND, MODIFY
from tests.support.rights import WAY_BACK
from tests.support.scripted_driver import PUBLISH, UNPUBLISH, Fail, ScriptedDriver
from tests.support.snapshot_driver import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP, SnapshotDriver
from tests.support.swapping import Part, swapping
from tests.support.volume_driver import CREATE as CREATE_VOLUME
from tests.support.volume_driver import DELETE as DELETE_VOLUME

pytestmark = [pytest.mark.long, pytest.mark.real]

GO_BETWEEN, OURS_BETWEEN = pytest.param(True, id="ours-go-ours"), pytest.param(False, id="go-ours-go")
QUICK = ("--retry-interval-start=200ms", "--retry-interval-max=1s")


class Gate:
    """Holds a driver's calls of one method; a test lets them go when their caller is dead."""

    def __init__(self, world: Any, driver: ScriptedDriver, method: str) -> None:
        self._world, self._driver, self._method = world, driver, method
        self._before = len(driver.made(method))
        self._event = driver.gate(method)
        self._event.clear()

    async def is_asked(self) -> None:
        async def asked() -> bool:
            return len(self._driver.made(self._method)) > self._before

        await self._world.until(asked, what=f"{self._method} is called")

    def let_go(self) -> None:
        self._event.set()


@pytest.mark.parametrize("go_between", [GO_BETWEEN, OURS_BETWEEN])
async def test_attachments_in_mid_life_change_hands(
    control_plane: ControlPlane, tmp_path: Path, go_between: bool
) -> None:
    async with (
        on_server(control_plane.kubeconfig()) as target,
        swapping("attacher", control_plane, tmp_path, target.socket) as part,
    ):
        pv, other, node = await target.volume(), await target.volume("other"), await target.node()
        held = target.driver.gate(PUBLISH)
        async with part.running(*QUICK, is_go=not go_between):
            va = await target.want(pv, node)
            await target.asked(PUBLISH)
        held.set()
        target.driver.script(PUBLISH, Fail(Code.INTERNAL, "not at once"))
        async with part.running(*QUICK, is_go=go_between):
            await target.attached(va)
            mine = await target.want(other, node)
            await target.attached(mine)
            await target.detached(mine)
            held = target.driver.gate(UNPUBLISH)
            held.clear()
            before = target.unpublished()
            await target.delete("VolumeAttachment", va)
            await target.asked(UNPUBLISH, before + 1)
        held.set()
        async with part.running(*QUICK, is_go=not go_between):
            await target.gone("VolumeAttachment", va)
            for name in (pv, other):
                await target.patch(
                    "PersistentVolume", name, {"metadata": {"finalizers": [target.finalizer]}}
                )  # nobody else lets go
                await target.delete("PersistentVolume", name)
                await target.gone("PersistentVolume", name)
        assert {} == target.left_over()
        part.nothing_was_refused()


@pytest.mark.parametrize("go_between", [GO_BETWEEN, OURS_BETWEEN])
async def test_growing_volumes_change_hands(control_plane: ControlPlane, tmp_path: Path, go_between: bool) -> None:
    plane = control_plane
    async with (
        resizer_world.a_world(plane.kubeconfig(), tmp_path) as world,
        swapping("resizer", plane, tmp_path, world.socket) as part,
    ):
        await world.make_bound()
        await world.make_bound("other")
        gold = await world.make_attributes_class("gold")
        gate = Gate(world, world.backend, EXPAND)
        async with part.running(*QUICK, is_go=not go_between):
            await world.ask(3)
            await gate.is_asked()
        gate.let_go()
        world.backend.script(
            EXPAND, Fail(Code.INTERNAL, "no"), Fail(Code.INTERNAL, "no"), Fail(Code.FAILED_PRECONDITION, "in use")
        )
        async with part.running(*QUICK, is_go=go_between):
            await world.handed_over(3)
            await world.ask(2, "other")
            await world.handed_over(2, "other")
            gate = Gate(world, world.backend, MODIFY)
            await world.ask_class(gold)
            await gate.is_asked()
        gate.let_go()
        async with part.running(*QUICK, is_go=not go_between):
            await world.modified(gold)
        assert [3, 2] == list(dict.fromkeys(world.asked))
        part.nothing_was_refused()


@pytest.mark.parametrize("go_between", [GO_BETWEEN, OURS_BETWEEN])
async def test_volumes_that_are_made_and_deleted_change_hands(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, go_between: bool
) -> None:
    """Clones, restores and secrets among them."""
    plane = new_control_plane()
    async with (
        provisioner_world.a_world(plane, tmp_path) as world,
        swapping("provisioner", plane, tmp_path, world.socket) as part,
    ):
        provisioner_world.serve_snapshots(world)
        node, secret = await world.make_place(), world.make_secret()
        part.manifest.grant_secret(plane, "provisioner-secret", secret)
        await world.make_secret_class(secret)
        gate = Gate(world, world.backend, CREATE_VOLUME)
        async with part.running(QUICK[0], is_go=not go_between):
            origin = await world.make_claim("origin", node)
            await gate.is_asked()
        gate.let_go()
        world.backend.script(CREATE_VOLUME, Fail(Code.INTERNAL, "not at once"))
        async with part.running(QUICK[0], is_go=go_between):
            pv = await world.provisioned(origin)
            await _clone_and_restore(world, pv, node)
            gate = Gate(world, world.backend, DELETE_VOLUME)
            await world.patch(PV, pv, {"status": {"phase": "Released"}}, subresource="status")
            await gate.is_asked()
        gate.let_go()
        async with part.running(QUICK[0], is_go=not go_between):
            await world.released(pv)
        assert 2 == len(world.backend.volumes)
        assert {"user": "me"} == dict(world.backend.made(DELETE_VOLUME)[-1].request.secrets)
        part.nothing_was_refused()


async def _clone_and_restore(world: provisioner_world.Provisioning, origin: str, node: str) -> None:
    """A clone of the origin, whose claim is protected meanwhile; and a volume from a snapshot of it."""
    clone = {"kind": PVC.name, "name": world("origin")}
    await world.provisioned(await world.make_claim("clone", node, dataSource=clone))
    snapshot = provisioner_world.make_snapshot(world, origin)
    restored = {"apiGroup": provisioner_world.SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": snapshot}
    await world.provisioned(await world.make_claim("restored", node, dataSource=restored))


@pytest.mark.parametrize("go_between", [GO_BETWEEN, OURS_BETWEEN])
async def test_snapshots_in_mid_life_change_hands(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, go_between: bool
) -> None:
    """Both programs at once; that they go together in any mix is shown elsewhere (tests/e2e/test_snapshots.py)."""
    plane = new_control_plane()
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(snapshot_world.a_world(plane.kubeconfig(), tmp_path))
        parts = [await stack.enter_async_context(swapping("snapshot-controller", plane, tmp_path))]
        parts.append(await stack.enter_async_context(swapping("snapshotter", plane, tmp_path, world.socket)))
        await world.base()
        gate = Gate(world, world.driver, CREATE)
        async with _both(parts, is_go=not go_between):
            await world.snap()
            await gate.is_asked()
        gate.let_go()
        world.driver.script(CREATE, Fail(Code.INTERNAL, "not yet"))
        async with _both(parts, is_go=go_between):
            await world.ready()
            await _imported_and_deleted(world)
            gate = Gate(world, world.driver, DELETE)
            await world.delete(snapshot_world.VS, "snap")
            await gate.is_asked()
        gate.let_go()
        async with _both(parts, is_go=not go_between):
            await world.gone(snapshot_world.VS, "snap")
            await world.until(lambda: _nothing_is_left(world), what="nothing is left")
        for part in parts:
            part.nothing_was_refused()
            assert set() == WAY_BACK[part.name] & set(part.manifest.unused(part.proxies[True])), (
                "the manifest has them for the Go program"
            )


@asynccontextmanager
async def _both(parts: list[Part], *flags: str, is_go: bool) -> AsyncIterator[None]:
    controller, snapshotter = parts
    resync = ("--resync-period=3s",) if is_go else ()
    async with (
        controller.running(*QUICK, *flags, is_go=is_go),
        snapshotter.running(*QUICK, *resync, *flags, is_go=is_go),
    ):
        yield


async def _imported_and_deleted(world: snapshot_world.Snapshots) -> None:
    world.driver.add("imported", "vol")
    await world.create(a_new_content("imported", snapshot="again", handle="imported", ref_uid=None))
    await world.snap("again", content="imported")
    await world.ready("again")
    await world.remove(snapshot_world.VS, "again")


async def _nothing_is_left(world: snapshot_world.Snapshots) -> bool:
    return not await world.list(snapshot_world.VSC) and not world.driver.snapshots


GROUPS = "--feature-gates=CSIVolumeGroupSnapshot=true"
MEMBER_FINALIZERS = (AS_SOURCE_FINALIZER, IN_GROUP_FINALIZER)


@pytest.mark.parametrize("go_between", [GO_BETWEEN, OURS_BETWEEN])
async def test_group_snapshots_change_hands_under_the_rules_that_are_there_for_them(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, go_between: bool
) -> None:
    """With the comments of the manifests taken off, as they say."""
    plane, wanted = new_control_plane(), f"With {GROUPS}"
    async with AsyncExitStack() as stack:
        driver = SnapshotDriver(groups=True)
        world = await stack.enter_async_context(snapshot_world.a_world(plane.kubeconfig(), tmp_path, driver))
        parts = [await stack.enter_async_context(swapping("snapshot-controller", plane, tmp_path, feature=wanted))]
        parts.append(
            await stack.enter_async_context(swapping("snapshotter", plane, tmp_path, world.socket, feature=wanted))
        )
        await _two_of_a_group(world)
        gate = Gate(world, driver, CREATE_GROUP)
        async with _both(parts, GROUPS, is_go=not go_between):
            await world.create(a_group_snapshot())
            await gate.is_asked()
        gate.let_go()
        async with _both(parts, GROUPS, is_go=go_between):
            await _held(world, "group")
            await world.create(a_group_snapshot("second"))
            await _held(world, "second")
            await world.remove(GROUP_SNAPSHOTS, "second")
            gate = Gate(world, driver, DELETE_GROUP)
            await world.delete(GROUP_SNAPSHOTS, "group")
            await gate.is_asked()
        gate.let_go()
        async with _both(parts, GROUPS, is_go=not go_between):
            await world.gone(GROUP_SNAPSHOTS, "group")
            await world.until(lambda: _nothing_is_left(world), what="nothing is left")
        for part in parts:
            part.nothing_was_refused()


async def _two_of_a_group(world: snapshot_world.Snapshots) -> None:
    await world.base()
    await world.until(lambda: world.users.serves(GROUP_SNAPSHOTS), what="the kinds of groups are served")
    await world.create(a_group_class())
    for name in ("a", "b"):
        await world.make_claim(name)
        await world.patch(PVC, name, {"metadata": {"labels": APP}})


async def _held(world: snapshot_world.Snapshots, name: str) -> None:
    """The group snapshot is ready, and protected with both its members. Go's controller writes finalizers after it has
    said "ready".
    """
    group = await world.shown(
        GROUP_SNAPSHOTS, name, lambda body: _is_ready(body) and _has(body, GROUP_FINALIZER), "is ready and protected"
    )
    uid = group["metadata"]["uid"]

    async def members_are_held() -> bool:
        owned = [one for one in await world.list(snapshot_world.VS) if uid in _owners(one)]
        return 2 == len(owned) and all(_is_ready(one) and _has(one, *MEMBER_FINALIZERS) for one in owned)

    await world.until(members_are_held, what=f"both members of {name} are protected, and belong to it")


def _is_ready(body: Json) -> bool:
    return (body.get("status") or {}).get("readyToUse") is True


def _has(body: Json, *finalizers: str) -> bool:
    return set(finalizers) <= set(body["metadata"].get("finalizers") or ())


def _owners(body: Json) -> set[str]:
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()}
