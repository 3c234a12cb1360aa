"""Writes of whole objects: PUTs, as others around binding know them.

The caches hold objects in part, so the whole object is read before it is put back: from the answer of the last write, or by a GET. A
decision is valid only for the state that it was taken on: when the object has changed since, nothing is written and the decision is taken
anew.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.api.meta import Key, Kind, Object, key_of
from mooring.cluster.binder.edits import Edit
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import Conflict, NotFound

T = TypeVar("T", bound=Object)

WHOLE_MAX: Final = 256
"""Whole objects that are remembered, of each kind."""


class Whole(Generic[T]):
    """Objects of one kind, read and written whole. All methods raise ApiError."""

    def __init__(self, cluster: Cluster, kind: Kind[T], informer: Informer[T]) -> None:
        self._cluster, self._kind, self._informer = cluster, kind, informer
        self._recent: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def put(self, obj: T, edit: Edit, subresource: str = "") -> T:
        """Writes the object with one change. obj: as it was at the decision. Raises Stale. Gives the object after the write."""
        key = key_of(obj)
        body = copy.deepcopy(await self._read(obj))
        edit(body)
        try:
            return await self._informer.write(key, self._replace(key, body, subresource))
        except NotFound as error:
            raise Stale(str(error)) from error
        except Conflict as error:
            await self.refresh(key)
            raise Stale(str(error)) from error

    async def refresh(self, key: Key) -> T | None:
        """Reads the object from the API server, also into the cache. None when it is gone."""
        try:
            return await self._informer.write(key, self._get(key))
        except NotFound:
            return None

    async def _read(self, obj: T) -> dict[str, Any]:
        meta = obj.metadata
        found = self._recent.get(meta.uid)
        if found is None or _version(found) != meta.resource_version:
            await self.refresh(key_of(obj))
            found = self._recent.get(meta.uid)
        if found is None or _version(found) != meta.resource_version:
            raise Stale(f'"{key_of(obj)}" has changed')
        return found

    async def _get(self, key: Key) -> T:
        return self._known(await self._cluster.get(self._kind.whole(), key.name, key.namespace))

    async def _replace(self, key: Key, body: dict[str, Any], subresource: str) -> T:
        return self._known(await self._cluster.replace(self._kind.whole(), body, key.namespace, subresource=subresource))

    def _known(self, body: dict[str, Any]) -> T:
        uid = body["metadata"]["uid"]
        self._recent[uid] = body
        self._recent.move_to_end(uid)
        if len(self._recent) > WHOLE_MAX:
            self._recent.popitem(last=False)
        return msgspec.convert(body, self._kind.struct)


def _version(body: dict[str, Any]) -> str:
    return str(body["metadata"]["resourceVersion"])
