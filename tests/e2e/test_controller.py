"""`mooring controller`: the life of a claim and its attachment by one process, on the embedded API server and on the
real one.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.api.coordination import LEASES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name
from tests.e2e.controller_world import ALL, ControllerWorld, a_world, count_of
from tests.support.binding import POD
from tests.support.builders import a_claim, a_pv
from tests.support.control_plane import ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.fault_proxy import fault_proxy
from tests.support.programs import Program
from tests.support.scripted_driver import PUBLISH
from tests.support.volume_driver import CREATE

pytestmark = pytest.mark.slow

ELECTION = (
    "--leader-election",
    "--leader-election-namespace=default",
    "--leader-elect-resource-namespace=default",
    "--leader-election-retry-period=300ms",
)
READ_ONCE = {
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "storageclasses",
    "volumeattachments",
    "volumeattributesclasses",
}
"""The kinds that the four controllers read, most of them several of them."""
ASKED_ANEW = {"pods"}
"""The protection of claims lists a namespace's pods before it lets go."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig with a token, for an API server without controllers."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        yield plane.token_kubeconfig()
        return
    with EmbeddedServer(tmp_path / "server") as server:
        yield server.kubeconfig


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For sockets, whose paths are short."""
    return tmp_path_factory.mktemp("c")


async def test_one_watch_of_a_kind_serves_all_controllers(config: Path, folder: Path) -> None:
    async with fault_proxy(config, folder / "proxy") as proxy, a_world(config, folder) as world:
        node = await world.make_place()
        async with world.controller(proxy.kubeconfig, "log", ALL):
            await world.whole_life("pod", node)
        assert dict.fromkeys(READ_ONCE, 1) == count_of(proxy, "watch")
        assert dict.fromkeys(READ_ONCE - ASKED_ANEW, 1) == count_of(proxy, "list", without={"", *ASKED_ANEW})


async def test_of_a_foreign_drivers_volume_the_attachment_is_left_to_its_own_attacher(
    config: Path, folder: Path
) -> None:
    async with a_world(config, folder) as world:
        driver = f"foreign-{world.driver}"
        node = await world.make_place("n1", driver)
        async with world.controller(config, "log", ALL):
            await world.create(
                a_pv(world("pv"), source={"csi": {"driver": driver, "volumeHandle": world("pv")}}, claim=world("claim"))
            )
            await world.create(a_claim(world("claim"), sc="", volume=world("pv")))
            await world.make_pod(world("claim"))
            va = attachment_name(driver, world("pv"), node)
            made = await world.shown(VOLUME_ATTACHMENTS, va, bool)
            assert driver == made["spec"]["attacher"]
            assert "finalizers" not in made["metadata"]
            await world.remove(POD, world("pod"))
            await world.gone(VOLUME_ATTACHMENTS, va)
            assert [] == world.backend.made(PUBLISH)


async def test_a_process_that_was_killed_in_the_midst_is_followed_by_one_that_ends_its_work(
    config: Path, folder: Path
) -> None:
    """Once while a volume is made, once while it is attached: of both there is one in the end, and nothing is left."""
    async with a_world(config, folder) as world:
        node = await world.make_place()
        for method in (CREATE, PUBLISH):
            gate = world.backend.gate(method)
            async with world.controller(config, f"killed-{method}", ALL) as first:
                if method == CREATE:
                    await world.make_consumer()
                await world.until(lambda method=method: _is_called(world, method), what=f"{method} is called")
                await asyncio.to_thread(first.kill)
            gate.set()
        async with world.controller(config, "last", ALL):
            pv = await world.in_use("pod", node)
            assert {f"vol-{pv}"} == set(world.backend.volumes)
            await world.end_of("pod", node)
        assert {} == world.backend.volumes
        assert [] == world.backend.overlaps


async def _is_called(world: ControllerWorld, method: str) -> bool:
    return bool(world.backend.made(method))


async def test_one_lease_is_for_all(config: Path, folder: Path) -> None:
    async with fault_proxy(config, folder / "proxy") as proxy, a_world(config, folder) as world:
        node = await world.make_place()
        async with world.controller(proxy.kubeconfig, "one", ALL, *ELECTION) as first:
            await world.whole_life("pod", node)
            async with world.controller(config, "two", ALL, *ELECTION) as second:
                await asyncio.to_thread(first.stop)
                await world.whole_life("next", node)
                assert 0 == first.exit_code
                assert "Became leader" in second.output()
        watched = {one.name for one in proxy.requests if one.resource == "leases" and one.verb in ("create", "update")}
        assert {f"mooring-controller-{world.driver.replace('.', '-')}"} <= watched


async def test_with_a_lease_each_every_controller_has_that_of_its_own_program(config: Path, folder: Path) -> None:
    """A lost one stops its controller alone; with another it begins anew, on the caches that the others kept."""
    async with fault_proxy(config, folder / "proxy") as proxy, a_world(config, folder) as world:
        node, attacher = await world.make_place(), f"external-attacher-leader-{world.driver.replace('.', '-')}"
        async with world.controller(proxy.kubeconfig, "log", ALL, *ELECTION, "--leader-election-lease-each") as program:
            await world.whole_life("pod", node)
            leases = {one["metadata"]["name"] for one in await world.list(LEASES, "default")}
            assert {attacher, world.driver.replace(".", "-"), "mooring-attachdetach", "mooring-binder"} <= leases
            other = {"holderIdentity": "another", "leaseDurationSeconds": 3}
            await world.patch(LEASES, attacher, {"spec": {**other, "renewTime": now()}}, "default")
            await world.until(lambda: has_said(program, "Stopped leading"), what="the attacher stops")
            await world.make_consumer("later")
            pv = await world.volume_of("later")
            await world.shown(VOLUME_ATTACHMENTS, world.attachment(pv, node), bool, "is made")
            await world.in_use("later", node)
            await world.end_of("later", node)
        watches = count_of(proxy, "watch", without={"leases"})
        assert READ_ONCE == set(watches)
        assert max(watches.values()) <= 1 + len(leases), (
            "begun anew for each that catches up on the caches of the others"
        )


async def has_said(program: Program, text: str, times: int = 1) -> bool:
    return program.output_alive().count(text) >= times


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
