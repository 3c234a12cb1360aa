"""Bad input, from users, administrators and drivers: the claim tells what is wrong, and nothing is lost or left
behind.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS
from mooring.api.snapshot import GROUP, VOLUME_SNAPSHOTS
from mooring.api.storage import STORAGE_CLASSES
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import BadRequest, Invalid, ServerError
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.intents.journal import Intents, Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.model.intent import ClaimIntents
from mooring.sidecars.provisioner.options import Rules
from mooring.wire.grpc.codes import Code
from tests.support.binding import Forbids
from tests.support.builders import a_content, a_pv, a_secret, a_snapshot
from tests.support.provisioning import (
    CLAIMS,
    CREATE,
    DELETE,
    DRIVER,
    PVS,
    AnsweringDriver,
    GiB,
    ProvisioningWorld,
    an_answer,
)
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import VolumeDriver

pytestmark = in_virtual_time
PREFIX = "csi.storage.k8s.io/"
SECRET = {f"{PREFIX}provisioner-secret-name": "s", f"{PREFIX}provisioner-secret-namespace": "default"}
MESSAGE_BYTES_MAX = 1024


def a_world(driver: AnsweringDriver | None = None, **rules: Any) -> ProvisioningWorld:
    """With durable intents."""
    world = ProvisioningWorld(driver, rules=Rules(**rules))
    world.intents = Journal(world.users, JournalLocation("default", DRIVER), "me", world.clock)
    return world


async def nothing_is_left(world: ProvisioningWorld) -> None:
    """What the backend has is what the cluster has, no call may be under way, and no event is longer than events may
    be.
    """
    await world.settle(20)
    leases = await world.list(LEASES)
    assert [] == [intent for lease in leases for intent in lease_codec.entries_of(lease)], "an intent is open"
    handles = [pv["spec"]["csi"]["volumeHandle"] for pv in await world.list(PVS)]
    assert sorted(world.driver.volumes) == sorted(handles)
    assert all(len(event["message"].encode()) <= MESSAGE_BYTES_MAX for event in await world.list(EVENTS))


async def refused(world: ProvisioningWorld, text: str, *, calls: int = 0) -> None:
    """The claim says so; the driver was asked so often. Without the claim, and without all else, it is over."""
    async with world.provisioning():
        await world.failed(text)
        await world.settle(0.05)
        assert calls == len(world.driver.made(CREATE))
        assert [] == await world.list(PVS)
        await world.delete_claim()
        await nothing_is_left(world)
        assert {} == world.driver.volumes


# -- classes


@each_row(
    ("parameters", "text"),
    [
        ({f"{PREFIX}unknown": "x"}, f'unknown parameter key "{PREFIX}unknown"'),
        ({"fstype": "xfs", f"{PREFIX}fstype": "xfs"}, "fstype specified in parameters with both"),
        ({"fstype": "xfs", "FsType": "xfs"}, "fstype specified in parameters with both"),
        ({f"{PREFIX}provisioner-secret-name": "s"}, "Both must be specified"),
        ({**SECRET, f"{PREFIX}provisioner-secret-name": ""}, "value of either namespace or name is empty"),
        ({**SECRET, f"{PREFIX}provisioner-secret-name": "${pvc.uid}"}, 'invalid tokens: ["pvc.uid"]'),
        ({**SECRET, f"{PREFIX}provisioner-secret-name": "${pvc.annotations['a']}"}, "invalid tokens"),
        ({**SECRET, f"{PREFIX}provisioner-secret-name": "${"}, "is not a valid secret name"),
        ({**SECRET, f"{PREFIX}provisioner-secret-name": "$$"}, 'invalid tokens: ["$"]'),
        ({**SECRET, f"{PREFIX}provisioner-secret-name": "../../s"}, "is not a valid secret name"),
        ({**SECRET, f"{PREFIX}provisioner-secret-namespace": "kube system"}, "is not a valid namespace name"),
        ({**SECRET, f"{PREFIX}provisioner-secret-name": "n" * 5000}, "is not a valid secret name"),
        (
            {f"{PREFIX}node-stage-secret-name": "$" * 3000, f"{PREFIX}node-stage-secret-namespace": "default"},
            "invalid tokens",
        ),
    ],
)
async def test_classes_that_say_nonsense(parameters: Mapping[str, str], text: str):
    await refused(await a_world().base(parameters), shown(text, parameters))


def shown(text: str, parameters: Mapping[str, str]) -> str:
    """What of the text is left of an event that is cut."""
    return "" if any(len(value) > MESSAGE_BYTES_MAX // 2 for value in parameters.values()) else text


@each_row(
    ("data", "text"),
    [(None, 'secrets "s" not found'), ({"k": base64.b64encode(b"\xff\xfe").decode()}, "UTF-8")],
    ids=["missing", "not-text"],
)
async def test_secrets_that_can_not_be_used(data: Mapping[str, str] | None, text: str):
    world = await a_world().base(SECRET)
    if data is not None:
        await world.create(a_secret("s", data))
    await refused(world, text)


@each_row("prefix", ["p" * 300, "Bad_Prefix", "-", "a..b", "volume of"])
async def test_volumes_names_that_no_object_can_have(prefix: str):
    await refused(await a_world(volume_name_prefix=prefix).base(), "volume-name-prefix")


# -- claims


@each_row("size", ["16Ei", "9223372036854775808", "1e30", "1e400", "1e99999999"])
async def test_sizes_that_no_driver_can_be_asked_for(size: str):
    """What the API server lets through, it may have made smaller; then the driver says no."""
    world = a_world()
    world.driver.maximum_volume_size = 2**62
    await world.make_class()
    try:
        made = await world.make_claim(size=size)
    except (BadRequest, Invalid):
        return
    if made["spec"]["resources"]["requests"]["storage"] == str(2**63 - 1):
        return
    await refused(world, "bytes can't be asked for")


@each_row("size", ["0", "-1Gi", "nothing"])
async def test_sizes_that_the_api_server_refuses(size: str):
    world = a_world()
    await world.make_class()
    with pytest.raises((BadRequest, Invalid)):
        await world.make_claim(size=size)


async def test_names_as_long_as_they_may_be():
    """Of the claim, its class and its annotations: the event gets through."""
    name, sc = "c" * 253, "s" * 253
    world = a_world()
    await world.make_class({f"{PREFIX}nonsense": "x"}, name=sc)
    await world.make_claim(name, sc)
    async with world.provisioning():
        assert "nonsense" in await world.failed(name=name)


# -- places


async def test_a_topology_that_fits_nothing():
    world = a_world(AnsweringDriver(topology={}), strict_topology=True)
    allowed = [{"matchLabelExpressions": [{"key": "zone", "values": ["mars"]}]}]
    await world.make_class(binding="WaitForFirstConsumer", allowedTopologies=allowed)
    await world.make_node("n1", "a")
    await world.make_claim(node="n1")
    await refused(world, "is not in allowed topologies")


async def test_no_node_has_the_driver():
    await refused(await a_world(AnsweringDriver(topology={})).base(), "no available topology found")


# -- answers of drivers


def answering(
    *answers: csi.CreateVolumeResponse, topology: bool = False, controller: tuple[int, ...] = ()
) -> ProvisioningWorld:
    driver = AnsweringDriver(controller=controller, topology={} if topology else None)
    driver.answers += answers
    return a_world(driver)


@each_row(
    ("answer", "text", "deleted"),
    [
        (csi.CreateVolumeResponse(), "has no volume", 0),
        (an_answer(volume_id=""), "has no volume_id", 0),
        (an_answer(capacity_bytes=GiB - 1), f"created volume capacity {GiB - 1} less than requested capacity {GiB}", 1),
        (an_answer(capacity_bytes=-5), "must be greater than zero]. Volume pvc-", 1),
    ],
    ids=["nil", "no-id", "smaller", "negative"],
)
async def test_answers_that_make_no_volume(answer: csi.CreateVolumeResponse, text: str, deleted: int):
    world = await answering(answer).base()
    async with world.provisioning():
        await world.failed(text)
        await world.settle(0.05)
        assert (1, deleted) == (len(world.driver.made(CREATE)), len(world.driver.made(DELETE)))
        assert [] == await world.list(PVS)
        await world.settle(400)  # the next answer is a good one
        await world.provisioned()
        await nothing_is_left(world)


@each_row("segments", [{"zone": "mars"}, {"rack": "r1", "zone": "mars"}, {"zone": "b"}])
async def test_a_volume_in_a_place_that_nobody_asked_for_is_taken_as_it_is(
    segments: Mapping[str, str], capsys: pytest.CaptureFixture[str]
):
    """The backend had no room there (cinder), or has had the volume for long: its pod is placed by its affinity."""
    world = answering(an_answer(capacity_bytes=GiB, accessible_topology=[{"segments": segments}]), topology=True)
    await world.make_node("n1", "a")
    await world.base()
    async with world.provisioning():
        pv = await world.provisioned()
    assert "vol-x" == pv["spec"]["csi"]["volumeHandle"]
    (term,) = pv["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert segments == {one["key"]: one["values"][0] for one in term["matchExpressions"]}
    assert [] == world.driver.made(DELETE)
    assert 'it was asked for where \\"zone\\" = \\"a\\"' in capsys.readouterr().err


@each_row(
    ("segments", "error"),
    [({"zone": "v" * 300}, "must be no more than 63"), ({"not a key!": "a"}, "key: Invalid value")],
)
async def test_a_volume_in_a_place_that_can_not_be_stored(segments: Mapping[str, str], error: str):
    world = answering(an_answer(capacity_bytes=GiB, accessible_topology=[{"segments": segments}]), topology=True)
    await world.make_node("n1", "a")
    await world.base()
    async with world.provisioning():
        assert error in await world.failed()
        await world.settle(0.05)
        assert (1, 1) == (len(world.driver.made(CREATE)), len(world.driver.made(DELETE)))
        world.driver.topology = {"zone": "a"}
        await world.settle(400)
        await world.provisioned()
        await nothing_is_left(world)


async def test_a_volume_whose_place_is_told_under_another_key_is_taken():
    """A driver may have two keys for a place, and be asked under the one and answer under the other: they can't be
    compared.
    """
    world = answering(
        an_answer(capacity_bytes=GiB, accessible_topology=[{"segments": {"example.com/zone": "a"}}]), topology=True
    )
    await world.make_node("n1", "a")
    await world.base()
    async with world.provisioning():
        await world.provisioned()
    assert [] == world.driver.made(DELETE)


async def test_a_volume_without_a_name_may_be_there():
    """Its claim goes; it is asked for until the driver names it."""
    world = await answering(an_answer(volume_id="")).base()
    async with world.provisioning():
        await world.failed("has no volume_id")
        await world.delete_claim()
        await world.settle(20)
        assert 1 == len(await world.list(PVS))
        await nothing_is_left(world)


# -- sources


async def with_origin(world: ProvisioningWorld, **answer: Any) -> ProvisioningWorld:
    """A claim to be cloned, and the claim of the clone. answer: the driver's first."""
    world.driver.controller = (*world.driver.controller, RPC.CLONE_VOLUME)
    origin = await world.make_claim("origin", ask=False, volumeName="pv")
    await world.create(a_pv("pv", "a/vol-1", claim=origin, phase="Bound"))
    await world.patch(CLAIMS, "origin", {"status": {"phase": "Bound"}}, "default", "status")
    world.driver.volumes["a/vol-1"] = GiB
    if await world.find(STORAGE_CLASSES, "sc") is None:
        await world.make_class()
    await world.make_claim(dataSource={"kind": "PersistentVolumeClaim", "name": "origin"})
    return world


@each_row(
    "source",
    [
        {"volume": {"volume_id": "a/vol-1"}},
        {"volume": {"volume_id": "https://storage.example/a/Vol-1"}},
        {"volume": {"volume_id": "1"}},
        {"volume": {"volume_id": "crn:v1:a:public::vol-1"}},
        {"snapshot": {"snapshot_id": "snap"}},
        {},
    ],
)
async def test_zoo_3_a_source_is_taken_as_the_driver_spells_it(source: Mapping[str, Any]):
    """Some name the bare id of what the handle wraps, some the snapshot by which they clone."""
    world = await with_origin(answering(an_answer(capacity_bytes=GiB, content_source=source)))
    async with world.provisioning():
        await world.provisioned()
        assert [] == world.driver.made(DELETE)
        await nothing_is_left(world)


async def test_a_clone_waits_for_a_change_of_its_source_that_means_something():
    """Not for a label, or for the finalizer that guards it."""
    world = await with_origin(a_world())
    await world.patch(CLAIMS, "origin", {"status": {"phase": "Pending"}}, "default", "status")
    async with world.provisioning():
        await world.failed("must have a status of Bound")
        for number in range(5):
            await world.patch(CLAIMS, "origin", {"metadata": {"labels": {"seen": str(number)}}}, "default")
            await world.patch(CLAIMS, "origin", {"metadata": {"finalizers": [f"a.test/{number}"]}}, "default")
            await world.settle(0.05)
        assert 1 == [reason for reason, _ in await world.told_of()].count("ProvisioningFailed")
        await world.patch(CLAIMS, "origin", {"status": {"phase": "Bound"}}, "default", "status")
        await world.provisioned(wait_s=0.3)


async def test_a_clone_whose_source_is_deleted_while_it_is_kept_for_it_goes_on():
    """Else each of both would wait for the other."""
    world = await with_origin(a_world())
    world.driver.script(CREATE, Fail(Code.INTERNAL, "no"))
    async with world.provisioning():
        await world.failed("no")
        await world.delete(CLAIMS, "origin", "default")
        await world.patch(CLAIMS, "origin", {"metadata": {"finalizers": [names.CLONE_FINALIZER]}}, "default")
        await world.provisioned()


async def test_a_clone_of_a_source_that_goes_already_is_not_begun():
    world = await with_origin(a_world())
    await world.patch(CLAIMS, "origin", {"metadata": {"finalizers": ["a.test/keeps"]}}, "default")
    await world.delete(CLAIMS, "origin", "default")
    async with world.provisioning():
        assert "the PVC DataSource origin is currently being deleted" in await world.failed()
    assert CREATE not in world.told


async def test_a_claim_that_was_given_up_holds_its_source_no_more():
    """The origin of a clone that never came to be can be deleted."""
    world = await with_origin(a_world())
    world.driver.always(CREATE, Fail(Code.INTERNAL, "no"))
    async with world.provisioning():
        await world.failed("desc = no")
        assert names.CLONE_FINALIZER in (await world.claim("origin"))["metadata"]["finalizers"]
        await world.delete_claim()
        await world.delete(CLAIMS, "origin", "default")
        await world.settle(1)
        assert names.CLONE_FINALIZER not in (await world.claim("origin"))["metadata"]["finalizers"]


@each_row("ends", ["made", "refused"])
async def test_the_clone_of_a_claim_that_is_gone_holds_its_source_until_its_end_is_known(ends: str):
    world = await with_origin(a_world())
    world.driver.script(CREATE, Lose())
    if ends == "refused":
        world.driver.always(CREATE, Fail(Code.OUT_OF_RANGE, "no"))
        world.driver.script(CREATE, Fail(Code.UNAVAILABLE, "no"))
    async with world.provisioning():
        await world.failed("Unavailable")
        await world.delete_claim()
        await world.delete(CLAIMS, "origin", "default")
        assert names.CLONE_FINALIZER in (await world.claim("origin"))["metadata"]["finalizers"]
        await world.settle(20)
        assert names.CLONE_FINALIZER not in (await world.claim("origin"))["metadata"]["finalizers"]


async def test_a_clone_that_may_exist_is_asked_for_though_its_source_is_gone():
    world = await with_origin(a_world())
    world.driver.script(CREATE, Lose())
    async with world.provisioning():
        await world.failed("Unavailable")
        await world.delete_claim()
        await world.delete_claim("origin")
        await world.calls(2)
        await nothing_is_left(world)
        assert 2 == len(world.driver.volumes)


async def test_a_source_is_held_by_the_next_process_before_it_can_ask_again():
    world = a_world()
    await world.make_secret()
    await world.make_class(SECRET)
    await with_origin(world)
    gate = world.driver.gate(CREATE)
    async with world.provisioning():
        await world.calls(1)
    await world.delete_claim()
    await world.delete(CLAIMS, "origin", "default")
    gate.set()
    world.cluster.refuse("get secrets", times=3, error=ServerError("overloaded", code=500))
    world.intents = Journal(world.users, JournalLocation("default", DRIVER), "the next", world.clock)
    async with world.provisioning():
        await world.settle(2)
        assert 1 == len(world.driver.made(CREATE))
        assert names.CLONE_FINALIZER in (await world.claim("origin"))["metadata"]["finalizers"]
        await world.settle(20)
        assert 2 == len(world.driver.made(CREATE))
        assert names.CLONE_FINALIZER not in (await world.claim("origin"))["metadata"]["finalizers"]


async def test_a_claim_that_has_got_another_volume_holds_its_source_no_more():
    world = await with_origin(a_world())
    world.driver.always(CREATE, Fail(Code.INTERNAL, "no"))
    async with world.provisioning():
        await world.failed("desc = no")
        await world.patch(CLAIMS, "c", {"spec": {"volumeName": "static"}}, "default")
        await world.patch(CLAIMS, "c", {"status": {"phase": "Bound"}}, "default", "status")
        await world.delete(CLAIMS, "origin", "default")
        await world.settle(20)
        assert names.CLONE_FINALIZER not in (await world.claim("origin"))["metadata"]["finalizers"]


class SlowIntents(Intents):
    """A write takes a while: before the entry is there, or after."""

    def __init__(self, wait_s: float, then_s: float) -> None:
        super().__init__()
        self._wait_s, self._then_s = wait_s, then_s

    async def write(self, entry: ClaimIntents) -> None:
        await asyncio.sleep(self._wait_s)
        await super().write(entry)
        await asyncio.sleep(self._then_s)


@each_row(("wait_s", "then_s"), [(1, 0), (0, 1)])
async def test_a_claim_that_goes_before_the_driver_is_asked_gets_no_volume(wait_s: float, then_s: float):
    """Nobody would look after its secret and its source."""
    world = await with_origin(a_world())
    world.intents = SlowIntents(wait_s, then_s)
    async with world.provisioning():
        await world.settle(0.5)
        await world.delete_claim()
        await world.settle(2)
        assert ([], {}) == (world.driver.made(CREATE), world.intents.open())
        await world.delete(CLAIMS, "origin", "default")
        await world.settle(1)
        assert names.CLONE_FINALIZER not in (await world.claim("origin"))["metadata"]["finalizers"]


async def test_a_driver_that_never_makes_what_is_wanted_is_left_alone_once_nobody_wants_it():
    world = a_world()
    world.driver.answers += [an_answer(capacity_bytes=1) for _ in range(100)]
    await world.base()
    async with world.provisioning():
        await world.failed("less than requested")
        await world.delete_claim()
        await world.settle(1000)
        made = len(world.driver.made(CREATE))
        await world.settle(10_000)
        assert made == len(world.driver.made(CREATE))
        await nothing_is_left(world)


class GarbledDriver(AnsweringDriver):
    """The first volume is made; nobody can read what is said of it."""

    async def create_volume(self, request: csi.CreateVolumeRequest) -> Any:
        answer = await super().create_volume(request)
        return answer if len(self.made(CREATE)) > 1 else csi.ProbeResponse()


async def test_an_answer_that_nobody_can_read_leaves_open_whether_there_is_a_volume():
    """It is asked for again, though the claim is gone: else it would be lost."""
    world = await a_world(GarbledDriver()).base()
    async with world.provisioning():
        await world.failed("the driver's answer is no csi.v1.CreateVolumeResponse")
        await world.delete_claim()
        await world.calls(2)
        await nothing_is_left(world)
        assert 1 == len(world.driver.volumes)


@each_row(
    ("driver", "ready", "text"),
    [
        ("other.csi.test", True, "is not handled by CSI driver of StorageClass sc"),
        (DRIVER, False, "snapshot snap is not Ready"),
    ],
    ids=["another-drivers", "not-ready"],
)
async def test_snapshots_that_can_not_be_used(driver: str, ready: bool, text: str):
    world = a_world()
    world.driver.controller = (*world.driver.controller, RPC.CREATE_DELETE_SNAPSHOT)
    await world.make_snapshot_kinds()
    made = await world.create(a_snapshot(content="content", status={"readyToUse": ready}))
    ref = {"name": "snap", "namespace": "default", "uid": made["metadata"]["uid"]}
    await world.create(a_content("content", ref, driver=driver, deletionPolicy="Delete"))
    await world.base(dataSource={"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "snap"})
    await refused(world, text)
    assert names.SNAPSHOT_FINALIZER not in (await world.get(VOLUME_SNAPSHOTS, "snap", "default"))["metadata"].get(
        "finalizers", []
    )


async def test_a_cluster_without_the_kind_of_grants():
    """The gate is on, and nobody can grant anything: all other claims have their volumes."""
    world = await a_world(cross_namespace_data_source=True).base()
    async with world.provisioning() as provisioner:
        await world.provisioned()
        assert (True, "") == (provisioner.has_synced, provisioner.obstacle)


async def test_a_kind_that_it_may_not_list_is_named():
    """Also where a part alone needs it: nothing is deleted without the attachments."""
    driver = VolumeDriver(controller=(RPC.PUBLISH_UNPUBLISH_VOLUME,))
    world = ProvisioningWorld(driver, Forbids("volumeattachments"))
    async with world.provisioning() as provisioner:
        await world.settle(60)
        assert "can't follow volumeattachments: volumeattachments is forbidden" == provisioner.obstacle
    world = ProvisioningWorld(driver, Forbids("storageclasses", "persistentvolumes"))
    async with world.provisioning() as provisioner:
        await world.settle(60)
        kinds = [told.removeprefix("can't follow ").partition(":")[0] for told in provisioner.obstacle.split("; ")]
        assert (False, ["persistentvolumes", "storageclasses"]) == (provisioner.has_synced, kinds)
