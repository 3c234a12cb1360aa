"""The records of real programs, on the embedded API server, beside drivers on sockets: `mooring replay` runs each of them again."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.driver.server import serving
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code
from tests.e2e import controller_world, resizer_world
from tests.e2e.flight_records import MOORING, assert_cut, assert_same, lines_of, written
from tests.e2e.provisioner_world import Provisioning
from tests.support.binding import NODE, PVC, Tenant
from tests.support.builders import a_claim, a_node, a_pod, a_pv
from tests.support.embedded import EmbeddedServer
from tests.support.programs import Program
from tests.support.resizing import EXPAND, MODIFY
from tests.support.scripted_driver import PUBLISH, Fail, Lose

pytestmark = pytest.mark.slow
INFEASIBLE = {"storage": names.CONTROLLER_INFEASIBLE}
CREATE, DELETE = "CreateVolume", "DeleteVolume"
CUT = 2**16
"""Bytes of a recorder that has to drop the beginning of a run."""


@pytest.fixture
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an administrator."""
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as server:
        yield server.kubeconfig


def flags(folder: Path, *more: str) -> tuple[str, ...]:
    return f"--flight-recorder-dir={folder}", *more


# -- csi-resizer


async def grown(kubeconfig: Path, folder: Path, *more: str, count: int = 1) -> Path:
    """Volumes grow twice, with failures and a size that the driver can't give, and change their class; gives the record."""
    async with resizer_world.a_world(kubeconfig, folder) as world:
        claims = [f"claim{number}" for number in range(count)]
        for claim in claims:
            await world.make_bound(claim)
        gold = await world.make_attributes_class("gold")
        too_much = Fail(Code.OUT_OF_RANGE, "too much")
        world.backend.always(
            EXPAND, lambda request: too_much if request.capacity_range.required_bytes > 6 << 30 else None
        )
        async with world.resizer(kubeconfig, "log", *flags(folder, *more)) as program:
            for claim in claims:
                world.backend.script(EXPAND, Fail(Code.INTERNAL, "not yet"), Lose())
                world.backend.script(MODIFY, Fail(Code.UNAVAILABLE, "not now"))
                for size in (2, 3):
                    await world.ask(size, claim)
                    await world.handed_over(size, claim)
                    await world.node_done(size, claim)
                await world.ask(9, claim)
                await world.shown(
                    PVC, world(claim), lambda body: body["status"].get("allocatedResourceStatuses") == INFEASIBLE
                )
                await world.ask_class(gold, claim)
                await world.modified(gold, claim)
            return await written(program, folder / "log")


async def test_a_record_of_the_resizer_is_replayed_to_the_same_decisions(kubeconfig: Path, tmp_path: Path) -> None:
    assert_same(await grown(kubeconfig, tmp_path), decisions=10, calls=6)


async def test_a_record_of_the_resizer_that_was_cut_is_replayed(kubeconfig: Path, tmp_path: Path) -> None:
    assert_cut(await grown(kubeconfig, tmp_path, f"--flight-recorder-bytes={6 * CUT}", count=8))


# -- csi-provisioner


@asynccontextmanager
async def provisioning(kubeconfig: Path, folder: Path) -> AsyncIterator[Provisioning]:
    users = HttpCluster(load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(90), users:
        nobody: Any = None
        world = Provisioning(users, nobody, folder)
        async with serving(world.backend, str(world.socket), grace_s=0):
            yield world


async def provisioned(kubeconfig: Path, folder: Path, *more: str, count: int = 4) -> Path:
    """Claims get volumes, with failures and a lost answer, a clone among them, and two go again; gives the record."""
    async with provisioning(kubeconfig, folder) as world:
        await world.make_place()
        await world.make_class(reclaimPolicy="Delete")
        world.backend.script(CREATE, Fail(Code.INTERNAL, "not yet"), Lose())
        world.backend.script(DELETE, Fail(Code.INTERNAL, "not yet"))
        proxy: Any = types.SimpleNamespace(kubeconfig=kubeconfig)
        environ = {"POD_NAME": "a-pod", "POD_NAMESPACE": "default"}
        async with world.provisioner(proxy, "log", *flags(folder, *more), **environ) as program:
            asked = {"volume.kubernetes.io/storage-provisioner": world.driver}
            claims = [
                await world.create(a_claim(world(f"c{number}"), sc=world("sc"), annotations=asked))
                for number in range(count)
            ]
            pvs = [await world.provisioned(claim) for claim in claims]
            clone = a_claim(world("clone"), sc=world("sc"), annotations=asked)
            clone["spec"]["dataSource"] = {"kind": "PersistentVolumeClaim", "name": world("c0")}
            pvs.append(await world.provisioned(await world.create(clone)))
            for number in range(2):
                await world.delete(PVC, world(f"c{number + 1}"))
                await world.released(pvs[number + 1])
            return await written(program, folder / "log")


CAPACITY = "--enable-capacity", "--capacity-ownerref-level=-1", "--capacity-poll-interval=1s"


@pytest.mark.parametrize("more", [(), CAPACITY], ids=["plain", "capacity"])
async def test_a_record_of_the_provisioner_is_replayed_to_the_same_decisions(
    kubeconfig: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    assert_same(await provisioned(kubeconfig, tmp_path, *more), decisions=10, calls=8)


async def test_a_record_of_the_provisioner_that_was_cut_is_replayed(kubeconfig: Path, tmp_path: Path) -> None:
    assert_cut(await provisioned(kubeconfig, tmp_path, f"--flight-recorder-bytes={CUT}", count=20))


# -- mooring attachdetach


ALONE = "attachdetach", "--leader-elect=false"


async def attached(
    kubeconfig: Path, folder: Path, *more: str, command: tuple[str, ...] = ALONE, count: int = 3
) -> Path:
    """Pods come to nodes and go, and their volumes with them; one attachment fails at first; gives the record."""
    users = HttpCluster(load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(90), users:
        world = Tenant(users, look_s=0.02)
        with commanded(command, kubeconfig, folder / "log", *flags(folder, *more)) as program:
            for number in range(count):
                await used(world, number)
            return await written(program, folder / "log")


async def used(world: Tenant, number: int) -> None:
    """A pod's volume is attached, reported, and let go of; this test is the attacher and the kubelet."""
    node, pv, claim, pod = (world(f"{name}{number}") for name in ("node", "pv", "claim", "pod"))
    va = attachment_name("csi.test", pv, node)
    await world.create(a_node(node, annotations={MANAGED: "true"}))
    made = await world.create(a_claim(claim, sc="", volume=pv))
    await world.create(a_pv(pv, claim=made))
    await world.patch(PVC, claim, {"status": {"phase": "Bound"}}, subresource="status")
    await world.create(a_pod(pod, claim, node=node, terminationGracePeriodSeconds=0))
    await world.shown(VOLUME_ATTACHMENTS, va, bool)
    failed = {"attachError": {"time": "2026-01-01T00:00:00Z", "message": "not yet"}}
    await world.patch(VOLUME_ATTACHMENTS, va, {"status": {"attached": False, **failed}}, subresource="status")
    await world.patch(VOLUME_ATTACHMENTS, va, {"status": {"attached": True, "attachError": None}}, subresource="status")
    listed = [{"name": unique_name("csi.test", pv), "devicePath": ""}]
    await world.shown(NODE, node, lambda one: one["status"].get("volumesAttached") == listed, "reports the volume")
    await world.users.delete(PODS, pod, "default", grace_period_s=0)
    await world.gone(VOLUME_ATTACHMENTS, va)


@contextmanager
def commanded(command: tuple[str, ...], kubeconfig: Path, log: Path, *more: str) -> Iterator[Program]:
    program = Program([MOORING, *command, f"--kubeconfig={kubeconfig}", *more], log)
    try:
        yield program
        program.assert_alive()
        assert 0 == program.stop()
        assert "unexpected" not in program.output()
    except BaseException as error:
        error.add_note(f"-- mooring {' '.join(command)}\n{program.log_tail(60)}")
        raise
    finally:
        program.kill()


async def test_a_record_of_attachdetach_is_replayed_to_the_same_decisions(kubeconfig: Path, tmp_path: Path) -> None:
    assert_same(await attached(kubeconfig, tmp_path), decisions=10)


@pytest.mark.long
async def test_a_record_of_attachdetach_that_was_cut_is_replayed(kubeconfig: Path, tmp_path: Path) -> None:
    assert_cut(await attached(kubeconfig, tmp_path, f"--flight-recorder-bytes={2 * CUT}", count=12))


# -- mooring controller

EVERYTHING = f"{controller_world.SIDECARS},snapshot-controller,nodehealth,workloads"


async def lived(kubeconfig: Path, folder: Path, *more: str, count: int = 2) -> Path:
    """Volumes from their claims to their ends, with failures, growth, a class and a snapshot, all by one process; gives the record."""
    async with controller_world.a_world(kubeconfig, folder, full=True) as world:
        node = await world.make_place()
        world.backend.script(CREATE, Fail(Code.INTERNAL, "not yet"), Lose())
        world.backend.script(PUBLISH, Fail(Code.INTERNAL, "not yet"))
        async with world.controller(kubeconfig, "log", EVERYTHING, *flags(folder, *more)) as program:
            for number in range(count):
                pod = f"pod{number}"
                await world.make_consumer(pod)
                await world.in_use(pod, node)
                await world.grown(pod, 2)
                if not number:
                    await world.moved_to_class(pod, "gold")
                    await world.photographed_by_a_user(pod)
                await world.end_of(pod, node)
            return await written(program, folder / "log")


@pytest.mark.long
async def test_a_record_of_all_controllers_in_one_process_is_replayed_to_the_same_decisions(
    kubeconfig: Path, tmp_path: Path
) -> None:
    path = await lived(kubeconfig, tmp_path)
    assert_same(path, decisions=40, calls=10)
    decided = {line["what"] for line in lines_of(path)[1:] if line["kind"] == "decided"}
    parts = (
        "csi-attacher-va",
        "claims",
        "csi-snapshotter-content",
        "snapshot-controller-snapshot",
        "attachdetach-volumes",
        "nodelifecycle",
    )
    assert {*parts, "claims#2"} <= decided, "each decides"
    assert 2 == sum("-pvc" in name and name.startswith("csi-") for name in decided), "the resizer, for size and class"


@pytest.mark.long
async def test_a_record_of_several_controllers_that_was_cut_is_replayed(kubeconfig: Path, tmp_path: Path) -> None:
    assert_cut(await lived(kubeconfig, tmp_path, f"--flight-recorder-bytes={8 * CUT}", count=8))


async def test_a_record_of_one_process_without_a_driver_is_replayed_to_the_same_decisions(
    kubeconfig: Path, tmp_path: Path
) -> None:
    assert_same(
        await attached(kubeconfig, tmp_path, command=("controller", "--enable=attachdetach,nodehealth")), decisions=10
    )
