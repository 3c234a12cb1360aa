"""csi-resizer as a process, ours and the Go one, on the embedded API server and on the real one; and one in the other's
place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code
from tests.e2e.resizer_world import PVC, Resizing, a_world
from tests.support.control_plane import ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.resizing import EXPAND, MODIFY, ResizingDriver
from tests.support.scripted_driver import Fail

pytestmark = pytest.mark.slow
OURS, GO = pytest.param(False, id="ours"), pytest.param(True, id="go", marks=pytest.mark.real)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an administrator."""
    with contextlib.ExitStack() as stack:
        if request.param == "real":
            plane: ControlPlane = request.getfixturevalue("control_plane")
            yield plane.kubeconfig()
        else:
            yield stack.enter_context(EmbeddedServer(tmp_path_factory.mktemp("server"))).kubeconfig


@pytest.mark.parametrize("is_go", [OURS, GO])
async def test_R1_M1_a_volume_grows_twice_and_changes_its_class(kubeconfig: Path, tmp_path: Path, is_go: bool) -> None:
    async with a_world(kubeconfig, tmp_path) as world:
        await world.make_bound()
        gold = await world.make_attributes_class("gold")
        async with world.resizer(kubeconfig, "log", is_go=is_go):
            for size in (2, 5):
                await world.ask(size)
                claim = await world.handed_over(size)
                assert {"storage": f"{size}Gi"} == claim["status"]["allocatedResources"]
                assert {names.RESIZING, names.FS_PENDING} == {one["type"] for one in claim["status"]["conditions"]}
                await world.node_done(size)
            await world.ask_class(gold)
            await world.modified(gold)
        assert [2, 5] == world.asked
        assert {world("claim"): {"class": "gold"}} == world.backend.parameters


@pytest.mark.parametrize("is_go", [OURS, GO])
async def test_R11_R20_a_volume_goes_back_to_a_smaller_size(kubeconfig: Path, tmp_path: Path, is_go: bool) -> None:
    async with a_world(kubeconfig, tmp_path) as world:
        await world.make_bound()
        too_much = Fail(Code.OUT_OF_RANGE, "too much")
        world.backend.always(
            EXPAND, lambda request: too_much if request.capacity_range.required_bytes > 6 << 30 else None
        )
        async with world.resizer(kubeconfig, "log", is_go=is_go):
            await world.ask(10)
            infeasible = {"storage": names.CONTROLLER_INFEASIBLE}
            await world.shown(
                PVC, world("claim"), lambda claim: claim["status"].get("allocatedResourceStatuses") == infeasible
            )
            await world.until(lambda: _is_refused(world), what="it is told")  # Go's waits from here on
            await world.ask(5)
            claim = await world.handed_over(5)
            assert {"storage": "5Gi"} == claim["status"]["allocatedResources"]


@pytest.mark.real
@pytest.mark.parametrize("go_first", [True, False])
async def test_R9_M13_one_finishes_what_the_other_has_begun(kubeconfig: Path, tmp_path: Path, go_first: bool) -> None:
    """Killed while the driver works, with other wishes since."""
    async with a_world(kubeconfig, tmp_path) as world:
        await world.make_bound()
        gold, steel = await world.make_attributes_class("gold"), await world.make_attributes_class("steel")
        await world.make_bound("other")
        gates = [world.backend.gate(method) for method in (EXPAND, MODIFY)]
        async with world.resizer(kubeconfig, "first", is_go=go_first, is_killed=True):
            await world.ask(10)
            await world.ask_class(gold, "other")
            await world.until(lambda: _are_called(world.backend), what="both calls")
        await world.ask(5)
        await world.ask_class(steel, "other")
        for gate in gates:
            gate.set()
        async with world.resizer(kubeconfig, "second", is_go=not go_first):
            claim = await world.handed_over(10)
            assert {"storage": "10Gi"} == claim["status"]["allocatedResources"]
            await world.modified(steel, "other")
        assert {10} == set(world.asked)
        sent = [call.request.mutable_parameters["class"] for call in world.backend.made(MODIFY)]
        assert ["gold", "gold", "steel"] == sent


async def _is_refused(world: Resizing) -> bool:
    return any("VolumeResizeFailed" == event["reason"] for event in await world.events_about(world("claim")))


async def _are_called(backend: ResizingDriver) -> bool:
    return all(backend.made(method) for method in (EXPAND, MODIFY))
