"""`mooring unstick` (issue 29) where an attach was under way: "attached: false" is no proof, and the driver's own word
is one.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.cli import mooring as command
from mooring.cli.unstick import CANNOT, CLEAN, LEFT
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from tests.support.builders import DRIVER, a_csi_driver, a_csi_node, a_held_pv, a_node, a_secret, a_va, an_attached_va
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, UNPUBLISH, Fail
from tests.support.unsticking import Publishing, UnstickWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.inspect.test_unstick import LOCK, VA, a_world, in_use

pytestmark = in_virtual_time

UNDER_WAY: dict[str, Any] = {"status": {"attached": False}}
"""The attacher has written the node's id, and died before it wrote that the volume is attached."""


def detaching(*handles: str, gets: bool = False, says_where: bool = False) -> Publishing:
    """A driver that attaches and detaches. It does not say where it has its volumes, unless says_where."""
    servicer = Publishing(*handles, gets=gets, says_where=says_where)
    servicer.controller = (*servicer.controller, RPC.PUBLISH_UNPUBLISH_VOLUME)
    return servicer


async def held(world: UnstickWorld) -> list[str]:
    return list((await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"])


async def test_not_marked_attached_is_no_proof():
    world = await a_world(**UNDER_WAY)
    assert [
        "its volume may be attached to node1 (node id nodeID1): it is not marked attached, but the attach had begun"
    ] == (await world.against(VA))
    assert CANNOT == await world.unstick(VA, yes=True)


async def test_a_node_s_id_that_was_taken_away_is_no_proof():
    world = await a_world(annotations={}, **UNDER_WAY)
    (objection,) = await world.against(VA)
    assert objection.endswith("the attach had begun, and its node's id was taken away since")
    assert CANNOT == await world.unstick(VA, yes=True)


@each_row("gets", [False, True])
async def test_the_driver_s_word_is_a_proof(gets: bool):
    world = await a_world(servicer=detaching("handle1", gets=gets, says_where=True), **UNDER_WAY)
    assert (
        "the driver csi.test does not have the volume published on node node1 (node id nodeID1)"
        in await world.proved(VA)
    )
    assert CLEAN == await world.unstick(VA, yes=True)


async def test_a_driver_that_can_t_say_where_may_detach_it_and_that_is_a_proof():
    world = await a_world(servicer=detaching("handle1"), **UNDER_WAY)
    (verdict,) = (await world.judged(VA)).values()
    assert "--detach lets the driver detach it, as its attacher would" in verdict["against"][0]["wayOut"]
    world.servicer.published["handle1"] = {"nodeID1"}
    assert CLEAN == await world.unstick(VA, typed="pv1-node1\n", detach=True)
    assert set() == world.servicer.published["handle1"]
    assert "the driver is called to detach volume handle1 from node node1 (node id nodeID1)" in world.err.getvalue()
    assert "proved the driver csi.test has detached the volume from node node1 (node id nodeID1)" in " ".join(
        world.out.getvalue().split()
    )
    await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")


async def test_nobody_detaches_before_the_question_is_answered():
    world = await a_world(servicer=detaching("handle1"), **UNDER_WAY)
    assert LEFT == await world.unstick(VA, dry_run=True, detach=True)
    assert CANNOT == await world.unstick(VA, typed="no\n", detach=True)
    assert [] == world.servicer.made(UNPUBLISH)


async def test_a_detach_that_fails_takes_nothing_off():
    world = await a_world(servicer=detaching("handle1"), **UNDER_WAY)
    world.servicer.script(UNPUBLISH, Fail(Code.ABORTED, "an operation on handle1 is under way"))
    with pytest.raises(DriverError, match="an operation on handle1 is under way"):
        await world.unstick(VA, yes=True, detach=True)
    assert ["external-attacher/csi-test"] == await held(world)


async def test_what_a_kubelet_has_in_use_is_not_detached():
    world = await a_world(servicer=detaching("handle1"))
    await in_use(world, "handle1")
    assert CANNOT == await world.unstick(VA, yes=True, detach=True)
    assert [] == world.servicer.made(UNPUBLISH)


async def test_a_live_attacher_detaches_by_itself():
    world = await a_world(servicer=detaching("handle1"))
    holder = world.renewing("mooring-controller-csi-test")
    assert CANNOT == await world.unstick(VA, yes=True, detach=True)
    assert [] == world.servicer.made(UNPUBLISH)
    holder.cancel()


async def test_a_volume_that_another_attachment_wants_there_is_not_detached():
    world = await a_world(servicer=detaching("handle1"))
    await world.create(a_held_pv("pv2", "handle1"), a_va("pv2-node1", "pv2", "node1"))
    assert CANNOT == await world.unstick(VA, yes=True, detach=True)
    assert "--detach: VolumeAttachment pv2-node1 wants the volume on the same node" in world.err.getvalue()
    assert [] == world.servicer.made(UNPUBLISH)


async def test_the_call_has_the_secret_of_the_volume():
    world = UnstickWorld(servicer=detaching("handle1"))
    ref = {"controllerPublishSecretRef": {"name": "keys", "namespace": "default"}}
    await world.create(
        a_secret("keys", {"user": "bWU="}), a_held_pv("pv1", **ref), a_node("node1"), a_csi_node("node1")
    )
    await world.create(a_csi_driver(DRIVER), an_attached_va("pv1-node1"))
    await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
    await world.dead_lease(LOCK)
    assert CLEAN == await world.unstick(VA, yes=True, detach=True)
    (call,) = world.servicer.made(UNPUBLISH)
    assert {"user": "me"} == dict(call.request.secrets)


@each_row(
    ("words", "wrong"),
    [
        (["--detach"], "--detach: needs --csi-address"),
        (["--detach", "--csi-address=/s", "--force", "--reason=x"], "--detach goes without --force"),
    ],
)
def test_flags_that_do_not_go_together(words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]):
    assert 2 == command.run(["unstick", "va/x", *words])
    assert wrong in capsys.readouterr().err


async def test_only_an_attachment_is_detached():
    world = await a_world(servicer=detaching("handle1"))
    await world.create(a_node("node9"))
    await world.unstick("pv/pv1", yes=True, detach=True)
    assert "--detach is for a VolumeAttachment" in world.err.getvalue()
