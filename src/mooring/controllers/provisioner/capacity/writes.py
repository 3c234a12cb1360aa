"""Carrying out what was decided about capacity: one call to the driver, one request to the API server."""

from __future__ import annotations

from mooring.api.meta import Kind, key_of
from mooring.api.storage import CSIStorageCapacity
from mooring.controllers.provisioner.capacity import decide as d
from mooring.controllers.provisioner.capacity.items import Item
from mooring.controllers.provisioner.capacity.objects import changed_object, new_object
from mooring.kube.cache.informer import Informer
from mooring.kube.client.rate_limit import Throttle
from mooring.kube.cluster import Cluster
from mooring.kube.errors import Conflict, NotFound


class Writes:
    """said: by item what the newest write of ours says; filled here. throttle: the limit of requests about capacity."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind[CSIStorageCapacity],
        objects: Informer[CSIStorageCapacity],
        view: d.View,
        throttle: Throttle,
        said: dict[Item, d.Room],
        namespace: str,
        manager: str,
    ) -> None:
        self._cluster, self._kind, self._objects = cluster, kind, objects
        self._view, self._throttle, self._said = view, throttle, said
        self._namespace, self._manager = namespace, manager

    async def perform(self, item: Item, action: d.Remove | d.Create | d.Update) -> None:
        """Raises ApiError."""
        await self._throttle.wait()
        match action:
            case d.Remove(obj):
                await self._remove(obj)
            case d.Create(_, room):
                await self._create(item, room)
            case d.Update(obj, room):
                await self._update(item, obj, room)

    async def _remove(self, obj: CSIStorageCapacity) -> None:
        meta = obj.metadata
        try:
            await self._cluster.delete(self._kind, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):  # it is gone, and perhaps another one has its name
            return

    async def _create(self, item: Item, room: d.Room) -> None:
        """The watch may show it before the answer is here: it says nothing that is not known."""
        self._said[item] = room
        body = new_object(self._kind, self._namespace, item, room, self._view.driver_name, self._manager, self._view.owner)
        self._objects.wrote(await self._cluster.create(self._kind, body, self._namespace))

    async def _update(self, item: Item, obj: CSIStorageCapacity, room: d.Room) -> None:
        self._said[item] = room
        body = changed_object(self._kind, obj, room, self._view.owner)
        await self._objects.write(key_of(obj), self._cluster.replace(self._kind, body, obj.metadata.namespace))
