"""A sidecar's life with everything around it in process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from mooring.base.clock import LoopClock
from mooring.base.flags import parse
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.process import Machine, Setup
from mooring.cli.sidecar import Context, Sidecar, SidecarLife
from mooring.cli.tables import SidecarFlags
from mooring.csi.in_process import InProcessDriver
from tests.support.scripted_driver import ScriptedDriver


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
        self.obstacle = ""
        self.story = []
        self._closed = asyncio.Event()
        self._ended = asyncio.Event()

    async def follow(self):
        await asyncio.Event().wait()

    async def caught_up(self):
        pass

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


class SidecarInProcess:
    """A life, and all around it."""

    def __init__(self, *flags, plugin=None, make=None, machine=None, cluster=None, connect_s=0.0, seed=1):
        parsed = parse(SidecarFlags, flags)
        self.clock, self.metrics, self._works, self.contexts = LoopClock(), Metrics(), [], []
        self.plugin = plugin or ScriptedDriver("csi.example.com")
        self.ports = PortsInProcess(self.plugin, self.clock, connect_s, cluster)
        self.make = make or (lambda: SlowWork(self.clock))
        sidecar = Sidecar("csi-test", "lock-", 15.0, self._work)
        setup = Setup("csi-test", parsed.flags, parsed.given, {})
        self.life = SidecarLife(
            sidecar,
            setup,
            machine or Machine(environ={}),
            self.ports,
            clock=self.clock,
            randomness=Random(seed),
            metrics=self.metrics,
        )

    def _work(self, context: Context) -> SlowWork:
        self.contexts.append(context)
        self._works.append(self.make())
        return self._works[-1]

    @property
    def works(self):
        """The works that have begun, of each term; one more may stand by."""
        return [work for work in self._works if work.story]

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
