"""What the driver and the API server may answer, and what becomes of the claim: in process, in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, SECRETS, SecretReference
from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.api.storage import CSI_NODES, STORAGE_CLASSES
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Forbidden, Invalid, ServerError, Unreachable
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.provision import LATE_S_MAX
from mooring.sidecars.provisioner.intents.journal import Intents, Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.model import volumes
from mooring.sidecars.provisioner.options import Rules
from mooring.wire.grpc.codes import Code, go_name
from tests.support.builders import a_content, a_pv, a_reference, a_snapshot, an_attributes_class
from tests.support.cluster_world import metric
from tests.support.provisioning import (
    CLAIMS,
    CREATE,
    DELETE,
    DRIVER,
    FAILED,
    POST_PV,
    PROVISIONING,
    PUT_CLAIM,
    PVS,
    SUCCEEDED,
    AnsweringDriver,
    GiB,
    ProvisioningWorld,
    an_answer,
)
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, Wait
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
BACKGROUND = (Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED)
FINISHED = tuple(code for code in Code if code not in (Code.OK, Code.INVALID_ARGUMENT, *BACKGROUND))
PREFIX = "csi.storage.k8s.io/"
PUT_SNAPSHOT = "update volumesnapshots"
WITH_SECRET = {f"{PREFIX}provisioner-secret-name": "s", f"{PREFIX}provisioner-secret-namespace": "default"}


def answering(*answers: csi.CreateVolumeResponse, **kwargs: Any) -> ProvisioningWorld:
    world = ProvisioningWorld(AnsweringDriver(**kwargs))
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = list(answers)
    return world


# -- secrets


@pytest.fixture
async def world() -> ProvisioningWorld:
    return await ProvisioningWorld().base()


async def test_P25_P33_a_secret_is_waited_for_and_goes_to_the_driver():
    world = await ProvisioningWorld().base(WITH_SECRET)
    async with world.provisioning():
        assert (await world.failed()).endswith('error getting secret s in namespace default: secrets "s" not found')
        assert [] == world.told
        await world.make_secret(user="me")
        await world.provisioned()
    assert {"user": "me"} == dict(world.request.secrets)


# -- success


@each_row(
    ("returned", "shown"),
    [
        pytest.param(0, "1Gi", id="P34-nothing"),
        pytest.param(2 * GiB, "2Gi", id="P35-more"),
        pytest.param(GiB + 1, str(GiB + 1), id="odd"),
    ],
)
async def test_the_capacity_of_the_volume(returned, shown):
    world = await answering(an_answer(capacity_bytes=returned)).base()
    async with world.provisioning():
        pv = await world.provisioned()
    assert {"storage": shown} == pv["spec"]["capacity"]
    assert "vol-x" == pv["spec"]["csi"]["volumeHandle"]


async def test_P36_a_volume_that_is_too_small_is_deleted_and_asked_for_again():
    world = await answering(an_answer(capacity_bytes=GiB - 1)).base()
    async with world.provisioning():
        why = f"created volume capacity {GiB - 1} less than requested capacity {GiB}"
        assert (await world.failed()).endswith(why)
        await world.provisioned()
    assert [CREATE, DELETE, CREATE, POST_PV] == world.told
    assert 1 == len(world.driver.volumes)


async def test_a_clean_up_that_fails_five_times_says_so_and_stays_in_the_air():
    world = await answering(an_answer(capacity_bytes=1)).base()
    world.driver.script(DELETE, *[Fail(Code.INTERNAL, "stuck")] * 5)
    async with world.provisioning():
        assert "Cleanup of volume" in await world.failed("volume is orphaned")
        uid = (await world.claim())["metadata"]["uid"]
        assert uid in world.intents.open()
        await world.provisioned()
        await world.settle()
        assert {} == world.intents.open()
    assert [CREATE, *[DELETE] * 6, CREATE, POST_PV] == world.told, "what is dying is not asked for"


async def test_a_clean_up_that_finds_nothing_is_repeated():
    """CSI asks for OK there: NotFound may be about something else than the volume."""
    world = await answering(an_answer(capacity_bytes=1)).base()
    world.driver.script(DELETE, Fail(Code.NOT_FOUND, "no such account"))
    async with world.provisioning():
        assert "orphaned" not in await world.failed("less than requested")
        assert {} == world.intents.open()
    assert 2 == world.told.count(DELETE)


async def test_P55_a_volume_that_was_not_filled_is_deleted_and_asked_for_again():
    world = answering(an_answer(capacity_bytes=GiB), controller=[RPC.CLONE_VOLUME])
    await world.base(dataSource={"kind": "PersistentVolumeClaim", "name": "origin"})
    origin = await world.make_claim("origin", ask=False, volumeName="pv")
    await world.create(a_pv("pv", "h", claim=origin, phase="Bound"))
    await world.patch(CLAIMS, "origin", {"status": {"phase": "Bound"}}, "default", "status")
    async with world.provisioning():
        assert (await world.failed()).endswith("volume content source missing")
        await world.provisioned()
    assert [CREATE, DELETE, CREATE, POST_PV] == [step for step in world.told if step != PUT_CLAIM]


# -- codes


@each_row("code", [*BACKGROUND, *FINISHED])
async def test_P37_whatever_failed_is_asked_again(code):
    world = await ProvisioningWorld().base()
    world.driver.script(CREATE, Fail(code), Fail(code))
    async with world.provisioning():
        assert (await world.failed()).endswith(f"rpc error: code = {go_name(code)} desc = no")
        await world.provisioned()
    first, second, third = [call.request for call in world.driver.made(CREATE)]
    assert first == second == third


@each_row("code", FINISHED)
async def test_P43_a_final_error_and_the_claim_is_deleted(code):
    world = await ProvisioningWorld().base()
    world.driver.always(CREATE, Fail(code))
    async with world.provisioning(calls=1):
        await world.delete_claim()  # which is a change of the claim, too
        await world.settle()
        asked = world.told.count(CREATE)
        await world.settle(2000)
    assert [CREATE] * asked == world.told
    assert {} == world.intents.open()


@each_row("code", BACKGROUND)
async def test_P41_the_volume_may_exist_and_the_claim_is_deleted(code):
    """It is asked for until the driver has said for sure; then it goes the way of every released volume."""
    world = await ProvisioningWorld().base()
    world.driver.script(CREATE, Lose(code))
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    async with world.provisioning(calls=1):
        await world.delete_claim()
        await world.volume(name)
        await world.patch(PVS, name, {"status": {"phase": "Released"}}, subresource="status")

        async def is_deleted() -> bool:
            return not world.driver.volumes

        await world.until(is_deleted)
    assert [CREATE, CREATE, POST_PV, DELETE] == world.told[:4]


@each_row("vanished", ["class", "class-made-anew"])
async def test_the_volume_may_exist_and_its_class_is_gone(vanished):
    world = await ProvisioningWorld().base({"a": "b"})
    world.driver.script(CREATE, Lose())
    async with world.provisioning(calls=1):
        await world.delete(STORAGE_CLASSES, "sc")
        if vanished != "class":
            await world.make_class({"csi.storage.k8s.io/unknown": "key"})
        await world.provisioned()
    first, second = [call.request for call in world.driver.made(CREATE)]
    assert first == second


async def test_P40_a_late_answer_is_asked_for_by_the_same_name():
    world = await ProvisioningWorld(timeout_s=1.0).base()
    world.driver.script(CREATE, Wait(5.0))
    async with world.provisioning():
        assert "DeadlineExceeded" in await world.failed()
        await world.provisioned()
    first, second = [call.request for call in world.driver.made(CREATE)]
    assert first == second
    assert 1 == len(await world.list(PVS))


@each_row("code", [*FINISHED, Code.INVALID_ARGUMENT])
@each_row("deleted", ["before the error", "after the error"])
async def test_P42_no_error_hides_a_volume(deleted, code):
    """The first call has made it. The error is final for the claim; without the claim nobody else would ever ask for
    the volume.

    A driver may judge a request before it looks for the name: the Secret was changed, the class's parameters are not
    allowed any more.
    """
    world = await ProvisioningWorld().base()
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    world.driver.script(CREATE, Lose())
    world.driver.always(CREATE, Fail(code))
    async with world.provisioning():
        await world.failed("Unavailable" if deleted.startswith("before") else f"code = {go_name(code)} ")
        await world.delete_claim()
        await world.settle(1)
        asked = len(world.driver.made(CREATE))
        await world.settle(200)
        assert asked == len(world.driver.made(CREATE)), "nobody waits for it"
        if deleted.startswith("before"):
            await world.failed("may have made a volume all the same")
        world.driver.forget_scripts()
        await world.volume(name)
        await world.settle()
        assert SUCCEEDED not in [reason for reason, _ in await world.told_of()], "nobody is there to be told"
    assert {} == world.intents.open()


async def test_P42_what_may_be_a_volume_is_asked_for_again_once_the_claim_has_another_one(world: ProvisioningWorld):
    """It is refused again, five minutes later made known, and a PersistentVolume then, which goes its usual way."""
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    world.driver.script(CREATE, Lose(), *[Fail(Code.INTERNAL)] * 2)
    async with world.provisioning(calls=2):
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "c", {"spec": {"volumeName": "static"}}, "default")
        await world.calls(3)
        await world.settle(200)
        assert 3 == len(world.driver.made(CREATE)), "nobody waits for it"
        await world.volume(name, wait_s=120)
        await world.settle()
    assert {} == world.intents.open()


async def test_P42_after_a_final_error_the_claim_gets_what_it_wants_by_then():
    """What may have been made before is asked for when that is gone."""
    world = await ProvisioningWorld().base({"tier": "gold"})
    world.driver.script(CREATE, Fail(Code.ABORTED), Fail(Code.INTERNAL, "no gold"))
    async with world.provisioning():
        await world.failed("no gold")
        await world.delete(STORAGE_CLASSES, "sc")
        await world.make_class({"tier": "iron"})
        await world.provisioned(wait_s=1)
        await world.settle()
    assert ["gold", "gold", "iron"] == [call.request.parameters["tier"] for call in world.driver.made(CREATE)]
    assert [True] == [entry.is_put_off for entry in world.intents.open().values()]


@each_row("code", [Code.ALREADY_EXISTS, Code.INTERNAL])
async def test_P42_what_another_request_is_refused_for_says_nothing_of_the_first(code):
    """The first has made a volume, so the driver can't make another one of its name. Without the claim the first is
    asked for again.
    """
    world = await ProvisioningWorld().base({"tier": "gold"})
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    world.driver.script(CREATE, Lose(), Fail(Code.INTERNAL))
    world.driver.always(CREATE, lambda request: Fail(code, "no iron") if request.parameters["tier"] == "iron" else None)
    async with world.provisioning(calls=1):
        await world.delete(STORAGE_CLASSES, "sc")
        await world.make_class({"tier": "iron"})
        await world.failed("no iron")
        await world.delete_claim()
        await world.volume(name)
        await world.settle()
    assert {} == world.intents.open()


async def test_P42_a_found_intent_has_been_in_doubt_since_its_process_died(world: ProvisioningWorld):
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    world.intents = Journal(world.users, JournalLocation("default", DRIVER), "first", world.clock)
    world.driver.script(CREATE, Wait(1.0, Lose()), Fail(Code.INTERNAL))
    async with world.provisioning():
        await world.calls(1)
    await world.settle(2)
    world.intents = Journal(world.users, JournalLocation("default", DRIVER), "second", world.clock)
    async with world.provisioning(calls=2):
        await world.delete_claim()
        await world.volume(name)


async def test_P44_in_background_then_the_secret_is_gone():
    """Nothing is asked without it, and nothing is forgotten."""
    world = ProvisioningWorld()
    await world.make_secret()
    await world.base(WITH_SECRET)
    world.driver.script(CREATE, Lose())
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    async with world.provisioning(calls=1):
        await world.delete(SECRETS, "s", "default")
        await world.failed("error getting secret s in namespace default: ")
        await world.delete_claim()
        await world.settle(20)
        assert 1 == len(world.driver.made(CREATE))
        await world.make_secret()
        await world.volume(name)


@each_row("lost", ["gone", "forbidden", "no text"])
async def test_P44_the_claim_is_gone_and_its_secret_can_not_be_had_any_more(lost):
    """Its namespace was deleted, say: after a minute the volume is asked for without. What can't be read may be
    readable again.
    """
    world = ProvisioningWorld()
    await world.make_secret()
    await world.base(WITH_SECRET)
    world.driver.script(CREATE, Lose())
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    async with world.provisioning(calls=1):
        if lost == "gone":
            await world.delete(SECRETS, "s", "default")
        elif lost == "forbidden":
            world.cluster.refuse("get secrets", times=None, error=Forbidden("no such right"))
        else:
            await world.patch(SECRETS, "s", {"data": {"user": "//4="}}, "default")
        await world.delete_claim()
        await world.settle(50)
        assert 1 == len(world.driver.made(CREATE))
        await world.settle(100)
        assert (lost == "gone") == bool(await world.find(PVS, name))
        assert (lost == "gone") == (not world.intents.open())


async def test_P45_an_infeasible_claim_rests_until_it_or_its_class_changes():
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.driver.script(CREATE, *[Fail(Code.INVALID_ARGUMENT, "no such tier")] * 2)
    async with world.provisioning():
        message = await world.failed()
        infeasible = "Volume provisioning failed with infeasible error. Retries will be delayed. "
        assert f"{infeasible}rpc error: code = InvalidArgument desc = no such tier" == message
        await world.touch()
        await world.settle(298)
        assert [CREATE] == world.told
        await world.settle(2)
        assert [CREATE, CREATE] == world.told, "the exact wake-up"
        await world.settle(10)
        await world.delete(STORAGE_CLASSES, "sc")
        await world.make_class({"tier": "other"})
        await world.provisioned(wait_s=1)


async def test_the_waits_double_up_to_the_flag():
    world = await ProvisioningWorld(retry_interval_start_s=1.0, retry_interval_max_s=4.0).base()
    world.driver.always(CREATE, Fail(Code.INTERNAL))
    async with world.provisioning():
        await world.calls(5)
    starts = [call.started_s for call in world.driver.made(CREATE)]
    assert [1, 2, 4, 4] == [round(later - earlier) for earlier, later in itertools.pairwise(starts)]


async def test_a_claim_that_is_gone_is_forgotten_with_its_intent(world: ProvisioningWorld):
    uid = (await world.claim())["metadata"]["uid"]
    world.driver.always(CREATE, Fail(Code.ABORTED))
    async with world.provisioning(calls=1) as provisioner:
        await world.delete_claim()
        await world.settle()
        world.driver.forget_scripts()
        assert provisioner._view.records.get(uid).orphaned_at is not None
        await world.volume(f"pvc-{uid}")
        await world.settle()
        assert 0 == len(provisioner._view.records)


async def test_metrics_of_what_may_exist(world: ProvisioningWorld):
    world.driver.script(CREATE, Wait(9.0))
    async with world.provisioning():
        await world.settle(8)
        assert 1 == metric(world.metrics, "mooring_provisioner_intents_open")
        assert 8 == pytest.approx(metric(world.metrics, "mooring_provisioner_intents_oldest_seconds"), abs=0.5)
        await world.provisioned()
        await world.settle()
    assert 0 == metric(world.metrics, "mooring_provisioner_intents_open")
    assert 0 == metric(world.metrics, "mooring_provisioner_intents_oldest_seconds")


async def test_who_leads_no_more_shows_nothing_of_what_may_exist(world: ProvisioningWorld):
    """Another replica knows it by then; this one may lead again."""
    world.driver.always(CREATE, Fail(Code.ABORTED))
    for _ in range(2):
        async with world.provisioning():
            await world.settle(10)
            assert 1 == metric(world.metrics, "mooring_provisioner_intents_open")
        assert 0 == metric(world.metrics, "mooring_provisioner_intents_open")
        assert 0 == metric(world.metrics, "mooring_provisioner_intents_oldest_seconds")
        world.intents = Intents()


async def test_metrics_of_failures_and_of_success(world: ProvisioningWorld):
    world.driver.script(CREATE, Fail(Code.INTERNAL), Fail(Code.INTERNAL))
    async with world.provisioning():
        await world.provisioned()
        told = [reason for reason, _ in await world.told_of()]
    labels = {"class": "sc", "source": ""}
    family = "controller_persistentvolumeclaim_provision"
    assert 2 == metric(world.metrics, f"{family}_failed_total", **labels)
    assert (
        1
        == metric(world.metrics, f"{family}_total", **labels)
        == metric(world.metrics, f"{family}_duration_seconds_count", **labels)
    )
    assert (3, 2, 1) == (told.count(PROVISIONING), told.count(FAILED), told.count(SUCCEEDED))


# -- storing the volume's object


async def test_P46_a_volume_whose_object_can_not_be_stored_is_not_asked_for_again(world: ProvisioningWorld):
    world.cluster.refuse(POST_PV, times=3, error=ServerError("overloaded", code=500))
    async with world.provisioning():
        await world.settle(0.2)
        assert SUCCEEDED not in [reason for reason, _ in await world.told_of()], "the third try is still to come"
        await world.provisioned()
        await world.settle()
        assert {} == world.intents.open()
        assert 1 == [reason for reason, _ in await world.told_of()].count(SUCCEEDED)
    assert [CREATE, *[POST_PV] * 4] == world.told


async def test_an_object_that_may_not_be_stored_yet_is_stored_once_it_may(world: ProvisioningWorld):
    rule = world.cluster.refuse(POST_PV, times=None, error=Forbidden("no such right", reason="Forbidden"))
    async with world.provisioning():
        await world.touch()
        await world.settle(100)
        assert 1 == len(world.intents.open())
        rule.times = 0
        await world.settle(60)
        await world.provisioned()
    assert 1 == world.told.count(CREATE)


async def test_an_object_that_may_not_be_stored_for_a_while_is_told_again_and_again(world: ProvisioningWorld):
    world.cluster.refuse(POST_PV, times=8, error=Forbidden("no right to create persistentvolumes"))
    async with world.provisioning():
        assert "the volume exists" in await world.failed("no right to create")
        await world.provisioned()
        assert 3 == len([reason for reason, _ in await world.told_of() if reason == "ProvisioningFailed"])


async def test_P46_an_object_that_is_forbidden_is_sent_again_as_long_as_somebody_waits_for_it():
    """A policy webhook answers 403, or a right is missing: in a cluster that was set back the volume has its data."""
    world = await ProvisioningWorld(resync_s=0.0).base()
    rule = world.cluster.refuse(POST_PV, times=None, error=Forbidden("denied by policy", reason="Forbidden"))
    async with world.provisioning():
        await world.settle(7200)
        assert DELETE not in world.told
        assert 3 < len([text for _, text in await world.told_of() if "denied by policy" in text])
        rule.times = 0
        await world.provisioned()
    assert 1 == world.told.count(CREATE)


async def test_P46_an_object_that_is_forbidden_is_given_up_once_its_claim_is_gone():
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, times=None, error=Forbidden("denied by policy", reason="Forbidden"))
    async with world.provisioning():
        await world.settle(230)
        assert DELETE not in world.told
        await world.delete_claim()
        await world.failed("was deleted")
        assert {} == world.driver.volumes == world.intents.open()


async def test_an_object_that_is_forbidden_now_and_then_is_tried_again():
    world = await ProvisioningWorld(resync_s=0.0).base()
    for error in (Forbidden("quota", reason="Forbidden"), ServerError("overloaded", code=500)) * 20:
        world.cluster.refuse(POST_PV, error=error)
    async with world.provisioning():
        await world.provisioned()
    assert 1 == world.told.count(CREATE)


async def test_P46_a_volume_whose_object_is_refused_for_good_is_deleted_and_told():
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, error=Invalid("metadata.name: too odd", reason="Invalid"))
    async with world.provisioning():
        assert "metadata.name: too odd" in await world.failed()
        await world.settle(100)
        assert [CREATE, POST_PV, DELETE] == world.told
        assert {} == world.driver.volumes == world.intents.open()
        await world.settle(200)
        await world.provisioned()


@each_row("claim", ["there", "gone", "unknown"])
async def test_a_volume_that_is_to_be_retained_is_not_deleted_for_a_refusal_once_its_claim_is_gone(claim: str):
    """Its user may have taken it out of the claim, to keep it: to a replay it looks like one that was never stored."""
    world = ProvisioningWorld(resync_s=0.0)
    await world.make_class(reclaimPolicy="Retain")
    name = f"pvc-{(await world.make_claim())['metadata']['uid']}"
    gate = world.driver.gate(CREATE)
    world.cluster.refuse(POST_PV, error=Invalid("not now", reason="Invalid"))
    if claim == "unknown":
        world.cluster.refuse("get persistentvolumeclaims", error=ServerError("overloaded", code=500))
    async with world.provisioning(calls=1):
        if claim == "gone":
            await world.delete_claim()
        gate.set()
        await world.failed("not now")
        await world.settle()
        assert (claim == "there") == (DELETE in world.told)
        if claim != "there":
            assert "Retain" == (await world.volume(name))["spec"]["persistentVolumeReclaimPolicy"]
            await world.settle()
            assert {} == world.intents.open()


async def test_an_object_that_is_refused_after_some_tries_takes_its_volume_along():
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, times=2, error=Forbidden("not yet", reason="Forbidden"))
    world.cluster.refuse(POST_PV, error=Invalid("no", reason="Invalid"))
    async with world.provisioning():
        await world.failed("no")
        await world.settle(50)
    assert [CREATE, *[POST_PV] * 3, DELETE] == world.told


async def test_an_object_that_may_still_come_keeps_its_volume_for_a_while():
    """The API server may carry out what its client gave up, also after it has refused the next try."""
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, error=Unreachable("timed out"))
    world.cluster.refuse(POST_PV, times=None, error=Invalid("denied by policy", reason="Invalid"))
    async with world.provisioning():
        await world.touch()
        await world.settle(LATE_S_MAX - 10)
        assert 2 < world.told.count(POST_PV)
        assert DELETE not in world.told
        await world.settle(2 * LATE_S_MAX)
        assert DELETE in world.told
        assert "denied by policy" in await world.failed("was deleted")


async def test_an_object_that_a_former_process_may_have_sent_keeps_its_volume_for_a_while():
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.intents = Journal(world.cluster, JournalLocation("default", "csi.test"), "one", world.clock)
    world.cluster.refuse(POST_PV, error=Unreachable("timed out"))
    world.cluster.refuse(POST_PV, times=None, error=Invalid("denied by policy", reason="Invalid"))

    async def is_sent() -> bool:
        return POST_PV in world.told

    async with world.provisioning():
        await world.until(is_sent)
        assert 1 == world.told.count(POST_PV)
    world.intents = Journal(world.cluster, JournalLocation("default", "csi.test"), "two", world.clock)
    async with world.provisioning():
        await world.settle(LATE_S_MAX - 10)
        assert DELETE not in world.told
        await world.settle(2 * LATE_S_MAX)
        assert DELETE in world.told


async def test_a_refused_objects_volume_is_deleted_with_its_secret_once_that_can_be_read():
    """Without it the driver would look in its own account, and find nothing to be deleted."""
    world = ProvisioningWorld(resync_s=0.0)
    await world.make_secret(user="me")
    await world.base(WITH_SECRET)
    world.cluster.refuse(POST_PV, error=Forbidden("not yet", reason="Forbidden"))
    world.cluster.refuse(POST_PV, times=3, error=Invalid("no", reason="Invalid"))
    async with world.provisioning(calls=1):
        assert world.provisioner is not None
        world.provisioner._env.secrets.invalidate(SecretReference(name="s", namespace="default"))
        world.cluster.refuse("get secrets", error=Forbidden("not now", reason="Forbidden"))
        await world.failed("was deleted")
    assert [{"user": "me"}] == [dict(call.request.secrets) for call in world.driver.made(DELETE)]


async def test_a_refused_objects_volume_that_the_driver_denies_without_its_secret_is_not_taken_for_deleted():
    """A driver with an account for each Secret finds nothing in its own."""
    world = ProvisioningWorld(resync_s=0.0)
    await world.make_secret(user="me")
    await world.base(WITH_SECRET)
    world.cluster.refuse(POST_PV, error=Forbidden("not yet", reason="Forbidden"))
    world.cluster.refuse(POST_PV, error=Invalid("no", reason="Invalid"))
    world.driver.always(DELETE, lambda request: None if request.secrets else Fail(Code.NOT_FOUND, "no such volume"))
    async with world.provisioning(calls=1):
        assert world.provisioner is not None
        await world.delete(SECRETS, "s")
        world.provisioner._env.secrets.invalidate(SecretReference(name="s", namespace="default"))
        await world.failed("Cleanup of volume")
        assert 1 == len(world.driver.volumes) == len(world.intents.open())
        await world.make_secret(user="me")
        await world.provisioned()
    assert {"user": "me"} == dict(world.driver.made(DELETE)[-1].request.secrets)


async def test_P47_an_object_that_is_refused_after_a_lost_answer_may_be_there_and_keeps_its_volume():
    """The rules have changed between the two tries: the first was stored, so its volume is in use."""
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, after=True, error=ServerError("lost", code=500))
    world.cluster.refuse(POST_PV, error=Invalid("no", reason="Invalid"))
    async with world.provisioning():
        await world.provisioned()
        await world.settle(50)
        assert 1 == len(world.driver.volumes)
    assert [CREATE, POST_PV, POST_PV] == world.told


async def test_P46_a_bug_of_ours_in_the_first_try_does_not_lose_the_volume():
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, error=RuntimeError("a bug"))  # type: ignore[arg-type]
    async with world.provisioning():
        await world.provisioned(wait_s=10)
        await world.settle()
        assert {} == world.intents.open()
    assert [CREATE, POST_PV, POST_PV] == world.told


async def test_P42_a_bug_of_ours_after_the_call_does_not_let_a_later_error_hide_the_volume(
    world, monkeypatch: pytest.MonkeyPatch
):
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    world.driver.script(CREATE, None)
    world.driver.always(CREATE, Fail(Code.INTERNAL))
    monkeypatch.setattr(volumes, "completed", None)
    async with world.provisioning(calls=2):
        monkeypatch.undo()
        await world.delete_claim()
        await world.settle()
        world.driver.forget_scripts()
        await world.volume(name)


async def test_P47_the_answer_of_the_post_is_lost(world: ProvisioningWorld):
    world.cluster.refuse(POST_PV, after=True, error=ServerError("lost", code=500))
    async with world.provisioning():
        await world.provisioned()
        await world.event(SUCCEEDED)
        await world.settle()
        assert {} == world.intents.open()
    assert [CREATE, POST_PV, POST_PV] == world.told


async def test_P47_a_volume_whose_deletion_waits_for_its_creation_goes_when_that_is_over():
    world = await ProvisioningWorld(retry_interval_start_s=1000.0).base()
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    world.cluster.refuse(POST_PV, after=True, error=ServerError("lost", code=500))
    world.cluster.refuse("get persistentvolumes", times=8)
    async with world.provisioning():
        await world.volume(name)
        await world.patch(PVS, name, {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(1)
        assert DELETE not in world.told
        await world.settle(60)
        assert DELETE in world.told


@each_row("handle", ["vol-{}", "VOL-{}", "share#{}#6f1c", "h"])
async def test_an_object_of_another_claim_is_not_taken_for_our_own(handle: str):
    """The volume stays: the object may be about it. Drivers answer one name with one volume, and some spell its handle
    in another way each time.
    """
    world = await ProvisioningWorld(rules=Rules(volume_name_uuid_length=4)).base()
    name = f"pvc-{(await world.claim())['metadata']['uid'].replace('-', '')[:4]}"
    gate = world.driver.gate(CREATE)
    async with world.provisioning(calls=1):
        await world.create(a_pv(name, handle.format(name), claimRef=a_reference("other", "u")))
        gate.set()
        assert 'belongs to claim "default/other" already' in await world.failed()
        await world.settle()
        assert SUCCEEDED not in [reason for reason, _ in await world.told_of()]
        assert {} == world.intents.open()
    assert DELETE not in world.told


@each_row("ref", [None, "other"], ids=["nobody's", "another claim's"])
@each_row("source", ["nfs", "another driver's", "in-tree"])
async def test_an_object_of_another_driver_names_none_of_our_volumes(source: str, ref: str | None):
    """Drivers whose volumes' names are cut short meet, and so do their handles. Else the volume would be lost: no
    object names it.
    """
    world = await ProvisioningWorld(rules=Rules(volume_name_uuid_length=4)).base()
    name = f"pvc-{(await world.claim())['metadata']['uid'].replace('-', '')[:4]}"
    gate = world.driver.gate(CREATE)
    async with world.provisioning(calls=1):
        sources = {
            "nfs": {"nfs": {"server": "nfs.example.com", "path": "/"}},
            "another driver's": {"csi": {"driver": "other.example.com", "volumeHandle": f"vol-{name}"}},
            "in-tree": {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
        }
        await world.create(a_pv(name, source=sources[source], claimRef=ref and a_reference(ref, "u")))
        gate.set()
        assert "is about another volume" in await world.failed()
        assert {} == world.driver.volumes == world.intents.open()
        assert SUCCEEDED not in [reason for reason, _ in await world.told_of()]


@each_row("ref", [None, "c"], ids=["nobody's", "the claim's own"])
async def test_an_object_of_the_volumes_name_is_the_claims_whatever_its_handle(
    ref: str | None, caplog: pytest.LogCaptureFixture
):
    """As upstream. Spelled in another way, or a second volume: nobody can tell, so none is deleted."""
    world = await ProvisioningWorld().base()
    uid = (await world.claim())["metadata"]["uid"]
    gate = world.driver.gate(CREATE)
    async with world.provisioning(calls=1):
        await world.create(a_pv(f"pvc-{uid}", "h", claimRef=ref and a_reference(ref, uid)))
        gate.set()
        await world.event(SUCCEEDED)
        await world.settle()
        assert {} == world.intents.open()
    assert "names another handle" in caplog.text
    assert DELETE not in world.told


@each_row("whose", ["another claim's", "the claim's own", "nobody's", "unknown"])
async def test_a_volume_that_an_object_names_is_not_deleted_for_an_odd_answer(whose):
    """Names are cut short, so the driver has given us another claim's volume, which is too small for ours."""
    world = await ProvisioningWorld(rules=Rules(volume_name_uuid_length=4)).base(size="2Gi")
    uid = (await world.claim())["metadata"]["uid"]
    name = f"pvc-{uid.replace('-', '')[:4]}"
    world.driver.names[name], world.driver.volumes[f"vol-{name}"] = f"vol-{name}", GiB
    gate = world.driver.gate(CREATE)
    async with world.provisioning(calls=1):
        ref = a_reference("c", uid) if whose == "the claim's own" else a_reference("other", "u")
        if whose != "nobody's":
            await world.create(a_pv(name, f"vol-{name}", claimRef=ref))
        if whose == "unknown":
            world.cluster.refuse("get persistentvolumes", error=ServerError("overloaded", code=500))
        gate.set()
        await world.event(SUCCEEDED if whose == "the claim's own" else FAILED)
        assert (whose == "nobody's") == (DELETE in world.told)
        assert (whose == "unknown") == (uid in world.intents.open())


@each_row(
    ("answer", "missing"),
    [(csi.CreateVolumeResponse(), "volume"), (csi.CreateVolumeResponse(volume={"capacity_bytes": GiB}), "volume_id")],
)
async def test_an_answer_without_a_volume_is_told_and_asked_again(answer, missing):
    world = await answering(answer).base()
    async with world.provisioning():
        assert (await world.failed()).endswith(f"has no {missing}")
        await world.provisioned()


# -- volume attributes classes


async def make_attributes(world: ProvisioningWorld, driver: str = "csi.test") -> None:
    await world.create(an_attributes_class(driverName=driver, parameters={"iops": "9"}))


def modifying() -> ProvisioningWorld:
    return ProvisioningWorld(AnsweringDriver(controller=[RPC.MODIFY_VOLUME]))


async def test_P64_the_driver_can_not_modify():
    world = await ProvisioningWorld().base(volumeAttributesClassName="gold")
    async with world.provisioning():
        assert "VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported" in await world.failed()
    assert [] == world.told


async def test_P65_attributes_of_another_driver():
    world = modifying()
    await make_attributes(world, "other")
    await world.base(volumeAttributesClassName="gold")
    async with world.provisioning():
        why = "VAC gold referenced in PVC is for driver other which does not match driver name csi.test"
        assert (await world.failed()).endswith(why)
    assert [] == world.told


async def test_P65_attributes_that_come_later():
    world = await modifying().base(volumeAttributesClassName="gold")
    async with world.provisioning():
        await world.failed("gold")
        await make_attributes(world)
        await world.provisioned()


async def test_P66_attributes_are_passed_on():
    world = modifying()
    await make_attributes(world)
    await world.base({"a": "b"}, volumeAttributesClassName="gold")
    async with world.provisioning():
        pv = await world.provisioned()
    assert ({"iops": "9"}, {"a": "b"}) == (dict(world.request.mutable_parameters), dict(world.request.parameters))
    assert "gold" == pv["spec"]["volumeAttributesClassName"]


async def test_with_the_gate_off_attributes_are_not_looked_at():
    world = ProvisioningWorld(rules=Rules(volume_attributes_class=False))
    await world.base(volumeAttributesClassName="gold")
    async with world.provisioning():
        pv = await world.provisioned()
    assert "volumeAttributesClassName" not in pv["spec"]


# -- with topology


async def delayed(node: str | None = "n1", **kwargs: Any) -> ProvisioningWorld:
    world = ProvisioningWorld(AnsweringDriver(topology={"zone": "a"}), **kwargs)
    await world.make_node("n1", "a")
    await world.make_node("n2", "b")
    await world.make_class(binding="WaitForFirstConsumer" if node else "Immediate")
    await world.make_claim(node=node)
    return world


def selected(node: str | None) -> Callable[[dict[str, Any]], bool]:
    return lambda claim: claim["metadata"]["annotations"].get(names.SELECTED_NODE) == node


async def until_selected(world: ProvisioningWorld, node: str | None) -> None:
    async def is_so() -> bool:
        return selected(node)(await world.claim())

    await world.until(is_so)


async def test_P38_no_room_on_the_selected_node():
    """The scheduler is asked for another one, and nothing is tried before it has chosen."""
    world = await delayed()
    world.driver.script(CREATE, Fail(Code.RESOURCE_EXHAUSTED, "full"))
    async with world.provisioning():
        await until_selected(world, None)
        assert (await world.failed()).endswith("code = ResourceExhausted desc = full")
        await world.settle(2000)
        assert [CREATE, PUT_CLAIM] == world.told
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.provisioned(wait_s=1)
    assert {} == world.intents.open()


async def test_P38_a_volume_that_may_exist_is_not_forgotten_with_its_node():
    world = await delayed()
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    world.driver.script(CREATE, Lose(), Fail(Code.RESOURCE_EXHAUSTED, "full"))
    async with world.provisioning():
        await until_selected(world, None)
        await world.settle(1000)
        assert [CREATE, CREATE, PUT_CLAIM] == world.told
        await world.delete_claim()
        await world.volume(name)


@each_row("by", ["another node", "another provisioner"])
async def test_P38_the_back_off_begins_anew_with_another_node_and_for_who_was_of_no_business(by):
    world = await delayed()
    world.driver.script(CREATE, *[Fail(Code.INTERNAL)] * 5)
    async with world.provisioning(calls=5):
        world.driver.script(
            CREATE, *[Fail(Code.RESOURCE_EXHAUSTED, "full")] * (by == "another node"), Fail(Code.INTERNAL, "broken")
        )
        if by == "another node":
            await until_selected(world, None)
        else:
            await world.annotate({names.STORAGE_PROVISIONER: "other"})
            await world.settle()
        await world.annotate({names.SELECTED_NODE: "n2", names.STORAGE_PROVISIONER: DRIVER})
        await world.failed("broken")
        await world.provisioned(wait_s=1.1)


async def test_P38_the_scheduler_can_not_be_asked():
    world = await delayed()
    world.driver.script(CREATE, Fail(Code.RESOURCE_EXHAUSTED, "full"))
    world.cluster.refuse(PUT_CLAIM, error=ServerError("no", code=500))
    async with world.provisioning():
        await world.provisioned()
    assert selected("n1")(await world.claim())


async def test_P39_no_room_and_no_node_selected():
    world = await delayed(None)
    world.driver.script(CREATE, Fail(Code.RESOURCE_EXHAUSTED, "full"))
    async with world.provisioning():
        await world.provisioned()
    assert [CREATE, CREATE, POST_PV] == world.told


@each_row("gone", ["node", "csinode", "keys"])
async def test_P69_P70_a_node_that_can_not_have_the_volume_is_given_back(gone):
    world = await delayed()
    if gone == "node":
        await world.delete(NODES, "n1")
    else:
        await world.delete(CSI_NODES, "n1")
    if gone == "keys":
        await world.make_csi_node("n1", ())
    async with world.provisioning():
        told = {
            "node": 'failed to get selected node n1: node "n1" not found',
            "csinode": 'failed to get selected CSINode n1: csinode.storage.k8s.io "n1" not found',
            "keys": "error generating accessibility requirements: no topology key found for node n1",
        }
        assert told[gone] == await world.failed()
        await until_selected(world, None)
        world.driver.topology = {"zone": "b"}
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.provisioned()
    assert [PUT_CLAIM, CREATE, POST_PV] == world.told


async def test_a_scheduler_that_never_learns_does_not_make_a_hot_loop():
    world = await delayed("gone")
    async with world.provisioning():
        for _ in range(200):
            if selected(None)(await world.claim()):
                await world.annotate({names.SELECTED_NODE: "gone"})
            await world.settle(0.1)
    assert 20 > world.told.count(PUT_CLAIM)


async def test_what_may_be_under_way_is_asked_for_in_the_same_place_though_its_node_is_gone():
    world = await delayed()
    world.driver.script(CREATE, Lose(Code.DEADLINE_EXCEEDED))
    async with world.provisioning(calls=1):
        await world.delete(CSI_NODES, "n1")
        await world.delete(NODES, "n1")
        await world.provisioned()
    first, second = [call.request for call in world.driver.made(CREATE)]
    assert first == second
    assert "a" == first.accessibility_requirements.preferred[0].segments["zone"]


async def test_what_may_be_under_way_is_asked_for_in_the_same_place_though_another_node_is_selected():
    """To another request the driver could say no, and the volume be there."""
    world = await delayed()
    world.driver.script(CREATE, Lose(Code.DEADLINE_EXCEEDED))
    async with world.provisioning(calls=1):
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.provisioned()
    places = [
        call.request.accessibility_requirements.preferred[0].segments["zone"] for call in world.driver.made(CREATE)
    ]
    assert ["a", "a"] == places


async def test_a_label_that_comes_ends_the_wait():
    world = await delayed(None, retry_interval_start_s=600.0, retry_interval_max_s=600.0)
    for node in ("n1", "n2"):
        await world.patch(NODES, node, {"metadata": {"labels": None}})
    async with world.provisioning():
        await world.failed("topologyKeys [zone] were not found on any nodes")
        await world.patch(NODES, "n1", {"metadata": {"labels": {"zone": "a"}}})
        await world.provisioned(wait_s=1)


async def test_a_label_by_which_no_driver_tells_places_ends_no_wait():
    """Operators write many, again and again."""
    world = await delayed(None, retry_interval_start_s=600.0, retry_interval_max_s=600.0)
    for node in ("n1", "n2"):
        await world.patch(NODES, node, {"metadata": {"labels": None}})
    async with world.provisioning():
        await world.failed("topologyKeys [zone] were not found on any nodes")
        for number in range(60):
            await world.patch(NODES, "n1", {"metadata": {"labels": {"feature.example.com/x": str(number)}}})
            await world.settle(1)
        labels = {"class": "sc", "source": ""}
        assert 1 == metric(world.metrics, "controller_persistentvolumeclaim_provision_failed_total", **labels)
        await world.patch(NODES, "n1", {"metadata": {"labels": {"zone": "a"}}})
        await world.provisioned(wait_s=1)


async def test_P73_the_volume_knows_where_it_is():
    world = await delayed()
    async with world.provisioning():
        pv = await world.provisioned()
    expressions = [{"key": "zone", "operator": "In", "values": ["a"]}]
    assert [{"matchExpressions": expressions}] == pv["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]


async def test_another_node_is_another_place_when_the_driver_was_not_asked_yet():
    """A secret was missing at first; meanwhile the scheduler chose anew."""
    world = ProvisioningWorld(AnsweringDriver(topology={"zone": "b"}))
    await world.make_node("n1", "a")
    await world.make_node("n2", "b")
    await world.make_class(WITH_SECRET, binding="WaitForFirstConsumer")
    await world.make_claim(node="n1")
    async with world.provisioning():
        await world.failed("error getting secret")
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.make_secret()
        await world.provisioned()
    assert "b" == world.request.accessibility_requirements.preferred[0].segments["zone"]


def failures(world: ProvisioningWorld) -> float:
    """Of claims whose source is a snapshot."""
    labels = {"class": "sc", "source": "VolumeSnapshot"}
    return metric(world.metrics, "controller_persistentvolumeclaim_provision_failed_total", **labels) or 0.0


async def restoring(retry_s: float) -> ProvisioningWorld:
    """A claim of a snapshot that is bound, and not ready yet."""
    world = ProvisioningWorld(
        AnsweringDriver(controller=[RPC.CREATE_DELETE_SNAPSHOT]),
        retry_interval_start_s=retry_s,
        retry_interval_max_s=600.0,
    )
    await world.make_snapshot_kinds()
    made = await world.create(a_snapshot("s", content="sc1"))
    await world.create(a_content("sc1", {"namespace": "default", "name": "s", "uid": made["metadata"]["uid"]}))
    await world.base(dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"})
    return world


async def test_nothing_is_made_from_a_source_that_can_not_be_held():
    """It could be deleted while it is read."""
    world = await restoring(retry_s=1.0)
    await world.patch(VOLUME_SNAPSHOTS, "s", {"status": {"readyToUse": True}}, "default", "status")
    world.cluster.refuse(PUT_SNAPSHOT, times=100, error=ServerError("overloaded", code=500))
    async with world.provisioning():
        assert "overloaded" in await world.failed()
        assert CREATE not in world.told


async def test_the_back_off_begins_anew_when_what_a_claim_waits_for_moves():
    world = await restoring(retry_s=1.0)
    async with world.provisioning():
        await world.failed("snapshot s is not Ready")
        for size in range(1, 9):
            await world.patch(VOLUME_SNAPSHOTS, "s", {"status": {"restoreSize": f"{size}Gi"}}, "default", "status")
            await world.settle(0.01)
        told = len(await world.told_of())
        await world.settle(1.1)
        assert len(await world.told_of()) > told, "eight changes are no eight failures"


async def test_a_snapshot_that_becomes_ready_ends_the_wait():
    world = await restoring(retry_s=600.0)
    async with world.provisioning():
        await world.failed("snapshot s is not Ready")
        await world.patch(VOLUME_SNAPSHOTS, "s", {"status": {"readyToUse": True}}, "default", "status")
        await world.provisioned(wait_s=1)
    assert "h" == world.request.volume_content_source.snapshot.snapshot_id


async def test_what_may_be_a_volume_of_a_claim_that_is_gone_does_not_hold_its_source_once_it_is_refused():
    """It is asked for until the driver rules it out, perhaps for ever; if it is there, it needs its source no more."""
    world = await restoring(retry_s=1.0)
    await world.patch(VOLUME_SNAPSHOTS, "s", {"status": {"readyToUse": True}}, "default", "status")
    world.driver.script(CREATE, Fail(Code.UNAVAILABLE))
    world.driver.always(CREATE, Fail(Code.NOT_FOUND, "no such snapshot"))
    async with world.provisioning(calls=2):
        await world.delete_claim()
        await world.settle(2)
        await world.remove(VOLUME_SNAPSHOTS, "s", "default")
        calls = len(world.driver.made(CREATE))
        await world.settle(1000)
        assert calls < len(world.driver.made(CREATE))
    assert 1 == len(world.intents.open())


async def test_a_source_that_was_let_go_is_not_held_again_for_a_volume_that_nobody_waits_for():
    world = await restoring(retry_s=1.0)
    await world.patch(VOLUME_SNAPSHOTS, "s", {"status": {"readyToUse": True}}, "default", "status")
    world.driver.script(CREATE, Fail(Code.UNAVAILABLE))
    world.driver.always(CREATE, Fail(Code.NOT_FOUND, "no such snapshot"))
    async with world.provisioning(calls=2):
        await world.delete_claim()
        await world.settle(2)
        writes = world.story.count(PUT_SNAPSHOT)
        await world.settle(1000)
        assert writes == world.story.count(PUT_SNAPSHOT)
        assert not (await world.get(VOLUME_SNAPSHOTS, "s", "default"))["metadata"].get("finalizers")


async def test_a_snapshot_that_does_not_change_leaves_the_back_off_alone():
    """It is delivered again at each resync, and finalizers come and go."""
    world = await restoring(retry_s=1.0)
    async with world.provisioning():
        await world.failed("snapshot s is not Ready")
        await world.settle(3600)
        tried = failures(world)
        await world.patch(VOLUME_SNAPSHOTS, "s", {"metadata": {"finalizers": ["example.com/other"]}}, "default")
        await world.settle(3600)
        assert 6 <= failures(world) - tried <= 12, "every 10 minutes, and at the resyncs of claims"


async def test_a_node_that_comes_counts_from_then_on():
    world = await delayed(None)
    async with world.provisioning():
        await world.provisioned()
        await world.make_node("n3", "c")
        await world.settle()
        await world.make_claim("second")
        await world.provisioned("second")
    requisites = [call.request.accessibility_requirements.requisite for call in world.driver.made(CREATE)]
    assert [["a", "b"], ["a", "b", "c"]] == [[place.segments["zone"] for place in one] for one in requisites]
