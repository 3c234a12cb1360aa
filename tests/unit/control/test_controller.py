"""The loop of a controller, on virtual time."""

import asyncio
import contextlib
import dataclasses

import msgspec
import pytest

from mooring.api.core import NODES
from mooring.api.meta import Key, ObjectMeta
from mooring.base import effects
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.caches import Caches
from mooring.control.controller import STEPS_MAX, Controller
from mooring.control.decision import Failed
from mooring.control.manager import Loop, Manager
from mooring.control.queue import BackOff
from mooring.control.result import Result, Retry, Stale
from mooring.control.runtime import Runtime
from mooring.control.slim import always, slim
from mooring.kube.cache.store import newest_first
from mooring.kube.errors import Conflict
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster

pytestmark = in_virtual_time
BACK_OFF = BackOff(1.0, 8.0, jitter=0.0)


def a_runtime(cluster: FakeCluster | None = None) -> Runtime:
    return Runtime(cluster or FakeCluster(), LoopClock(), Random(1), Metrics())


class Reconciler:
    """Plays one outcome after the other, the last one for ever; remembers when it was asked about what."""

    def __init__(self, *outcomes) -> None:
        self.outcomes = list(outcomes)
        self.seen: list[tuple[float, str]] = []
        self.during = lambda key: None
        self.takes_s = 0.0

    async def __call__(self, key: str) -> Result:
        self.seen.append((asyncio.get_running_loop().time(), key))
        assert len(self.seen) < 1000, "at full speed: time would never pass"
        self.during(key)
        await asyncio.sleep(self.takes_s)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.seen]


def a_controller(reconcile, workers: int = 2) -> Controller[str]:
    return Controller(a_runtime(), "test", reconcile, workers=workers, backoff=BACK_OFF)


@contextlib.asynccontextmanager
async def running(controller: Controller[str]):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield
        task.cancel()


@contextlib.asynccontextmanager
async def working(reconcile, *keys: str, workers: int = 2):
    """A running controller that has these keys to begin with."""
    controller = a_controller(reconcile, workers)
    async with running(controller):
        for key in keys:
            controller.add(key)
        yield controller


SETTLED = Result("settled")


async def test_a_failure_waits_for_its_back_off_and_success_ends_it():
    reconcile = Reconciler(Retry("no"), Retry("no"), SETTLED, Retry("no"), SETTLED)
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(5)
        assert [0, 1, 3] == reconcile.times
        controller.add("a")
        await asyncio.sleep(5)
    assert [0, 1, 3, 5, 6] == reconcile.times


async def test_people_who_watch_hear_every_reason():
    heard = []
    runtime = msgspec.structs.replace(
        a_runtime(), explained=lambda name, key, because: heard.append((name, key, str(because)))
    )
    reconcile = Reconciler(Retry("no"), SETTLED)
    controller = Controller(runtime, "test", reconcile, workers=1, backoff=BACK_OFF)
    reconcile.during = lambda key: controller.explain(key, "asks the driver")
    async with running(controller):
        controller.add("a")
        await asyncio.sleep(5)
    expected = ["asks the driver", "no; next try in 1 s", "asks the driver", "settled"]
    assert [("test", "a", because) for because in expected] == heard


async def test_a_refusal_by_the_api_server_is_a_failure(caplog):
    reconcile = Reconciler(Conflict("taken"), SETTLED)
    async with working(reconcile, "a"):
        await asyncio.sleep(5)
    assert [0, 1] == reconcile.times


async def test_what_an_object_writer_raises_is_a_failure_of_a_plain_reconcile(caplog):
    reconcile = Reconciler(Failed("not saved", heals=["volume/1"]), Failed("not saved"), SETTLED)
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(0.5)
        controller.tell("volume/1")
        await asyncio.sleep(5)
    assert [0, 0.5, 2.5] == pytest.approx(reconcile.times)
    assert "unexpected" not in caplog.text


async def test_a_bug_is_a_failure_of_its_key_alone():
    reconcile = Reconciler(ZeroDivisionError(), SETTLED)
    async with working(reconcile, "a", "b", workers=1):
        await asyncio.sleep(5)
    assert [(0, "a"), (0, "b"), (1, "a")] == reconcile.seen


async def test_a_topic_that_heals_ends_the_back_off():
    reconcile = Reconciler(Retry("no", heals=["volume/1"]), SETTLED)
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(0.5)
        controller.tell("volume/2")
        await asyncio.sleep(0.1)
        controller.tell("volume/1")
        await asyncio.sleep(5)
    assert [0, 0.6] == pytest.approx(reconcile.times)


async def test_a_waiting_key_costs_nothing_until_its_topic_is_told():
    reconcile = Reconciler(Result("waiting", waits_for=frozenset({"volume/1"})), SETTLED)
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(10_000)
        controller.tell("volume/1")
        await asyncio.sleep(1)
        controller.tell("volume/1")
        await asyncio.sleep(1)
    assert [0, 10_000] == reconcile.times


@each_row("heals", [(), ("volume/1",)])
async def test_a_key_does_not_wake_itself_out_of_its_back_off(heals: tuple[str, ...]):
    """Neither by what it waited for before, nor by what would heal it now."""
    reconcile = Reconciler(
        Result("waiting", waits_for=frozenset({"volume/1"})), Retry("no", heals=heals), Retry("no"), SETTLED
    )
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(10)
        reconcile.during = lambda key: controller.tell("volume/1", by=key)
        controller.add("a")
        await asyncio.sleep(10)
    assert [0, 10, 11, 13] == reconcile.times


@each_row("outcome", [Result("waiting", waits_for=frozenset({"volume/1"})), Retry("no", heals=["volume/1"])])
async def test_what_is_told_between_judgement_and_wait_is_not_lost(outcome):
    reconcile = Reconciler(outcome, SETTLED)
    reconcile.takes_s = 0.1
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(0.05)
        controller.tell("volume/1")
        await asyncio.sleep(0.5)
    assert [0, 0.1] == pytest.approx(reconcile.times)


async def test_a_key_is_looked_at_again_after_the_time_that_its_result_names():
    reconcile = Reconciler(Result("resting", after_s=7), SETTLED)
    async with working(reconcile, "a"):
        await asyncio.sleep(20)
    assert [0, 7] == reconcile.times


async def test_a_key_that_comes_a_rounding_error_too_early_is_not_back_at_once():
    reconcile = Reconciler(*[Result("almost", after_s=1e-12)] * 2, SETTLED)
    async with working(reconcile, "a"):
        await asyncio.sleep(1)
    assert [0, 0.001, 0.002] == pytest.approx(reconcile.times)


async def test_more_to_decide_is_decided_at_once_and_lets_others_in_between():
    reconcile = Reconciler(Result("step", again=True))
    a_controller(reconcile, workers=1)
    controller_b = Reconciler(SETTLED)
    order: list[str] = []

    async def both(key: str) -> Result:
        order.append(key)
        effects.note(len(order))  # each step does something else
        return await (reconcile if key == "a" and len(order) < 7 else controller_b)(key)

    async with working(both, "a", "b", workers=1):
        await asyncio.sleep(1)
    assert ["a"] * STEPS_MAX + ["b"] == order[: STEPS_MAX + 1]
    assert set(order[STEPS_MAX + 1 :]) == {"a"}


async def test_a_key_that_takes_long_may_leave_its_worker_to_others():
    """It is with no other worker meanwhile, and is drained with the others."""
    go_on, seen = asyncio.Event(), []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        if key == "hangs":
            await go_on.wait()
        return SETTLED

    controller = Controller(a_runtime(), "test", reconcile, workers=1, relief_s=1.0, backoff=BACK_OFF)
    async with running(controller):
        for key in ("hangs", "a"):
            controller.add(key)
        await asyncio.sleep(0.9)
        assert ["hangs"] == seen
        await asyncio.sleep(0.2)
        assert ["hangs", "a"] == seen
        controller.add("hangs")
        await asyncio.sleep(5)
        assert ["hangs", "a"] == seen
        assert not await controller.drain(1)
        go_on.set()
        assert await controller.drain(1)


async def test_what_stays_stale_is_not_tried_at_full_speed():
    """At full speed virtual time stands still, and no sleep of this test would end."""
    reconcile, too_many = Reconciler(Stale("moved")), asyncio.Event()
    reconcile.during = lambda _: too_many.set() if len(reconcile.seen) > 10 * STEPS_MAX else None
    async with working(reconcile, "a"):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(too_many.wait(), 2.5)
    assert [0] * STEPS_MAX + [1] * STEPS_MAX == reconcile.times


async def test_what_stays_stale_is_told_from_the_second_back_off_on(capsys: pytest.CaptureFixture[str]):
    """A write that tests what can never be stored is stale for ever: it must not be so in silence."""
    runtime, said = a_runtime(), []
    controller = Controller(
        msgspec.structs.replace(runtime, explained=lambda name, key, because: said.append(str(because))),
        "test",
        Reconciler(Stale("the uid is another")),
        workers=1,
        backoff=BACK_OFF,
        label="Claim",
    )

    def count() -> float | None:
        return runtime.metrics.registry.get_sample_value("mooring_workqueue_stale_total", {"name": "test"})

    async with running(controller):
        controller.add("a")
        await asyncio.sleep(0.5)
        assert ("", [], 1) == (capsys.readouterr().err, said, count())
        await asyncio.sleep(1)
        line = capsys.readouterr().err
        assert line.startswith("E")
        assert "again and again: the uid is another" in line
        assert 'Claim="a" retry_in_s=2' in line
        assert [
            "what is stored is another than the cache shows, again and again: the uid is another; next try in 2 s"
        ] == said
        await asyncio.sleep(2)
        assert 3 == count()


async def test_what_was_stale_and_then_went_well_is_told_to_nobody(capsys: pytest.CaptureFixture[str]):
    once = [Stale("moved")] * STEPS_MAX
    reconcile = Reconciler(*once, SETTLED, *once, SETTLED)
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(5)
        controller.add("a")
        await asyncio.sleep(5)
    assert "" == capsys.readouterr().err
    assert 2 * STEPS_MAX + 2 == len(reconcile.seen)


async def test_retry_now_ends_the_back_off_of_those_that_failed_and_of_nobody_else():
    outcomes = {"bad": Retry("no"), "good": SETTLED}
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        if isinstance(outcomes[key], Retry):
            raise outcomes[key]
        return outcomes[key]

    controller = a_controller(reconcile)
    async with running(controller):
        for key in outcomes:
            controller.add(key)
        await asyncio.sleep(0.5)
        controller.retry_now(outcomes)
        await asyncio.sleep(0.1)
    assert ["bad", "good", "bad"] == seen


async def test_a_result_may_keep_the_failures_before_it():
    reconcile = Reconciler(Retry("no"), Result("resting", keeps_backoff=True), SETTLED)
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(1.5)
        assert 1 == controller.failures("a")
        controller.add("a")
        await asyncio.sleep(0.1)
        assert 0 == controller.failures("a")


async def test_draining_lets_the_work_in_hand_end_and_takes_no_more():
    reconcile = Reconciler(Result("settled", after_s=0.5))
    reconcile.takes_s = 1.0
    controller = a_controller(reconcile, workers=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        controller.add("a")
        controller.add("b")
        await asyncio.sleep(0.5)
        assert not await controller.drain(0.1)
        assert await controller.drain(5)
        controller.add("c")
    assert [(0, "a")] == reconcile.seen


async def test_a_forgotten_key_has_no_past():
    reconcile = Reconciler(Retry("no", heals=["x"]))
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(0.1)
        controller.forget("a")
        controller.tell("x")
        await asyncio.sleep(0.1)
        assert [0] == reconcile.times
        assert 0 == controller.failures("a")


# -- caches and manager


@dataclasses.dataclass
class Plane:
    cluster: FakeCluster
    manager: Manager
    seen: list[str]


def a_plane() -> Plane:
    cluster = FakeCluster()
    runtime = a_runtime(cluster)
    caches = Caches(runtime)
    nodes = caches.of(NODES, keeps=always(slim(metadata=slim("labels"))))
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        return SETTLED

    controller: Controller[str] = Controller(runtime, "nodes", reconcile, workers=1)
    controller.watch(nodes, lambda change: [change.new.metadata.name] if change.new else [])
    return Plane(cluster, Manager(caches, controller), seen)


async def test_a_manager_fills_its_caches_works_and_ends_when_drained():
    plane = a_plane()
    plane.cluster.put(NODES, "n1")
    ended: list[str] = []

    class Sender:
        async def run(self) -> None:
            await asyncio.Event().wait()

        async def drain(self, timeout_s: float) -> None:
            ended.append("sent")

    plane.manager.beside("sender", Sender())
    plane.manager.beside("poll", Loop(asyncio.Event().wait))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(plane.manager.run())
        await asyncio.sleep(1)
        assert plane.manager.has_synced
        plane.cluster.put(NODES, "n2")
        await asyncio.sleep(1)
        assert await plane.manager.drain(1)
        await running
    assert ["n1", "n2"] == plane.seen
    assert ["sent"] == ended
    assert not plane.manager.has_synced


async def test_one_kind_is_watched_once_for_all_its_readers_and_keeps_what_each_needs():
    cluster = FakeCluster()
    caches = Caches(a_runtime(cluster))
    one = caches.of(
        NODES,
        keeps=always(slim(metadata=slim("labels"))),
        indexes={"zone": lambda node: (node.metadata.labels or {}).values()},
    )
    other = caches.of(NODES, keeps=always(slim(metadata=slim("annotations"))), resync_s=60)
    assert one is other
    cluster.put(NODES, "n1", metadata={"labels": {"zone": "a"}, "annotations": {"note": "1"}, "finalizers": ["f"]})
    async with asyncio.TaskGroup() as group:
        tasks = caches.start(group)
        await caches.synced()
        (node,) = one.store.by("zone", "a")
        for task in tasks:
            task.cancel()
    assert (
        ObjectMeta(
            name="n1",
            uid=node.metadata.uid,
            resource_version=node.metadata.resource_version,
            labels={"zone": "a"},
            annotations={"note": "1"},
        )
        == node.metadata
    )
    assert 1 == sum(request.verb == "watch" for request in cluster.requests)


async def test_an_index_of_one_name_is_one_function():
    caches = Caches(a_runtime())
    caches.of(NODES, indexes={"zone": lambda node: ("a",)})
    with pytest.raises(AssertionError, match="two indexes are called zone"):
        caches.of(NODES, indexes={"zone": lambda node: ("b",)})


async def test_the_very_thing_that_was_waited_for_begins_the_back_off_anew():
    reconcile = Reconciler(Retry("no", heals={"some", "this"}))
    async with working(reconcile, "a") as controller:
        await asyncio.sleep(4)
        assert [0, 1, 3] == reconcile.times
        controller.tell("some")
        await asyncio.sleep(0.5)
        assert 4 == controller.failures("a")
        controller.tell("this", anew=True)
        await asyncio.sleep(0.1)
        assert 1 == controller.failures("a")


async def test_what_another_controller_came_to_counts_as_if_it_was_reconciled_here(caplog):
    reconcile = Reconciler(SETTLED)
    controller = Controller(
        a_runtime(), "test", reconcile, workers=1, backoff=BACK_OFF, about=lambda key: {"Letter": key}
    )
    async with running(controller):
        controller.apply_result("a", Retry("no", heals={"some"}))
        controller.apply_result("b", Result("rests", after_s=5))
        controller.apply_result("c", Result("more", again=True))
        controller.apply_result("d", Result("waits", waits_for=frozenset({"other"})))
        assert (1, 0) == (controller.failures("a"), controller.failures("b"))
        await asyncio.sleep(7)
        assert [(0, "c"), (1, "a"), (5, "b")] == reconcile.seen
        controller.tell("other")
        await asyncio.sleep(0.1)
        assert (7, "d") == reconcile.seen[-1]
    assert 'Letter="a"' in caplog.text


async def test_a_watched_change_wakes_its_keys_and_tells_its_topics_unless_only_its_version_moved():
    cluster = FakeCluster()
    runtime = a_runtime(cluster)
    caches = Caches(runtime)
    nodes = caches.of(NODES, keeps=always(slim(metadata=slim("labels"))))
    reconcile = Reconciler(Result("waiting", waits_for=frozenset({"labels"})))
    controller: Controller[str] = Controller(runtime, "test", reconcile, workers=1)
    controller.watch(
        nodes, lambda change: [change.key.name] if change.old is None else None, tells=lambda change: ["labels"]
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(Manager(caches, controller).run())
        cluster.put(NODES, "n1")
        await asyncio.sleep(1)
        cluster.put(NODES, "n1", metadata={"annotations": {"moved": "only the version"}})
        await asyncio.sleep(1)
        assert ["n1"] == [key for _, key in reconcile.seen]
        cluster.put(NODES, "n1", metadata={"labels": {"a": "b"}})
        await asyncio.sleep(1)
        assert ["n1", "n1"] == [key for _, key in reconcile.seen]
        running.cancel()


async def test_a_watch_that_says_no_more_brings_the_changed_object_itself():
    cluster = FakeCluster()
    runtime = a_runtime(cluster)
    caches = Caches(runtime)
    reconcile = Reconciler(Result("done"))
    controller: Controller[Key] = Controller(runtime, "test", reconcile)
    controller.watch(caches.of(NODES))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(Manager(caches, controller).run())
        cluster.put(NODES, "n1")
        await asyncio.sleep(1)
        running.cancel()
    assert [Key("", "n1")] == [key for _, key in reconcile.seen]


async def test_a_filtered_watch_brings_changes_from_and_to_the_objects_that_pass_and_no_others():
    cluster = FakeCluster()
    runtime = a_runtime(cluster)
    caches = Caches(runtime)
    nodes = caches.of(NODES, keeps=always(slim(metadata=slim("labels"))))
    changes: list[tuple[bool, bool]] = []
    controller: Controller[str] = Controller(runtime, "test", Reconciler(Result("done")), workers=1)
    controller.watch(
        nodes,
        lambda change: changes.append((change.old is not None, change.new is not None)),
        only=lambda node: (node.metadata.labels or {}).get("a") == "b",
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(Manager(caches, controller).run())
        cluster.put(NODES, "n1")
        await asyncio.sleep(1)
        assert [] == changes
        cluster.put(NODES, "n1", metadata={"labels": {"a": "b"}})
        cluster.put(NODES, "n1", metadata={"labels": {"a": "c"}})
        await asyncio.sleep(1)
        assert [(True, True), (True, True)] == changes, "into the filter, and out of it"
        cluster.put(NODES, "n1", metadata={"annotations": {"another": "change"}})
        await asyncio.sleep(1)
        assert 2 == len(changes)
        running.cancel()


@each_row("is_standby", [True, False])
@each_row("looks_first", [True, False])
async def test_a_first_look_is_in_nobodys_way(looks_first: bool, is_standby: bool) -> None:
    """With 100,000 objects telling alone takes seconds, and the keys of all stand before the one that matters."""
    cluster = FakeCluster()
    for number in range(1000):
        cluster.put(NODES, f"n{number:04}")
    runtime = a_runtime(cluster)
    caches, told, begun, told_at_first = Caches(runtime), list[str](), list[str](), list[int]()
    nodes = caches.of(NODES)

    async def reconcile(key: str) -> Result:
        begun.append(key)
        told_at_first.append(len(told))
        assert len(nodes.store) == 1000
        await asyncio.sleep(1)
        return SETTLED

    controller: Controller[str] = Controller(runtime, "test", reconcile, workers=1, backoff=BACK_OFF)
    controller.watch(nodes, lambda change: told.append(change.key.name) or (change.key.name,))

    async def look() -> None:
        controller.add_later(node.metadata.name for node in newest_first(nodes.store.values()))

    manager = Manager(caches, controller, first_looks=[look] if looks_first else ())
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(manager.follow())] if is_standby else []
        await asyncio.sleep(10)
        assert not told
        tasks.append(group.create_task(manager.run()))
        await asyncio.sleep(10)
        assert manager.has_synced, "else its end would not wait for the work in hand"
        assert len(told) == told_at_first[0] == (0 if looks_first else 1000)
        if is_standby and not looks_first:
            assert told[0] == "n0999", "the newest first"
        cluster.put(NODES, "n0500", metadata={"labels": {"a": "b"}})
        await asyncio.sleep(5)
        assert ("n0500" in begun) == looks_first
        if looks_first:
            assert begun[0] == "n0999", "the newest first"
        await asyncio.sleep(2000)
        assert len(begun) == 1000, "one that has changed needs no first look any more"
        assert len(set(begun)) == 1000
        for task in tasks:
            task.cancel()


async def test_a_share_that_ends_before_its_first_look_has_nothing_to_leave() -> None:
    """Its term may be over before the caches are filled."""
    cluster = FakeCluster()
    whole = Caches(a_runtime(cluster))
    share = whole.share()
    share.of(NODES)

    async def look() -> None:
        raise AssertionError("nothing is filled")

    manager = Manager(share, first_looks=[look])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        await asyncio.sleep(1)
        running.cancel()
    assert running.cancelled()


async def test_a_drivers_return_ends_the_back_off_of_what_failed_by_its_absence_alone():
    """One at which the driver breaks down is tried in the driver's absence, too, and fails by that the next time."""
    tries = {
        "absent": ["absent", "absent"],
        "absent again": ["broken", "fine", "absent"],
        "broken": ["broken", "absent"],
        "refused": ["absent", "refused"],
        "fine": ["absent", "fine"],
    }
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        match tries[key].pop(0) if tries[key] else "fine":
            case "fine":
                return SETTLED
            case "absent":
                effects.note(effects.UNSENT)
        raise Retry("no")

    controller = a_controller(reconcile)
    async with running(controller):
        for key in tries:
            controller.add(key)
        while any(tries.values()):
            await asyncio.sleep(0.01)
            if tries["absent again"]:
                controller.add("absent again")
        seen.clear()
        controller.driver_returned()
        await asyncio.sleep(0.01)
        assert {"absent", "absent again"} == set(seen)
