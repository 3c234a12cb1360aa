"""A sidecar's life, whole, on ports in process and in virtual time: start, readiness, end, loss of the driver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import pytest

from mooring.base.chance import Chance
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError, InvariantError
from mooring.base.flags import parse
from mooring.base.metrics import Metrics
from mooring.cli.health import DRIVER_S_MAX
from mooring.cli.process import Machine, Setup
from mooring.cli.sidecar import DRAIN_S_MAX, Context, Life, Sidecar
from mooring.cli.tables import SidecarFlags
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import Call
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import DriverLost
from tests.support.scripted_driver import ScriptedDriver
from tests.support.virtual_loop import in_virtual_time


class LosableDriver(InProcessDriver):
    """A driver whose connection a test can break and mend."""

    def __init__(self, plugin, **how):
        super().__init__(plugin, **how)
        self.there = asyncio.Event()
        self.gone = asyncio.Event()
        self.there.set()

    async def lost(self):
        await self.gone.wait()

    async def reconnected(self):
        await self.there.wait()

    def lose(self):
        self.there.clear()
        self.gone.set()

    def come_back(self):
        self.gone.clear()
        self.there.set()


class PortsInProcess:
    """Ports without a network. connect_s: how long the driver takes to appear."""

    def __init__(self, plugin, clock, connect_s=0.0, cluster=None):
        self.plugin, self.clock, self.connect_s, self.api = plugin, clock, connect_s, cluster
        self.open = set()
        self.connection = None

    @contextlib.asynccontextmanager
    async def cluster(self):
        async with self._noted("cluster"):
            yield self.api

    @contextlib.asynccontextmanager
    async def driver(self, metrics):
        await self.clock.sleep(self.connect_s)
        self.connection = LosableDriver(self.plugin, clock=self.clock, metrics=metrics)
        async with self._noted("driver"):
            yield self.connection

    @contextlib.asynccontextmanager
    async def _noted(self, name):
        self.open.add(name)
        try:
            yield
        finally:
            self.open.discard(name)


class SlowWork:
    """Work whose last call takes call_s to end."""

    def __init__(self, clock, call_s=0.0, synced=True, fail=None):
        self.clock, self.call_s, self.has_synced, self.fail = clock, call_s, synced, fail
        self.story = []
        self._closed = asyncio.Event()
        self._ended = asyncio.Event()

    async def run(self):
        self.story.append("run")
        try:
            if self.fail is not None:
                raise self.fail
            await self._closed.wait()
            await self.clock.sleep(self.call_s)
            self.story.append("stored")
            self._ended.set()
        except asyncio.CancelledError:
            self.story.append("cancelled")
            raise

    def driver_returned(self):
        self.story.append("driver returned")

    async def drain(self, timeout_s):
        self.story.append("drain")
        self._closed.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        return self._ended.is_set()


class World:
    """A life, and all around it. works: what was made for each term."""

    def __init__(self, *flags, plugin=None, make=None, machine=None, cluster=None, connect_s=0.0):
        parsed = parse(SidecarFlags, flags)
        self.clock, self.metrics, self.works, self.contexts = LoopClock(), Metrics(), [], []
        self.plugin = plugin or ScriptedDriver("csi.example.com")
        self.ports = PortsInProcess(self.plugin, self.clock, connect_s, cluster)
        self._make = make or (lambda: SlowWork(self.clock))
        sidecar = Sidecar("csi-test", "lock-", 15.0, self._work)
        setup = Setup("csi-test", parsed.flags, parsed.given, {})
        self.life = Life(
            sidecar, setup, machine or Machine(environ={}), self.ports, clock=self.clock, chance=Chance(1), metrics=self.metrics
        )

    def _work(self, context: Context) -> SlowWork:
        self.contexts.append(context)
        self.works.append(self._make())
        return self.works[-1]

    @contextlib.asynccontextmanager
    async def living(self):
        """Runs the life; after the block it must have ended, or it is told to."""
        async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
            self.task = group.create_task(self.life.run())
            await self.clock.sleep(0.001)
            yield
            if not self.task.done():
                self.life.end()

    async def asked(self, path):
        routes: Mapping = self.life.health.routes("/metrics", with_probes=True, with_election=True)
        return await routes[path]()


@in_virtual_time
async def test_the_work_gets_the_driver_as_it_introduced_itself():
    world = World()
    async with world.living():
        (context,) = world.contexts
        assert "csi.example.com" == context.info.name
        assert await context.driver.probe(csi.ProbeRequest(), Call(1.0)) == csi.ProbeResponse()
        assert ["run"] == world.works[0].story


@in_virtual_time
async def test_ready_when_driver_and_caches_are():
    work = None

    def make():
        nonlocal work
        work = SlowWork(world.clock, synced=False)
        return work

    world = World(make=make, connect_s=5)
    async with world.living():
        assert "not ready: no connection to the CSI driver yet\n" == (await world.asked("/readyz")).body
        assert 200 == (await world.asked("/healthz")).status
        await world.clock.sleep(6)
        assert (503, "not ready: the caches are not filled yet\n") == _answer(await world.asked("/readyz"))
        work.has_synced = True
        assert (200, "ok") == _answer(await world.asked("/readyz"))
        world.ports.connection.lose()
        await world.clock.sleep(1)
        assert (503, "not ready: the connection to the CSI driver is lost\n") == _answer(await world.asked("/readyz"))
        assert 200 == (await world.asked("/healthz")).status


def _answer(reply):
    return reply.status, reply.body


@in_virtual_time
async def test_the_metrics_page_waits_a_moment_for_the_driver():
    """Whoever took an answer of the Go sidecars' page for a sign of readiness goes on working."""
    world = World(connect_s=5)
    async with world.living():
        assert 200 == (await world.asked("/metrics")).status
        assert world.clock.now() == pytest.approx(DRIVER_S_MAX, abs=0.1)
        page = (await world.asked("/metrics")).body
        assert world.clock.now() == pytest.approx(5, abs=0.1)
        assert b'driver_name="csi.example.com"' in page


@in_virtual_time
async def test_SG_the_end_waits_for_a_running_call():
    """What a call changed at the driver is stored before the process ends."""
    world = World(make=lambda: SlowWork(world.clock, call_s=12))
    async with world.living():
        world.life.end()
        assert (503, "not ready: ending\n") == _answer(await world.asked("/readyz"))
        await world.task
        assert ["run", "drain", "stored"] == world.works[0].story
        assert world.clock.now() == pytest.approx(12, abs=0.1)
        assert set() == world.ports.open


@in_virtual_time
async def test_SG_the_end_waits_no_longer_than_the_limit():
    world = World(make=lambda: SlowWork(world.clock, call_s=500))
    async with world.living():
        world.life.end()
        await world.task
        assert ["run", "drain", "cancelled"] == world.works[0].story
        assert world.clock.now() == pytest.approx(DRAIN_S_MAX, abs=0.1)


@in_virtual_time
async def test_SG_work_that_has_not_begun_is_not_waited_for():
    world = World(make=lambda: SlowWork(world.clock, synced=False))
    async with world.living():
        world.life.end()
        await world.task
        assert ["run", "cancelled"] == world.works[0].story
        assert world.clock.now() < 0.1


@in_virtual_time
async def test_SG_a_process_that_waits_for_its_driver_ends_at_once():
    world = World(connect_s=25)
    async with world.living():
        world.life.end()
        await world.task
        assert world.clock.now() < 0.1
        assert [] == world.works
        assert set() == world.ports.open


@in_virtual_time
async def test_an_unchanged_driver_that_comes_back_is_carried_on_with():
    world = World()
    async with world.living():
        world.ports.connection.lose()
        await world.clock.sleep(60)
        world.ports.connection.come_back()
        await world.clock.sleep(5)
        assert ["run", "driver returned"] == world.works[0].story
        assert 200 == (await world.asked("/readyz")).status


@in_virtual_time
async def test_CO06_a_driver_that_was_replaced_ends_the_life():
    world = World()

    async def replace():
        await world.clock.sleep(0.01)
        world.ports.connection.lose()
        world.plugin.name = "other.example.com"
        world.ports.connection.come_back()

    async with asyncio.TaskGroup() as group:
        group.create_task(replace())
        with pytest.raises(DriverLost, match="Lost connection to CSI driver, exiting"):
            await ended(world)
    assert ["run", "cancelled"] == world.works[0].story
    assert set() == world.ports.open


@in_virtual_time
async def test_CO06_on_request_every_loss_ends_the_life():
    world = World("--exit-on-lost-connection")

    async def lose():
        await world.clock.sleep(0.01)
        world.ports.connection.lose()

    async with asyncio.TaskGroup() as group:
        group.create_task(lose())
        with pytest.raises(DriverLost):
            await ended(world)
    assert world.clock.now() < 0.1


async def ended(world):
    async with asyncio.timeout(3600):
        await world.life.run()


@in_virtual_time
async def test_CP02_a_driver_without_a_name_is_refused():
    world = World(plugin=ScriptedDriver(""))
    with pytest.raises(ConfigError, match="driver name is empty"):
        await ended(world)
    assert [] == world.works


@in_virtual_time
async def test_a_driver_that_refuses_its_capabilities_is_said_so():
    class Refusing(ScriptedDriver):
        async def controller_get_capabilities(self, request):
            raise DriverError(Code.PERMISSION_DENIED, "no")

    world = World(plugin=Refusing())
    with pytest.raises(DriverError, match="PermissionDenied desc = no"):
        await ended(world)


@in_virtual_time
async def test_an_error_of_the_work_is_the_lifes_error():
    world = World(make=lambda: SlowWork(world.clock, fail=ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await ended(world)
    assert set() == world.ports.open


@in_virtual_time
async def test_work_that_ends_by_itself_is_a_bug():
    class Lazy(SlowWork):
        async def run(self):
            return

    world = World(make=lambda: Lazy(world.clock))
    with pytest.raises(InvariantError, match="the work ended"):
        await ended(world)
