"""iSCSI, Fibre Channel and FlexVolume: what a node attaches itself is listed in its report, and that is all."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from mooring.api.core import NODES
from mooring.api.meta import Kind
from mooring.api.volume_names import name_of_node_attached
from mooring.apiserver.local import ServerFaults
from mooring.kube.errors import Forbidden, Unreachable
from tests.support.attachdetaching import PATCH_NODE, AttachDetachWorld, Vol, attaching
from tests.support.builders import a_pod, a_pv, typed
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

ISCSI: Final = {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 3}}
NAME: Final = "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2001-04.com.example:a:3"
OTHER: Final = {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:b", "lun": 0}}
FLEX: Final = {"flexVolume": {"driver": "example.com/lvm"}}


@each_row(
    ("source", "name"),
    [
        (ISCSI, NAME),
        ({"fc": {"targetWWNs": ["a1", "b2"], "lun": 0}}, "kubernetes.io/fc/[a1 b2]:0"),
        ({"fc": {"wwids": ["w1", "w2"]}}, "kubernetes.io/fc/[w1 w2]"),
        ({"fc": {"targetWWNs": ["a1"], "wwids": ["w1"]}}, "kubernetes.io/fc/[w1]"),
        ({"fc": {}}, ""),
        ({"nfs": {"server": "s", "path": "/"}}, ""),
    ],
)
def test_the_names_are_those_of_kube_controller_manager(source: Any, name: str) -> None:
    assert name == name_of_node_attached(typed(a_pv("pv", source=source)).spec)
    pod = typed(a_pod("p", volumes=[{"name": "v", **source}]))
    assert name == name_of_node_attached(pod.spec.volumes[0])


async def two_nodes(world: AttachDetachWorld, **volume: Any) -> tuple[Vol, str, str]:
    """A volume, a node that lists it for a pod of the name first, and another node."""
    made = await world.volume(source=ISCSI, **volume)
    one, two = await world.node("n-one"), await world.node("n-two")
    await world.pod(one, made, name="first")
    await world.settle(1)
    assert [NAME] == await world.reported(one)
    return made, one, two


async def in_use(world: AttachDetachWorld, node: str, *names: str) -> None:
    await world.node_status(node, volumesInUse=list(names) or None)


@in_virtual_time
async def test_one_is_listed_while_a_pod_wants_it_or_the_node_has_it_in_use() -> None:
    async with attaching() as world:
        _, one, _ = await two_nodes(world)
        volume = await world.told("first")
        assert [("Normal", "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pv1" ')] == volume
        await in_use(world, one, NAME)
        await world.delete_pod("first")
        await world.settle(3600)
        assert [NAME] == await world.reported(one), "it is mounted"
        await in_use(world, one)
        await world.settle(1)
        assert [] == await world.reported(one)
        assert [] == await world.attachments()
        assert 2 == len(world.of(PATCH_NODE)), "each change is one write"


@in_virtual_time
async def test_a_pods_own_volume_is_listed_on_any_number_of_nodes() -> None:
    async with attaching() as world:
        for node in ("n-one", "n-two"):
            await world.create(a_pod(f"p-{node}", node=await world.node(node), volumes=[{"name": "own", **ISCSI}]))
        await world.settle(1)
        assert [[NAME], [NAME]] == [await world.reported(node) for node in ("n-one", "n-two")]
        assert "own" in await world.wait_told("p-n-one", "SuccessfulAttachVolume")
        await in_use(world, "n-one", NAME)
        await world.delete_pod("p-n-one")
        await in_use(world, "n-one")
        await world.settle(1)
        assert [[], [NAME]] == [await world.reported(node) for node in ("n-one", "n-two")]


@in_virtual_time
async def test_one_for_a_single_node_waits_for_the_other_node() -> None:
    async with attaching() as world:
        volume, one, two = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.pod(two, volume, name="second")
        await world.settle(60)
        assert [] == await world.reported(two)
        text = "Volume is already exclusively attached to one node and can't be attached to another"
        assert [f'Multi-Attach error for volume "{volume.pv}" {text}'] == [
            one for *_, one in await world.told("second")
        ]
        await world.delete_pod("first")
        await in_use(world, two, NAME)  # a kubelet says so before it waits for the report
        await world.settle(60)
        assert ([NAME], []) == (await world.reported(one), await world.reported(two))
        await in_use(world, one)
        await world.settle(1)
        assert ([], [NAME]) == (await world.reported(one), await world.reported(two))


@in_virtual_time
async def test_one_for_many_nodes_waits_for_none() -> None:
    async with attaching() as world:
        volume, one, two = await two_nodes(world, modes=("ReadWriteMany",))
        await world.pod(two, volume, name="second")
        await world.settle(1)
        assert ([NAME], [NAME]) == (await world.reported(one), await world.reported(two))


class SlowPatch(ServerFaults):
    """A PATCH of a Node is carried out late; of the first ones no answer comes, and nothing else either."""

    losses = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (verb, kind.plural) == ("patch", "nodes"):
            await asyncio.sleep(5.0)
            if self.losses > 0:
                self.losses -= 1
                raise Unreachable("cut")


@in_virtual_time
async def test_two_nodes_at_once_do_not_both_list_one() -> None:
    faults = SlowPatch()
    async with attaching(faults) as world:
        volume = await world.volume(source=ISCSI)
        for node in ("n-one", "n-two"):
            await world.node(node)
        faults.losses = 1
        for node in ("n-one", "n-two"):
            await world.pod(node, volume)
        await world.settle(60)
        assert [NAME] == [*await world.reported("n-one"), *await world.reported("n-two")]


@in_virtual_time
async def test_a_report_that_was_refused_holds_nothing() -> None:
    async with attaching() as world:
        volume, one, two = await world.volume(source=ISCSI), await world.node("n-one"), await world.node("n-two")
        rule = world.cluster.refuse(PATCH_NODE, times=None, error=Forbidden("no"))
        await world.pod(one, volume, name="first")
        await world.settle(1)
        await world.delete_pod("first")
        await world.settle(1)
        rule.times = rule.hits
        await world.pod(two, volume)
        await world.settle(1)
        assert ([], [NAME]) == (await world.reported(one), await world.reported(two))


@in_virtual_time
async def test_a_report_without_an_answer_holds_its_volume_until_the_node_is_gone() -> None:
    faults = SlowPatch()
    async with attaching(faults) as world:
        volume, one, two = await world.volume(source=ISCSI), await world.node("n-one"), await world.node("n-two")
        faults.losses = 1000
        await world.pod(one, volume, name="first")
        await world.settle(6)
        await world.delete_pod("first")
        await world.pod(two, volume)
        faults.losses = 0
        await world.remove(NODES, one)
        await world.settle(60)
        assert [NAME] == await world.reported(two)


@in_virtual_time
@pytest.mark.parametrize("what", ["silent", "out-of-service", "never"])
async def test_a_node_that_is_away_loses_it_by_force(what: str) -> None:
    async with attaching(disable_force_detach=what == "never") as world:
        volume, one, two = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.pod(two, volume, name="second")
        await world.set_ready(one, False)
        await world.delete_pod("first")
        if what == "out-of-service":
            await world.taint(one)
        await world.settle(355)
        assert ([NAME] if what == "out-of-service" else []) == await world.reported(two)
        await world.settle(10)
        assert ([NAME] if what != "never" else []) == await world.reported(two)


@in_virtual_time
@pytest.mark.parametrize("last", ["pod", "node"])
async def test_the_time_for_force_begins_with_what_comes_last(last: str) -> None:
    """The pod goes from a node that has long been silent, or the node falls silent long after."""
    async with attaching() as world:
        volume, one, two = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.pod(two, volume, name="second")
        steps = [lambda: world.set_ready(one, False), lambda: world.delete_pod("first")]
        for step in steps if last == "pod" else reversed(steps):
            await world.settle(600)
            await step()
        await world.settle(355)
        assert ([NAME], []) == (await world.reported(one), await world.reported(two))
        await world.settle(10)
        assert ([], [NAME]) == (await world.reported(one), await world.reported(two))


@in_virtual_time
async def test_a_pod_that_wants_it_again_ends_the_time_for_force() -> None:
    async with attaching() as world:
        volume, one, _ = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.set_ready(one, False)
        await world.delete_pod("first")
        await world.settle(300)
        await world.pod(one, volume, name="again")
        await world.settle(300)
        await world.delete_pod("again")
        await world.settle(355)
        assert [NAME] == await world.reported(one)
        await world.settle(10)
        assert [] == await world.reported(one)


@in_virtual_time
async def test_a_write_about_another_volume_does_not_lose_the_time_for_force() -> None:
    async with attaching() as world:
        _, one, _ = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.set_ready(one, False)
        await world.delete_pod("first")
        await world.settle(100)
        other = await world.volume()
        await world.attached(other, node=one)
        assert [other.unique, NAME] == await world.reported(one)
        await world.settle(265)
        assert [other.unique] == await world.reported(one)


@in_virtual_time
@pytest.mark.parametrize("ready", [True, False])
async def test_a_node_that_is_deleted_keeps_what_it_had_in_use_until_the_time_is_over(ready: bool) -> None:
    """Its machine may run on, with the volume mounted."""
    async with attaching() as world:
        volume, one, two = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.set_ready(one, ready)
        await world.pod(two, volume, name="second")
        await world.settle(600)
        await world.remove(NODES, one)
        await world.settle(600)
        assert [] == await world.reported(two), "a pod is there still"
        await world.delete_pod("first")
        await world.settle(355)
        assert [] == await world.reported(two)
        await world.settle(10)
        assert [NAME] == await world.reported(two)


@in_virtual_time
async def test_a_node_that_is_deleted_keeps_nothing_that_it_did_not_have_in_use() -> None:
    async with attaching() as world:
        volume, one, two = await two_nodes(world)
        await world.pod(two, volume, name="second")
        await world.remove(NODES, one)
        await world.delete_pod("first")
        await world.settle(1)
        assert [NAME] == await world.reported(two)


@in_virtual_time
async def test_a_node_that_is_made_anew_says_itself_what_it_has_in_use() -> None:
    async with attaching() as world:
        volume, one, two = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.pod(two, volume, name="second")
        await world.remove(NODES, one)
        await world.delete_pod("first")
        await world.settle(10)
        assert [] == await world.reported(two)
        await world.node(one)
        await world.settle(1)
        assert [NAME] == await world.reported(two)


@in_virtual_time
async def test_a_node_that_is_made_anew_with_its_pod_keeps_it_while_its_report_can_not_be_written() -> None:
    """The machine has it mounted all the time: other nodes wait until the new Node lists it again."""
    async with attaching() as world:
        volume, one, two = await two_nodes(world)
        await in_use(world, one, NAME)
        await world.pod(two, volume, name="second")
        rule = world.cluster.refuse(PATCH_NODE, times=None, name=one, error=Forbidden("not now"))
        await world.pod(one, await world.volume(source=OTHER), name="beside")
        await world.settle(10)
        await world.remove(NODES, one)
        await world.settle(1)
        await world.node(one)
        await world.settle(60)
        assert rule.hits
        assert ([], []) == (await world.reported(one), await world.reported(two))
        rule.times = rule.hits
        await world.settle(60)
        assert (True, []) == (NAME in await world.reported(one), await world.reported(two))
        await world.delete_pod("first")
        await world.settle(1)
        assert [NAME] == await world.reported(two)


@in_virtual_time
async def test_a_restart_takes_up_what_is_listed() -> None:
    world = AttachDetachWorld()
    async with world.controlling():
        volume, one, two = await two_nodes(world)
    await world.delete_pod("first")
    await world.pod(two, volume, name="second")
    async with world.controlling():
        await world.settle(1)
        assert ([], [NAME]) == (await world.reported(one), await world.reported(two))


@in_virtual_time
async def test_what_nobody_names_is_left_alone() -> None:
    foreign = {"name": NAME, "devicePath": "/dev/sdx"}
    async with attaching() as world:
        node = await world.node(foreign=[foreign])
        await world.attached(await world.volume(), node=node)
        assert foreign in await world.entries(node)
        assert 2 == len(await world.entries(node))


@in_virtual_time
async def test_a_claim_bound_late_and_a_volume_made_late() -> None:
    async with attaching() as world:
        volume = await world.volume(source=ISCSI, bound=False)
        node = await world.node()
        await world.pod(node, volume)
        await world.settle(1)
        assert [] == await world.reported(node)
        await world.bind(volume)
        await world.settle(1)
        assert [NAME] == await world.reported(node)


@in_virtual_time
@pytest.mark.parametrize("is_own", [True, False])
async def test_a_flex_volume_that_wants_an_attach_call_is_told(is_own: bool) -> None:
    async with attaching() as world:
        node = await world.node()
        if is_own:
            await world.create(a_pod("p", node=node, volumes=[{"name": "v", **FLEX}]))
        else:
            await world.pod(node, await world.volume(source=FLEX), name="p")
        await world.settle(60)
        assert [] == await world.told("p"), "most of them want none"
        await in_use(world, node, "example.com/lvm/vg-1")
        await world.settle(60)
        ((kind, reason, text),) = await world.told("p")
        assert ("Warning", "FailedAttachVolume") == (kind, reason)
        assert 'FlexVolume driver "example.com/lvm" wants an attach call, and none is made' in text
