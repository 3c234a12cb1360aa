"""Carries out decisions about capacity: one call to the driver, one request to the API server."""

from __future__ import annotations

from mooring.api.meta import Kind, key_of
from mooring.api.storage import CSIStorageCapacity
from mooring.control.result import Result, Retry
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.kube.cache.informer import Informer
from mooring.kube.client.rate_limit import Throttle
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.sidecars.provisioner.capacity import decide as d
from mooring.sidecars.provisioner.capacity.objects import changed_object, new_object
from mooring.sidecars.provisioner.capacity.requests import capacity_of
from mooring.sidecars.provisioner.capacity.view import Capacity, Item, View
from mooring.sidecars.provisioner.environment import Environment


class CapacityReconciler:
    """view: its `written` is filled here. throttle: the limit of requests about capacity. manager: of the objects, in their label."""

    def __init__(
        self,
        env: Environment,
        kind: Kind[CSIStorageCapacity],
        objects: Informer[CSIStorageCapacity],
        view: View,
        throttle: Throttle,
        manager: str,
    ) -> None:
        assert env.options.capacity is not None
        self._cluster, self._driver, self._timeout_s = env.runtime.cluster, env.driver, env.options.timeout_s
        self._kind, self._objects, self._view, self._written = kind, objects, view, view.written
        self._throttle, self._manager, self._namespace = throttle, manager, env.options.capacity.namespace

    async def reconcile(self, item: Item) -> Result:
        """Raises Retry."""
        try:
            decision = d.decide_item(self._view, item)
            await self._perform(item, decision)
            if decision.ask is not None:
                answer = await self._driver.get_capacity(decision.ask, Call(self._timeout_s))
                decision = d.decide_write(self._view, item, capacity_of(answer))
                await self._perform(item, decision)
        except (DriverError, ApiError) as error:
            raise Retry(f"could not publish capacity: {error}") from error
        if self._view.wanted(item) is None:
            self._written.pop(item, None)
        return Result(decision.because)

    async def _perform(self, item: Item, decision: d.Decision) -> None:
        """Raises ApiError."""
        for write in decision.writes:
            await self._throttle.wait()
            match write:
                case d.Remove(obj):
                    await self._remove(obj)
                case d.Create(capacity):
                    await self._create(item, capacity)
                case d.Update(obj, capacity):
                    await self._update(item, obj, capacity)

    async def _remove(self, obj: CSIStorageCapacity) -> None:
        meta = obj.metadata
        try:
            await self._cluster.delete(self._kind, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):  # it is gone, and perhaps another one has its name
            return

    async def _create(self, item: Item, capacity: Capacity) -> None:
        """Noted before the request: the watch may show the object before the answer is here."""
        self._written[item] = capacity
        body = new_object(self._kind, self._namespace, item, capacity, self._view.driver_name, self._manager, self._view.owner)
        self._objects.wrote(await self._cluster.create(self._kind, body, self._namespace))

    async def _update(self, item: Item, obj: CSIStorageCapacity, capacity: Capacity) -> None:
        self._written[item] = capacity
        body = changed_object(self._kind, obj, capacity, self._view.owner)
        await self._objects.write(key_of(obj), self._cluster.replace(self._kind, body, obj.metadata.namespace))
