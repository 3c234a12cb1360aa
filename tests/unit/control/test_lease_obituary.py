"""A Lease whose holder's process has surely ended (issue 27, A8): what the kubelet's word is, and what is none. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.pods import PODS
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.randomness import Random
from mooring.control.lease.elector import LeaderElector
from mooring.control.lease.obituary import has_ended, note_of, pod_name_of
from mooring.control.lease.record import Candidate, LeaseRecord, LeaseTimes, Sighting, identity_of
from mooring.control.lease.roles import Observed, observed
from mooring.kube.access_review import SELF_REVIEWS
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ServerError
from tests.support.builders import a_pod
from tests.support.cluster_world import ClusterWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

HOLDER = identity_of("csi-0", Random(1))
OTHER = identity_of("csi-0", Random(2))
"""Of another process in a pod of the same name."""


def ended(identity: str = HOLDER, reason: str = "Error", **more: Any) -> dict[str, Any]:
    """The state of a container whose run is over."""
    return {"terminated": {"exitCode": 137, "reason": reason, "message": note_of([identity]), **more}}


def status(state: dict[str, Any], last: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    one = {
        "name": "attacher",
        "image": "i",
        "imageID": "i",
        "ready": False,
        "restartCount": 0,
        "state": state,
        "lastState": last or {},
    }
    return {"containerStatuses": [one], **more}


def test_an_identity_names_its_pod_and_upstreams_names_none():
    assert "csi-0" == pod_name_of(HOLDER)
    assert ["", "", ""] == [pod_name_of(identity) for identity in ("csi-0", "", "kube_controller")]


@pytest.mark.parametrize(
    "found",
    [
        status(ended()),
        status(ended(reason="OOMKilled")),
        status(ended(reason="Completed")),
        status({"running": {}}, ended()),
        status({"waiting": {"reason": "CrashLoopBackOff"}}, ended()),
        status(ended(message=note_of([OTHER, HOLDER]))),
        {"containerStatuses": None, "initContainerStatuses": status(ended())["containerStatuses"]},
        status(ended(), phase="Failed"),
    ],
)
def test_the_word_of_a_kubelet_about_the_very_run(found: dict[str, Any]):
    assert has_ended({"status": found}, HOLDER)


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"phase": "Failed"},
        {"phase": "Failed", "reason": "NodeLost"},
        status({"running": {}}, phase="Failed", reason="Evicted"),
        status(ended(OTHER)),
        status({"running": {}}, ended(OTHER)),
        status(ended(message="")),
        status(ended(message=None)),
        status(ended(message=HOLDER)),
        status(ended(message=note_of([HOLDER])[:-3])),
        status(ended(message=note_of([HOLDER + "0"]))),
        status(ended(reason="ContainerStatusUnknown")),
        status(ended(reason="Unknown")),
        status({"waiting": {"reason": "ContainerCreating", "message": note_of([HOLDER])}}),
    ],
)
def test_what_is_no_proof(found: dict[str, Any]):
    assert not has_ended({"status": found, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, HOLDER)


class Refused(ServerFaults):
    """Requests for pods have no answer."""

    on = True

    async def before(self, verb: str, kind: Any, name: str) -> None:
        if self.on and kind.plural == "pods":
            raise ServerError("no")


class World(ClusterWorld):
    """A Lease that HOLDER renewed a moment ago, as its pod says; and candidates."""

    def __init__(self, faults: ServerFaults | None = None) -> None:
        super().__init__(faults)
        self.leaders: list[str] = []

    async def begin(self) -> None:
        me = Candidate("lock", "default", HOLDER, LeaseTimes(), {})
        await self.users.create(LEASES.whole(), me.holding(None, self.clock.wall_s()), "default")
        await self.create(a_pod("csi-0", node="n1", phase="Running"))

    async def tell(self, found: dict[str, Any]) -> None:
        """The kubelet does."""
        await self.patch(PODS, "csi-0", {"status": found}, subresource="status")

    @contextlib.asynccontextmanager
    async def standing(self, *identities: str, pods_in: str = "default") -> AsyncIterator[None]:
        async with self.running(*(self._stand(identity, pods_in) for identity in identities)):
            await asyncio.sleep(3)
            yield

    async def _stand(self, identity: str, pods_in: str) -> None:
        async def lead() -> None:
            self.leaders.append(identity)
            await asyncio.Event().wait()

        me = Candidate("lock", "default", identity, LeaseTimes(), {}, pods_in)
        await LeaderElector(self.cluster, me, clock=self.clock, randomness=Random(len(identity))).run(lead)

    async def takeover_s(self) -> float:
        began = self.clock.now()
        await self.until(lambda: _true(self.leaders))
        return self.clock.now() - began


async def _true(what: object) -> bool:
    return bool(what)


async def a_world(faults: ServerFaults | None = None) -> World:
    world = World(faults)
    await world.begin()
    return world


class Counting(Cluster):
    """Counts the requests for pods. allows: what it says when somebody asks whether there is a right to them."""

    def __init__(self, real: Cluster, *, allows: bool) -> None:
        self._real, self._allows = real, allows
        self.pods_count = 0

    async def ask(self, request: Any) -> Any:
        if request.kind.plural == SELF_REVIEWS.plural:
            return {"status": {"allowed": self._allows}}
        self.pods_count += request.kind.plural == "pods"
        return await self._real.ask(request)

    def watch(self, kind: Any, selection: Any = None, **how: Any) -> Any:
        self.pods_count += kind.plural == "pods"
        return self._real.watch(kind, selection, **how)


def counted(world: World, *, allows: bool = True) -> Counting:
    world.cluster = counting = Counting(
        LocalCluster(world.store, clock=world.clock, randomness=Random(1)), allows=allows
    )  # type: ignore[assignment]
    return counting


async def test_LE09_a_standby_takes_the_lease_as_soon_as_the_holders_end_is_told():
    world = await a_world()
    async with world.standing("b"):
        await world.tell(status(ended()))
        assert 3.0 > await world.takeover_s()


async def test_LE09_a_process_that_comes_after_the_end_takes_it_at_once():
    """The container was started again, and is alone: it need not wait for its own former run."""
    world = await a_world()
    await world.tell(status({"running": {}}, ended()))
    began = world.clock.now()
    async with world.standing(OTHER):
        await world.takeover_s()
        assert world.clock.now() - began < 3.1


async def test_LE09_of_several_one_takes_it():
    world = await a_world()
    async with world.standing("b", "cc", "ddd"):
        await world.tell(status(ended()))
        await world.takeover_s()
        await asyncio.sleep(10)
        assert 1 == len(world.leaders)


async def test_LE10_a_pod_that_is_gone_proves_nothing():
    world = await a_world()
    async with world.standing("b"):
        began = world.clock.now()
        await world.users.delete(PODS, "csi-0", "default", grace_period_s=0)
        await world.takeover_s()
        assert world.clock.now() - began >= 15 - 3


async def test_LE10_another_pod_of_the_name_proves_nothing():
    """As a StatefulSet makes it, after the first was deleted by force."""
    world = await a_world()
    async with world.standing("b"):
        began = world.clock.now()
        await world.users.delete(PODS, "csi-0", "default", grace_period_s=0)
        await world.create(a_pod("csi-0", node="n2", phase="Running"))
        await world.tell(status(ended(OTHER)))
        await world.takeover_s()
        assert world.clock.now() - began >= 15 - 3


async def test_LE10_a_holder_that_goes_on_renewing_keeps_it_whatever_its_pod_looks_like():
    world = await a_world()
    lease = LEASES.whole()
    async with world.standing("b"):
        for _ in range(10):
            await world.tell(status({"running": {}}, phase="Failed", reason="NodeLost"))
            found = await world.users.get(lease, "lock", "default")
            renewed = Candidate("lock", "default", HOLDER, LeaseTimes(), {}).holding(found, world.clock.wall_s())
            await world.users.replace(lease, renewed, "default")
            await asyncio.sleep(5)
        assert [] == world.leaders


async def test_LE10_without_the_flag_nobody_asks_for_pods():
    world = await a_world()
    counting = counted(world)
    async with world.standing("b", pods_in=""):
        await world.tell(status(ended()))
        began = world.clock.now()
        await world.takeover_s()
        assert world.clock.now() - began >= 15 - 3 - 0.1
        assert 0 == counting.pods_count


async def test_a_leader_that_nobody_disputes_asks_for_no_pods():
    """What the plain case costs."""
    world = World()
    counting = counted(world)
    async with world.standing("b"):
        await asyncio.sleep(100)
        assert ["b"] == world.leaders
        assert 0 == counting.pods_count


async def test_what_a_standby_asks_for_is_one_list_and_one_watch():
    world = await a_world()
    counting = counted(world)
    async with world.standing("b"):
        await asyncio.sleep(5)
        assert 2 == counting.pods_count


async def test_LE10_without_the_right_nothing_is_refused_and_the_lease_runs_out():
    world = await a_world()
    counting = counted(world, allows=False)
    async with world.standing("b"):
        await world.tell(status(ended()))
        assert 11 < await world.takeover_s()
        assert 0 == counting.pods_count


async def test_a_server_that_does_not_answer_for_pods_is_asked_again():
    faults = Refused()
    world = await a_world(faults)
    async with world.standing("b"):
        await world.tell(status(ended()))
        faults.on = False
        assert 6 > await world.takeover_s()


class RefusedOnce(ServerFaults):
    """The first claim has no answer."""

    count = 0

    async def before(self, verb: str, kind: Any, name: str) -> None:
        if verb == "replace" and kind.plural == LEASES.plural:
            self.count += 1
            if self.count == 1:
                raise ServerError("no")


async def test_a_claim_that_failed_is_made_again_before_the_next_poll():
    faults = RefusedOnce()
    world = await a_world(faults)
    async with world.standing("b"):
        await world.tell(status(ended()))
        assert 4 > await world.takeover_s()
        assert 2 == faults.count


@pytest.mark.parametrize(("told", "found"), [(HOLDER, Observed.MISSING), (OTHER, Observed.HELD), ("", Observed.HELD)])
def test_a_lease_that_was_deleted_meanwhile_holds_no_longer_for_who_has_ended(told: str, found: Observed):
    known = Sighting(LeaseRecord(holder=HOLDER, duration_s=15), since=100.0)
    assert found is observed(None, known, "b", 15.0, 101.0, told)
