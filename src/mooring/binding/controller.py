"""The binder: its parts on common caches. Each part can be switched off, where kube-controller-manager or kube-scheduler has it."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.binding import making, options, volumes
from mooring.binding.announce import Announcer
from mooring.binding.caches import Caches
from mooring.binding.making import EphemeralVolumes
from mooring.binding.options import BinderOptions
from mooring.binding.protecting import AttributesClassProtection, ClaimProtection, VolumeProtection
from mooring.binding.scheduler.controller import Scheduler
from mooring.binding.volumes import VolumeBinding
from mooring.binding.workers import Workers
from mooring.kube.cluster import Cluster
from mooring.kube.events import EventRecorder
from mooring.kube.shift import Shift

log = logger(__name__)

EVENTS_S_MAX = 2.0
"""How long the end waits for events that are not sent yet."""


class _Part(Protocol):
    async def run(self) -> None: ...
    def close(self) -> None: ...


class Binder:
    """Everything that binding needs on one cluster, or as much of it as the options ask for."""

    def __init__(self, cluster: Cluster, options: BinderOptions, clock: Clock, chance: Chance, metrics: Metrics | None = None) -> None:
        self._cluster, self._clock, self._chance = cluster, clock, chance
        self._metrics = metrics or Metrics()
        self._recorders: dict[str, EventRecorder] = {}
        self._shift = Shift()
        self._caches = Caches(cluster, clock, chance)
        self._parts: list[_Part] = [self._part(name, options) for name in sorted(options.parts)]

    def _part(self, name: str, given: BinderOptions) -> _Part:
        caches, clock, chance, metrics = self._caches, self._clock, self._chance, self._metrics
        match name:
            case options.BINDER:
                events = self._recorder(volumes.COMPONENT)
                return VolumeBinding(caches, workers=given.workers, clock=clock, chance=chance, metrics=metrics, events=events)
            case options.CLAIM_PROTECTION:
                announcer = self._announcer("pvc-protection-controller")
                return _Alone(ClaimProtection(caches, announcer, clock=clock, chance=chance, metrics=metrics).workers)
            case options.VOLUME_PROTECTION:
                return _Alone(VolumeProtection(caches, clock=clock, chance=chance, metrics=metrics).workers)
            case options.ATTRIBUTES_PROTECTION:
                return _Alone(AttributesClassProtection(caches, clock=clock, chance=chance, metrics=metrics).workers)
            case options.EPHEMERAL:
                announcer = self._announcer(making.COMPONENT)
                return _Alone(EphemeralVolumes(caches, announcer, clock=clock, chance=chance, metrics=metrics).workers)
            case options.SCHEDULER:
                events = self._recorder(given.scheduler_name)
                return Scheduler(caches, given, clock=clock, chance=chance, metrics=metrics, events=events)
        raise AssertionError(f"no part is called {name}")

    def _recorder(self, component: str) -> EventRecorder:
        recorder = self._recorders[component] = EventRecorder(self._cluster, component, clock=self._clock, chance=self._chance)
        return recorder

    def _announcer(self, component: str) -> Announcer:
        return Announcer(self._recorder(component), self._clock)

    @property
    def has_synced(self) -> bool:
        """True once every cache has been filled."""
        return self._caches.have_synced

    @property
    def obstacle(self) -> str:
        """What keeps a cache from following the API server, "" for nothing that is known."""
        return self._caches.obstacle

    async def run(self) -> None:
        """Binds until cancelled, or until drained."""
        async with asyncio.TaskGroup() as group:
            helpers = self._caches.start(group)
            helpers += [group.create_task(one.run(), name=f"binder/events/{name}") for name, one in self._recorders.items()]
            await self._caches.synced()
            log.info(2, "caches synced")
            async with self._shift.workers() as parts:
                for number, part in enumerate(self._parts):
                    parts.create_task(part.run(), name=f"binder/part/{number}")
            for recorder in self._recorders.values():
                await recorder.drain(EVENTS_S_MAX)
            for helper in helpers:
                helper.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Begins nothing new, lets what runs end. timeout_s: how long at the most. Returns False when that was too short."""
        for part in self._parts:
            part.close()
        return await self._shift.over(timeout_s)


class _Alone:
    """A part that is one queue with its workers."""

    def __init__(self, workers: Workers[Any]) -> None:
        self._workers = workers

    async def run(self) -> None:
        await self._workers.run()

    def close(self) -> None:
        self._workers.queue.close()
