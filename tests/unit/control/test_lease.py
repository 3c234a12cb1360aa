"""Leader election between candidates on one API server, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import ObjectReference
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.lease.elector import Candidate, LeaderElector, LeaseMetrics, LeaseTimes, Role, WorkOutlivesLease
from mooring.kube.cluster import Request
from mooring.kube.errors import Forbidden, ServerError
from tests.support.rows import each_row
from tests.support.virtual_loop import VirtualLoop, in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster
from tests.unit.kube.wire import Wire

pytestmark = in_virtual_time
WHOLE = LEASES.whole()


class Replica:
    """A candidate and its work, which takes end_s to end when it is cancelled."""

    def __init__(self, cluster: FakeCluster, name: str, **options: object) -> None:
        self.wire = Wire(cluster, Random(len(name)))
        self.metrics = Metrics()
        self.events: list[tuple[ObjectReference, str, str, str]] = []
        self.works = False
        self.end_s = 0.0
        self.done = asyncio.Event()
        self.error: Exception | None = None
        self.elector = LeaderElector(
            self.wire,  # type: ignore[arg-type]
            Candidate("lock", "ns", name, options.get("times", LeaseTimes()), options.get("labels", {})),  # type: ignore[arg-type]
            clock=LoopClock(epoch_s=1_800_000_000 + float(options.get("skew_s", 0))),  # type: ignore[arg-type]
            randomness=Random(len(name)),
            events=self,
            metrics=LeaseMetrics(self.metrics.registry),
        )
        self.task: asyncio.Task[None] | None = None

    def event(self, ref: ObjectReference, type: str, reason: str, message: str) -> None:
        self.events.append((ref, type, reason, message))

    async def work(self) -> None:
        self.works = True
        try:
            await self.done.wait()
            if self.error:
                raise self.error
        finally:
            await asyncio.sleep(self.end_s)
            self.works = False

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.elector.run(self.work), name="replica")

    def gauge(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"name": ""})

    @property
    def leads(self) -> float | None:
        return self.metrics.registry.get_sample_value("mooring_leader", {"lease": "ns/lock"})

    async def stop(self) -> None:
        """Asks it to end, and waits."""
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@contextlib.asynccontextmanager
async def election(*names: str, **options: object) -> AsyncIterator[tuple[FakeCluster, list[Replica]]]:
    """The replicas, started 0.1 s after each other; the first leads."""
    cluster = FakeCluster()
    replicas = [Replica(cluster, name, **options) for name in names]
    try:
        for replica in replicas:
            replica.start()
            await asyncio.sleep(0.1)
        yield cluster, replicas
    finally:
        for replica in replicas:
            if replica.task is not None and not replica.task.done():
                replica.wire.refusing = True
                replica.task.cancel()
                with contextlib.suppress(asyncio.CancelledError, WorkOutlivesLease):
                    await replica.task


def spec_of(cluster: FakeCluster) -> dict[str, object]:
    return cluster.objects["leases", "ns", "lock"]["spec"]  # type: ignore[no-any-return]


def now() -> float:
    return asyncio.get_running_loop().time()


async def until(condition, limit_s: float = 100.0) -> float:  # type: ignore[no-untyped-def]
    """Seconds until it is so."""
    began = now()
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return now() - began


async def test_the_first_candidate_creates_the_lease_and_works():
    async with election("a", labels={"team": "storage"}) as (cluster, (a,)):
        assert a.works
        assert a.elector.is_leader
        assert cluster.objects["leases", "ns", "lock"]["metadata"]["labels"] == {"team": "storage"}
        spec = spec_of(cluster)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
        assert a.gauge("leader_election_master_status") == 1
        assert a.leads == 1
        (event,) = a.events
        assert event[1:] == ("Normal", "LeaderElection", "a became leader")
        assert (event[0].kind, event[0].api_version, event[0].namespace, event[0].name) == (
            "Lease",
            "coordination.k8s.io/v1",
            "ns",
            "lock",
        )
        assert event[0].uid


async def test_a_leader_renews_each_retry_period_by_put_alone():
    async with election("a") as (cluster, (a,)):
        acquired = spec_of(cluster)["acquireTime"]
        await asyncio.sleep(600)
        assert 119 <= len(cluster.asked("replace")) <= 121
        assert len(cluster.asked("get")) == 1
        assert spec_of(cluster)["acquireTime"] == acquired
        assert spec_of(cluster)["leaseTransitions"] == 0
        assert a.gauge("leader_election_slowpath_total") == 0


async def test_LE02_a_standby_does_nothing_and_writes_nothing():
    async with election("a", "bb") as (_, (_, b)):
        await asyncio.sleep(600)
        assert not b.works
        assert b.elector.role is Role.STANDBY
        assert b.wire.writes == 0
        assert b.gauge("leader_election_master_status") == 0
        assert b.leads == 0
        assert b.events == []


async def test_a_standby_polls_as_seldom_as_upstreams():
    async with election("a", "bb") as (cluster, _):
        cluster.requests.clear()
        await asyncio.sleep(1000)
        assert 1000 / 11 <= len(cluster.asked("get")) <= 1000 / 5


async def test_LE02_the_standby_takes_over_once_the_lease_of_a_killed_leader_ran_out():
    async with election("a", "bb") as (cluster, (a, b)):
        await asyncio.sleep(60)
        a.wire.refusing = True  # kill -9: nothing leaves it any more
        last_renewal = max(request.at for request in cluster.asked("replace"))
        await until(lambda: b.works)
        assert 15 <= now() - last_renewal <= 17
        assert not a.works, "two act at once"
        assert spec_of(cluster)["holderIdentity"] == "bb"
        assert spec_of(cluster)["leaseTransitions"] == 1


async def test_LE02_without_a_watch_the_takeover_takes_no_longer_than_upstreams():
    async with election("a") as (cluster, (a,)):
        cluster.fail("watch", Forbidden("leases is forbidden"), times=1000)
        b = Replica(cluster, "bb")
        b.start()
        await asyncio.sleep(60)
        a.wire.refusing = True
        last_renewal = max(request.at for request in cluster.asked("replace"))
        await until(lambda: b.works)
        assert 15 <= now() - last_renewal <= 35
        assert len(cluster.asked("watch")) == 1, "a right that we lack is asked for once"
        await b.stop()


async def test_clocks_that_are_hours_apart_change_nothing():
    """Expiry counts from when we saw the record change, on our own clock."""
    cluster = FakeCluster()
    a, b = Replica(cluster, "a"), Replica(cluster, "bb", skew_s=36_000)
    for replica in (a, b):
        replica.start()
        await asyncio.sleep(0.1)
    await asyncio.sleep(100)
    assert (a.works, b.works) == (True, False)
    a.wire.refusing = True
    assert 5 <= await until(lambda: b.works) <= 17
    assert not a.works
    await a.stop()
    await b.stop()


async def test_LE03_a_leader_that_cannot_renew_stops_in_time_and_stands_again():
    """M: it lives on as a standby. Upstream's exits 1."""
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(20)
        cluster.fail("replace", ServerError("boom"), times=10_000)
        last_renewal = max(request.at for request in cluster.asked("replace"))
        await until(lambda: not a.works)
        assert now() - last_renewal == pytest.approx(10, abs=0.1)
        assert not a.elector.is_leader
        assert a.gauge("leader_election_master_status") == 0
        assert a.leads == 0
        assert a.events[-1][3] == "a stopped leading"
        await asyncio.sleep(60)
        assert not a.works
        assert a.task is not None
        assert not a.task.done()
        cluster.faults.clear()
        await until(lambda: a.works)
        assert spec_of(cluster)["leaseTransitions"] == 0


async def test_one_failed_renewal_is_tried_again_soon_with_a_read_first():
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(2)
        cluster.fail("replace", ServerError("boom"), times=2)
        cluster.requests.clear()
        await asyncio.sleep(6)
        assert [request.verb for request in cluster.requests] == ["replace", "get", "replace", "get", "replace"]
        assert a.works
        assert a.gauge("leader_election_slowpath_total") == 2


async def test_a_request_that_hangs_is_not_the_last_one():
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(2)
        cluster.fail("replace", None, delay_s=1000)
        await asyncio.sleep(60)
        assert a.works
        assert [message for *_, message in a.events] == ["a became leader"]


async def test_a_renewal_counts_from_when_it_was_sent_not_from_its_late_answer():
    """Others count from when the Lease was written, which may be at once: a leader that counts from the answer outlives
    its Lease.
    """
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(2)
        cluster.fail("replace", None, late=True, delay_s=2.0)  # written at once, answered two seconds later
        await until(lambda: cluster.faults[0].times == 0)
        sent = cluster.asked("replace")[-1].at
        await asyncio.sleep(2.5)
        assert a.works
        a.wire.refusing = True
        await until(lambda: not a.works)
        assert now() - sent == pytest.approx(10, abs=0.1)


async def test_a_renewal_whose_answer_was_lost_is_no_conflict():
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(2)
        cluster.fail("replace", ServerError("lost"), late=True)
        await asyncio.sleep(20)
        assert a.works
        assert spec_of(cluster)["leaseTransitions"] == 0
        assert [message for *_, message in a.events] == ["a became leader"]


async def test_a_claim_whose_answer_was_lost_is_known_as_ours_at_the_next_look():
    async with election() as (cluster, _):
        cluster.fail("create", ServerError("lost"), late=True)
        a = Replica(cluster, "a")
        a.start()
        await asyncio.sleep(1)
        assert a.elector.role is Role.CLAIMING
        assert not a.works
        await until(lambda: a.works, 12)
        assert spec_of(cluster)["leaseTransitions"] == 0
        await a.stop()


async def test_who_leaves_with_a_claim_unanswered_gives_it_back():
    cluster = FakeCluster()
    cluster.fail("create", ServerError("lost"), late=True)
    a = Replica(cluster, "a")
    a.start()
    await asyncio.sleep(1)
    assert spec_of(cluster)["holderIdentity"] == "a"
    await a.stop()
    assert spec_of(cluster)["holderIdentity"] == ""


async def test_a_foreign_change_of_the_lease_is_a_conflict_and_survives():
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(2)
        cluster.put(WHOLE, "lock", "ns", metadata={"labels": {"somebodys": "label"}}, spec={"strategy": "x"})
        await asyncio.sleep(20)
        assert a.works
        assert cluster.objects["leases", "ns", "lock"]["metadata"]["labels"] == {"somebodys": "label"}
        assert spec_of(cluster)["strategy"] == "x"
        assert a.gauge("leader_election_slowpath_total") == 1


async def test_a_lease_taken_by_another_stops_the_work_at_the_next_renewal():
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(2)
        cluster.put(WHOLE, "lock", "ns", spec={"holderIdentity": "usurper", "renewTime": "now"})
        assert await until(lambda: not a.works) <= 5
        await asyncio.sleep(8)
        assert spec_of(cluster)["holderIdentity"] == "usurper"
        assert await until(lambda: a.works) <= 20  # it never renewed


async def test_a_deleted_lease_is_made_again_by_its_holder_and_taken_by_nobody_else():
    async with election("a", "bb") as (cluster, (a, b)):
        await asyncio.sleep(33)
        cluster.remove(WHOLE, "lock", "ns")
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert not b.works
        assert a.works
        assert spec_of(cluster)["holderIdentity"] == "a"


async def test_a_deleted_lease_of_a_dead_leader_is_taken_once_it_would_have_run_out():
    async with election("a", "bb") as (cluster, (a, b)):
        await asyncio.sleep(33)
        a.wire.refusing = True
        cluster.remove(WHOLE, "lock", "ns")
        assert 9 <= await until(lambda: b.works) <= 27


@each_row("after_s", [30, 31.5, 33, 34.5, 36])
async def test_a_leader_that_ends_gives_the_lease_back_and_another_takes_it_at_once(after_s: float):
    async with election("a", "bb") as (cluster, (a, b)):
        await asyncio.sleep(after_s)
        await a.stop()
        assert not a.works
        assert a.elector.role is Role.ENDED
        spec = spec_of(cluster)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 0)
        assert spec["renewTime"] == spec["acquireTime"]
        assert await until(lambda: b.works) <= 2.5
        assert spec_of(cluster)["leaseTransitions"] == 1


async def test_who_was_too_late_for_a_lease_given_back_polls_as_before():
    async with election("a", "bb", "ccc") as (cluster, (a, b, c)):
        await asyncio.sleep(30)
        await a.stop()
        await asyncio.sleep(30)
        assert b.works + c.works == 1
        before = len(cluster.asked("get"))
        await asyncio.sleep(100)
        assert len(cluster.asked("get")) - before <= 20


async def test_called_off_in_the_moment_of_winning_it_gives_the_lease_back():
    async with election("a", "bb") as (cluster, (a, b)):
        await asyncio.sleep(20)
        a.wire.refusing = True
        written = asyncio.Event()
        cluster.on_write = lambda request, obj: written.set()
        await written.wait()
        while b.elector.role is not Role.LEADING:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await b.stop()
        assert spec_of(cluster)["holderIdentity"] == ""
        assert ["bb became leader", "bb stopped leading"] == [message for *_, message in b.events]
        assert 0.0 == b.gauge("leader_election_master_status")


async def test_the_lease_is_renewed_until_the_work_has_ended():
    """Calls in flight may take longer to end than a Lease lasts."""
    async with election("a", "bb") as (cluster, (a, b)):
        a.end_s = 40
        await asyncio.sleep(12)
        assert a.task is not None
        a.task.cancel()
        await asyncio.sleep(38)
        assert a.elector.role is Role.DRAINING
        assert a.works
        assert not b.works
        await asyncio.sleep(5)
        assert spec_of(cluster)["holderIdentity"] == "bb"
        assert a.task.cancelled()


async def test_a_second_call_to_end_gives_nothing_back():
    async with election("a") as (cluster, (a,)):
        a.end_s = 40
        assert a.task is not None
        a.task.cancel()
        await asyncio.sleep(1)
        a.task.cancel()
        await asyncio.sleep(0.1)
        assert a.task.cancelled()
        assert spec_of(cluster)["holderIdentity"] == "a"


async def test_a_standby_ends_at_once():
    """W17: upstream's ignores the first signal."""
    async with election("a", "bb") as (cluster, (_, b)):
        await asyncio.sleep(20)
        began, requests = now(), len(cluster.requests)
        await b.stop()
        assert now() == began
        assert len(cluster.requests) == requests
        assert spec_of(cluster)["holderIdentity"] == "a"


async def test_work_that_returns_ends_the_election_and_gives_the_lease_back():
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(7)
        a.done.set()
        assert a.task is not None
        await a.task
        assert spec_of(cluster)["holderIdentity"] == ""


async def test_work_that_fails_is_told_after_the_lease_was_given_back():
    async with election("a") as (cluster, (a,)):
        await asyncio.sleep(7)
        a.error = ZeroDivisionError("boom")
        a.done.set()
        assert a.task is not None
        with pytest.raises(ZeroDivisionError):
            await a.task
        assert spec_of(cluster)["holderIdentity"] == ""


async def test_the_lease_is_not_given_back_when_it_is_anothers():
    async with election("a") as (cluster, (a,)):
        cluster.put(WHOLE, "lock", "ns", spec={"holderIdentity": "usurper"})
        await a.stop()
        assert spec_of(cluster)["holderIdentity"] == "usurper"


async def test_giving_back_is_tried_for_the_renew_deadline_at_most():
    async with election("a") as (_, (a,)):
        a.wire.hanging = True
        began = now()
        await a.stop()
        assert now() - began == pytest.approx(10)


async def test_work_has_until_the_lease_runs_out():
    async with election("a") as (cluster, (a,)):
        a.end_s = 4
        await asyncio.sleep(12)
        last_renewal = max(request.at for request in cluster.asked("replace"))
        a.wire.refusing = True
        await until(lambda: not a.works)
        assert now() - last_renewal == pytest.approx(14, abs=0.1)
        await asyncio.sleep(1)
        assert a.elector.role is Role.STANDBY


async def test_work_that_outlives_the_lease_ends_the_process():
    async with election("a") as (cluster, (a,)):
        a.end_s = 1000
        await asyncio.sleep(12)
        last_renewal = max(request.at for request in cluster.asked("replace"))
        a.wire.refusing = True
        assert a.task is not None
        with pytest.raises(WorkOutlivesLease):
            await a.task
        assert now() - last_renewal == pytest.approx(15, abs=0.1)


async def test_called_off_after_the_loss_it_ends_with_the_work_and_writes_nothing():
    async with election("a") as (cluster, (a,)):
        a.end_s = 4
        await asyncio.sleep(2)
        a.wire.refusing = True
        await until(lambda: a.elector.role is Role.LOSING)
        a.wire.refusing = False
        writes = a.wire.writes
        await a.stop()
        assert not a.works
        assert a.wire.writes == writes
        assert spec_of(cluster)["holderIdentity"] == "a"


async def test_a_loss_while_the_work_is_ending_does_not_disturb_it():
    async with election("a") as (_, (a,)):
        a.end_s = 14
        assert a.task is not None
        a.task.cancel()
        a.wire.refusing = True
        await asyncio.sleep(13)
        assert a.elector.role is Role.QUITTING
        assert a.works
        await asyncio.sleep(1.5)
        assert not a.works


async def test_a_loop_that_was_held_up_leads_no_more():
    """Workers that ask before they act see it even before the elector does."""

    class Late(LoopClock):
        late_s = 0.0

        def now(self) -> float:
            return super().now() + self.late_s

    cluster, clock = FakeCluster(), Late()
    elector = LeaderElector(cluster, Candidate("lock", "ns", "a", LeaseTimes(), {}), clock=clock, randomness=Random(1))
    task = asyncio.get_running_loop().create_task(elector.run(asyncio.Event().wait))  # type: ignore[arg-type]
    await asyncio.sleep(1)
    assert elector.is_leader
    assert elector.healthy() == ""
    clock.late_s = 11
    assert not elector.is_leader
    assert elector.healthy() == ""
    clock.late_s = 36
    assert elector.healthy() == "internal server error: failed election to renew leadership on lease "
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_claim_whose_answer_is_read_after_a_stop_is_not_told_as_leadership():
    """Seed 1381 of the plane. The Lease has run out by then, and another may have told that it leads."""

    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    replica = Replica(FakeCluster(), "a")
    ask = replica.wire.ask

    async def stopped_behind_the_claim(request: Request) -> object:
        answer = await ask(request)
        if 1 == replica.wire.writes and request.writes:
            loop.stand_still(11.0)
        return answer

    replica.wire.ask = stopped_behind_the_claim  # type: ignore[method-assign]
    told: list[tuple[float | None, bool]] = []

    async def work() -> None:
        told.append((replica.gauge("leader_election_master_status"), replica.elector.is_leader))
        await asyncio.sleep(60)

    task = loop.create_task(replica.elector.run(work))
    await asyncio.sleep(30)
    assert [(0.0, False), (1.0, True)] == told
    assert ["a became leader"] == [message for _, _, _, message in replica.events]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_who_won_and_stood_still_before_its_work_says_that_it_leads_no_more() -> None:
    """Seed 1381 of the plane, once more: a standby ends its watch between the answer and its work, and was stopped
    there.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    told: list[tuple[float | None, bool]] = []
    async with election("a") as (cluster, (a,)):
        b = Replica(cluster, "bb")
        watch = b.wire.watch

        async def stopped_at_its_end(*args: object, **options: object) -> AsyncGenerator[object, None]:
            try:
                async for event in watch(*args, **options):  # type: ignore[arg-type]
                    yield event
            finally:
                if b.elector.role is Role.LEADING:
                    loop.stand_still(11.0)

        async def work() -> None:
            told.append((b.gauge("leader_election_master_status"), b.elector.is_leader))
            await asyncio.sleep(60)

        b.wire.watch = stopped_at_its_end  # type: ignore[method-assign, assignment]
        b.work = work  # type: ignore[method-assign]
        b.start()
        await asyncio.sleep(5)
        a.wire.refusing = True
        await until(lambda: told)
        await b.stop()
    assert (0.0, False) == told[0]
    assert ["bb became leader", "bb stopped leading"] == [message for *_, message in b.events][:2]


async def test_LE07_leader_and_standby_are_healthy():
    async with election("a", "bb") as (_, replicas):
        for _ in range(100):
            await asyncio.sleep(1)
            assert [replica.elector.healthy() for replica in replicas] == ["", ""]


async def test_leadership_is_told_without_metrics_too():
    told: list[str] = []

    class Events:
        def event(self, ref: ObjectReference, type: str, reason: str, message: str) -> None:
            told.append(message)

    me = Candidate("lock", "ns", "a", LeaseTimes(), {})
    elector = LeaderElector(FakeCluster(), me, clock=LoopClock(), randomness=Random(1), events=Events())
    done = asyncio.Event()
    done.set()
    await elector.run(done.wait)  # type: ignore[arg-type]
    assert ["a became leader", "a stopped leading"] == told


async def test_busy_workers_do_not_delay_renewal():
    async with election("a") as (cluster, _):

        async def busy() -> None:
            for _ in range(3000):
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(busy())
        times = [request.at for request in cluster.asked("replace")]
        assert times == pytest.approx([5 * number for number in range(1, len(times) + 1)], abs=0.1)


def test_LE04_impossible_times_are_refused_at_once():
    with pytest.raises(ConfigError) as caught:
        LeaderElector(
            FakeCluster(),
            Candidate("lock", "ns", "a", LeaseTimes(15, 15, 5), {}),
            clock=LoopClock(),
            randomness=Random(1),
        )
    assert caught.value.exit_code == 2


async def test_errors_of_a_standby_are_logged_once(capsys: pytest.CaptureFixture[str]):
    cluster = FakeCluster()
    cluster.fail("get", Forbidden("leases is forbidden"), times=1000)
    a = Replica(cluster, "a")
    a.start()
    await asyncio.sleep(600)
    await a.stop()
    assert capsys.readouterr().err.count("leases is forbidden") == 1
