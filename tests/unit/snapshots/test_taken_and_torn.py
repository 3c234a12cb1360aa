"""Contents that are going or taken, questions that are refused, groups that lose what they need. Ids:
docs/behaviours/snapshotter.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.api.core import SECRETS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.group_snapshot import GROUP_SNAPSHOTS as VGS
from mooring.api.meta import Kind
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES
from mooring.api.snapshot_names import (
    BEING_CREATED,
    BEING_DELETED,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    MANAGED_BY,
    TOUCHED,
    YES,
)
from mooring.api.snapshot_names import SECRET_NAME as DELETION_SECRET_NAME
from mooring.api.snapshot_names import SECRET_NAMESPACE as DELETION_SECRET_NAMESPACE
from mooring.apiserver.local import ServerFaults
from mooring.kube.errors import ServerError
from mooring.wire.grpc.codes import Code
from tests.support.builders import APP, a_group_class, a_group_content, a_group_snapshot, a_new_content, a_secret
from tests.support.cluster_world import SlowGets
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP, GET, LIST, RPC, SnapshotDriver
from tests.support.snapshotting import (
    PATCH_VS,
    PATCH_VSC,
    PATCH_VSC_STATUS,
    PUT_PVC,
    PVC,
    VS,
    VSC,
    SnapshotWorld,
    error_of,
    finalizers,
)
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

KEEPER = "tests.mooring.dev/keeper"
PREFIX = "csi.storage.k8s.io/"
ON = {"groups": True}


def _secret(infix: str, name: str = "secret") -> dict[str, str]:
    return {f"{PREFIX}{infix}secret-name": name, f"{PREFIX}{infix}secret-namespace": "default"}


async def test_S19_a_content_that_is_being_deleted_is_not_bound():
    world = await SnapshotWorld().base()
    world.driver.add("there")
    await world.create(
        a_new_content("import", snapshot="snap", handle="there", ref_uid=None, policy="Retain", finalizers=[KEEPER])
    )
    await world.delete(VSC, "import")
    async with world.both():
        world.story.clear()
        await world.snap(content="import")
        await asyncio.sleep(60.0)
        assert "is being deleted" in error_of(await world.get(VS, "snap"))
        assert 20 > len(world.written())
        await world.set_finalizers(VSC, "import")
        await world.create(a_new_content("import", snapshot="snap", handle="there", ref_uid=None, policy="Retain"))
        await world.ready()


@each_row("rpc", [RPC.LIST_SNAPSHOTS, RPC.GET_SNAPSHOT])
async def test_S34_a_question_that_the_driver_refuses_leaves_the_request(rpc):
    world = await SnapshotWorld(SnapshotDriver(controller=[rpc])).base()
    world.driver.ready = False
    world.driver.always(LIST if rpc == RPC.LIST_SNAPSHOTS else GET, Fail(Code.INVALID_ARGUMENT, "not without a secret"))
    async with world.both():
        await world.snap()
        await world.content(lambda body: (body.get("status") or {}).get("snapshotHandle"))
        await world.settle(10.0)
        assert "" == error_of(await world.content())
        world.driver.ready = True
        await world.ready()


@each_row("name", ["nowhere", "${volumesnapshot.name}"])
async def test_S34_a_list_secret_that_can_not_be_had_leaves_the_request(name):
    world = await SnapshotWorld(SnapshotDriver(controller=[RPC.LIST_SNAPSHOTS])).base(
        _secret("snapshotter-list-", name)
    )
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await world.content(lambda body: (body.get("status") or {}).get("snapshotHandle"))
        await world.settle(10.0)
        assert "" == error_of(await world.content())
        world.driver.ready = True
        await world.ready()


async def test_S41_a_list_secret_that_is_missing_takes_no_secret_from_the_deletion():
    world = await SnapshotWorld(SnapshotDriver(controller=[RPC.LIST_SNAPSHOTS])).base(
        _secret("snapshotter-list-", "nowhere")
    )
    world.driver.add("there")
    await world.create(a_secret(data={"user": "dQ=="}))
    secret = {DELETION_SECRET_NAME: "secret", DELETION_SECRET_NAMESPACE: "default"}
    fields = {"ref_uid": None, "volumeSnapshotClassName": "snapclass", "annotations": secret}
    await world.create(a_new_content("import", snapshot="snap", handle="there", **fields))
    async with world.both():
        await world.snap(content="import")
        await world.error(text="nowhere")
        await world.patch(VSC, "import", {"status": {"snapshotHandle": "there"}}, subresource="status")
        await asyncio.sleep(300.0)
        await world.delete(VS, "snap")
        await world.gone(VSC, "import")
        assert [{"user": "u"}] == [dict(call.request.secrets) for call in world.driver.made(DELETE)]


@each_row("policy", ["Delete", "Retain"])
async def test_S39_a_snapshot_that_another_content_stands_for_stays(policy):
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        [handle] = world.driver.snapshots
        await world.create(a_new_content("import", snapshot="again", handle=handle, ref_uid=None, policy=policy))
        await world.snap("again", content="import")
        await world.ready("again")
        [content] = [one for one in await world.list(VSC) if one["metadata"]["name"] != "import"]
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await world.gone(VSC, content["metadata"]["name"])
        assert ([], {handle}) == (world.driver.made(DELETE), set(world.driver.snapshots))
        assert "import" in await world.told(content["metadata"]["name"], "SnapshotKept")
        await world.delete(VS, "again")
        await world.gone(VS, "again")
        await world.settle(2.0)
        assert (set() if policy == "Delete" else {handle}) == set(world.driver.snapshots)


class _GoesFirst(ServerFaults):
    """As the first write comes to a content that goes, `before_it` happens. A write to one object can't ask for
    another.
    """

    before_it: Callable[[], Awaitable[None]] | None = None

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (verb, kind.plural, name) == ("patch", VSC.plural, "first") and self.before_it is not None:
            before_it, self.before_it = self.before_it, None
            await before_it()


async def test_S39_a_snapshot_stays_where_its_other_content_goes_while_the_release_is_on_its_way():
    world = await SnapshotWorld(faults=(faults := _GoesFirst())).base()
    world.driver.add("there")
    await world.create(a_new_content("first", snapshot="first", handle="there", finalizers=[CONTENT_FINALIZER]))
    await world.create(a_new_content("unheld", snapshot="second", handle="there", ref_uid=None))
    async with world.snapshotting():
        await world.content_ready("first")
        await world.annotate(VSC, "first", **{BEING_DELETED: YES})
        faults.before_it = lambda: world.delete(VSC, "unheld")
        await world.delete(VSC, "first")
        await world.gone(VSC, "first")
        assert ([], []) == (world.driver.made(DELETE), await world.list(VSC))
        assert "unheld" in await world.told("first", "SnapshotKept")


async def test_S39_two_contents_of_one_snapshot_that_go_together_leave_nothing():
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        [handle] = world.driver.snapshots
        await world.create(a_new_content("import", snapshot="again", handle=handle, ref_uid=None))
        await world.snap("again", content="import")
        await world.ready("again")
        await asyncio.gather(world.delete(VS, "snap"), world.delete(VS, "again"))
        await world.gone(VS, "snap")
        await world.gone(VS, "again")
        await world.settle(5.0)
        assert ([], {}) == (await world.list(VSC), world.driver.snapshots)


# -- groups


async def a_group_world(faults: ServerFaults | None = None, **group_class: object) -> SnapshotWorld:
    world = await SnapshotWorld(SnapshotDriver(groups=True), faults).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_group_class(**group_class))
    for name in "ab":
        await world.claim(name, volume=f"pv-{name}", handle=f"vol-{name}")
        await world.patch(PVC, name, {"metadata": {"labels": APP}})
    return world


async def group_ready(world):
    return await world.shown(VGS, "group", lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")


async def test_S48_the_names_of_a_group_as_parameters():
    world = await a_group_world(parameters={"color": "red"})
    async with world.controlling(**ON), world.snapshotting(extra_create_metadata=True, **ON):
        await world.create(a_group_snapshot())
        await group_ready(world)
        [content] = await world.list(VGSC)
    names = {"volumegroupsnapshot/name": "group", "volumegroupsnapshot/namespace": "default"}
    named = {**names, "volumegroupsnapshotcontent/name": content["metadata"]["name"]}
    assert {"color": "red", **{f"{PREFIX}{key}": value for key, value in named.items()}} == dict(
        world.driver.made(CREATE_GROUP)[0].request.parameters
    )


async def test_S17_a_ready_group_that_has_lost_its_content_is_not_made_anew():
    world = await a_group_world()
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await group_ready(world)
        await world.settle(3.0)
        [content] = await world.list(VGSC)
        await world.tear_away(VGSC, content["metadata"]["name"])
        assert "VolumeGroupSnapshotContent is missing" == await world.error("group", kind=VGS)
        await world.settle(20.0)
        assert "GroupSnapshotContentMissing" in await world.reasons("group")
        assert (False, 1) == (
            (await world.get(VGS, "group"))["status"]["readyToUse"],
            len(world.driver.made(CREATE_GROUP)),
        )
        assert [] == await world.list(VGSC)


async def test_S17_a_group_that_was_cut_and_has_lost_its_content_is_not_made_anew():
    world = await a_group_world()
    world.driver.ready = False
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.shown(VGS, "group", lambda body: (body.get("status") or {}).get("creationTime"))
        await world.settle(3.0)
        [content] = await world.list(VGSC)
        await world.tear_away(VGSC, content["metadata"]["name"])
        await world.settle(20.0)
        assert ([], 1) == (await world.list(VGSC), len(world.driver.made(CREATE_GROUP)))


async def test_S34_an_unready_member_waits_for_its_group():
    """A restart looks at all contents, and the driver can't be asked for a single one."""
    world = await a_group_world()
    world.driver.ready = False
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.shown(VGS, "group", lambda body: (body.get("status") or {}).get("creationTime"))
        await world.settle(3.0)
    async with world.both(**ON):
        await world.settle(30.0)
        said = [one["status"]["readyToUse"] for kind in (VS, VSC) for one in await world.list(kind)]
        assert [False] * 4 == said
        world.driver.ready = True
        await group_ready(world)
        for member in await world.list(VS):
            await world.ready(member["metadata"]["name"], wait_s=20.0)


async def test_S19_a_group_content_that_is_being_deleted_is_not_bound():
    world = await a_group_world()
    source = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h-a"]}}
    await world.create(a_group_content(ref_uid=None, source=source, finalizers=[KEEPER], policy="Retain"))
    await world.delete(VGSC, "groupcontent")
    async with world.both(**ON):
        await world.create(a_group_snapshot(content="groupcontent"))
        await world.error("group", "is being deleted", VGS)
        world.story.clear()
        await asyncio.sleep(60.0)
        assert [] == world.written()


async def test_S38_a_group_whose_secret_is_gone_is_deleted_all_the_same():
    world = await a_group_world(parameters=_secret("group-snapshotter-"))
    await world.create(a_secret(data={"user": "dQ=="}))
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await group_ready(world)
        await world.settle(3.0)
        await world.users.delete(SECRETS, "secret", "default")
        await asyncio.sleep(60.0)
        await world.delete(VGS, "group")
        await world.gone(VGS, "group", wait_s=400.0)
        await world.settle(3.0)
        assert ([], {}) == (await world.list(VGSC), world.driver.snapshots)


async def test_S58_in_node_mode_only_the_labelled_group_contents_are_ours():
    world = await a_group_world()
    async with world.controlling(**ON), world.snapshotting(node_name="n1", **ON):
        await world.create(a_group_snapshot())
        await world.settle(10.0)
        assert [] == world.driver.made(CREATE_GROUP)
        [content] = await world.list(VGSC)
        await world.patch(VGSC, content["metadata"]["name"], {"metadata": {"labels": {MANAGED_BY: "n1"}}})
        await world.until(lambda: _made_a_group(world), what="the labelled group is made")
    assert [] == world.driver.made(CREATE)


async def _made_a_group(world):
    return world.driver.made(CREATE_GROUP)


# -- beside upstream's programs


async def test_S10_a_claim_that_was_protected_before_waits_for_its_snapshot():
    world = await SnapshotWorld().base()
    await world.set_finalizers(PVC, "claim", CLAIM_FINALIZER)
    await world.delete(PVC, "claim")
    async with world.controlling():
        await world.settle(5.0)
        await world.snap()
        await world.content()


async def test_S13_a_claim_that_a_dead_process_left_protected_is_let_go_at_once():
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        await world.settle(3.0)
    await world.set_finalizers(PVC, "claim", CLAIM_FINALIZER)
    async with world.both():
        await world.shown(PVC, "claim", lambda body: CLAIM_FINALIZER not in finalizers(body), "let go", 3.0)


async def test_S13_a_claim_that_is_held_for_nobody_is_let_go():
    world = await SnapshotWorld().base()
    await world.set_finalizers(PVC, "claim", CLAIM_FINALIZER)
    async with world.controlling():
        await world.shown(PVC, "claim", lambda body: CLAIM_FINALIZER not in finalizers(body), "let go", 40.0)


async def test_S38_a_sidecar_that_sleeps_over_the_end_of_a_creation_is_woken():
    world = await SnapshotWorld().base()
    async with world.controlling():
        await world.snap()
        name = (await world.content())["metadata"]["name"]
        await world.settle(1.0)
        await world.delete(VS, "snap")
        await world.content(lambda body: body["metadata"].get("deletionTimestamp"))
        await world.cut(name)
        await world.annotate(VSC, name, **{BEING_CREATED: None})
        before = len(world.written())
        await world.content(lambda body: TOUCHED in body["metadata"]["annotations"])
        await world.settle(20.0)
        assert [PUT_PVC, PATCH_VSC] == world.written()[before:]


async def test_S38_one_that_is_awake_is_not():
    world = await SnapshotWorld().base()
    gate = world.driver.gate(CREATE)
    async with world.both():
        await world.snap()
        await world.settle(2.0)
        await world.delete(VS, "snap")
        await world.settle(2.0)
        before = len(world.written())
        gate.set()
        await world.gone(VS, "snap")
        await world.settle(5.0)
        assert [PATCH_VSC_STATUS, PATCH_VSC, PUT_PVC, PATCH_VSC, PATCH_VS] == world.written()[before:]


async def test_S43_an_error_that_was_judged_before_a_content_turned_ready_is_not_shown():
    slow = SlowGets(VOLUME_SNAPSHOT_CLASSES)
    world = await SnapshotWorld(faults=slow).kinds()
    async with world.snapshotting():
        await world.create(a_new_content("orphan", volumeSnapshotClassName="missing"))
        await slow.asked.wait()
        await world.cut("orphan")
        await world.settle(1.0)
        slow.gate.set()
        await world.settle(5.0)
        status = (await world.get(VSC, "orphan"))["status"]
        assert (True, None) == (status["readyToUse"], status.get("error"))


async def test_S43_an_error_of_the_driver_that_comes_after_a_group_turned_ready_is_not_shown():
    world = await SnapshotWorld(SnapshotDriver(groups=True)).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    gate = world.driver.gate(CREATE_GROUP)
    world.driver.always(CREATE_GROUP, Fail(Code.INTERNAL, "too late"))
    await world.create(a_group_class(), a_group_content())

    async def is_asked() -> bool:
        return bool(world.driver.made(CREATE_GROUP))

    async with world.snapshotting(**ON):
        await world.until(is_asked)
        ready = {"readyToUse": True, "volumeGroupSnapshotHandle": "g", "creationTime": "2026-01-01T00:00:00Z"}
        await world.patch(VGSC, "groupcontent", {"status": ready}, subresource="status")
        gate.set()
        await world.settle(5.0)
        status = (await world.get(VGSC, "groupcontent"))["status"]
        assert (True, None) == (status["readyToUse"], status.get("error"))


@each_row("is_group", [False, True])
async def test_S33_a_content_whose_finalizer_was_torn_off_is_held_while_its_snapshot_is_made(is_group: bool):
    """Else it would vanish from under the call, and what is made would be nobody's."""
    world = await SnapshotWorld(SnapshotDriver(groups=True)).base()
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_group_class())
    kind, body, method = (
        (VGSC, a_group_content(), CREATE_GROUP)
        if is_group
        else (VSC, a_new_content(volumeSnapshotClassName="snapclass"), CREATE)
    )
    name, gate = body["metadata"]["name"], world.driver.gate(method)
    await world.create(body)
    async with world.snapshotting(**ON):
        await world.until(lambda: asyncio.sleep(0, world.driver.made(method)), what="the call")
        await world.delete(kind, name)
        gate.set()
        await world.settle(30.0)
        assert await world.get(kind, name), "the driver has made it, and the content says so"


async def test_S34_a_question_secret_of_a_group_that_can_not_be_had_leaves_the_request():
    world = await a_group_world(parameters=_secret("group-snapshotter-get-", "nowhere"))
    world.driver.ready = False
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.until(lambda: asyncio.sleep(0, world.driver.made(CREATE_GROUP)[1:]), what="a second request")
        [content] = await world.list(VGSC)
        assert "" == error_of(content)
        world.driver.ready = True
        await group_ready(world)


async def test_S43_an_error_that_was_judged_before_a_group_turned_ready_is_not_shown():
    slow = SlowGets(GROUP_SNAPSHOT_CLASSES)
    world = await SnapshotWorld(SnapshotDriver(groups=True), faults=slow).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    async with world.snapshotting(**ON):
        await world.create(a_group_content())
        await slow.asked.wait()
        ready = {"readyToUse": True, "volumeGroupSnapshotHandle": "g", "creationTime": "2026-01-01T00:00:00Z"}
        await world.patch(VGSC, "groupcontent", {"status": ready}, subresource="status")
        await world.settle(1.0)
        slow.gate.set()
        await world.settle(5.0)
        status = (await world.get(VGSC, "groupcontent"))["status"]
        assert (True, None) == (status["readyToUse"], status.get("error"))


class RefusedPatches(ServerFaults):
    """Patches of group contents are refused for a while."""

    refuses = False

    async def before(self, verb, kind, name):
        if self.refuses and verb == "patch" and kind is VGSC:
            raise ServerError("not now")


async def test_S39_a_group_whose_finalizer_can_not_be_taken_off_is_deleted_once():
    world = await a_group_world(faults=(faults := RefusedPatches()))
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await group_ready(world)
        await world.settle(2.0)
        gate = world.driver.gate(DELETE_GROUP)
        await world.delete(VGS, "group")
        await world.until(lambda: asyncio.sleep(0, world.driver.made(DELETE_GROUP)), what="the call")
        faults.refuses = True
        gate.set()
        await world.settle(30.0)
        faults.refuses = False
        await world.gone(VGS, "group", wait_s=120.0)
        assert 1 == len(world.driver.made(DELETE_GROUP))
