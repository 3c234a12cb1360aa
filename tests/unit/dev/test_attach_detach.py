"""The stand-in for the attach/detach controller in `mooring dev`: what it decides, and its requests."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.dev.attach_detach import AttachDetach, Standing, Step, decide
from mooring.node.layout import attachment_name, unique_name
from tests.support.builders import (
    DRIVER,
    RWX,
    Json,
    a_bound_claim,
    a_csi_driver,
    a_node,
    a_pod,
    a_pv,
    a_va,
    an_ephemeral_volume,
)
from tests.support.cluster_world import ClusterWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
UNIQUE = unique_name(DRIVER, "pv")


def standing(wanted: bool = True, *, elsewhere: bool = False, attachment: str = "", listed: bool = False, in_use: bool = False) -> Standing:
    return Standing(wanted, elsewhere, attachment, listed, in_use)


@pytest.mark.parametrize(
    ("one", "step"),
    [
        (standing(), Step.CREATE),
        (standing(elsewhere=True), Step.NOTHING),
        (standing(attachment="attaching"), Step.NOTHING),
        (standing(attachment="attached"), Step.LIST),
        (standing(attachment="attached", listed=True), Step.NOTHING),
        (standing(attachment="leaving"), Step.NOTHING),
        (standing(attachment="leaving", listed=True), Step.UNLIST),
        (standing(False), Step.NOTHING),
        (standing(False, attachment="attaching"), Step.DELETE),
        (standing(False, attachment="attached", listed=True), Step.UNLIST),
        (standing(False, attachment="attached"), Step.DELETE),
        (standing(False, attachment="leaving"), Step.NOTHING),
        (standing(False, listed=True), Step.UNLIST),
    ],
)
def test_the_next_step_of_a_volume_on_a_node(one: Standing, step: Step) -> None:
    assert step is decide(one)


def test_nothing_is_taken_from_a_node_that_uses_it() -> None:
    states = itertools.product((False, True), (False, True), ("", "attaching", "attached", "leaving"), (False, True))
    taken = [one for parts in states if decide(one := Standing(*parts, in_use=True)) in (Step.UNLIST, Step.DELETE)]
    assert [] == taken


class World(ClusterWorld):
    """One node, a volume that a claim is bound to, and the controller."""

    @contextlib.asynccontextmanager
    async def at_work(self, *objects: Json, pv: dict[str, Any] | None = None) -> AsyncIterator[None]:
        await self.create(a_node("n1"), a_node("n2"))
        claim = await self.create(a_bound_claim("claim", "pv"))
        await self.create(a_pv("pv", claim=claim, **(pv or {})), *objects)
        self.story.clear()
        async with self.running(AttachDetach(self.runtime).run()):
            yield

    async def attach(self, name: str) -> None:
        await self.patch(VOLUME_ATTACHMENTS, name, {"status": {"attached": True}}, subresource="status")

    async def use(self, *names: str) -> None:
        """As the node agent reports it."""
        await self.patch(NODES, "n1", {"status": {"volumesInUse": list(names)}}, subresource="status")

    async def lists(self, *names: str) -> None:
        def is_so(node: Json) -> bool:
            return list(names) == [one["name"] for one in node.get("status", {}).get("volumesAttached") or []]

        await self.shown(NODES, "n1", is_so, f"lists {names}")

    async def attachments(self) -> list[str]:
        return [one["metadata"]["name"] for one in await self.list(VOLUME_ATTACHMENTS)]

    async def end(self, pod: str = "pod") -> None:
        await self.users.delete(PODS, pod, "default", grace_period_s=0)


VA = attachment_name(DRIVER, "pv", "n1")


async def test_a_volume_is_attached_for_a_pod_and_detached_after_it_and_each_is_one_request() -> None:
    world = World()
    async with world.at_work(a_pod("pod", "claim", node="n1")):
        await world.shown(VOLUME_ATTACHMENTS, VA, lambda va: va["spec"]["nodeName"] == "n1")
        await world.lists()
        await world.attach(VA)
        await world.lists(UNIQUE)
        await world.use(UNIQUE)
        await world.end()
        await world.settle()
        assert [VA] == await world.attachments(), "the node still has it in use"
        await world.use()
        await world.gone(VOLUME_ATTACHMENTS, VA)
        await world.lists()
        await world.settle()
    writes = [step for step in world.story if step.split()[0] in ("create", "patch", "delete")]
    assert 4 == len(writes), writes


async def test_a_volume_for_one_node_goes_to_the_next_one_after_the_first_has_let_it_go() -> None:
    world = World()
    async with world.at_work(a_pod("pod", "claim", node="n1"), a_pod("next", "claim", node="n2")):
        first = (await world.until(world.attachments))[0]
        await world.settle()
        assert [first] == await world.attachments()
        on_n1 = first == VA
        await world.end("pod" if on_n1 else "next")
        await world.gone(VOLUME_ATTACHMENTS, first)
        other = attachment_name(DRIVER, "pv", "n2" if on_n1 else "n1")
        await world.until(world.attachments)
        assert [other] == await world.attachments()


async def test_a_volume_for_many_nodes_is_attached_to_all_at_once() -> None:
    world = World()
    async with world.at_work(a_pod("pod", "claim", node="n1"), a_pod("next", "claim", node="n2"), pv={"modes": RWX}):
        await world.settle()
        assert 2 == len(await world.attachments())


async def test_a_driver_that_does_not_attach_has_no_attachments() -> None:
    world = World()
    async with world.at_work(a_csi_driver(DRIVER, attachRequired=False), a_pod("pod", "claim", node="n1")):
        await world.settle()
        assert [] == await world.attachments()


async def test_a_claim_that_is_bound_later_and_one_that_a_pod_brings_are_attached() -> None:
    world = World()
    async with world.at_work(a_pod("pod", node="n1", volumes=[an_ephemeral_volume("scratch")])):
        claim = await world.create(a_bound_claim("pod-scratch", "own"))
        await world.create(a_pv("own", claim=claim))
        await world.shown(VOLUME_ATTACHMENTS, attachment_name(DRIVER, "own", "n1"), lambda _: True)


async def test_attachments_of_other_people_are_left_alone() -> None:
    world = World()
    async with world.at_work(a_va("mine", "pv", "n1")):
        await world.settle()
        assert ["mine"] == await world.attachments()


async def test_a_volume_whose_claim_is_another_one_by_now_is_not_attached() -> None:
    world = World()
    async with world.at_work():
        await world.patch(PERSISTENT_VOLUMES, "pv", {"spec": {"claimRef": {"uid": "of-another"}}})
        await world.create(a_pod("pod", "claim", node="n1"))
        await world.settle()
        assert [] == await world.attachments()


async def test_what_was_attached_before_a_restart_is_found_again() -> None:
    world = World()
    async with world.at_work(a_pod("pod", "claim", node="n1")):
        await world.shown(VOLUME_ATTACHMENTS, VA, lambda _: True)
        await world.attach(VA)
        await world.lists(UNIQUE)
    await world.end()
    async with world.running(AttachDetach(world.runtime).run()):
        await world.gone(VOLUME_ATTACHMENTS, VA)
        await world.lists()
