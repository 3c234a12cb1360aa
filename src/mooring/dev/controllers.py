"""Attacher, provisioner, binder and what attaches for pods, on one store and one connection. Each has a cluster that tells its writes."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.controllers.attacher.controller import Attacher
from mooring.controllers.attacher.options import AttacherOptions
from mooring.controllers.binder.controller import make_binder
from mooring.controllers.binding.options import BinderOptions
from mooring.controllers.provisioner.controller import Provisioner
from mooring.controllers.provisioner.intents.journal import Journal
from mooring.controllers.provisioner.intents.lease_codec import JournalLocation
from mooring.controllers.provisioner.options import ProvisionerOptions
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import Session
from mooring.dev.attach_detach import AttachDetach
from mooring.dev.story import Story
from mooring.dev.traced_cluster import TracedCluster, Watches
from mooring.kube.cluster import Cluster

NAMESPACE: Final = "default"
"""Where the provisioner keeps its journal of intents."""


class Controller(Protocol):
    """The interface of the plane's controllers."""

    @property
    def has_synced(self) -> bool: ...
    async def run(self) -> None: ...
    async def drain(self, timeout_s: float) -> bool: ...


class Controllers:
    """All of them. cluster: the store, for controllers alone. session: started."""

    def __init__(self, cluster: Cluster, session: Session, story: Story, clock: Clock, randomness: Random) -> None:
        self._cluster, self._session, self._story = cluster, session, story
        self._clock, self._randomness = clock, randomness
        self._watches = {who: Watches() for who in ("attacher", "provisioner", "binder", "attach-detach")}
        self._controllers: dict[str, Controller] = {
            "attacher": self._attacher(self._seen_as("attacher")),
            "binder": make_binder(Runtime(self._seen_as("binder"), clock, randomness, Metrics()), BinderOptions()),
            "attach-detach": AttachDetach(Runtime(self._seen_as("attach-detach"), clock, randomness, Metrics())),
        }
        if capabilities_of(session.info).creates:
            self._controllers["provisioner"] = self._provisioner(self._seen_as("provisioner"))

    def _seen_as(self, who: str) -> Cluster:
        return TracedCluster(self._cluster, who, self._story, self._clock, self._watches[who])

    def _attacher(self, cluster: Cluster) -> Attacher:
        runtime = Runtime(cluster, self._clock, self._randomness, Metrics())
        attacher = Attacher(runtime, self._session.driver, self._session.info, AttacherOptions())
        self._session.on_return(attacher.driver_returned)
        return attacher

    def _provisioner(self, cluster: Cluster) -> Provisioner:
        info = self._session.info
        events = EventRecorder(cluster, f"{info.name}_dev", clock=self._clock, randomness=self._randomness)
        intents = Journal(cluster, JournalLocation(NAMESPACE, info.name), self._randomness.uid(), self._clock)
        runtime = Runtime(cluster, self._clock, self._randomness, Metrics())
        provisioner = Provisioner(runtime, self._session.driver, info, ProvisionerOptions(), events, intents=intents)
        self._session.on_return(provisioner.driver_returned)
        return provisioner

    async def started(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Their tasks, once all caches are filled."""
        tasks = [group.create_task(one.run(), name=f"dev/{who}") for who, one in self._controllers.items()]
        for who, one in self._controllers.items():
            await self._watches[who].until(lambda one=one: one.has_synced)  # type: ignore[misc]
            self._story.happened(who, f"watches {', '.join(sorted(set(self._watches[who].plurals)))}", via="API")
        return tasks

    async def drain(self, timeout_s: float) -> None:
        """They begin nothing new, and end what runs."""
        async with asyncio.TaskGroup() as group:
            for who, one in self._controllers.items():
                group.create_task(one.drain(timeout_s), name=f"dev/drain/{who}")
