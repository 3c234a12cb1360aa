"""The journal under lost answers, several provisioners at once and deaths: what was begun is found, what was settled is
not.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import Any, TypeVar

from mooring.api.coordination import LEASES
from mooring.kube.cluster import Cluster, Request
from mooring.kube.errors import ApiError, Unreachable
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.model.intent import Intent
from tests.support.cluster_world import ClusterWorld
from tests.support.intents import an_entry
from tests.support.rows import each_row
from tests.support.virtual_loop import run_virtual

T = TypeVar("T")
PLACE = JournalLocation("storage", "csi.test")
SIZES = (10, 60_000, 100_000)
"""Of requests, so that a few intents fill a page."""


class Line(Cluster):
    """A slow line to the API server on which requests and answers get lost."""

    def __init__(self, cluster: Cluster, draw: random.Random) -> None:
        self._cluster, self._draw = cluster, draw
        self._loss = draw.choice((0.0, 0.02, 0.1))

    async def ask(self, request: Request) -> Any:
        await self._takes_time()
        if self._draw.random() < self._loss:
            raise Unreachable("the request was lost")
        answer = await self._cluster.ask(request)
        await self._takes_time()
        if self._draw.random() < self._loss:
            raise Unreachable("the answer was lost")
        return answer

    def watch(self, *args: Any, **options: Any) -> Any:
        return self._cluster.watch(*args, **options)

    async def _takes_time(self) -> None:
        await asyncio.sleep(self._draw.choice((0.0, 0.0, 0.01, 0.05)))


class Processes(ClusterWorld):
    """begun, settled: what some process was told of its intents, and nothing else has been asked since."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.draw = random.Random(seed)
        self.begun: set[str] = set()
        self.settled: set[str] = set()

    async def live(self, number: int) -> None:
        """One process, from its start to its death."""
        line: Any = Line(self.users, self.draw)
        journal = Journal(line, PLACE, f"process-{number}", self.clock)
        await journal.start()
        running = asyncio.create_task(journal.run(), name=f"journal/{number}")
        await asyncio.gather(*(self._work(journal, f"{number}-{worker}") for worker in range(3)))
        await asyncio.sleep(self.draw.choice((0.0, 0.1, 6.0)))
        running.cancel()
        await asyncio.wait([running])

    async def _work(self, journal: Journal, name: str) -> None:
        for _ in range(self.draw.randint(1, 6)):
            uid = f"{name}-{self.draw.randint(0, 1)}"
            if await self._begins(journal, uid):
                await asyncio.sleep(self.draw.choice((0.0, 0.02, 0.3)))
                if self.draw.random() < 0.5:
                    await self._ends(journal, uid)

    async def _begins(self, journal: Journal, uid: str) -> bool:
        self.settled.discard(uid)
        request = str(self.draw.randint(0, 9)) * self.draw.choice(SIZES)
        is_begun = await succeeds(journal.write(an_entry(Intent(uid, "default", "c", f"pvc-{uid}", request, "{}"))))
        self.begun |= {uid} if is_begun else set()
        return is_begun

    async def _ends(self, journal: Journal, uid: str) -> None:
        self.begun.discard(uid)
        await journal.end(uid)
        if await succeeds(journal.wait_for_end(uid)):
            self.settled.add(uid)

    async def found(self) -> set[str]:
        """By a next process, after all others."""
        last = Journal(self.users, PLACE, "last", self.clock)
        await last.start()
        return set(last.open())


async def succeeds(asked: Awaitable[None]) -> bool:
    try:
        await asked
    except ApiError:
        return False
    return True


@each_row("first", [*range(0, 40, 5), 2980])
def test_what_was_begun_is_found_and_what_was_settled_is_not(first: int):
    for seed in range(first, first + 5):
        run_virtual(lived(seed))


async def lived(seed: int) -> None:
    world = Processes(seed)
    await world.make_namespace(PLACE.namespace)
    async with asyncio.TaskGroup() as group:
        for number in range(world.draw.randint(2, 5)):
            group.create_task(world.live(number), name=f"process/{number}")
            await asyncio.sleep(world.draw.choice((0.0, 0.1, 0.5, 1.0, 20.0)))
    found = await world.found()
    assert set() == world.begun - found, f"seed {seed}"
    assert set() == world.settled & found, f"seed {seed}"
    assert (await world.users.list(LEASES)).items
