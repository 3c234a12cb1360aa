"""Growing from the claim's wish to the last write: lines of docs/behaviours/resizer.md, on the in-process ports."""

from __future__ import annotations

import pytest

from mooring.api.core import SECRETS
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Conflict, Unreachable
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_secret
from tests.support.cluster_world import HeldWatch, LateWatch, without
from tests.support.resizing import (
    CLAIMS,
    EXPAND,
    GET_SECRET,
    MARK,
    NODE_PENDING,
    NODE_PROGRESS,
    OLD,
    PROGRESS,
    PVS,
    SAVE_PV,
    SECRET,
    STD_EXPAND,
    ResizerWorld,
    ResizingDriver,
    condition,
)
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import GiB

pytestmark = in_virtual_time
GET_CLAIM, GET_PV = "get persistentvolumeclaims", "get persistentvolumes"
LEFT_TO_US = {names.RESIZER: "csi.test"}


@pytest.fixture
async def world() -> ResizerWorld:
    """A claim that has 1 GiB and asks for 2."""
    return await ResizerWorld().volume(2, 1)


async def test_R1_a_node_that_was_quicker_is_not_asked_again(world):
    """An answer was lost, the call is made once more, and meanwhile the node has done its part."""
    world.driver.script(EXPAND, Wait(2.0))
    async with world.resizing():
        await world.called(EXPAND)
        await world.node_done(2)
        await world.settle(5.0)
        assert ("2Gi", "2Gi", None, "2Gi") == await world.state()


async def test_R1_a_failure_is_not_told_of_a_claim_that_has_its_size(world):
    """An answer was lost, the call is made once more and fails, and meanwhile the claim says that it is done."""
    world.driver.script(EXPAND, Wait(2.0, Fail(Code.INTERNAL)))
    async with world.resizing():
        await world.called(EXPAND)
        await world.node_done(2)
        await world.settle(5.0)
        assert {} == await world.conditions()


async def test_R1_a_failure_takes_no_volume_from_its_node(world):
    """An answer was lost, the call is made once more and fails, and meanwhile the claim says that it is the node's
    turn.
    """
    world.driver.script(EXPAND, Wait(2.0, Fail(Code.INVALID_ARGUMENT)))
    async with world.resizing():
        await world.called(EXPAND)
        await world.patch(PVS, "pv", {"spec": {"capacity": {"storage": "2Gi"}}})
        await world.set_status({"allocatedResourceStatuses": {"storage": NODE_PENDING}})
        await world.settle(5.0)
        assert ("1Gi", "2Gi", NODE_PENDING, "2Gi") == await world.state()
        assert names.CONTROLLER_ERROR not in await world.conditions()


@each_row("is_read", [True, False])
async def test_a_growth_that_was_saved_is_not_made_again_where_the_answer_was_lost(is_read):
    """is_read: the API server answers the first time that the claim is looked at."""
    world = await ResizerWorld(faults=LateWatch(CLAIMS.plural, seconds=60.0)).volume(2, 1)
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        world.cluster.refuse(MARK, times=1, error=Unreachable("reset"), after=True)
        if not is_read:
            world.cluster.refuse(GET_CLAIM, times=1, error=Unreachable("reset"))
        gate.set()
        await world.settle(30)
    assert [2] == world.asked
    assert [*STD_EXPAND, *[GET_CLAIM] * (1 if is_read else 2)] == world.story


async def test_a_volume_that_the_cache_alone_says_to_have_grown_is_written():
    """An API server was set back, say: the claim would be handed to a node that finds nothing to do."""
    watch = HeldWatch(PVS.plural)
    world = await ResizerWorld(faults=watch).volume(1, 1, pv=2)
    async with world.resizing():
        watch.hold()
        await world.patch(PVS, "pv", {"spec": {"capacity": {"storage": "1Gi"}}})
        await world.ask(2)
        await world.state_is(1, 2, NODE_PENDING, 2)
    assert [MARK, EXPAND, GET_PV, SAVE_PV, MARK] == world.story


@each_row("annotate", [False, True])
async def test_R1_the_driver_grows_it_and_the_node_goes_on(annotate):
    world = await ResizerWorld(annotate=annotate).volume(2, 1)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.event("FileSystemResizeRequired")
        await world.settle(200)
    assert [2] == world.asked
    assert STD_EXPAND == world.story
    conditions = await world.conditions()
    assert {names.RESIZING, names.FS_PENDING} == set(conditions)
    assert all(one["status"] == "True" and one["lastTransitionTime"] > OLD for one in conditions.values())
    resizing = conditions[names.RESIZING]
    assert ("ResizeStarted", "Volume pv is to grow to 2Gi") == (resizing["reason"], resizing["message"])
    assert not conditions[names.FS_PENDING].get("reason")
    assert (
        "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
        == conditions[names.FS_PENDING]["message"]
    )
    assert ("1Gi" if annotate else None) == (await world.pv())["metadata"].get("annotations", {}).get(names.PRE_RESIZE)
    assert [
        ("Normal", "Resizing", "External resizer is resizing volume pv"),
        ("Normal", "FileSystemResizeRequired", "Require file system resize of volume on node"),
    ] == await world.told()
    assert [{"uid", "resourceVersion"}] * 2 == [set(body["metadata"]) for body in world.bodies(MARK)]


async def test_the_size_is_on_the_claim_before_the_driver_is_called(world: ResizerWorld):
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        assert ("1Gi", "2Gi", PROGRESS, "1Gi") == await world.state()
        assert {names.RESIZING} == set(await world.conditions())
        gate.set()
        await world.state_is(1, 2, NODE_PENDING, 2)


async def test_R31_the_state_of_another_resource_is_kept():
    world = await ResizerWorld(ResizingDriver(node_step=False)).volume(2, 1)
    await world.set_status({"allocatedResourceStatuses": {"example.com/speed": NODE_PENDING}})
    async with world.resizing():
        await world.state_is(2, 2, None, 2)
        assert {"example.com/speed": NODE_PENDING} == (await world.claim())["status"]["allocatedResourceStatuses"]


async def test_R2_without_a_node_step_the_claim_has_its_size():
    world = await ResizerWorld(ResizingDriver(node_step=False)).volume(2, 1)
    async with world.resizing():
        await world.state_is(2, 2, None, 2)
        assert ("Normal", "Resize volume succeeded") == await world.event("VolumeResizeSuccessful")
        assert {} == await world.conditions()
        claim = await world.claim()
        assert "true" == claim["metadata"]["annotations"][names.NOT_REQUIRED]
        assert "allocatedResourceStatuses" not in claim["status"]
        for size in (3, 7):
            await world.ask(size)
            await world.state_is(size, size, None, size)
    assert [2, 3, 7] == world.asked
    assert STD_EXPAND * 3 == world.story


@each_row(
    "body",
    [
        pytest.param({"spec": 1, "cap": 1}, id="R3"),
        pytest.param({"spec": 1, "cap": 2, "pv": 2, "conditions": [condition(names.RESIZING)]}, id="R3-more"),
        pytest.param({"spec": 2, "cap": 1, "phase": "Pending"}, id="R4"),
        pytest.param({"spec": 2, "cap": 1, "claim_ref": {"uid": "another"}}, id="R5-uid"),
        pytest.param({"spec": 2, "cap": 1, "claim_ref": {"namespace": "elsewhere"}}, id="R5-namespace"),
        pytest.param({"spec": 2, "cap": 1, "of_pv": {"claimRef": None}}, id="R5-none"),
        pytest.param({"spec": 2, "cap": 1, "csi_fields": {"driver": "other"}}, id="R6"),
        pytest.param(
            {"spec": 2, "cap": 1, "csi_fields": {"driver": "other"}, "annotations": LEFT_TO_US}, id="R6-annotated"
        ),
        pytest.param({"spec": 2, "cap": 1, "of_pv": {"source": {"hostPath": {"path": "/x"}}}}, id="R6-no-csi"),
    ],
)
async def test_nothing_is_done_where_nothing_is_to_be_done(body):
    world = await ResizerWorld().volume(**body)
    async with world.resizing():
        await world.settle(700)
    assert [] == world.story


async def test_R7_the_arrival_of_the_volume_wakes_its_claim(world: ResizerWorld):
    pv = await world.pv()
    await world.tear_away(PVS, "pv")
    async with world.resizing():
        await world.settle(5)
        assert [] == world.story
        await world.create({**pv, "metadata": {"name": "pv"}})
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)


async def test_R5_a_volume_that_becomes_the_claims_wakes_it():
    world = await ResizerWorld().volume(2, 1, claim_ref={"namespace": "elsewhere"})
    async with world.resizing():
        await world.settle(5)
        await world.patch(PVS, "pv", {"spec": {"claimRef": {"namespace": "default"}}})
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=0.5)


@each_row(
    ("fields", "checked"),
    [
        pytest.param({"of_pv": {"volumeMode": "Block"}}, lambda use: use.HasField("block"), id="R23"),
        pytest.param(
            {"csi_fields": {"fsType": "xfs"}, "of_pv": {"mountOptions": ["ro", "noatime"]}},
            lambda use: use.mount == csi.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["ro", "noatime"]),
            id="R24",
        ),
    ],
)
async def test_the_request_says_how_the_volume_is_used(fields, checked):
    world = await ResizerWorld().volume(2, 1, **fields)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
    request = world.driver.made(EXPAND)[0].request
    assert checked(request.volume_capability)
    assert ("handle-pv", csi.CapacityRange(required_bytes=2 * GiB), {}) == (
        request.volume_id,
        request.capacity_range,
        dict(request.secrets),
    )


async def test_R25_the_secret_is_read_for_each_call():
    world = await ResizerWorld(ResizingDriver(node_step=False)).volume(2, 1, csi_fields=SECRET)
    await world.create(a_secret(data={"user": "bWU="}))
    async with world.resizing():
        await world.state_is(2, 2, None, 2)
        await world.patch(SECRETS, "secret", {"data": {"user": "eW91"}})
        await world.ask(3)
        await world.state_is(3, 3, None, 3)
    assert [{"user": "me"}, {"user": "you"}] == [dict(call.request.secrets) for call in world.driver.made(EXPAND)]
    assert [MARK, GET_SECRET, EXPAND, SAVE_PV, MARK] * 2 == world.story


async def test_R25_a_missing_secret_is_told_and_the_size_stays():
    world = await ResizerWorld().volume(2, 1, csi_fields=SECRET)
    async with world.resizing():
        text = 'resize volume "pv" by resizer "csi.test" failed: error getting secret secret in namespace default'
        kind, message = await world.event("VolumeResizeFailed")
        assert kind == "Warning"
        assert message.startswith(text)
        await world.settle(20)
        assert ("1Gi", "2Gi", PROGRESS, "1Gi") == await world.state()
        assert {names.RESIZING} == set(await world.conditions())
        assert [] == world.driver.made(EXPAND)
        assert [MARK] == without(world.story, GET_SECRET)
        await world.create(a_secret(data={}))
        await world.state_is(1, 2, NODE_PENDING, 2)


async def test_R26_a_conflict_before_the_call_is_tried_again_without_a_word(world: ResizerWorld):
    world.cluster.refuse(MARK, times=2, error=Conflict("changed", reason="Conflict"))
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.settle()
    assert [MARK, GET_CLAIM, MARK, GET_CLAIM, *STD_EXPAND] == world.story
    assert [] == [one for one in await world.told() if one[1] == "VolumeResizeFailed"]


async def test_a_conflict_after_the_call_repeats_the_write_and_not_the_call(world: ResizerWorld):
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        world.cluster.refuse(MARK, error=Conflict("changed", reason="Conflict"))
        gate.set()
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.settle(5)
    assert [2] == world.asked
    assert [] == [one for one in await world.told() if one[1] == "VolumeResizeFailed"]


async def test_another_wish_before_the_first_write_counts():
    """The cache is behind: the write meets a claim that wants something else by now."""
    world = await ResizerWorld(faults=LateWatch("persistentvolumeclaims")).volume(1, 1)
    async with world.resizing():
        await world.settle(5)
        await world.ask(2)
        await world.settle(0.5)
        await world.ask(3)
        await world.state_is(1, 3, NODE_PENDING, 3)
        await world.settle(5)
    assert [3] == world.asked
    assert [MARK, GET_CLAIM, *STD_EXPAND] == world.story


@each_row("is_late", [True, False])
@each_row("answer", [None, Fail(Code.INTERNAL), Fail(Code.OUT_OF_RANGE)])
async def test_a_claim_that_was_made_anew_during_the_call_is_not_written(answer, is_late):
    """is_late: the cache does not show it yet."""
    world = await ResizerWorld(
        ResizingDriver(node_step=False), LateWatch("persistentvolumeclaims") if is_late else None
    ).volume(2, 1)
    world.driver.script(EXPAND, answer)
    gate = world.driver.gate(EXPAND)
    async with world.resizing():
        await world.called()
        old = await world.claim()
        await world.tear_away(CLAIMS, "claim")
        new = await world.create(
            {**old, "metadata": {"name": "claim"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        )
        gate.set()
        await world.settle(200)
        assert new["metadata"]["resourceVersion"] == (await world.claim())["metadata"]["resourceVersion"]


async def test_R27_the_size_before_goes_once_the_node_is_done():
    world = await ResizerWorld(annotate=True).volume(2, 1)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.set_status({"allocatedResourceStatuses": {"storage": NODE_PROGRESS}})
        await world.settle()
        assert "1Gi" == (await world.pv())["metadata"]["annotations"][names.PRE_RESIZE]
        await world.node_done(2)
        await world.shown(PVS, "pv", lambda pv: names.PRE_RESIZE not in pv["metadata"].get("annotations", {}))
        await world.settle()
    assert [*STD_EXPAND, SAVE_PV] == world.story


@each_row(("annotate", "wanted"), [(True, [SAVE_PV]), (False, [])])
async def test_R27_at_the_start(annotate, wanted):
    world = await ResizerWorld(annotate=annotate).volume(
        2, 2, pv=2, of_pv={"annotations": {names.PRE_RESIZE: "1Gi", "other": "kept"}}
    )
    async with world.resizing():
        await world.settle(5)
    assert wanted == world.story
    assert "kept" == (await world.pv())["metadata"]["annotations"]["other"]


GCE = {"source": {"gcePersistentDisk": {"pdName": "disk"}}, "labels": {"topology.kubernetes.io/zone": "z"}}


async def test_R28_an_in_tree_volume_grows_once_it_is_left_to_the_driver():
    driver = ResizingDriver(name="pd.csi.storage.gke.io")
    world = await ResizerWorld(driver).volume(2, 1, of_pv=GCE, annotations={names.RESIZER: "kubernetes.io/gce-pd"})
    async with world.resizing():
        await world.settle(20)
        assert [] == world.story
        await world.patch(CLAIMS, "claim", {"metadata": {"annotations": {names.RESIZER: driver.name}}})
        await world.state_is(1, 2, NODE_PENDING, 2)
    assert "projects/UNSPECIFIED/zones/z/disks/disk" == driver.made(EXPAND)[0].request.volume_id
    assert "gcePersistentDisk" in (await world.pv())["spec"]


async def test_R31_the_conditions_of_others_are_kept():
    foreign = condition("example.com/Foreign", reason="R", message="m")
    world = await ResizerWorld().volume(2, 1, conditions=[foreign])
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
    conditions = await world.conditions()
    assert {"example.com/Foreign", names.RESIZING, names.FS_PENDING} == set(conditions)
    assert foreign.items() <= conditions["example.com/Foreign"].items()


async def test_R32_an_old_annotation_goes():
    world = await ResizerWorld().volume(2, 1, annotations={names.NOT_REQUIRED: "true", "other": "kept"})
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
    assert {"other": "kept"} == (await world.claim())["metadata"]["annotations"]


async def test_a_second_growth_waits_for_the_node():
    world = await ResizerWorld().volume(2, 1)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.set_status({"allocatedResourceStatuses": {"storage": NODE_PROGRESS}})
        await world.ask(4)
        await world.settle(20)
        assert ("1Gi", "2Gi", NODE_PROGRESS, "2Gi") == await world.state()
        await world.node_done(2)
        await world.state_is(2, 4, NODE_PENDING, 4)
    assert [2, 4] == world.asked


async def test_a_node_only_driver_is_not_called():
    world = await ResizerWorld(ResizingDriver((), on_node=True), annotate=True).volume("1500M", "1G", pv="1G")
    async with world.resizing():
        await world.state_is("1G", "1500M", NODE_PENDING, "1500M")
    assert [MARK, SAVE_PV, MARK] == world.story
    assert "1G" == (await world.pv())["metadata"]["annotations"][names.PRE_RESIZE]


async def test_a_volume_of_a_node_only_driver_grows_for_no_claim_that_the_cache_alone_has():
    """A restore has undone it, say: the volume would show a size that nobody asks for, and no node makes."""
    watch = HeldWatch(CLAIMS.plural)
    world = ResizerWorld(ResizingDriver((), on_node=True), watch)
    await world.volume(2, 1, 2, PROGRESS, conditions=[condition(names.RESIZING)])
    pv = await world.pv()
    await world.tear_away(PVS, "pv")
    async with world.resizing():
        watch.hold()
        await world.tear_away(CLAIMS, "claim")
        await world.create({**pv, "metadata": {"name": "pv"}})
        await world.settle(30)
        assert "1Gi" == (await world.pv())["spec"]["capacity"]["storage"]
    assert [GET_CLAIM] == world.story


@each_row(("answer", "shown"), [(3 * GiB, "3Gi"), (2 * GiB + 1, str(2 * GiB + 1)), (2 * GiB + (1 << 20), "2049Mi")])
async def test_the_driver_may_give_more(answer, shown):
    world = await ResizerWorld(ResizingDriver(node_step=False)).volume(2, 1)
    world.driver.answers = [answer]
    async with world.resizing():
        await world.state_is(shown, 2, None, shown)


@each_row("answer", [0, GiB // 2, GiB, -GiB])
async def test_an_answer_smaller_than_asked_is_refused(answer):
    world = await ResizerWorld(ResizingDriver(node_step=False)).volume(2, 1)
    world.driver.answers = [answer] * 20
    async with world.resizing():
        assert (
            f"the driver answered a capacity of {answer} bytes to a request for {2 * GiB}"
            in (await world.event("VolumeResizeFailed"))[1]
        )
        await world.settle(5)
        assert ("1Gi", "2Gi", PROGRESS, "1Gi") == await world.state()
        assert "CapacityTooSmall" == (await world.conditions())[names.CONTROLLER_ERROR]["reason"]


@each_row("expansion", [csi.PluginCapability.VolumeExpansion.ONLINE, csi.PluginCapability.VolumeExpansion.OFFLINE])
async def test_the_message_of_the_pending_condition_is_true_to_the_driver(expansion):
    world = await ResizerWorld(ResizingDriver(expansion=[expansion])).volume(2, 1)
    async with world.resizing():
        message = (await world.has_condition(names.FS_PENDING))["message"]
    assert ("start a pod" in message) is (expansion == csi.PluginCapability.VolumeExpansion.OFFLINE)


async def test_a_size_beyond_csi_is_told_and_may_be_lowered():
    world = await ResizerWorld().volume("10E", 1)
    async with world.resizing():
        assert "is more than CSI can express" in (await world.event("VolumeResizeFailed"))[1]
        await world.settle(700)
        assert [] == world.story
        await world.ask(2)
        await world.state_is(1, 2, NODE_PENDING, 2)


async def test_access_modes_that_csi_does_not_know_are_told():
    world = await ResizerWorld().volume(2, 1, of_pv={"modes": ["ReadOnlyMany", "ReadWriteOnce"]})
    async with world.resizing():
        text = "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"
        assert text in (await world.event("VolumeResizeFailed"))[1]
        await world.settle(20)
        assert ("1Gi", "2Gi", PROGRESS, "1Gi") == await world.state()
    assert [MARK] == world.story


@each_row("node_step", [True, False])
async def test_without_the_gate_of_recovery_there_are_conditions_alone(node_step):
    world = await ResizerWorld(ResizingDriver(node_step=node_step), recover=False).volume(2, 1)
    world.driver.script(EXPAND, Fail(Code.OUT_OF_RANGE))
    async with world.resizing():
        await world.event("VolumeResizeFailed", "code = OutOfRange")
        await world.state_is(1 if node_step else 2, None, None, 2)
        await world.settle(200)
        assert ({names.FS_PENDING} if node_step else set()) == set(await world.conditions())
        assert [2, 2] == world.asked


async def test_capabilities_are_asked_once(world: ResizerWorld):
    world.driver.node_step = False
    async with world.resizing():
        for size in (2, 3):
            await world.ask(size)
            await world.state_is(size, size, None, size)
    assert (RPC.EXPAND_VOLUME in world.driver.controller, [2, 3]) == (True, world.asked)
