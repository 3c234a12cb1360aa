"""The doors of the world's habits: what the API server may do at its worst, and processes that stand still."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.api.core import SECRETS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base import fence
from mooring.kube.cluster import EventType, Patch, PatchType, Request, Verb
from mooring.kube.errors import ApiError, Forbidden, Gone, NotFound, Unreachable
from tests.sim.course import BoundedLoop
from tests.sim.habits import ServerHabits, Stops
from tests.sim.mortal import Mortal
from tests.sim.plan import DRIVER, ApiFaults, plan_of
from tests.sim.provisioning.line import WritingLine
from tests.sim.server import lasting_refusals, refusals
from tests.sim.standing import PROCESS, WorldGroup, outside
from tests.sim.world import SimWorld
from tests.support.builders import a_secret, a_va

NO_FAULTS = ApiFaults(refused=0.0, lost=0.0, slow=0.0, stale=0.0, stale_s=1.0, cut=0.0, gone=0.0)
ATTACHMENTS = VOLUME_ATTACHMENTS.whole()


class AnyLine(WritingLine):
    watched = ()


def lived(
    scene: Callable[[SimWorld, Mortal], Awaitable[None]], server: ServerHabits | None = None, stops: Stops | None = None
) -> SimWorld:
    """The scene in a world that has these habits, and no other fault."""
    plan = dataclasses.replace(
        plan_of(1), api=NO_FAULTS, crash=0.0, server=server or ServerHabits(), stops=stops or Stops()
    )
    worlds: list[SimWorld] = []

    async def main() -> None:
        async with WorldGroup() as group:
            world = SimWorld(plan, group)
            worlds.append(world)
            try:
                await scene(world, Mortal(world, 1, "program"))
            finally:
                loop.resume_all()

    loop = BoundedLoop(1)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    return worlds[0]


def as_process(mortal: Mortal, work: Awaitable[Any]) -> asyncio.Task[Any]:
    """Begins work of the process."""

    async def run() -> Any:
        PROCESS.set(mortal)
        return await work

    mortal.task = asyncio.get_running_loop().create_task(run(), name="process")
    return mortal.task


# -- processes


def test_nothing_of_a_stopped_process_runs_and_what_fell_due_is_ready_when_it_goes_on() -> None:
    told: list[tuple[str, float]] = []

    async def scene(world: SimWorld, mortal: Mortal) -> None:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def waits() -> None:
            told.append((await answer, world.clock.now()))

        async def work() -> None:
            asyncio.get_running_loop().call_later(2.0, lambda: told.append(("timer", world.clock.now())))
            async with asyncio.TaskGroup() as group:
                group.create_task(waits())

        task = as_process(mortal, work())
        await world.clock.sleep(1.0)
        mortal.freeze(10.0)
        await world.clock.sleep(2.0)
        answer.set_result("answer")
        await world.clock.sleep(7.0)
        assert [] == told
        await task

    lived(scene)
    assert [("answer", 11.0), ("timer", 11.0)] == sorted(told)


def test_a_request_that_was_sent_arrives_while_its_process_stands_still_and_the_answer_lies_ready() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        cluster = outside(AnyLine(world, mortal))

        async def work() -> float:
            await cluster.create(ATTACHMENTS, a_va("va-1", "pv0", "node0", attacher=DRIVER))
            return world.clock.now()

        mortal.sends = lambda what: mortal.freeze(10.0)
        task = as_process(mortal, work())
        await world.clock.sleep(9.0)
        assert ["va-1"] == [found.name for found in world.truth.attachments()]
        assert not task.done()
        assert 10.0 == await task

    lived(scene, stops=Stops(still=1e-9))


def test_a_write_that_was_sent_arrives_though_the_fence_has_closed_meanwhile() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        cluster, closed = outside(AnyLine(world, mortal)), [""]

        async def work() -> None:
            with fence.behind(lambda: closed[0]):
                mortal.sends = lambda what: closed.insert(0, "the Lease has run out")
                await cluster.create(ATTACHMENTS, a_va("va-1", "pv0", "node0", attacher=DRIVER))
                with pytest.raises(Unreachable, match="the Lease has run out"):
                    await cluster.create(ATTACHMENTS, a_va("va-2", "pv0", "node1", attacher=DRIVER))

        await as_process(mortal, work())
        assert ["va-1"] == [found.name for found in world.truth.attachments()]

    lived(scene, stops=Stops(still=1e-9))


def test_a_stopped_process_can_be_killed() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        task = as_process(mortal, world.clock.sleep(3600.0))
        await world.clock.sleep(1.0)
        mortal.freeze(1000.0)
        mortal.kill("where it stands")
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert world.clock.now() < 2.0

    lived(scene)


def test_the_clocks_of_two_machines_differ_by_the_skew_at_the_most() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        skew_s = mortal.clock.wall_s() - world.clock.wall_s()
        assert 0.0 < abs(skew_s) <= 60.0
        assert skew_s != Mortal(world, 2, "program").clock.wall_s() - world.clock.wall_s()
        assert world.clock.now() == mortal.clock.now()

    lived(scene, stops=Stops(skew_s=60.0))


# -- the API server


def _create(line: AnyLine) -> Awaitable[Any]:
    return line.create(SECRETS.whole(), a_secret("new"), "default")


def _replace(line: AnyLine) -> Awaitable[Any]:
    return line.replace(SECRETS.whole(), a_secret("old", data={"key": "bmV3"}), "default")


def _patch(line: AnyLine) -> Awaitable[Any]:
    return line.patch(SECRETS.whole(), "old", Patch(PatchType.MERGE, {"metadata": {"labels": {"a": "b"}}}), "default")


def _delete(line: AnyLine) -> Awaitable[Any]:
    return line.delete(SECRETS, "old", "default")


def _status(line: AnyLine) -> Awaitable[Any]:
    return line.patch(ATTACHMENTS, "va-1", Patch(PatchType.MERGE, {"status": {"attached": True}}), subresource="status")


@pytest.mark.parametrize("send", [_create, _replace, _patch, _delete, _status])
def test_a_write_of_each_verb_is_carried_out_after_its_client_gave_it_up(
    send: Callable[[AnyLine], Awaitable[Any]],
) -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        await world.cluster.create(SECRETS.whole(), a_secret("old"), "default")
        await world.cluster.create(ATTACHMENTS, a_va("va-1", "pv0", "node0", attacher=DRIVER))
        before = world.store.version
        with pytest.raises(Unreachable):
            await send(AnyLine(world, mortal))
        assert (before, 1) == (world.store.version, world.server.late_count)
        await world.clock.sleep(10.0)
        assert (before + 1, 0) == (world.store.version, world.server.late_count)
        assert not world.verdict.done()

    lived(scene, ServerHabits(late=1.0))


def test_a_late_write_that_changes_the_next_object_of_its_name_breaks_a_law() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        await world.cluster.create(SECRETS.whole(), a_secret("old"), "default")
        with pytest.raises(Unreachable):
            await _delete(AnyLine(world, mortal))
        await world.cluster.delete(SECRETS, "old", "default")
        await world.cluster.create(SECRETS.whole(), a_secret("old"), "default")
        await world.clock.sleep(10.0)
        assert "late-astray" == world.verdict.result().invariant

    lived(scene, ServerHabits(late=1.0))


def test_a_right_is_refused_to_a_program_for_a_while_under_all_its_lives() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        lines = [
            AnyLine(world, mortal),
            AnyLine(world, Mortal(world, 2, "program")),
            AnyLine(world, Mortal(world, 3, "another")),
        ]
        world.server.refuse(("program", "get", "secrets"), lambda: Forbidden("not allowed"), 200.0)
        for line in lines[:2]:
            await world.clock.sleep(90.0)
            with pytest.raises(Forbidden):
                await line.get(SECRETS, "none", "default")
        assert () == (await lines[0].list(SECRETS)).items
        with pytest.raises(NotFound):
            await lines[2].get(SECRETS, "none", "default")
        await world.clock.sleep(30.0)
        with pytest.raises(NotFound):
            await lines[0].get(SECRETS, "none", "default")

    lived(scene)


def test_each_request_may_meet_each_code() -> None:
    codes = {403, 404, 429, 500, 503}
    assert codes <= {make().status_code for make in refusals("get", writes=False)}
    assert codes | {409, 422} <= {make().status_code for make in refusals("patch", writes=True)}
    assert 410 in {make().status_code for make in refusals("watch", writes=False)}
    assert {403, 404, 422, 500, 503} <= {make().status_code for make in lasting_refusals(writes=True)}


def test_a_refusal_may_begin_at_any_request_and_last() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        line, first = AnyLine(world, mortal), []
        for _ in range(2):
            with pytest.raises(ApiError) as raised:
                await line.list(SECRETS)
            first.append(type(raised.value))
        assert first[0] is first[1]
        world.heal()
        await line.list(SECRETS)

    lived(scene, ServerHabits(lasting=1.0, lasting_s=500.0))


# -- watches and lists


async def events_of(world: SimWorld, line: AnyLine, made: list[tuple[str, float]]) -> None:
    version = (await world.cluster.list(SECRETS)).resource_version
    async with contextlib.aclosing(line.watch(SECRETS, resource_version=version)) as events:
        async for event in events:
            if event.object is not None:
                made.append((event.object.metadata.name, world.clock.now()))  # noqa: PERF401  (who watches is cancelled)


async def make_three(world: SimWorld) -> None:
    for number in range(3):
        await world.clock.sleep(1.0)
        await world.cluster.create(SECRETS.whole(), a_secret(f"s{number}"), "default")


def test_a_watch_of_a_server_that_lags_shows_each_change_as_much_later() -> None:
    made: list[tuple[str, float]] = []

    async def scene(world: SimWorld, mortal: Mortal) -> None:
        watching = world.group.create_task(events_of(world, AnyLine(world, mortal), made))
        await make_three(world)
        await world.clock.sleep(20.0)
        watching.cancel()

    lived(scene, ServerHabits(lag=1.0, lag_s=5.0))
    assert ["s0", "s1", "s2"] == [name for name, _ in made]
    lags = [at_s - number for number, (_, at_s) in enumerate(made, 1)]
    assert lags[0] > 0.01
    assert lags == pytest.approx([lags[0]] * 3)


def test_events_are_held_back_and_come_in_one_burst_or_after_a_list() -> None:
    """To the same watch, or not at all there: it ends, and the next one resumes from its version or hears that it is
    forgotten.
    """
    ends = set()
    for seed in range(12):
        made: list[tuple[str, float]] = []

        async def scene(
            world: SimWorld, mortal: Mortal, made: list[tuple[str, float]] = made, seed: int = seed
        ) -> None:
            for _ in range(seed):
                world.randomness["habits"].uniform(0.0, 1.0)
            line = AnyLine(world, mortal)
            watching = world.group.create_task(events_of(world, line, made))
            await make_three(world)
            world.faulty = False
            await world.clock.sleep(30.0)
            if not watching.done():
                watching.cancel()
                ends.add("burst")
                assert 3 == len(made)
                assert 1 == len({at_s for _, at_s in made if at_s > 3.0})
                return
            with contextlib.suppress(Gone):
                async with contextlib.aclosing(line.watch(SECRETS, resource_version="5")) as events:
                    assert "s0" == (await anext(events)).object.metadata.name  # type: ignore[union-attr]
                    ends.add("resumed")
                    return
            ends.add("folded")

        lived(scene, ServerHabits(held=1.0, held_s=20.0, folded=0.5))
    assert {"burst", "resumed", "folded"} == ends


def test_a_list_may_be_old_when_it_comes() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        listing = asyncio.get_running_loop().create_task(AnyLine(world, mortal).list(SECRETS))
        await world.clock.sleep(0.01)
        await world.cluster.create(SECRETS.whole(), a_secret("new"), "default")
        assert () == (await listing).items
        assert world.clock.now() > 0.1

    lived(scene, ServerHabits(old=1.0, old_s=9.0))


def test_the_past_is_shown_as_it_was_at_each_version() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        shown = {}
        listing = Request(Verb.LIST, SECRETS)
        for number, change in enumerate([_create, _replace, _patch, _delete]):
            if not number:
                await world.cluster.create(SECRETS.whole(), a_secret("old"), "default")
            await world.clock.sleep(1.0)
            await change(AnyLine(world, mortal))
            page = await world.cluster.list(SECRETS)
            shown[number] = page.resource_version, page
        history = world.server.history
        assert history is not None
        for version, page in shown.values():
            assert page == history.list_at(listing, int(version))
        assert shown[1][0] == str(history.version_at(2.5))
        assert 2.0 == history.time_of(int(shown[1][0]))
        later = history.events_after(listing, int(shown[1][0]))
        assert [EventType.MODIFIED, EventType.DELETED] == [event.type for event in later]

    lived(scene, ServerHabits(set_back=True))


def test_a_server_that_is_set_back_has_the_objects_and_versions_of_its_backup() -> None:
    async def scene(world: SimWorld, mortal: Mortal) -> None:
        line, told = AnyLine(world, mortal), []
        await world.cluster.create(SECRETS.whole(), a_secret("old"), "default")
        kept = await world.cluster.get(SECRETS.whole(), "old", "default")
        assert not world.server.set_back()
        version = world.store.version
        world.server.back_up()
        world.server.on_set_back.append(told.append)
        await world.cluster.delete(SECRETS, "old", "default")
        await world.cluster.create(SECRETS.whole(), a_secret("new"), "default")
        made: list[tuple[str, float]] = []
        watching = world.group.create_task(events_of(world, line, made))
        await world.clock.sleep(1.0)
        assert world.server.set_back()
        assert [version] == told
        with pytest.raises(Unreachable):
            await line.list(SECRETS)
        await world.clock.sleep(5.0)
        assert watching.done()
        assert kept == await line.get(SECRETS.whole(), "old", "default")
        assert ["old"] == [found.metadata.name for found in (await line.list(SECRETS)).items]
        await world.cluster.create(SECRETS.whole(), a_secret("later"), "default")
        assert version + 1 == world.store.version

    lived(scene, ServerHabits(set_back=True))
