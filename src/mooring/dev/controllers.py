"""All controllers of a plane, on one store and one connection. Each has a `Cluster` that reports its writes to the
story.

The controllers of nodes run where each node has an agent, which gives its signs of life. The nodes of a driver without
a node service have none: they stay ready as they were made, and only their taints, and pods that are left over, are
looked after.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.cluster.nodehealth.controller import NodeHealth
from mooring.cluster.nodehealth.options import LIFECYCLE, PARTS, NodeHealthOptions
from mooring.cluster.snapshots.controller import SnapshotController
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.cluster.workloads.controller import Workloads
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import Session
from mooring.dev.extras import Extras
from mooring.dev.options import Patience
from mooring.dev.pause import Pause, PausedCluster, PausedDriver
from mooring.dev.story import Story
from mooring.dev.traced import TracedCluster, Watches
from mooring.kube.cluster import Cluster
from mooring.sidecars.attacher.controller import Attacher
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.options import ProvisionerOptions
from mooring.sidecars.resizer.controller import Resizer
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.snapshotter.controller import Snapshotter
from mooring.sidecars.snapshotter.options import SnapshotterOptions

NAMESPACE: Final = "default"
"""Where the provisioner keeps its journal of intents."""
ATTACHER: Final = "attacher"
PROVISIONER: Final = "provisioner"
RESIZER: Final = "resizer"
SNAPSHOTTER: Final = "snapshotter"


class PlaneController(Protocol):
    """The interface of the plane's controllers."""

    @property
    def has_synced(self) -> bool: ...
    async def run(self) -> None: ...
    async def drain(self, timeout_s: float) -> bool: ...


@runtime_checkable
class _CallsDriver(Protocol):
    def driver_returned(self) -> None: ...


class Controllers:
    """All of them. cluster: the store as each sees it, by its name. session: started. has_agents: whether the nodes
    give signs of life.

    extras: of the driver; the kinds of snapshots are there for one that has them.
    """

    def __init__(
        self,
        cluster: Callable[[str], Cluster],
        session: Session,
        story: Story,
        clock: Clock,
        randomness: Random,
        patience: Patience,
        extras: Extras,
        *,
        has_agents: bool,
    ) -> None:
        self._cluster, self._session, self._story = cluster, session, story
        self._clock, self._randomness = clock, randomness
        self._watches: dict[str, Watches] = {}
        self._pauses: dict[str, Pause] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._turning = asyncio.Lock()
        self._makers: dict[str, Callable[[Runtime], PlaneController]] = {
            ATTACHER: self._attacher,
            "binder": lambda runtime: make_binder(runtime, BinderOptions()),
            "attach-detach": functools.partial(self._attach_detach, force_after_s=patience.force_after_s),
            "node-health": functools.partial(self._node_health, grace_s=patience.grace_s, has_agents=has_agents),
            "workloads": Workloads,
        }
        if capabilities_of(session.info).creates:
            self._makers[PROVISIONER] = self._provisioner
        if extras.resizes:
            self._makers[RESIZER] = functools.partial(self._resizer, on_node=extras.grows_on_nodes)
        if extras.snapshots:
            options = SnapshotControllerOptions(groups=extras.group_snapshots)
            self._makers["snapshot-controller"] = lambda runtime: SnapshotController(runtime, options)
            self._makers[SNAPSHOTTER] = functools.partial(self._snapshotter, groups=extras.group_snapshots)
        self._controllers = {who: make(self._runtime(who)) for who, make in self._makers.items()}
        session.on_return(self._driver_returned)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._makers)

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """Of those that run, paused ones included."""
        return tuple(self._tasks.values())

    @property
    def paused(self) -> frozenset[str]:
        """The names of those that stand still."""
        return frozenset(who for who, pause in self._pauses.items() if pause.is_on)

    def _runtime(self, who: str) -> Runtime:
        watches, pause = Watches(), Pause()
        self._watches[who], self._pauses[who] = watches, pause
        traced = TracedCluster(self._cluster(who), who, self._story, self._clock, watches)
        cluster = PausedCluster(traced, pause)
        return Runtime(cluster, self._clock, self._randomness, Metrics(), functools.partial(self._story.explained, who))

    def _driver(self, who: str) -> Driver:
        return PausedDriver(self._session.driver, self._pauses[who])

    def _attacher(self, runtime: Runtime) -> Attacher:
        return Attacher(runtime, self._driver(ATTACHER), self._session.info, AttacherOptions())

    def _attach_detach(self, runtime: Runtime, *, force_after_s: float) -> AttachDetach:
        return AttachDetach(runtime, AttachDetachOptions(force_after_s=force_after_s))

    def _node_health(self, runtime: Runtime, *, grace_s: float, has_agents: bool) -> NodeHealth:
        parts = frozenset(PARTS) if has_agents else frozenset(PARTS) - {LIFECYCLE}
        return NodeHealth(runtime, options=NodeHealthOptions(parts=parts, node_monitor_grace_period_s=grace_s))

    def _provisioner(self, runtime: Runtime) -> Provisioner:
        info = self._session.info
        events = EventRecorder(runtime.cluster, f"{info.name}_dev", clock=self._clock, randomness=self._randomness)
        intents = Journal(runtime.cluster, JournalLocation(NAMESPACE, info.name), self._randomness.uid(), self._clock)
        return Provisioner(runtime, self._driver(PROVISIONER), info, ProvisionerOptions(), events, intents=intents)

    def _resizer(self, runtime: Runtime, *, on_node: bool) -> Resizer:
        info = self._session.info
        events = EventRecorder(
            runtime.cluster, f"external-resizer {info.name}", clock=self._clock, randomness=self._randomness
        )
        return Resizer(runtime, self._driver(RESIZER), info, ResizerOptions(), events, on_node=on_node)

    def _snapshotter(self, runtime: Runtime, *, groups: bool) -> Snapshotter:
        return Snapshotter(runtime, self._driver(SNAPSHOTTER), self._session.info, SnapshotterOptions(groups=groups))

    def _driver_returned(self) -> None:
        for controller in self._controllers.values():
            if isinstance(controller, _CallsDriver):
                controller.driver_returned()

    async def start_all(self, group: asyncio.TaskGroup) -> None:
        """Returns once all caches are filled. group: of their tasks, also of those that are started again."""
        self._group = group
        for who in self._controllers:
            self._begin(who)
        for who in self._controllers:
            await self._synced(who)

    async def kill(self, who: str) -> bool:
        """Ends one in the middle of its work, as kill -9 does. False for one that has ended. Raises ConfigError where
        there is none.
        """
        self._check(who)
        async with self._turning:
            task = self._tasks.pop(who, None)
            if task is None:
                return False
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del self._controllers[who]
            self._story.happened(who, "is killed")
            return True

    async def start(self, who: str) -> bool:
        """Starts one anew, with nothing but what the API server and the driver know. False for one that runs. Raises
        ConfigError for one that is not here.
        """
        self._check(who)
        async with self._turning:
            if who in self._tasks:
                return False
            self._controllers[who] = self._makers[who](self._runtime(who))
            self._begin(who)
            await self._synced(who)
            return True

    def pause(self, who: str) -> bool:
        """It stands still until it goes on, as after SIGSTOP. False where it does already. Raises ConfigError for one
        that is not here.
        """
        return self._turn(who, Pause.begin, "is paused", paused=False)

    def resume(self, who: str) -> bool:
        """It goes on. False where it was not paused. Raises ConfigError for one that is not here."""
        return self._turn(who, Pause.end, "goes on", paused=True)

    def resume_all(self) -> None:
        for who in sorted(self.paused):
            self.resume(who)

    def _turn(self, who: str, turn: Callable[[Pause], None], told: str, *, paused: bool) -> bool:
        self._check(who)
        if self._pauses[who].is_on is not paused:
            return False
        turn(self._pauses[who])
        self._story.happened(who, told)
        return True

    def _check(self, who: str) -> None:
        if who not in self._makers:
            raise ConfigError(f"there is no controller {who!r} here, only {', '.join(self._makers)}")

    def _begin(self, who: str) -> None:
        assert self._group is not None, "start_all() comes first"
        self._tasks[who] = self._group.create_task(self._controllers[who].run(), name=f"dev/{who}")

    async def _synced(self, who: str) -> None:
        one = self._controllers[who]
        await self._watches[who].until(lambda: one.has_synced)
        self._story.happened(who, f"watches {', '.join(sorted(set(self._watches[who].plurals)))}", via="API")

    async def drain(self, timeout_s: float) -> None:
        """They begin nothing new, and end what runs."""
        async with asyncio.TaskGroup() as group:
            for who, one in self._controllers.items():
                group.create_task(one.drain(timeout_s), name=f"dev/drain/{who}")
