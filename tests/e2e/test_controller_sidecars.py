"""`mooring controller` with all sidecars of a driver: growth, classes and snapshots beside attachments and volumes, in
one process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mooring.api.coordination import LEASES
from tests.e2e.controller_world import SIDECARS, a_world, count_of
from tests.e2e.test_controller import ASKED_ANEW, ELECTION, READ_ONCE, has_said, now
from tests.support.control_plane import ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.fault_proxy import fault_proxy
from tests.support.resizing import EXPAND, MODIFY
from tests.support.volume_driver import GiB

pytestmark = pytest.mark.slow

ALL_READ_ONCE = READ_ONCE | {"volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses"}

ASKED = ASKED_ANEW | {"volumesnapshots"}
"""The provisioner finds out first whether it may list these."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=[pytest.mark.real, pytest.mark.long])])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig with a token, for an API server of the test's own: it gets the kinds of snapshots, which others have
    to miss.
    """
    if request.param == "real":
        start: Callable[..., ControlPlane] = request.getfixturevalue("new_control_plane")
        yield start().token_kubeconfig()
        return
    with EmbeddedServer(tmp_path / "server") as server:
        yield server.kubeconfig


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For sockets, whose paths are short."""
    return tmp_path_factory.mktemp("c")


async def test_one_watch_of_a_kind_serves_all_sidecars(config: Path, folder: Path) -> None:
    """Each does its work, on the one connection to the driver."""
    async with fault_proxy(config, folder / "proxy") as proxy, a_world(config, folder, full=True) as world:
        node = await world.make_place()
        async with world.controller(proxy.kubeconfig, "log", SIDECARS):
            await world.make_consumer()
            pv = await world.in_use("pod", node)
            await world.grown("pod", 2)
            await world.moved_to_class("pod", "gold")
            await world.photographed(pv)
            assert [2 * GiB] == [call.request.capacity_range.required_bytes for call in world.backend.made(EXPAND)]
            assert ["gold"] == [call.request.mutable_parameters["class"] for call in world.backend.made(MODIFY)]
            await world.end_of("pod", node)
        assert dict.fromkeys(ALL_READ_ONCE, 1) == count_of(proxy, "watch")
        assert dict.fromkeys(ALL_READ_ONCE - ASKED, 1) == count_of(proxy, "list", without={"", *ASKED})


async def test_the_snapshot_controller_beside_them_reads_what_they_read(config: Path, folder: Path) -> None:
    """But for VolumeSnapshots: the provisioner, which may have no right to them, watches them for itself."""
    async with fault_proxy(config, folder / "proxy") as proxy, a_world(config, folder, full=True) as world:
        node = await world.make_place()
        async with world.controller(proxy.kubeconfig, "log", f"{SIDECARS},snapshot-controller"):
            await world.make_consumer()
            await world.in_use("pod", node)
            await world.photographed_by_a_user("pod")
            await world.end_of("pod", node)
        assert {**dict.fromkeys(ALL_READ_ONCE, 1), "volumesnapshots": 2} == count_of(proxy, "watch")
        assert dict.fromkeys(ALL_READ_ONCE - ASKED, 1) == count_of(proxy, "list", without={"", *ASKED})


async def test_the_snapshot_controller_needs_no_driver_and_has_the_lease_of_its_own_program(
    config: Path, folder: Path
) -> None:
    """A driver's sidecars in one process, what all drivers share in another."""
    async with a_world(config, folder, full=True) as world:
        node = await world.make_place()
        election = [one for one in ELECTION if "leader-elect-" not in one]
        flags = ("--enable=snapshot-controller", *election, "--leader-election-lease-each")
        shared = world.program(config, "shared", *flags, calls_driver=False)
        try:
            async with world.controller(config, "log", SIDECARS):
                await world.make_consumer()
                await world.in_use("pod", node)
                await world.photographed_by_a_user("pod")
                assert "snapshot-controller-leader" in {
                    one["metadata"]["name"] for one in await world.list(LEASES, "default")
                }
                await world.end_of("pod", node)
            assert 0 == await asyncio.to_thread(shared.stop)
        finally:
            shared.kill()


async def test_each_may_have_the_lease_of_its_own_program(config: Path, folder: Path) -> None:
    """A lost one stops its controller alone; with another it begins anew, on the caches that the others kept."""
    async with fault_proxy(config, folder / "proxy") as proxy, a_world(config, folder, full=True) as world:
        node, driver = await world.make_place(), world.driver.replace(".", "-")
        resizer, snapshotter = f"external-resizer-{driver}", f"external-snapshotter-leader-{driver}"
        async with world.controller(
            proxy.kubeconfig, "log", SIDECARS, *ELECTION, "--leader-election-lease-each"
        ) as program:
            await world.make_consumer()
            pv = await world.in_use("pod", node)
            await world.grown("pod", 2)
            assert {resizer, snapshotter} <= {one["metadata"]["name"] for one in await world.list(LEASES, "default")}
            other = {"holderIdentity": "another", "leaseDurationSeconds": 3, "renewTime": now()}
            for lease in (resizer, snapshotter):
                await world.patch(LEASES, lease, {"spec": other}, "default")
            await world.until(lambda: has_said(program, "Stopped leading", 2), what="both stop")
            await world.photographed(pv)
            await world.grown("pod", 3)
            await world.end_of("pod", node)
        watches = count_of(proxy, "watch", without={"leases"})
        assert ALL_READ_ONCE == set(watches)
        assert max(watches.values()) <= 1 + 4 + 2, "begun anew for each that catches up on the caches of the others"


async def test_missing_kinds_of_snapshots_hold_nobody_else_up(config: Path, folder: Path) -> None:
    """They may come later."""
    async with a_world(config, folder, full=True, kinds=False) as world:
        node = await world.make_place()
        async with world.controller(config, "log", SIDECARS):
            await world.make_consumer()
            pv = await world.in_use("pod", node)
            await world.grown("pod", 2)
            await world.serve_snapshots()
            await world.photographed(pv)
            await world.end_of("pod", node)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("resizer", "resizer: CSI driver does not support resize nor modify"),
        ("snapshotter", "snapshotter: CSI driver {driver} does not support ControllerCreateSnapshot"),
    ],
)
async def test_a_part_that_the_driver_has_no_calls_for_is_told_at_the_start(
    config: Path, folder: Path, part: str, told: str
) -> None:
    async with a_world(config, folder) as world:
        program = world.program(config, "log", f"--enable=attacher,{part}")
        try:
            assert 1 == await asyncio.to_thread(program.wait_exit)
        finally:
            program.kill()
        assert told.format(driver=world.driver) in program.output()
