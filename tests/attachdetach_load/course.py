"""A load run from the first pod to the last object: all run, all move at random, all run again, all is deleted, nothing
is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from mooring.api.core import EVENTS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.errors import ApiError, NotFound
from tests.attachdetach_load.following import follow
from tests.attachdetach_load.kubelets import Kubelet
from tests.attachdetach_load.observer import Observer
from tests.attachdetach_load.parts import Parts
from tests.support.builders import DRIVER, NS, RWO, RWX, a_claim, a_csi_node, a_pod, a_pv
from tests.support.cluster_world import ClusterUser
from tests.support.control_plane import ControlPlane
from tests.support.health import NodeTenant

SHARED_EACH = 10
"""One volume of so many is for many nodes, and two pods use it."""

AT_ONCE = 32
ROOM = {"pods": "110", "cpu": "64", "memory": "64Gi"}
SETTLE_S_MAX = 180.0


@dataclasses.dataclass(frozen=True)
class Size:
    """moves: a second. kill_every_s: between two kills, on average."""

    pods: int = 300
    nodes: int = 10
    seconds: float = 300.0
    moves: float = 4.0
    kill_every_s: float = 8.0
    seed: int = 1


class Course:
    """say: is told how far it is, a line at a time."""

    def __init__(
        self, user: ClusterUser, tenant: NodeTenant, parts: Parts, size: Size, say: Callable[[str], None]
    ) -> None:
        self._user, self._tenant, self._parts, self._size, self._say = user, tenant, parts, size, say
        self._dice = random.Random(size.seed)
        self.claims = [f"c{number}" for number in range(size.pods)]
        self.shared = set(self.claims[::SHARED_EACH])
        self.observer = Observer(set(self.claims) - self.shared)
        self.nodes: list[str] = []
        self.kubelets: list[Kubelet] = []
        self._pods: dict[str, str] = {}
        self._busy: set[str] = set()
        self.moves = self.generation = 0
        self._phase, self._began = "", time.monotonic()

    # -- the phases

    async def run(self) -> None:
        """Raises AssertionError with the rules that were broken, or with the object that is not as it should be in the
        end.
        """
        try:
            async with self._followed():
                await self._phases()
        finally:
            self._say(self.line())
        broken = self.observer.broken(self._parts.journal())
        assert not broken, f"{len(broken)} times: {broken[:10]}"

    async def _phases(self) -> None:
        self._phase = "starts"
        await self._each(self._start(name) for name in [*self.claims, *self._second_users()])
        await self._until(self._all_run, "every pod runs")
        self._phase = "moves"
        await self._move_for(self._size.seconds)
        self._phase = "settles"
        await self._until(self._all_run, "every pod runs after the moves")
        self._phase = "ends"
        await self._each(self._delete_pod(pod) for pod in self._pods.values())
        await self._until(self._is_clean, "nothing is attached, told or in use")
        self._phase = "removes"
        await self._remove_objects()

    async def _move_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._parts.kill_at_random(self._dice, self._size.kill_every_s, seconds))
            while time.monotonic() < deadline:
                await asyncio.sleep(self._dice.uniform(0, 2) / self._size.moves)
                name = self._dice.choice(sorted(self._pods))
                if name not in self._busy:
                    group.create_task(self._move(name), name=f"move/{name}")

    async def _until(self, check: Callable[[], Awaitable[str]], what: str) -> None:
        """check: gives what is missing, "" for nothing."""
        deadline = time.monotonic() + SETTLE_S_MAX
        while missing := await check():
            self._parts.assert_alive()
            assert time.monotonic() < deadline, (
                f"not within {SETTLE_S_MAX:g} s: {what}: {missing}\n{self._parts.logs()}"
            )
            await asyncio.sleep(0.5)

    async def _all_run(self) -> str:
        running = set[str]().union(*(kubelet.running for kubelet in self.kubelets))
        missing = sorted(set(self._pods.values()) - running)
        return f"{len(missing)} pods, {missing[:5]}" if missing else ""

    async def _is_clean(self) -> str:
        left = [one["metadata"]["name"] for kind in (PODS, VOLUME_ATTACHMENTS) for one in await self._user.list(kind)]
        for node in await self._user.list(NODES):
            left += [one["name"] for one in node["status"].get("volumesAttached") or ()]
            left += node["status"].get("volumesInUse") or ()
        left += self._parts.journal().published()
        return f"{len(left)}: {left[:5]}" if left else ""

    # -- pods

    def _second_users(self) -> list[str]:
        """Of the volumes for many nodes."""
        return [f"{name}-too" for name in sorted(self.shared)]

    async def _start(self, name: str) -> None:
        """A pod of a new name, on a node that is drawn; the scheduler puts it there."""
        self.generation += 1
        pod = f"{name}-{self.generation}"
        host = {"kubernetes.io/hostname": self._dice.choice(self.nodes)}
        await self._create_pod(pod, name.removesuffix("-too"), host)
        self._pods[name] = pod

    async def _create_pod(self, pod: str, claim: str, host: dict[str, str]) -> None:
        await self._user.create(a_pod(pod, claim, nodeSelector=host, terminationGracePeriodSeconds=30))

    async def _delete_pod(self, pod: str, grace_s: int | None = None) -> None:
        with contextlib.suppress(NotFound):
            await self._user.users.delete(PODS, pod, NS, grace_period_s=grace_s)

    async def _move(self, name: str) -> None:
        """The new pod comes before, with, or after the end of the old one; now and then under the same name, or the old
        one by force.
        """
        self._busy.add(name)
        old, way = self._pods[name], self._dice.choice(("before", "with", "after", "same name", "force"))
        if way == "before":
            await self._start(name)
            await asyncio.sleep(self._dice.uniform(0, 2))
        await self._delete_pod(old, 0 if way == "force" else None)
        if way in ("with", "force"):
            await self._start(name)
        if way in ("after", "same name"):
            await self._user.gone(PODS, old)
        if way == "after":
            await self._start(name)
        if way == "same name":
            await self._create_pod(
                old, name.removesuffix("-too"), {"kubernetes.io/hostname": self._dice.choice(self.nodes)}
            )
        self.moves += 1
        self._busy.discard(name)

    # -- objects

    async def prepare(self) -> None:
        """Nodes with their kubelets, and volumes that are bound."""
        for number in range(self._size.nodes):
            await self._add_node(f"n{number}")
        await self._each(self._add_volume(claim) for claim in self.claims)
        await self._until(self._all_bound, "every claim is bound")

    async def _add_node(self, base: str) -> None:
        name = self._tenant(base)
        await self._tenant.add_node(base)
        await self._user.patch(NODES, name, {"metadata": {"annotations": {MANAGED: "true"}}})
        await self._user.patch(NODES, name, {"status": {"capacity": ROOM, "allocatable": ROOM}}, subresource="status")
        await self._user.create(a_csi_node(name, {DRIVER: f"id-{name}"}))
        self.nodes.append(name)
        dice = random.Random(self._dice.random())
        self.kubelets.append(Kubelet(self._user, name, dice, self.observer.mounts, slow_s=1.0))

    async def _add_volume(self, name: str) -> None:
        modes = RWX if name in self.shared else RWO
        made = await self._user.create(a_claim(name, sc="", volume=name, modes=modes))
        await self._user.create(a_pv(name, modes=modes, claim=made, persistentVolumeReclaimPolicy="Retain"))

    async def _all_bound(self) -> str:
        left = [
            one["metadata"]["name"]
            for one in await self._user.list(PERSISTENT_VOLUME_CLAIMS)
            if one["status"]["phase"] != "Bound"
        ]
        return f"{len(left)}: {left[:5]}" if left else ""

    async def _remove_objects(self) -> None:
        """Claims and volumes go, so that nobody has left a finalizer on one."""
        await self._each(self._user.remove(PERSISTENT_VOLUME_CLAIMS, name) for name in self.claims)
        await self._each(self._user.remove(PERSISTENT_VOLUMES, name) for name in self.claims)

    async def _each(self, jobs: Iterable[Awaitable[Any]]) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(job: Awaitable[Any]) -> None:
            async with slots:
                await job

        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(one(job))

    # -- what goes on

    @contextlib.asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        """The watches and the kubelets at work."""
        cluster = self._user.users
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    follow(cluster, NODES, self.observer.saw_node, *(one.saw_node for one in self.kubelets))
                ),
                group.create_task(follow(cluster, PODS, *(one.saw_pod for one in self.kubelets))),
                group.create_task(follow(cluster, VOLUME_ATTACHMENTS, self.observer.saw_attachment)),
                group.create_task(self._show()),
                *(group.create_task(one.run()) for one in self.kubelets),
            ]
            yield
            for task in tasks:
                task.cancel()

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(5)
            self._say(self.line())

    def line(self) -> str:
        """How far it is."""
        running = sum(len(kubelet.running) for kubelet in self.kubelets)
        return (
            f"{time.monotonic() - self._began:4.0f} s  {self._phase:8}  {running} of {len(self._pods)} pods "
            f"run  {self.moves} moved  "
            f"{self.observer.attachments} attachments  {len(self.observer.mounts)} mounts  {self._parts.kills} kills"
        )

    async def multi_attach_events(self) -> int:
        """How many pods were told that their volume is elsewhere."""
        return sum("Multi-Attach" in one.get("message", "") for one in await self._user.list(EVENTS))


@contextlib.asynccontextmanager
async def a_course(plane: ControlPlane, parts: Parts, size: Size, say: Callable[[str], None]) -> AsyncIterator[Course]:
    """One whose nodes and volumes are there."""
    config = load(str(plane.kubeconfig("load")), {})
    async with HttpCluster(
        config, clock=LoopClock(), randomness=Random(), user_agent="load", concurrency_max=64
    ) as cluster:
        tenant = NodeTenant(cluster, wait_s=SETTLE_S_MAX, look_s=0.2)
        course = Course(ClusterUser(cluster, wait_s=SETTLE_S_MAX, look_s=0.2), tenant, parts, size, say)
        try:
            await course.prepare()
            yield course
        finally:
            with contextlib.suppress(ApiError):
                await tenant.end()
