"""Deleting volumes, from the event to the last write: on in-process ports, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.apiserver.local import ServerFaults
from mooring.base.randomness import Random
from mooring.control.secrets import SecretCache
from mooring.control.topics import Bus
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.in_process import InProcessDriver
from mooring.csi.session import probe_and_identify
from mooring.kube.cache.informer import SILENCE_S_MAX
from mooring.kube.errors import ApiError, Conflict, Forbidden, ServerError, Unreachable
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.deletion.controller import FAILED_DELETE, VolumeDeletion
from mooring.sidecars.provisioner.environment import Environment, ProvisionerCaches
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.intent import STILL_OPEN
from mooring.sidecars.provisioner.options import NodeOptions, ProvisionerOptions
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_class, a_held_pv, a_pv, a_secret, a_va
from tests.support.cluster_world import ClusterWorld, HeldWatch, metric
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import DELETE, VolumeDriver

pytestmark = in_virtual_time
DELETE_PV, PATCH_PV, GET_SECRET = "delete persistentvolumes", "patch persistentvolumes", "get secrets"
GET_PV = "get persistentvolumes"
STEPS = [DELETE, DELETE_PV, PATCH_PV]
WHOLE = [GET_PV, *STEPS]
DRIVER = "csi.test"


class DeletionWorld(ClusterWorld):
    """Released volumes, and a provisioner that deletes them."""

    def __init__(self, driver: VolumeDriver | None = None, faults: ServerFaults | None = None, **options: Any) -> None:
        super().__init__(faults)
        self.driver = driver or VolumeDriver()
        self.driver.story = self.story
        self.options = ProvisionerOptions(**{"worker_threads": 4, **options})
        self.deletion: VolumeDeletion | None = None
        self.room: list[tuple[Any, ...]] = []
        self.bus = Bus()
        self.settled_uids: list[str] = []
        self.unsettled: list[ApiError] = []  # what keeps ends from being written down, one each time
        self.open_uid = ""  # of a claim whose intent stays open

    async def wait_for_end(self, uid: str) -> None:
        self.settled_uids.append(uid)
        if uid == self.open_uid:
            raise Conflict(STILL_OPEN)
        if self.unsettled:
            raise self.unsettled.pop(0)

    async def forget_stored(self, uid: str) -> None:
        """There is no second volume."""

    @contextlib.asynccontextmanager
    async def deleting(self, segments: Mapping[str, str] | None = None) -> AsyncIterator[VolumeDeletion]:
        port = InProcessDriver(self.driver, clock=self.clock)
        facts = capabilities_of(await probe_and_identify(port, clock=self.clock))
        caches = ProvisionerCaches(self.runtime, facts, self.options)
        secrets = SecretCache(self.cluster, self.clock)
        env = Environment(self.runtime, port, facts, self.options, caches, self.recorder, secrets, self.bus)
        self.bus.subscribe(topics.ROOM_FREED, lambda *places: self.room.append(places))
        if self.options.node is not None:
            caches.pretend_node(DRIVER, self.options.node.node_name, segments or {})
        self.deletion = VolumeDeletion(env, self)
        async with self.running_on(caches.shared, self.deletion.run):
            yield self.deletion

    async def released(
        self,
        name: str = "pv1",
        *,
        handle: str = "handle1",
        phase: str = "Released",
        policy: str = "Delete",
        finalizers: Iterable[str] = (names.VOLUME_FINALIZER,),
        protected: bool = True,
        secret: tuple[str, str] = ("", ""),
        **spec: Any,
    ) -> None:
        """A PersistentVolume as the provisioner wrote it, with its claim gone."""
        notes = {
            names.PROVISIONED_BY: DRIVER,
            names.DELETION_SECRET_NAME: secret[0],
            names.DELETION_SECRET_NAMESPACE: secret[1],
        }
        more = {"persistentVolumeReclaimPolicy": policy, "storageClassName": "sc", **spec}
        await self.create(a_held_pv(name, handle, finalizers=finalizers, annotations=notes, spec=more))
        held = [*(["kubernetes.io/pv-protection"] if protected else []), *finalizers]
        await self.patch(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": held or None}})
        if phase:
            await self.to_phase(phase, name)
        self.driver.volumes.setdefault(handle, 1)

    async def base(self, *args: Any, **how: Any) -> DeletionWorld:
        """One such volume."""
        await self.released(*args, **how)
        return self

    async def to_phase(self, phase: str, name: str = "pv1") -> None:
        await self.patch(PERSISTENT_VOLUMES, name, {"status": {"phase": phase}}, subresource="status")

    async def only_protection_left(self, name: str = "pv1") -> None:
        async def holds() -> bool:
            meta = (await self.get(PERSISTENT_VOLUMES, name))["metadata"]
            return "deletionTimestamp" in meta and meta["finalizers"] == ["kubernetes.io/pv-protection"]

        await self.until(holds)

    async def failures(self, name: str = "pv1") -> list[str]:
        return [message for _, reason, message, _ in await self.events(name) if reason == FAILED_DELETE]


@pytest.fixture
async def world() -> DeletionWorld:
    return await DeletionWorld().base()


async def test_P74_the_volume_then_the_object_then_the_finalizer(world: DeletionWorld):
    async with world.deleting():
        await world.only_protection_left()
        await world.settle()
    assert WHOLE == world.story
    assert {} == world.driver.volumes
    assert [()] == world.room
    assert 1 == metric(world.metrics, "controller_persistentvolume_delete_total", **{"class": "sc"})
    assert 1 == metric(world.metrics, "controller_persistentvolume_delete_duration_seconds_count", **{"class": "sc"})


async def test_a_volume_that_two_objects_name_is_deleted_with_the_last_of_them(world: DeletionWorld):
    """Each object goes with its claim; the driver has given both of them one volume."""
    await world.released("pv2", phase="Bound")
    async with world.deleting():
        await world.only_protection_left()
        await world.settle(7200)
        assert [] == world.driver.made(DELETE)
        await world.to_phase("Released", "pv2")
        await world.only_protection_left("pv2")
    assert {} == world.driver.volumes


async def test_a_volume_of_many_objects_is_left_to_them_after_a_look_at_one(world: DeletionWorld):
    """All claims of an image, or of a path, have one volume."""
    for number in range(30):
        await world.released(f"other{number}", phase="Bound")
    async with world.deleting():
        await world.only_protection_left()
        await world.settle()
    assert [GET_PV, GET_PV, DELETE_PV, PATCH_PV] == world.story


async def test_many_objects_of_one_volume_go_at_once_without_a_look_of_each_at_each():
    world, many = DeletionWorld(), range(40)
    for number in many:
        await world.released(f"pv{number}")
    async with world.deleting():
        for number in many:
            await world.only_protection_left(f"pv{number}")
    assert {} == world.driver.volumes
    assert 5 * len(many) > world.story.count(GET_PV)


async def test_a_volume_that_one_of_many_objects_keeps_by_now_stays_though_its_watch_hangs():
    watch = HeldWatch("persistentvolumes")
    world = await DeletionWorld(faults=watch).base()
    for number in range(30):
        await world.released(f"other{number}", claimRef={"name": "claim", "namespace": "ns", "uid": "open"})
    world.open_uid = "open"  # they wait for their intent, so that their own deletion does not read them
    world.driver.always(DELETE, Fail(Code.INTERNAL, "no"))
    async with world.deleting():
        await world.settle(10)
        watch.hold()
        await world.patch(PERSISTENT_VOLUMES, "other7", {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        asked = len(world.driver.made(DELETE))
        world.driver.forget_scripts()
        await world.settle(600)
        assert asked == len(world.driver.made(DELETE))
    assert world.driver.volumes


async def test_a_volume_whose_other_object_is_gone_by_now_is_deleted():
    """The watch hangs, and shows that one still."""
    watch = HeldWatch("persistentvolumes")
    world = await DeletionWorld(faults=watch).base(phase="Bound")
    await world.create(a_pv("imported", "handle1", phase="Available", persistentVolumeReclaimPolicy="Retain"))
    async with world.deleting():
        await world.settle(1)
        await world.patch(PERSISTENT_VOLUMES, "pv1", {"status": {"phase": "Released"}}, subresource="status")
        watch.hold()
        await world.patch(PERSISTENT_VOLUMES, "imported", {"metadata": {"finalizers": None}})
        await world.delete(PERSISTENT_VOLUMES, "imported")
        await world.only_protection_left()
    assert {} == world.driver.volumes


@each_row("seed", range(20))
async def test_P74_each_is_deleted_exactly_once_whatever_the_watch_shows_first(seed: int):
    """The peer often calls DeleteVolume twice: it sees its own DELETE before its own PATCH."""

    luck = Random(seed)

    class Slow(ServerFaults):
        async def after(self, verb: str, kind: Any, name: str) -> None:
            await asyncio.sleep(luck.uniform(0, 0.1))

        async def deliver(self, kind: Any, event: Any) -> None:
            await asyncio.sleep(luck.uniform(0, 0.05))

    world = DeletionWorld(faults=Slow())
    for number in range(6):
        finalizers = (names.VOLUME_FINALIZER,) if number < 4 else ()
        await world.released(f"pv{number}", handle=f"h{number}", protected=number % 2 == 0, finalizers=finalizers)
    async with world.deleting():
        await world.until(lambda: _all_deleted(world))
        await world.settle(5)
    assert {GET_PV: 6, DELETE: 6, DELETE_PV: 6, PATCH_PV: 4} == {step: world.story.count(step) for step in world.story}


async def _all_deleted(world: DeletionWorld) -> bool:
    left = await world.list(PERSISTENT_VOLUMES)
    return all(
        pv["metadata"].get("finalizers") == ["kubernetes.io/pv-protection"] and "deletionTimestamp" in pv["metadata"]
        for pv in left
    )


async def test_P74_a_release_while_it_runs():
    world = await DeletionWorld().base(phase="Bound")
    async with world.deleting():
        await world.settle(2000)
        assert [] == world.story
        await world.to_phase("Released")
        await world.only_protection_left()
    assert WHOLE == world.story


async def test_P74_patches_lose_nobody_elses_finalizer():
    world = await DeletionWorld().base(protected=False)
    gate = world.driver.gate(DELETE)
    async with world.deleting():
        await world.until(lambda: _called(world))
        await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": [names.VOLUME_FINALIZER, "kit/late"]}})
        gate.set()
        await world.settle()
        assert ["kit/late"] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
    assert WHOLE == world.story


async def _called(world: DeletionWorld) -> bool:
    return bool(world.driver.made(DELETE))


async def test_P75_retain_costs_one_patch():
    world = await DeletionWorld().base(policy="Retain")
    async with world.deleting():
        await world.settle()
        pv = await world.get(PERSISTENT_VOLUMES, "pv1")
    assert [PATCH_PV] == world.story
    assert ["kubernetes.io/pv-protection"] == pv["metadata"]["finalizers"]
    assert "deletionTimestamp" not in pv["metadata"]


async def test_P76_27c2_told_now_and_then_and_woken_by_the_end_of_the_attachment():
    world = await DeletionWorld(VolumeDriver(controller=[RPC.PUBLISH_UNPUBLISH_VOLUME])).base()
    for node in ("n1", "n2"):
        await world.create(a_va(f"va-{node}", "pv1", node))
    async with world.deleting():
        await world.settle(2000)
        assert [] == world.story
        await world.delete(VOLUME_ATTACHMENTS, "va-n1")
        await world.settle()
        assert [] == world.story
        assert ["persistentvolume pv1 is still attached to node n1"] == await world.failures()
        assert [4] == [count for *_, count in await world.events("pv1")]
        await world.settle(3600)
        told = {message[-2:]: count for _, _, message, count in await world.events("pv1")}
        assert {"n2": 6} == told, "told again before nobody can read it any more; nobody reads any more what is over"
        await world.delete(VOLUME_ATTACHMENTS, "va-n2")
        await world.settle(0.1)
        assert WHOLE == world.story
    assert 10 == metric(world.metrics, "controller_persistentvolume_delete_failed_total", **{"class": "sc"})


class Deaf(ServerFaults):
    """Attachments are listed once, and from then on their watch shows nothing until `hears`. refusing: nor can they be
    listed.
    """

    def __init__(self, refusing: ApiError | None = None) -> None:
        self.refusing, self.hears = refusing, asyncio.Event()
        self.listed_count = 0

    async def before(self, verb: str, kind: Any, name: str) -> None:
        if kind is VOLUME_ATTACHMENTS and verb == "list":
            self.listed_count += 1
            if self.refusing is not None and self.listed_count > 1:
                raise self.refusing

    async def deliver(self, kind: Any, event: Any) -> None:
        if kind is VOLUME_ATTACHMENTS:
            await self.hears.wait()


async def test_P76_an_attachment_that_a_silent_watch_hides_is_looked_up():
    deaf = Deaf()
    world = DeletionWorld(VolumeDriver(controller=[RPC.PUBLISH_UNPUBLISH_VOLUME]), deaf)
    for number in range(4):
        await world.released(f"pv{number}", handle=f"h{number}", phase="Bound")
    async with world.deleting():
        await world.settle(SILENCE_S_MAX + 1)
        await world.create(a_va("va", "pv1", "n1"))
        for number in range(4):
            await world.to_phase("Released", f"pv{number}")
        await world.settle(20)
        assert {"h1"} == set(world.driver.volumes)
        assert ["persistentvolume pv1 is still attached to node n1"] == await world.failures("pv1")
        assert 2 == deaf.listed_count, "one list for all who ask at once"
        await world.delete(VOLUME_ATTACHMENTS, "va")
        deaf.hears.set()
        await world.only_protection_left("pv1")
    assert {} == world.driver.volumes


async def test_P76_without_a_look_at_the_attachments_nothing_is_deleted():
    world = await DeletionWorld(
        VolumeDriver(controller=[RPC.PUBLISH_UNPUBLISH_VOLUME]), Deaf(Forbidden("no", reason="Forbidden"))
    ).base(phase="Bound")
    async with world.deleting():
        await world.settle(SILENCE_S_MAX + 1)
        await world.to_phase("Released")
        await world.settle(100)
        assert ["failed to list volumeattachments: no"] == await world.failures()
    assert 0 == world.story.count(DELETE)


async def test_P76_a_watch_that_is_heard_of_is_believed():
    deaf = Deaf()
    deaf.hears.set()
    world = await DeletionWorld(VolumeDriver(controller=[RPC.PUBLISH_UNPUBLISH_VOLUME]), deaf).base(phase="Bound")
    async with world.deleting():
        await world.settle(5000)
        listed_count = deaf.listed_count
        await world.to_phase("Released")
        await world.only_protection_left()
    assert listed_count == deaf.listed_count


async def test_P77_the_secrets_values_go_to_the_driver():
    world = DeletionWorld()
    await world.create(a_secret("s", {"a": "Yg=="}, namespace="ns"))
    await world.released(secret=("s", "ns"))
    async with world.deleting():
        await world.only_protection_left()
    assert [GET_PV, GET_SECRET, *STEPS] == world.story
    assert {"a": "b"} == dict(world.driver.made(DELETE)[0].request.secrets)


async def test_P77_a_secret_that_is_gone_holds_nothing_up():
    world = DeletionWorld()
    await world.released(secret=("s", "ns"))
    async with world.deleting():
        await world.only_protection_left()
    assert [GET_PV, GET_SECRET, *STEPS] == world.story
    assert {} == dict(world.driver.made(DELETE)[0].request.secrets)


@each_row("error", [ServerError("no"), Forbidden("no", reason="Forbidden")])
async def test_P77_a_secret_that_can_not_be_read_just_now_is_read_again(error: ApiError):
    """Differs from the peer, which would then call the driver without credentials: in its own account that finds
    nothing to be deleted.
    """
    world = DeletionWorld()
    await world.create(a_secret("s", {"a": "Yg=="}, namespace="ns"))
    world.cluster.refuse(GET_SECRET, error=error)
    await world.released(secret=("s", "ns"))
    async with world.deleting():
        await world.only_protection_left()
        assert ["error getting secret s in namespace ns: no"] == await world.failures()
    assert [GET_PV, GET_SECRET, GET_PV, GET_SECRET, *STEPS] == world.story
    assert {"a": "b"} == dict(world.driver.made(DELETE)[0].request.secrets)


async def test_P81_what_is_not_found_without_its_secret_may_be_there():
    """Claim and Secret went with their namespace. Strangers are told that there is no such volume."""
    world = DeletionWorld()
    world.driver.always(DELETE, lambda request: None if request.secrets else Fail(Code.NOT_FOUND, "no such volume"))
    await world.released(secret=("s", "ns"))
    async with world.deleting():
        await world.settle(100)
        told = "rpc error: code = NotFound desc = no such volume; it was called without the secret s of namespace ns"
        assert [told] == await world.failures()
        assert world.driver.volumes
        await world.create(a_secret("s", {"a": "Yg=="}, namespace="ns"))
        await world.only_protection_left()
    assert {} == world.driver.volumes


async def test_P81_what_is_not_found_while_nobody_can_say_whether_there_is_a_secret_may_be_there():
    """No Secret is noted on the object, and its class, which might name one, is being made anew."""
    world = DeletionWorld()
    world.driver.always(DELETE, lambda request: None if request.secrets else Fail(Code.NOT_FOUND, "no such volume"))
    await world.create(a_secret("s", {"a": "Yg=="}, namespace="ns"))
    await world.released(claimRef={"namespace": "ns", "name": "c", "uid": "u"})
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"annotations": {names.DELETION_SECRET_NAME: None}}})
    async with world.deleting():
        await world.settle(100)
        assert [
            (
                "rpc error: code = NotFound desc = no such volume; it was called without the class sc, which may "
                "name a secret"
            )
        ] == (await world.failures())
        assert world.driver.volumes
        parameters = {
            "csi.storage.k8s.io/provisioner-secret-name": "s",
            "csi.storage.k8s.io/provisioner-secret-namespace": "ns",
        }
        await world.create(a_class(parameters=parameters))
        await world.only_protection_left()
    assert {} == world.driver.volumes


async def test_P78_the_return_of_the_class_wakes_what_its_templates_held_up():
    world = DeletionWorld()
    parameters = {
        "csi.storage.k8s.io/provisioner-secret-name": "${pvc.annotations['team']}",
        "csi.storage.k8s.io/provisioner-secret-namespace": "ns",
    }
    await world.create(a_class(parameters=parameters))
    await world.released(claimRef={"namespace": "ns", "name": "c", "uid": "u"})
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"annotations": {names.DELETION_SECRET_NAME: None}}})
    async with world.deleting():
        await world.settle(1000)
        assert [] == world.story
        assert 1 == len(await world.failures())
        await world.delete(STORAGE_CLASSES, "sc")
        await world.settle(0.1)
        assert WHOLE == world.story


async def test_P79_a_static_volume_gets_the_finalizer():
    world = await DeletionWorld().base(phase="Bound", finalizers=())
    async with world.deleting():
        await world.settle()
        finalizers = (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
    assert [PATCH_PV] == world.story
    assert {names.VOLUME_FINALIZER, "kubernetes.io/pv-protection"} == set(finalizers)


async def test_P79_a_release_that_only_the_answer_to_our_patch_shows_is_seen():
    class Late(ServerFaults):
        async def before(self, verb: str, kind: Any, name: str) -> None:
            if verb == "patch":
                await world.to_phase("Released")

        async def deliver(self, kind: Any, event: Any) -> None:
            await asyncio.sleep(50)

    world = await DeletionWorld(faults=Late()).base(phase="Bound", finalizers=())
    async with world.deleting():
        await world.settle(2)
    assert [PATCH_PV, *WHOLE] == world.story


async def test_P80_whatever_the_order_of_deletion_the_volume_goes_after_its_release():
    world = await DeletionWorld().base(phase="Bound")
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    async with world.deleting():
        await world.settle(100)
        assert [] == world.story
        await world.to_phase("Released")
        await world.only_protection_left()
    assert [GET_PV, DELETE, PATCH_PV] == world.story, "its deletion has been asked for by the user"


@each_row("code", [code for code in Code if code not in (Code.OK, Code.NOT_FOUND)])
async def test_P81_every_code_is_told_and_tried_again_later_and_later(code: Code):
    world = await DeletionWorld(retry_interval_start_s=1.0, retry_interval_max_s=3.0).base()
    world.driver.script(DELETE, *[Fail(code, "busy")] * 4)
    async with world.deleting():
        await world.only_protection_left()
        [(_, _, message, count)] = await world.events("pv1")
    calls = [call.started_s for call in world.driver.made(DELETE)]
    gaps = [after - before for before, after in itertools.pairwise(calls)]
    assert [1, 2, 3, 3] == [round(gap) for gap in gaps]
    assert (4, "busy") == (count, message[-4:])
    assert message.startswith("rpc error: code = ")
    assert 4 == metric(world.metrics, "controller_persistentvolume_delete_failed_total", **{"class": "sc"})


@each_row("change", [{"persistentVolumeReclaimPolicy": "Retain"}, {"claimRef": None}])
async def test_P75_a_volume_that_is_kept_by_now_stays_though_its_watch_hangs(change: dict[str, Any]):
    watch = HeldWatch("persistentvolumes")
    world = await DeletionWorld(faults=watch).base()
    world.driver.script(DELETE, Fail(Code.INTERNAL, "no"))
    async with world.deleting():
        await world.settle(0.5)
        assert 1 == len(world.driver.made(DELETE))
        watch.hold()
        await world.patch(PERSISTENT_VOLUMES, "pv1", {"spec": change})
        await world.to_phase("Released" if "claimRef" not in change else "Available")
        await world.settle(600)
    assert 1 == len(world.driver.made(DELETE))


async def test_P75_a_volume_that_another_object_keeps_by_now_stays_though_its_watch_hangs():
    """Two objects of one volume, both to be deleted with it, and one of them is retained by now. That one waits for
    its intent, so that its own deletion does not read it.
    """
    watch = HeldWatch("persistentvolumes")
    world = await DeletionWorld(faults=watch).base()
    await world.released("pv2", claimRef={"name": "claim2", "namespace": "ns", "uid": "open"})
    world.open_uid = "open"
    world.driver.always(DELETE, Fail(Code.INTERNAL, "no"))
    async with world.deleting():
        await world.settle(10)
        watch.hold()
        await world.patch(PERSISTENT_VOLUMES, "pv2", {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        asked = len(world.driver.made(DELETE))
        world.driver.forget_scripts()
        await world.settle(600)
        assert asked == len(world.driver.made(DELETE))
    assert world.driver.volumes


async def test_P75_a_volume_that_was_imported_meanwhile_stays_though_its_watch_has_been_silent_for_long():
    watch = HeldWatch("persistentvolumes")
    world = await DeletionWorld(faults=watch).base()
    world.driver.always(DELETE, Fail(Code.INTERNAL, "no"))
    async with world.deleting():
        await world.settle(1)
        watch.hold()
        await world.create(a_pv("imported", "handle1", phase="Available", persistentVolumeReclaimPolicy="Retain"))
        await world.settle(200)
        asked = len(world.driver.made(DELETE))
        world.driver.forget_scripts()
        await world.settle(1000)
        assert asked == len(world.driver.made(DELETE))
    assert world.driver.volumes


async def test_P81_not_found_is_an_error(world: DeletionWorld):
    """CSI asks for OK where the volume is gone: NotFound may be about an account, or an id that does not parse."""
    world.driver.always(DELETE, Fail(Code.NOT_FOUND, "no such account"))
    async with world.deleting():
        await world.settle(100)
        assert ["rpc error: code = NotFound desc = no such account"] == await world.failures()
        assert world.driver.volumes
        world.driver.forget_scripts()
        await world.only_protection_left()
    assert {} == world.driver.volumes


async def test_P81_no_answer_in_time_is_a_failure_to_be_tried_again():
    world = await DeletionWorld(timeout_s=5.0).base()
    world.driver.script(DELETE, Wait(60))
    async with world.deleting():
        await world.only_protection_left()
        assert ["rpc error: code = DeadlineExceeded desc = context deadline exceeded"] == await world.failures()
    assert [GET_PV, DELETE, *WHOLE] == world.story


async def test_P81_what_is_torn_away_is_let_go(world: DeletionWorld):
    world.driver.always(DELETE, Fail(Code.INTERNAL))
    async with world.deleting():
        await world.until(lambda: _called(world))
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": None}})
        await world.settle(0.1)
        done = len(world.driver.calls)
        await world.settle(1000)
        assert done == len(world.driver.calls)


@each_row(
    ("short", "error"),
    [
        (DELETE_PV, ServerError("busy")),
        (PATCH_PV, ServerError("busy")),
        (DELETE_PV, Unreachable("cut")),
        (PATCH_PV, Unreachable("cut")),
    ],
)
@each_row("lost", [False, True], ids=["refused", "answer lost"])
async def test_P81_a_write_that_fails_is_made_again_without_a_second_call(short: str, error: Exception, lost: bool):
    world = await DeletionWorld().base()
    world.cluster.refuse(short, error=error, after=lost)  # type: ignore[arg-type]
    async with world.deleting():
        await world.only_protection_left()
        await world.settle(50)
    assert 1 == world.story.count(DELETE)


@each_row("short", [DELETE_PV, PATCH_PV])
@each_row("lost", [False, True], ids=["refused", "answer lost"])
@each_row("protected", [False, True])
async def test_P81_a_volume_counts_as_deleted_once_though_its_object_goes_later(
    short: str, lost: bool, protected: bool
):
    world = await DeletionWorld().base(protected=protected)
    world.cluster.refuse(short, error=ServerError("busy"), after=lost)
    async with world.deleting():
        await world.settle(50)
    assert [()] == world.room
    assert 1 == metric(world.metrics, "controller_persistentvolume_delete_total", **{"class": "sc"})
    assert 1 == metric(world.metrics, "controller_persistentvolume_delete_duration_seconds_count", **{"class": "sc"})


CLAIM_REF = {"namespace": "ns", "name": "c", "uid": "u"}


@each_row("policy", ["Delete", "Retain"])
async def test_P74_a_volume_is_let_go_once_its_creation_is_written_off(policy: str):
    world = await DeletionWorld().base(policy=policy, claimRef=CLAIM_REF)
    world.unsettled = [Forbidden("leases are forbidden", reason="Forbidden")]
    async with world.deleting():
        await world.settle(0.1)
        assert [] == world.story
        assert [
            "could not write down that the volume's creation is over: leases are forbidden"
        ] == await world.failures()
        await world.settle(10)
    assert {"Delete": WHOLE, "Retain": [PATCH_PV]}[policy] == world.story
    assert {"u"} == set(world.settled_uids)


@each_row("error", [ServerError("busy"), Unreachable("cut"), Conflict(STILL_OPEN)])
async def test_P81_what_passes_by_itself_is_told_when_it_lasts(error: ApiError):
    world = await DeletionWorld(retry_interval_start_s=1.0, retry_interval_max_s=1.0).base(claimRef=CLAIM_REF)
    world.unsettled = [error] * 10
    async with world.deleting():
        await world.settle(3)
        assert [] == await world.failures()
        await world.settle(5)
        assert [f"could not write down that the volume's creation is over: {error}"] == await world.failures()
        await world.only_protection_left()


async def test_P74_a_creation_that_is_over_at_last_ends_the_wait():
    world = await DeletionWorld(retry_interval_start_s=100.0).base(claimRef=CLAIM_REF)
    world.unsettled = [Conflict(STILL_OPEN)]
    async with world.deleting():
        await world.settle()
        assert [] == world.story
        world.bus.tell(topics.INTENT_CLOSED, "pv1")
        await world.settle()
    assert WHOLE == world.story


async def test_P81_a_finalizer_that_can_not_be_taken_off_is_told_of():
    """Else the object is Terminating for ever, and nobody knows why."""
    world = await DeletionWorld().base(policy="Retain")
    world.cluster.refuse(PATCH_PV, times=8, error=Forbidden("no", reason="Forbidden"))
    async with world.deleting():
        await world.settle(100)
        assert ["could not save the finalizers of the PersistentVolume: no"] == await world.failures()


async def test_P79_a_static_volume_has_no_creation_to_be_written_off():
    world = await DeletionWorld().base(claimRef=CLAIM_REF)
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"annotations": {names.PROVISIONED_BY: None}}})
    world.unsettled = [Forbidden("no", reason="Forbidden")] * 10
    async with world.deleting():
        await world.only_protection_left()
    assert [] == world.settled_uids
    assert WHOLE == world.story


async def test_P81_another_object_under_the_name_is_left_alone(world: DeletionWorld):
    gate = world.driver.gate(DELETE)
    async with world.deleting():
        await world.settle(1)
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": None}})
        await world.released(handle="other", phase="Bound")
        gate.set()
        await world.settle(100)
    meta = (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]
    assert "deletionTimestamp" not in meta
    assert names.VOLUME_FINALIZER in meta["finalizers"]


async def test_P81_a_conflict_with_somebodys_write_is_tried_again(world: DeletionWorld):
    """Else the object would stay for ever, and its volume is gone."""
    world.cluster.refuse(DELETE_PV, error=Conflict("the object has been modified", reason="Conflict"))
    world.cluster.refuse(PATCH_PV, error=Conflict("the object has been modified", reason="Conflict"))
    async with world.deleting():
        await world.only_protection_left()
    assert 1 == world.story.count(DELETE)


async def test_P81_a_volume_that_is_to_be_kept_at_the_last_moment_is_kept():
    """The secret takes its time; meanwhile somebody changes the policy."""

    class SlowSecrets(ServerFaults):
        async def before(self, verb: str, kind: Any, name: str) -> None:
            if (verb, kind.plural) == ("get", "secrets"):
                await asyncio.sleep(5)

    world = await DeletionWorld(faults=SlowSecrets()).base(secret=("s", "default"))
    async with world.deleting():
        await world.settle(1)
        await world.patch(PERSISTENT_VOLUMES, "pv1", {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await world.settle(100)
    assert 0 == world.story.count(DELETE)


async def test_P81_the_drivers_return_ends_the_back_off():
    world = await DeletionWorld(retry_interval_start_s=100.0).base()
    world.driver.script(DELETE, Fail(Code.UNAVAILABLE, unsent=True))
    async with world.deleting() as deletion:
        await world.settle(1)
        deletion.driver_returned()
        await world.settle(1)
    assert [GET_PV, DELETE, *WHOLE] == world.story


async def test_P81_a_driver_that_can_not_delete_is_told_of_once():
    world = DeletionWorld()
    world.driver.controller = (RPC.LIST_VOLUMES,)
    await world.released()
    async with world.deleting():
        await world.settle(2000)
        [message] = await world.failures()
    assert "CREATE_DELETE_VOLUME capability is not reported" in message
    assert [] == world.story


async def test_P90_a_nodes_instance_deletes_what_is_there():
    world = DeletionWorld(node=NodeOptions(node_name="n1"))
    for name in ("n1", "n2"):
        term = {"matchExpressions": [{"key": "host", "operator": "In", "values": [name]}]}
        await world.released(f"pv-{name}", handle=name, nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    async with world.deleting({"host": "n1"}):
        await world.only_protection_left("pv-n1")
        await world.settle(1000)
    assert ["n2"] == list(world.driver.volumes)


async def test_P91_drained_work_ends_and_is_stored(world: DeletionWorld):
    await world.released("pv2", handle="h2", phase="Bound")
    world.driver.script(DELETE, Wait(5))
    async with world.deleting() as deletion:
        await world.until(lambda: _called(world))
        await world.to_phase("Released", "pv2")
        assert await deletion.drain(20)
    assert WHOLE == world.story


async def test_P91_a_drain_has_its_limit(world: DeletionWorld):
    world.driver.script(DELETE, Wait(9))
    async with world.deleting() as deletion:
        await world.until(lambda: _called(world))
        assert not await deletion.drain(1)


async def test_P74_a_slow_volume_holds_up_no_other():
    world = DeletionWorld()
    world.driver.always(DELETE, lambda request: Wait(9) if request.volume_id == "slow" else None)
    await world.released("slow", handle="slow")
    await world.released("quick", handle="quick")
    async with world.deleting():
        await world.only_protection_left("quick")
        assert world.clock.now() < 5
