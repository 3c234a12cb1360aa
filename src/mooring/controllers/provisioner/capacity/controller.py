"""Capacity's shell: what makes an item be asked for anew.

CSI tells nothing of its own accord, so all items are asked for once each poll interval. Beside that an item is asked for when its
place or class comes, when a volume was made or deleted there, when making one failed, and when somebody touched its object. Items are
known by value: one that waits is not put in line again, so polls and retries never pile up, whatever the driver does.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mooring.api.core import PersistentVolume
from mooring.api.meta import Kind, OwnerReference
from mooring.api.storage import CSIStorageCapacity, StorageClass
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.draining import Shift
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.controllers.provisioner.caches import Caches
from mooring.controllers.provisioner.capacity import decide as d
from mooring.controllers.provisioner.capacity.items import Item, Segment, counts, item_of, places_of, segment_of
from mooring.controllers.provisioner.capacity.metrics import CapacityMetrics
from mooring.controllers.provisioner.capacity.objects import DRIVER_LABEL, MANAGER_LABEL, manager_of
from mooring.controllers.provisioner.capacity.preflight import PASSING, capacity_kind, owner_of
from mooring.controllers.provisioner.capacity.segments import Segments
from mooring.controllers.provisioner.capacity.writes import Writes
from mooring.controllers.provisioner.driver_capabilities import DriverFacts
from mooring.controllers.provisioner.options import CapacityOptions, ProvisionerOptions
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.client.rate_limit import Throttle
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.errors import ApiError

log = logger(__name__)

LIMIT_FLAGS: Final = "--kube-api-capacity-qps and --kube-api-capacity-burst"

ASK_AGAIN_S: Final = 2.0

BREATH: Final = 500
"""Items that are put in line before others get their turn."""


class Capacity:
    """Publishes the driver's room.

    caches: run by whoever made them; has to be made before they run. place: where the one node is that is served, None for all
    nodes; it has to be known when the caches run.
    """

    def __init__(
        self,
        cluster: Cluster,
        driver: Driver,
        facts: DriverFacts,
        options: ProvisionerOptions,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        caches: Caches,
        *,
        place: Mapping[str, str] | None = None,
    ) -> None:
        assert options.capacity is not None
        self._cluster, self._driver, self._facts = cluster, driver, facts
        self._options: CapacityOptions = options.capacity
        self._timeout_s = options.timeout_s
        self._clock, self._chance = clock, chance
        self._caches = caches
        self._manager = manager_of(options.node.node_name if options.node else "")
        self._said: dict[Item, d.Room] = {}
        self._class_names: set[str] = set()
        self._place = place
        self._segments = Segments(facts.name, caches.csi_nodes.store, caches.nodes.store, self._place_changed, self._place_changed)
        self._queue: WorkQueue[Item] = WorkQueue(
            "csistoragecapacity",
            clock=clock,
            chance=chance,
            backoff=BackOff(options.retry_interval_start_s, options.retry_interval_max_s),
            metrics=metrics.once(QueueMetrics),
        )
        self._view: d.View | None = None
        self._objects: Informer[CSIStorageCapacity] | None = None
        self._shift = Shift()
        metrics.once(CapacityMetrics).show(self._goal, self._current, self._obsolete)
        caches.classes.on_change(self._class_changed)
        if place is None:
            caches.nodes.on_change(self._segments.node_changed)
            caches.csi_nodes.on_change(self._segments.node_changed)

    # -- what others tell

    def volume_made(self, pv: PersistentVolume) -> None:
        places = places_of(pv)
        self._ask(self._items_at(places) if places else self._items_of(pv.spec.storage_class_name))

    def making_failed(self, class_name: str) -> None:
        """The driver may have had no room."""
        self._ask(self._items_of(class_name))

    def volume_deleted(self, pv: PersistentVolume) -> None:
        self._ask(self._items_at(places_of(pv)))

    def driver_returned(self) -> None:
        """The driver was away and is back: whatever failed may have failed for that."""
        self._ask(item for item in self._items() if self._queue.failures(item))

    # -- life

    async def run(self) -> None:
        """Publishes until cancelled, or until drained. The shared caches have been filled. Raises ConfigError."""
        if not self._facts.has_capacity:
            log.error("the driver has no GET_CAPACITY: no capacity is published", driver=self._facts.name)
        view, objects, writes = await self._prepared()
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(objects.run(), name="provisioner/csistoragecapacities")]
            await objects.synced()
            helpers.append(group.create_task(self._poll(), name="provisioner/capacity-poll"))
            publish = functools.partial(self._published, view, writes)
            async with self._shift.workers() as workers:
                for number in range(self._options.threads):
                    workers.create_task(self._queue.work(publish), name=f"provisioner/capacity-worker/{number}")
            for helper in helpers:
                helper.cancel()

    async def _prepared(self) -> tuple[d.View, Informer[CSIStorageCapacity], Writes]:
        options = self._options
        kind, owner = await self._ground()
        ours = Selection(options.namespace, f"{DRIVER_LABEL}={self._facts.name},{MANAGER_LABEL}={self._manager}")
        objects = self._objects = Informer(
            self._cluster, kind, clock=self._clock, chance=self._chance, selection=ours, indexes=d.CAPACITY_INDEXES
        )
        objects.on_change(self._object_changed)
        view = self._view = d.View(
            driver_name=self._facts.name,
            classes=self._caches.classes.store,
            objects=objects.store,
            has_segment=self._has_segment,
            immediate_too=options.for_immediate_binding,
            owner=owner,
        )
        throttle = Throttle(options.qps, options.burst, self._clock, LIMIT_FLAGS)
        writes = Writes(self._cluster, kind, objects, view, throttle, self._said, options.namespace, self._manager)
        return view, objects, writes

    async def _ground(self) -> tuple[Kind[CSIStorageCapacity], OwnerReference | None]:
        """Raises ConfigError."""
        options = self._options
        while True:
            try:
                kind = await capacity_kind(self._cluster, options.namespace)
                return kind, await owner_of(self._cluster, options.namespace, options.pod_name, options.owner_level)
            except PASSING as error:
                log.error("could not learn what publishing capacity needs, trying again", error=error, retry_in_s=ASK_AGAIN_S)
                await self._clock.sleep(ASK_AGAIN_S)

    async def drain(self, timeout_s: float) -> bool:
        """Asks for nothing more, lets what runs end and be written. timeout_s: how long at the most. False when that was too short."""
        self._queue.close()
        return await self._shift.over(timeout_s)

    async def _poll(self) -> None:
        while True:
            await self._clock.sleep(self._options.poll_interval_s)
            for number, item in enumerate(tuple(self._items()), start=1):
                self._ask((item,))
                if number % BREATH == 0:
                    await self._clock.sleep(0)

    async def _published(self, view: d.View, writes: Writes, item: Item) -> None:
        try:
            await self._refresh(view, writes, item)
        except (DriverError, ApiError) as error:
            log.error(f"could not publish capacity: {error}", item=str(item), retry_in_s=round(self._queue.retry(item), 3))

    # -- which items there are

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
        if self._facts.has_capacity:
            for item in items:
                self._queue.add(item)

    # -- what changes

    def _place_changed(self, segment: Segment) -> None:
        """It came, or went: then its objects go."""
        self._ask([Item(name, segment) for name in self._class_names])

    def _class_changed(self, change: Change[StorageClass]) -> None:
        name, was_there = change.key.name, change.key.name in self._class_names
        is_there = change.new is not None and counts(change.new, self._facts.name, self._options.for_immediate_binding)
        if is_there:
            self._class_names.add(name)
        else:
            self._class_names.discard(name)
        if is_there != was_there:
            self._ask([Item(name, segment) for segment in self._places()])

    def _object_changed(self, change: Change[CSIStorageCapacity]) -> None:
        """Only what others do is news."""
        if change.cause is Cause.OWN_WRITE or self._view is None:
            return
        view, item = self._view, item_of(change.object)
        said, published = self._said.get(item), view.published(item)
        is_as_said = said is not None and len(published) == 1 and d.says(published[0], said) and d.is_owned(published[0], view.owner)
        if not is_as_said and (published or view.wanted(item) is not None):
            self._ask((item,))

    # -- one item

    async def _refresh(self, view: d.View, writes: Writes, item: Item) -> None:
        """Raises DriverError, ApiError."""
        decision = d.decide_item(view, item)
        for action in decision.actions:
            if isinstance(action, d.Ask):
                room = d.room_of(await self._driver.get_capacity(action.request, Call(self._timeout_s)))
                decision = d.decide_write(view, item, room)
                for write in decision.actions:
                    assert not isinstance(write, d.Ask)
                    await writes.perform(item, write)
            else:
                await writes.perform(item, action)
        self._queue.forget(item)
        if view.wanted(item) is None:
            self._said.pop(item, None)
        if log.enabled(4):
            log.info(4, "capacity", item=str(item), because=str(decision.because))

    # -- gauges

    def _goal(self) -> int:
        return len(self._class_names) * len(self._places())

    def _current(self) -> int:
        view = self._view
        return 0 if view is None else sum(bool(view.published(item)) for item in self._items())

    def _obsolete(self) -> int:
        return 0 if self._objects is None else len(self._objects.store) - self._current()
