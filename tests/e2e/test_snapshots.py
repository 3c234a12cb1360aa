"""The snapshot programs on a real cluster: each beside the other's Go program, and both with no more than the rights of
their manifests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.api.core import EVENTS
from mooring.wire.grpc.codes import Code
from tests.e2e.snapshot_world import PVC, VS, VSC, Snapshots, a_world
from tests.support.builders import a_claim, a_new_content
from tests.support.control_plane import ControlPlane
from tests.support.rights import (
    ELECTION,
    NAMESPACE,
    UPSTREAM,
    UPSTREAM_ELECTION,
    WAY_BACK,
    acting_as,
    deployed,
    just,
    refused,
)
from tests.support.scripted_driver import Fail
from tests.support.snapshot_driver import CREATE, DELETE

pytestmark = [pytest.mark.real, pytest.mark.slow]

CONTROLLER, SNAPSHOTTER = "snapshot-controller", "csi-snapshotter"


async def _a_life(world: Snapshots) -> None:
    """Made after a failure, copied, deleted; kept, imported under another name, and deleted."""
    world.driver.script(CREATE, Fail(Code.INTERNAL, "not yet"))
    await world.snap()
    await world.ready()
    assert 1 == len(world.driver.snapshots)
    await world.shown(
        PVC, "claim", lambda body: not [f for f in body["metadata"].get("finalizers", []) if "as-source" in f]
    )
    before = len(world.driver.made(DELETE))
    await world.remove(VS, "snap")
    assert ({}, before + 1) == (world.driver.snapshots, len(world.driver.made(DELETE)))
    world.driver.add("imported", "vol")
    await world.create(a_new_content("imported", snapshot="again", handle="imported", ref_uid=None))
    await world.snap("again", content="imported")
    await world.ready("again")
    await world.remove(VS, "again")

    async def nothing_left() -> bool:
        return not await world.list(VSC) and not world.driver.snapshots

    await world.until(nothing_left, what="nothing is left")


@pytest.mark.parametrize(
    ("go_controller", "go_snapshotter"),
    [(False, False), *(pytest.param(*mix, marks=pytest.mark.long) for mix in ((True, False), (False, True)))],
)
async def test_any_mix_of_one_go_program_and_one_of_ours(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, go_controller: bool, go_snapshotter: bool
) -> None:
    plane = new_control_plane()
    async with a_world(plane.kubeconfig(), tmp_path) as world:
        await world.base()
        kubeconfig = plane.kubeconfig()
        async with (
            world.program(CONTROLLER, kubeconfig, go=go_controller),
            world.program(SNAPSHOTTER, kubeconfig, "--resync-period=3s", go=go_snapshotter),
        ):
            await _a_life(world)


@pytest.mark.long
async def test_the_manifests_rights_are_enough_and_all_are_needed(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but those that are there for the Go programs, which need them (tests/e2e/test_way_back.py)."""
    monkeypatch.setenv("POD_NAMESPACE", NAMESPACE)
    plane = new_control_plane()
    rights = {CONTROLLER: deployed("snapshot-controller"), SNAPSHOTTER: deployed("snapshotter")}
    for name in rights:
        (tmp_path / name).mkdir()
    async with (
        acting_as(rights[CONTROLLER], plane, tmp_path / CONTROLLER) as controller,
        acting_as(rights[SNAPSHOTTER], plane, tmp_path / SNAPSHOTTER) as snapshotter,
        a_world(plane.kubeconfig(), tmp_path) as world,
    ):
        await world.serve_kinds()
        async with (
            world.program(CONTROLLER, controller.kubeconfig, *ELECTION),
            world.program(SNAPSHOTTER, snapshotter.kubeconfig, *ELECTION),
            world.program(CONTROLLER, controller.kubeconfig, *ELECTION, which="-2"),
            world.program(SNAPSHOTTER, snapshotter.kubeconfig, *ELECTION, which="-2"),
        ):
            await _everything_is_missing_at_first(world)
            await _a_life(world)
        for name, part, proxy in ((CONTROLLER, CONTROLLER, controller), (SNAPSHOTTER, "snapshotter", snapshotter)):
            assert [] == refused(proxy), name
            assert WAY_BACK[part] == set(rights[name].unused(proxy)), name


async def _everything_is_missing_at_first(world: Snapshots) -> None:
    """So that each kind is looked up."""
    await world.snap("early")
    await world.shown(VS, "early", lambda body: "not found" in str(body.get("status")))
    await world.snap("late", content="missing")
    await world.shown(VS, "late", lambda body: "VolumeSnapshotContent is missing" in str(body.get("status")))
    await world.create(a_new_content("orphan", ref_uid=None, volumeSnapshotClassName="missing"))
    await world.shown(VSC, "orphan", lambda body: "not found" in str(body.get("status")))
    for kind, name in ((VS, "late"), (VSC, "orphan")):
        await world.delete(kind, name)
    await world.base()
    await world.ready("early")
    await world.make_claim("lost", with_volume=False)
    await world.snap("lost", claim="lost")
    await world.shown(VS, "lost", lambda body: "failed to retrieve PV" in str(body.get("status")))
    await world.remove(VS, "lost")
    world.driver.script(DELETE, Fail(Code.INTERNAL, "no"), Fail(Code.INTERNAL, "no"))
    await _a_restore_holds_it(world)


async def _a_restore_holds_it(world: Snapshots) -> None:
    """The same event twice is counted up."""
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "early"}
    await world.create(a_claim("restored", sc="", dataSource=source))
    await world.delete(VS, "early")
    for number in range(3):
        await world.patch(VS, "early", {"metadata": {"annotations": {"touched": str(number)}}})

    async def counted() -> bool:
        return any(
            event.get("count", 1) > 1
            for event in await world.list(EVENTS)
            if event["reason"] == "SnapshotDeletePending"
        )

    await world.until(counted, what="the event is counted up")
    await world.patch(PVC, "restored", {"status": {"phase": "Bound"}}, subresource="status")
    await world.gone(VS, "early")


@pytest.mark.long
async def test_nothing_is_refused_under_the_rights_of_upstreams_manifests(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """The images alone are exchanged."""
    plane = new_control_plane()
    for name in "cd":
        (tmp_path / name).mkdir()
    async with (
        acting_as(
            just("upstream-c", UPSTREAM["snapshot-controller"], UPSTREAM_ELECTION), plane, tmp_path / "c"
        ) as controller,
        acting_as(just("upstream-s", UPSTREAM["snapshotter"], UPSTREAM_ELECTION), plane, tmp_path / "d") as snapshotter,
        a_world(plane.kubeconfig(), tmp_path) as world,
    ):
        await world.base()
        async with (
            world.program(CONTROLLER, controller.kubeconfig, *ELECTION),
            world.program(SNAPSHOTTER, snapshotter.kubeconfig, *ELECTION),
        ):
            await _a_life(world)
        assert ([], []) == (refused(controller), refused(snapshotter))
