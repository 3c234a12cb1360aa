"""`mooring unstick --driver` on the in-process port, in virtual time: what a removed driver's attacher left, and the
proof before.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS
from mooring.api.volume_names import unique_name
from mooring.apiserver.local import ServerFaults
from mooring.base.errors import ConfigError
from mooring.cli import mooring as command
from mooring.cli.unstick import CANNOT, CLEAN, LEFT
from mooring.inspect.unstick.nearby import FRESH_S
from tests.support.builders import (
    DRIVER,
    FINALIZER,
    a_bound_claim,
    a_csi_driver,
    a_csi_node,
    a_held_pv,
    a_lease,
    a_node,
    a_pod,
    a_reference,
    a_va,
    an_attached_va,
)
from tests.support.rows import each_row
from tests.support.unsticking import UnstickWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

LOCK = "external-attacher-leader-csi-test"
MAYBE = "its volume may be attached to node1 (node id nodeID1)"
NAMED = "VolumeAttachment pv1-node1 still names it"


class DriverWorld(UnstickWorld):
    async def free(self, typed: str = "", **flags: Any) -> int:
        return await self.unstick(typed=typed, **{"driver": DRIVER, **flags})

    async def against_each(self, **flags: Any) -> dict[str, list[str]]:
        """For each object, what speaks against the end of its finalizers, from a look that writes nothing."""
        await self.free(dry_run=True, output="json", **flags)
        assert not [step for step in self.story if not step.startswith(("get", "list"))], self.story
        found = json.loads(self.out.getvalue())["objects"]
        return {
            one["object"].split()[1]: [each["what"] for verdict in one["finalizers"] for each in verdict["against"]]
            for one in found
        }

    async def deleted_volume(self, body: dict[str, Any], *others: str) -> None:
        """In deletion, and held by the attacher alone; protection has done its part. others: further finalizers."""
        name, held = body["metadata"]["name"], body["metadata"]["finalizers"]
        await self.create(body)
        await self.patch(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": [*held, *others]}})
        await self.delete(PERSISTENT_VOLUMES, name)

    async def holders(self, kind: Kind[Any]) -> list[str]:
        return [
            one["metadata"]["name"]
            for one in await self.list(kind)
            if FINALIZER in one["metadata"].get("finalizers", ())
        ]


async def a_world(faults: ServerFaults | None = None, node: bool = True, **attachment: Any) -> DriverWorld:
    """A volume and its attachment, both deleted, as the attacher left them. node: its Node is there still."""
    world = DriverWorld(faults)
    if node:
        await world.create(a_node("node1"))
    await world.create(an_attached_va("pv1-node1", **attachment))
    await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
    await world.deleted_volume(a_held_pv("pv1"))
    return world


async def test_what_a_machine_that_is_gone_had_ends_with_its_volume():
    world = await a_world(node=False)
    assert {"pv1-node1": [], "pv1": [NAMED]} == await world.against_each()
    assert CLEAN == await world.free(f"{DRIVER}\n")
    await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
    await world.gone(PERSISTENT_VOLUMES, "pv1")
    assert "pv1-node1: external-attacher/csi-test\n  and off each volume" in world.err.getvalue()
    assert 2 == world.out.getvalue().count("TAKEN OFF")
    assert CLEAN == await world.free()
    assert "csi.test: its attacher holds nothing that is being deleted\n" == world.out.getvalue()


async def test_the_volume_goes_after_its_attachment():
    world = await a_world(node=False)
    await world.free(yes=True)
    writes = [step for step in world.story if step.startswith("patch")]
    assert ["patch volumeattachments", "patch persistentvolumes"] == [" ".join(step.split()[:2]) for step in writes]


async def test_a_dry_run_changes_nothing_and_leaves_exit_code_3():
    world = await a_world(node=False)
    assert LEFT == await world.free(dry_run=True)
    assert ["pv1-node1"] == await world.holders(VOLUME_ATTACHMENTS)
    assert "volumeattachment pv1-node1: held by 1 finalizer, 1 may go\n" in world.out.getvalue()


@each_row("typed", ["", "yes\n", "csi.tes\n", "pv1-node1\n"])
async def test_another_word_than_the_drivers_name_takes_nothing_off(typed: str):
    world = await a_world(node=False)
    assert CANNOT == await world.free(typed)
    assert "nothing is taken off without the driver's name\n" in world.err.getvalue()
    assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)


async def test_what_may_be_attached_goes_only_by_force_and_then_its_volume_is_free():
    world = await a_world()
    assert {"pv1-node1": [MAYBE], "pv1": [NAMED]} == await world.against_each()
    assert CANNOT == await world.free(yes=True)
    said = " ".join(world.out.getvalue().split())
    forced = "then mooring unstick volumeattachment/pv1-node1 --force --reason=WHY"
    assert f"else detach it there by the storage's own means, {forced}" in said
    assert CLEAN == await world.unstick("va/pv1-node1", force=True, reason="seen at the array", typed="pv1-node1\n")
    assert CLEAN == await world.free(yes=True)
    await world.gone(PERSISTENT_VOLUMES, "pv1")


async def test_one_with_the_finalizer_and_without_a_node_s_id_may_be_attached():
    """Each attacher writes both at once: somebody has taken the id away."""
    world = await a_world(annotations={}, status={"attached": False})
    (kept,) = (await world.against_each())["pv1-node1"]
    assert kept.endswith("the attach had begun, and its node's id was taken away since")


async def test_a_publish_that_may_have_happened_counts():
    world = await a_world(status={"attached": False})
    (kept,) = (await world.against_each())["pv1-node1"]
    assert f"{MAYBE}: it is not marked attached, but the attach had begun" == kept


async def test_what_nobody_deletes_is_left_alone_and_keeps_its_volume():
    world = DriverWorld()
    await world.create(an_attached_va("pv1-node1"), a_held_pv("pv2", "handle2"))
    await world.deleted_volume(a_held_pv("pv1"))
    assert {"pv1": [NAMED]} == await world.against_each()
    assert CANNOT == await world.free(yes=True)
    assert ["pv1", "pv2"] == sorted(await world.holders(PERSISTENT_VOLUMES))
    assert ["pv1-node1"] == await world.holders(VOLUME_ATTACHMENTS)


async def test_a_new_attachment_without_the_finalizer_keeps_the_volume_too():
    world = DriverWorld()
    await world.create(a_va("pv1-node1"))
    await world.deleted_volume(a_held_pv("pv1"))
    assert {"pv1": [NAMED]} == await world.against_each()


@each_row(("driver", "kept"), [(DRIVER, ["the kubelet of node1 reports it as in use"]), ("csi.other", None)], ids=str)
async def test_what_a_kubelet_reports_as_in_use_keeps_the_volumes_of_its_driver(driver: str, kept: list[str] | None):
    world = await a_world()
    in_use = {"status": {"volumesInUse": [unique_name(driver, "handle1")]}}
    await world.patch(NODES, "node1", in_use, subresource="status")
    assert {"pv1-node1": kept or [MAYBE], "pv1": kept or [NAMED]} == await world.against_each()


async def test_where_the_volume_is_unknown_any_of_the_driver_counts():
    world = DriverWorld()
    in_use = {"volumesInUse": [unique_name(DRIVER, "other")]}
    await world.create(a_node("node1", **in_use), an_attached_va("lost-node1", "lost"))
    await world.delete(VOLUME_ATTACHMENTS, "lost-node1")
    assert {"lost-node1": ["the kubelet of node1 reports it as in use"]} == await world.against_each()


async def test_a_pod_with_the_volume_keeps_it_also_where_its_claim_was_forced_away():
    world, used = DriverWorld(), ["it is in use by pod default/web on node1"]
    claim = await world.create(a_bound_claim("claim", "pv1"))
    await world.create(a_pod("web", "claim", node="node1", phase="Running"))
    await world.deleted_volume(a_held_pv("pv1", spec={"claimRef": a_reference(claim)}))
    assert {"pv1": used} == await world.against_each()
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUME_CLAIMS, "claim")
    assert {"pv1": used} == await world.against_each()
    await world.patch(PODS, "web", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert {"pv1": []} == await world.against_each()


async def test_a_pod_with_a_later_claim_of_the_same_name_keeps_nothing():
    world = DriverWorld()
    await world.create(a_bound_claim("claim", "pv2"), a_pod("web", "claim", node="node1", phase="Running"))
    claim_of_before = a_reference(a_bound_claim("claim", "pv2"), "an-old-uid")
    await world.deleted_volume(a_held_pv("pv1", spec={"claimRef": claim_of_before}))
    assert {"pv1": []} == await world.against_each()


async def test_a_driver_that_is_registered_or_installed_may_have_an_attacher_that_nobody_sees():
    world = await a_world(node=False)
    await world.create(a_csi_node("node1", {DRIVER: "i-1"}), a_csi_driver(DRIVER))
    for kind, name in ((CSI_DRIVERS, DRIVER), (CSI_NODES, "node1")):
        (kept,) = (await world.against_each())["pv1-node1"]
        assert kept.endswith("it may run without leader election, where nobody sees it")
        assert CANNOT == await world.free(yes=True)
        assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)
        await world.remove(kind, name)
    assert CLEAN == await world.free(yes=True)


@each_row("lock", [LOCK, "mooring-controller-csi-test"])
async def test_a_lease_that_is_renewed_shows_an_attacher_that_lives(lock: str):
    world = await a_world(node=False)
    holder = world.renewing(lock)
    (kept,) = (await world.against_each())["pv1-node1"]
    assert f"alive_1 renews the Lease default/{lock}" in kept
    assert f"looking for 15s whether default/{lock} is still renewed\n" == world.err.getvalue()
    holder.cancel()


async def test_a_lease_that_nobody_renews_is_dead_whatever_its_times_say():
    """Its holder's clock may be a year ahead. All objects share the one watch."""
    world = await a_world(node=False)
    await world.create(a_lease(LOCK, holderIdentity="pod_1", renewTime="2027-06-01T00:00:00.000000Z"))
    began = world.clock.now()
    assert CLEAN == await world.free(yes=True)
    assert 15 <= world.clock.now() - began < 16


class CountsLists(ServerFaults):
    """Of all kinds but Events, which are an object's own."""

    count = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        self.count += verb == "list" and kind.plural != "events"


async def test_objects_of_one_kind_share_the_lists_of_the_cluster():
    lists = CountsLists()
    world = await a_world(lists, node=False)
    lists.count = 0
    await world.free(dry_run=True)
    lists_of_two, lists.count = lists.count, 0
    for number in range(20):
        await world.create(an_attached_va(f"pv{number}-gone", f"pv{number}"))
        await world.delete(VOLUME_ATTACHMENTS, f"pv{number}-gone")
        await world.deleted_volume(a_held_pv(f"more{number}", f"more{number}"))
    lists.count = 0
    await world.free(dry_run=True)
    assert 0 < lists_of_two == lists.count


class ComesBack(ServerFaults):
    """An attacher of the driver takes its Lease a while after the first look."""

    def __init__(self) -> None:
        self.world: DriverWorld | None = None
        self._gets = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "get" and kind.plural == "persistentvolumes" and self.world is not None:
            self._gets += 1
            if self._gets == 2:
                await asyncio.sleep(FRESH_S + 1)
                await self.world.create(a_lease(LOCK, holderIdentity="new"))


async def test_an_attacher_that_comes_back_meanwhile_is_seen_by_the_second_look():
    faults = ComesBack()
    world = DriverWorld(faults)
    await world.deleted_volume(a_held_pv("pv1"))
    faults.world = world
    assert LEFT == await world.free(yes=True)
    assert "it is the move of csi-attacher of csi.test: new renews" in " ".join(world.out.getvalue().split())
    assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)


async def test_an_object_that_is_written_meanwhile_is_judged_anew():
    class Touched(ServerFaults):
        world: DriverWorld | None = None

        async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
            if verb == "patch" and kind is VOLUME_ATTACHMENTS and self.world is not None:
                world, self.world = self.world, None
                await world.create(a_node("node1"))
                await world.patch(VOLUME_ATTACHMENTS, name, {"metadata": {"annotations": {"somebody": "was here"}}})

    faults = Touched()
    world = await a_world(faults, node=False)
    faults.world = world
    assert CLEAN == await world.free(yes=True)
    assert 2 == sum(step.startswith("patch volumeattachments") for step in world.story), world.story


async def test_the_same_finalizer_of_a_driver_with_another_name_stays():
    """csi.test and csi-test have one finalizer between them."""
    world = DriverWorld()
    await world.deleted_volume(a_held_pv("other", source={"csi": {"driver": "csi-test", "volumeHandle": "h"}}))
    await world.deleted_volume(a_held_pv("pv1"))
    await world.create(an_attached_va("other-node1", "other", attacher="csi-test"))
    await world.delete(VOLUME_ATTACHMENTS, "other-node1")
    assert CLEAN == await world.free(yes=True)
    assert ["other"] == await world.holders(PERSISTENT_VOLUMES)
    assert ["other-node1"] == await world.holders(VOLUME_ATTACHMENTS)


async def test_a_volume_from_the_time_before_csi_is_its_drivers():
    world = DriverWorld()
    source = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    await world.deleted_volume(a_held_pv("old", source=source, finalizers=["external-attacher/ebs-csi-aws-com"]))
    assert {"old": []} == await world.against_each(driver="ebs.csi.aws.com")


async def test_finalizers_of_others_stay_and_are_named():
    world = DriverWorld()
    await world.deleted_volume(a_held_pv("pv1"), "example.com/mine")
    assert LEFT == await world.free(yes=True)
    assert ["example.com/mine"] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
    assert "  example.com/mine: STAYS\n" in world.out.getvalue()


@each_row(
    ("words", "problem"),
    [
        (("--force", "--reason=b"), "--driver goes without --csi-address and --force"),
        (("--csi-address=/csi.sock",), "--driver goes without --csi-address and --force"),
    ],
)
def test_flags_for_one_object_do_not_go_with_a_driver(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
):
    assert 2 == command.run(["unstick", "--driver=a", *words])
    assert problem in capsys.readouterr().err


async def test_a_driver_goes_without_an_object():
    with pytest.raises(ConfigError, match="--driver goes without an object"):
        await DriverWorld().unstick("pv/data", driver=DRIVER)
