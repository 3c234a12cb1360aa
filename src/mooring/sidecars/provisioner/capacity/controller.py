"""Publishing capacity: the events after which the capacity of an item is requested anew.

CSI has no notifications, so all items are requested once each poll interval. Beside that an item is requested when its
place or class appears, when a volume was made or deleted there, when making one failed, and when somebody touched its
object. Items are known by value: one that waits is not put in line again, so polls and retries never pile up, whatever
the driver does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from mooring.api.core import PersistentVolume
from mooring.api.storage import CSIStorageCapacity, StorageClass
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.manager import Loop, Manager
from mooring.control.result import Result
from mooring.kube.cache.informer import Cause, Change
from mooring.kube.client.rate_limit import Throttle
from mooring.kube.cluster import Selection
from mooring.sidecars.provisioner.capacity.decide import is_news
from mooring.sidecars.provisioner.capacity.preflight import preflight
from mooring.sidecars.provisioner.capacity.reconcile import DRIVER_LABEL, MANAGER_LABEL, CapacityReconciler, manager_of
from mooring.sidecars.provisioner.capacity.view import CAPACITY_INDEXES, Item, Segments, View, counts, item_of
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import is_provisioned_by
from mooring.sidecars.provisioner.model.topology import Segment, places_of, segment_of
from mooring.sidecars.provisioner.options import CapacityOptions

log = logger(__name__)

LIMIT_FLAGS: Final = "--kube-api-capacity-qps and --kube-api-capacity-burst"

YIELD_EVERY: Final = 500
"""Items that are queued before others get their turn."""


class CapacityPublisher:
    """A worker for the provisioner's manager: it learns the API's version, and then works on objects that nobody else
    watches.

    It has to be made before the caches run. place: where the one node is that is served, None for all nodes; it has to
    be known when the caches run.
    """

    def __init__(self, env: Environment, place: Mapping[str, str] | None = None) -> None:
        runtime, caches, options, capabilities = env.runtime, env.caches, env.options, env.capabilities
        assert options.capacity is not None
        self._env, self._runtime, self._capabilities = env, runtime, capabilities
        self._options: CapacityOptions = options.capacity
        self._managed_by = manager_of(options.node.node_name if options.node else "")
        self._class_names: set[str] = set()
        self._place = place
        self._segments = Segments(capabilities.name, caches.csi_nodes.store, caches.nodes.store, self._place_changed)
        self._classes, self._nodes = caches.classes, caches.nodes
        self._view: View | None = None
        self._reconciler: CapacityReconciler | None = None
        self.controller: Controller[Item] = Controller(
            runtime,
            "csistoragecapacity",
            self._reconcile,
            workers=options.capacity.threads,
            backoff=options.backoff,
            label="item",
            log=log,
        )
        self._own_caches = Caches(runtime, "provisioner")
        self._manager = Manager(self._own_caches, self.controller)
        self._manager.beside("provisioner/capacity-poll", Loop(self._poll))
        runtime.metrics.once(CapacityMetrics).show(self._goal, self._current, self._obsolete)
        self.controller.watch(caches.volumes, self._volume_changed)
        self.controller.watch(caches.classes, self._class_changed)
        env.bus.subscribe(topics.ROOM_LACKING, lambda class_name: self._ask(self._items_of(class_name)))
        env.bus.subscribe(topics.ROOM_FREED, lambda *places: self._ask(self._items_at(places)))
        if place is None:
            self.controller.watch(caches.nodes, self._segments.node_changed)
            self.controller.watch(caches.csi_nodes, self._segments.node_changed)

    async def look_at_all(self) -> None:
        """A term begins: the places and the classes are learnt."""
        for node in () if self._place is not None else self._nodes.store.values():
            self._segments.node_changed(Change(None, node, Cause.RELIST))
        for one in self._classes.store.values():
            self._class_changed(Change(None, one, Cause.RELIST))

    # -- what changes the room that there is

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterable[Item]:
        """A new volume of the driver takes room, whichever process made it."""
        pv, is_new = change.new, change.old is None and change.cause in (Cause.OWN_WRITE, Cause.WATCH)
        if (
            pv is None
            or not is_new
            or not self._capabilities.has_capacity
            or not is_provisioned_by(self._capabilities, pv)
        ):
            return ()
        places = places_of(pv)
        return self._items_at(places) if places else self._items_of(pv.spec.storage_class_name)

    def driver_returned(self) -> None:
        """The driver was away and is back."""
        self.controller.driver_returned()

    # -- life

    async def run(self) -> None:
        """Publishes until cancelled, or until drained. The shared caches have been filled. Raises ConfigError."""
        if not self._capabilities.has_capacity:
            log.error("the driver has no GET_CAPACITY: no capacity is published", driver=self._capabilities.name)
        await self._prepare()
        await self._manager.run()

    async def _prepare(self) -> None:
        """Raises ConfigError."""
        runtime, options = self._runtime, self._options
        kind, owner = await preflight(runtime, options)
        ours = Selection(
            options.namespace, f"{DRIVER_LABEL}={self._capabilities.name},{MANAGER_LABEL}={self._managed_by}"
        )
        objects = self._own_caches.of(kind, selection=ours, indexes=CAPACITY_INDEXES)
        self.controller.watch(objects, self._object_changed)
        self._view = View(
            driver_name=self._capabilities.name,
            classes=self._classes.store,
            objects=objects.store,
            has_segment=self._has_segment,
            immediate_too=options.for_immediate_binding,
            owner=owner,
        )
        throttle = Throttle(options.qps, options.burst, runtime.clock, LIMIT_FLAGS)
        self._reconciler = CapacityReconciler(self._env, kind, objects, self._view, throttle, self._managed_by)

    async def drain(self, timeout_s: float) -> bool:
        """Requests nothing more, lets running work end and be written. timeout_s: how long at the most. False when that
        was too short.
        """
        return await self._manager.drain(timeout_s)

    async def _poll(self) -> None:
        clock = self._runtime.clock
        while True:
            await clock.sleep(self._options.poll_interval_s)
            for number, item in enumerate(tuple(self._items()), start=1):
                self._ask((item,))
                if number % YIELD_EVERY == 0:
                    await clock.sleep(0)

    async def _reconcile(self, item: Item) -> Result:
        """Raises Retry."""
        assert self._reconciler is not None, "workers begin once it is there"
        result = await self._reconciler.reconcile(item)
        self.controller.explain(item, result.because)
        return result

    # -- the items

    def _places(self) -> Collection[Segment]:
        return self._segments.all() if self._place is None else (segment_of(self._place),)

    def _has_segment(self, segment: Segment) -> bool:
        return segment in self._places()

    def _items(self) -> Iterable[Item]:
        return (Item(name, segment) for name in self._class_names for segment in self._places())

    def _items_of(self, class_name: str) -> Iterable[Item]:
        return (Item(class_name, segment) for segment in self._places()) if class_name in self._class_names else ()

    def _items_at(self, segments: Iterable[Segment]) -> Iterable[Item]:
        return (Item(name, segment) for segment in segments if self._has_segment(segment) for name in self._class_names)

    def _ask(self, items: Iterable[Item]) -> None:
        if self._capabilities.has_capacity:
            for item in items:
                self.controller.add(item)

    # -- changes of objects

    def _place_changed(self, segment: Segment) -> None:
        """Look at a place that appeared, or that vanished: then its objects are removed."""
        self._ask([Item(name, segment) for name in self._class_names])

    def _class_changed(self, change: Change[StorageClass]) -> None:
        name, was_there = change.key.name, change.key.name in self._class_names
        is_there = change.new is not None and counts(
            change.new, self._capabilities.name, self._options.for_immediate_binding
        )
        if is_there:
            self._class_names.add(name)
        else:
            self._class_names.discard(name)
        if is_there != was_there:
            self._ask([Item(name, segment) for segment in self._places()])

    def _object_changed(self, change: Change[CSIStorageCapacity]) -> None:
        """Our own writes wake nothing."""
        if (
            change.cause is not Cause.OWN_WRITE
            and self._view is not None
            and is_news(self._view, item_of(change.object))
        ):
            self._ask((item_of(change.object),))

    # -- gauges

    def _goal(self) -> int:
        return len(self._class_names) * len(self._places())

    def _current(self) -> int:
        view = self._view
        return 0 if view is None else sum(bool(view.published(item)) for item in self._items())

    def _obsolete(self) -> int:
        return 0 if self._view is None else len(self._view.objects.values()) - self._current()


class CapacityMetrics:
    """Counts the published objects at each scrape. One set in a registry; a later publisher takes it over."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name = "csistoragecapacities"
        self._goal = Gauge(f"{name}_desired_goal", "Objects that there should be.", registry=registry)
        self._current = Gauge(f"{name}_desired_current", "Objects that there should be, and are.", registry=registry)
        self._obsolete = Gauge(f"{name}_obsolete", "Objects that there should not be.", registry=registry)

    def show(self, goal: Callable[[], int], current: Callable[[], int], obsolete: Callable[[], int]) -> None:
        self._goal.set_function(goal)
        self._current.set_function(current)
        self._obsolete.set_function(obsolete)
