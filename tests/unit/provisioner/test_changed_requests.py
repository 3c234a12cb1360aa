"""Claims and classes that change while a volume may exist that was asked for as they were: in process, in virtual
time.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.core import SECRETS
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.wire.grpc.codes import Code
from tests.support.builders import an_attributes_class
from tests.support.provisioning import CREATE, PROVISIONING, AnsweringDriver, ProvisioningWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, Step
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
TEAMS = {
    "csi.storage.k8s.io/provisioner-secret-name": "t-${pvc.annotations['team']}",
    "csi.storage.k8s.io/provisioner-secret-namespace": "default",
}


async def on_nodes() -> ProvisioningWorld:
    """The claim's volume is to be made for node n1, in zone a."""
    world = ProvisioningWorld(AnsweringDriver(topology={"zone": "b"}))
    await world.make_node("n1", "a")
    await world.make_node("n2", "b")
    await world.make_class(binding="WaitForFirstConsumer")
    await world.make_claim(node="n1")
    return world


async def selected(world: ProvisioningWorld) -> str | None:
    return (await world.claim())["metadata"]["annotations"].get(names.SELECTED_NODE)


def zones(world: ProvisioningWorld) -> list[str]:
    return [call.request.accessibility_requirements.preferred[0].segments["zone"] for call in world.driver.made(CREATE)]


# -- what the driver says to the old request is no verdict on the new one


async def test_what_a_former_class_was_refused_for_is_not_held_against_the_new_one():
    world = await ProvisioningWorld().base({"tier": "bad"})

    def judged(request: csi.CreateVolumeRequest) -> Step:
        return Fail(Code.INVALID_ARGUMENT, "no such tier") if request.parameters["tier"] == "bad" else None

    world.driver.script(CREATE, Fail(Code.DEADLINE_EXCEEDED))
    world.driver.always(CREATE, judged)
    async with world.provisioning(calls=1):
        await world.delete(STORAGE_CLASSES, "sc")
        await world.make_class({"tier": "good"})
        await world.provisioned(wait_s=5)
    assert ["bad", "bad", "good"] == [call.request.parameters["tier"] for call in world.driver.made(CREATE)]
    assert not any("infeasible" in message for _, message in await world.told_of())


async def test_a_node_that_was_not_tried_is_not_given_back_for_another():
    world = await on_nodes()
    world.driver.script(CREATE, Fail(Code.DEADLINE_EXCEEDED), Fail(Code.RESOURCE_EXHAUSTED, "full"))
    async with world.provisioning(calls=1):
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.provisioned(wait_s=5)
        assert "n2" == await selected(world)
    assert ["a", "a", "b"] == zones(world)[:3]


async def test_the_node_that_was_tried_is_given_back_though_the_class_has_changed():
    world = await on_nodes()
    world.driver.script(CREATE, Fail(Code.DEADLINE_EXCEEDED), Fail(Code.RESOURCE_EXHAUSTED, "full"))
    async with world.provisioning(calls=1):
        await world.delete(STORAGE_CLASSES, "sc")
        await world.make_class({"tier": "other"}, binding="WaitForFirstConsumer")
        await world.settle(5)
        assert await selected(world) is None
        assert ["a", "a"] == zones(world)


async def test_a_new_process_knows_what_was_asked_for_before_the_last_request():
    """The volume was made for the first node. That the driver has none in the second one's zone is no word on that."""
    world = await on_nodes()
    place = JournalLocation("default", "csi.test")
    world.intents = Journal(world.users, place, "first", world.clock)
    world.driver.script(
        CREATE, Lose(Code.DEADLINE_EXCEEDED), Fail(Code.RESOURCE_EXHAUSTED, "full"), Fail(Code.UNAVAILABLE)
    )
    async with world.provisioning(calls=2):
        await world.settle(0.5)
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.calls(3)
    assert ["a", "a", "b"] == zones(world)
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    await world.delete_claim()
    in_zone_b = Fail(Code.ALREADY_EXISTS, "in another zone")
    world.driver.always(
        CREATE,
        lambda request: in_zone_b if request.accessibility_requirements.preferred[0].segments["zone"] == "b" else None,
    )
    world.intents = Journal(world.users, place, "second", world.clock)
    async with world.provisioning():
        assert f"vol-{name}" == (await world.volume(name))["spec"]["csi"]["volumeHandle"]
        await world.settle(400)
        assert all(entry.is_put_off for entry in world.intents.open().values())
    assert ["b", "a"] == zones(world)[3:]


# -- a secret is a part of what was asked for


async def of_team_a() -> ProvisioningWorld:
    """The claim's annotation names the secret, which is the driver's account; the answer to the first call is lost."""
    world = ProvisioningWorld()
    for team in ("a", "b"):
        await world.make_secret(f"t-{team}", account=team)
    await world.base(TEAMS, annotations={"team": "a"})
    world.driver.script(CREATE, Lose(Code.DEADLINE_EXCEEDED))
    return world


def accounts(world: ProvisioningWorld) -> list[str]:
    return [call.request.secrets["account"] for call in world.driver.made(CREATE)]


async def test_a_volume_that_may_exist_is_asked_for_with_the_secret_it_was_asked_for_with():
    """In another account there would be a second one, and nobody would know of the first."""
    world = await of_team_a()
    async with world.provisioning(calls=1):
        await world.annotate({"team": "b"})
        pv = await world.provisioned()
    assert ["a", "a"] == accounts(world)
    assert "t-a" == pv["metadata"]["annotations"][names.DELETION_SECRET_NAME]


async def test_another_secret_is_taken_once_the_former_one_answers_for_sure():
    world = await of_team_a()
    world.driver.script(CREATE, Fail(Code.PERMISSION_DENIED))
    async with world.provisioning(calls=1):
        await world.annotate({"team": "b"})
        pv = await world.provisioned()
    assert ["a", "a", "b"] == accounts(world)[:3]
    assert "t-b" == pv["metadata"]["annotations"][names.DELETION_SECRET_NAME]


async def test_what_one_secret_is_refused_for_is_no_word_on_the_other_one():
    """The first account has the volume, which is known once the claim has gone."""
    world = await of_team_a()
    world.driver.script(CREATE, Fail(Code.PERMISSION_DENIED), Lose(Code.DEADLINE_EXCEEDED), Fail(Code.INVALID_ARGUMENT))
    async with world.provisioning(calls=1):
        name = f"pvc-{(await world.claim())['metadata']['uid']}"
        await world.annotate({"team": "b"})
        await world.calls(4)
        await world.delete_claim()
        pv = await world.volume(name)
    assert ["a", "a", "b", "b", "a"] == accounts(world)[:5]
    assert "t-a" == pv["metadata"]["annotations"][names.DELETION_SECRET_NAME]


async def test_requests_that_may_have_made_a_volume_are_asked_for_by_turns():
    """One that is refused for ever does not keep the driver from telling of the other."""
    world = await of_team_a()
    world.driver.script(CREATE, Fail(Code.INTERNAL), Lose())
    world.driver.always(CREATE, Fail(Code.INTERNAL))
    async with world.provisioning(calls=1):
        name = f"pvc-{(await world.claim())['metadata']['uid']}"
        await world.annotate({"team": "b"})
        await world.calls(4)
        assert ["a", "a", "b", "b"] == accounts(world)
        await world.delete_claim()
        await world.settle(1)
        world.driver.always(
            CREATE, lambda request: Fail(Code.INVALID_ARGUMENT) if request.secrets["account"] == "a" else None
        )
        await world.settle(1000)
        await world.volume(name)


@each_row("class_is", ["the same", "another"])
async def test_another_secret_is_taken_where_the_former_one_is_gone(class_is: str):
    world = await of_team_a()
    async with world.provisioning(calls=1):
        await world.delete(SECRETS, "t-a", "default")
        if class_is == "another":
            await world.delete(STORAGE_CLASSES, "sc")
            await world.make_class({**TEAMS, "tier": "gold"})
        await world.annotate({"team": "b"})
        pv = await world.provisioned()
    assert ["a", "b"] == accounts(world)
    assert ["", ""] == [call.request.parameters["tier"] for call in world.driver.made(CREATE)]
    assert "t-b" == pv["metadata"]["annotations"][names.DELETION_SECRET_NAME]


# -- an infeasible claim rests until something changes that the driver judges


def refuses(world: ProvisioningWorld, is_refused: Callable[[csi.CreateVolumeRequest], bool]) -> None:
    world.driver.always(
        CREATE, lambda request: Fail(Code.INVALID_ARGUMENT, "not this one") if is_refused(request) else None
    )


async def test_P45_an_annotation_that_the_class_names_ends_the_rest():
    world = await of_team_a()
    world.driver.forget_scripts()
    refuses(world, lambda request: request.secrets["account"] == "a")
    async with world.provisioning():
        await world.failed("not this one")
        await world.annotate({"colour": "red"})
        await world.settle(200)
        assert 1 == len(world.driver.made(CREATE))
        await world.annotate({"team": "b"})
        await world.provisioned(wait_s=1)


async def test_P45_another_node_ends_the_rest():
    world = await on_nodes()
    refuses(world, lambda request: request.accessibility_requirements.preferred[0].segments["zone"] == "a")
    async with world.provisioning():
        await world.failed("not this one")
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.provisioned(wait_s=1)


async def test_P45_an_attributes_class_made_anew_ends_the_rest():
    """Nobody watches those: it is looked at in the back-off, by a GET each time, and in silence."""
    world = ProvisioningWorld(AnsweringDriver(controller=[RPC.MODIFY_VOLUME]), resync_s=0.0)
    await world.create(an_attributes_class(parameters={"iops": "9"}))
    await world.base(volumeAttributesClassName="gold")
    refuses(world, lambda request: request.mutable_parameters["iops"] == "9")
    async with world.provisioning():
        await world.failed("not this one")
        await world.settle(140)
        assert 1 == len(world.driver.made(CREATE))
        assert 8 >= world.story.count("get volumeattributesclasses") > 3
        assert 1 == len([reason for reason, _ in await world.told_of() if reason == PROVISIONING])
        await world.patch(VOLUME_ATTRIBUTES_CLASSES, "gold", {"metadata": {"finalizers": None}})
        await world.delete(VOLUME_ATTRIBUTES_CLASSES, "gold")
        await world.create(an_attributes_class(parameters={"iops": "5"}))
        await world.provisioned(wait_s=129)
