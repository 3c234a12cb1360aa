"""Work under a Lease that may have run out sends nothing, also when the process stood still and the answers of before
lie ready.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.randomness import Random
from mooring.control.lease.elector import Candidate, LeaderElector, LeaseTimes
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Unreachable
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_va
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import ScriptedDriver
from tests.support.virtual_loop import VirtualLoop, in_virtual_time

pytestmark = in_virtual_time
TIMES = LeaseTimes(15.0, 10.0, 5.0)
REQUEST = csi.ControllerPublishVolumeRequest(volume_id="v", node_id="n")


class Program:
    """Work that acts each time it is told to: one write, one call of the driver. outcomes: of both. strays: one task
    per term that no end of the term ends, and which acts once `late` is set.
    """

    def __init__(self) -> None:
        self.world = ClusterWorld()
        self.driver = ScriptedDriver()
        self.go = asyncio.Event()
        self.terms = 0
        self.outcomes: list[object] = []
        self.late = asyncio.Event()
        self.strays: list[asyncio.Task[None]] = []
        self._port = InProcessDriver(self.driver, clock=self.world.clock)

    async def run(self) -> None:
        self.terms += 1
        self.strays.append(asyncio.get_running_loop().create_task(self._stray(), name="stray"))
        while True:
            await self.go.wait()
            self.go.clear()
            await self.act()

    async def _stray(self) -> None:
        await self.late.wait()
        await self.act()

    async def act(self) -> None:
        name = f"va{len(self.outcomes)}"
        for act in (
            self.world.cluster.create(VOLUME_ATTACHMENTS, a_va(name)),
            self._port.controller_publish_volume(REQUEST, Call(5.0)),
        ):
            try:
                await act
                self.outcomes.append("done")
            except (Unreachable, DriverError) as error:
                self.outcomes.append(error)


@contextlib.asynccontextmanager
async def leading() -> AsyncIterator[Program]:
    program = Program()
    world = program.world
    elector = LeaderElector(
        world.users, Candidate("lock", "default", "me", TIMES, {}), clock=world.clock, randomness=Random(3)
    )
    async with asyncio.TaskGroup() as group:
        standing = group.create_task(elector.run(program.run), name="elector")
        await asyncio.sleep(12)
        yield program
        standing.cancel()
        for stray in program.strays:
            stray.cancel()


async def stand_still(seconds: float) -> None:
    """The process is stopped for so long. What was ready before is the first to run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.stand_still(seconds)
    await asyncio.sleep(0)


async def test_who_leads_writes_and_calls():
    async with leading() as program:
        program.go.set()
        await asyncio.sleep(1)
        assert ["done", "done"] == program.outcomes


@each_row("still_s", [10.0, 15.0, 3600.0])
async def test_LE08_after_a_stop_that_outlasted_the_lease_the_next_step_neither_writes_nor_calls(still_s: float):
    async with leading() as program:
        program.go.set()
        await stand_still(still_s)
        await asyncio.sleep(0.5)
        write, call = program.outcomes
        assert isinstance(write, Unreachable)
        assert "the Lease default/lock may have run out" in str(write)
        assert isinstance(call, DriverError)
        assert (Code.CANCELED, False) == (call.code, call.final), "what an earlier call came to is as open as before"
        assert 0 == len(program.driver.calls)
        assert 0 == len((await program.world.users.list(VOLUME_ATTACHMENTS)).items)


async def test_a_stop_within_the_renew_deadline_costs_nothing():
    async with leading() as program:
        program.go.set()
        await stand_still(4.0)
        await asyncio.sleep(0.5)
        assert ["done", "done"] == program.outcomes
        assert 1 == program.terms


async def test_what_a_lost_term_left_behind_does_not_act_in_the_next():
    async with leading() as program:
        await stand_still(3600)
        await asyncio.sleep(60)
        assert 2 == program.terms
        of_first, of_second = program.strays
        of_second.cancel()
        program.late.set()
        await of_first
        assert [Unreachable, DriverError] == [type(outcome) for outcome in program.outcomes]
        program.go.set()
        await asyncio.sleep(1)
        assert ["done", "done"] == program.outcomes[2:]
