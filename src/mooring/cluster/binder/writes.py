"""Writes whole objects by PUT, as other programs around binding expect it.

The caches hold objects in part, so the whole object is read before it is put back: from the answer of the last write,
or by a GET. A decision is valid only for the state that it was taken on: when the object has changed since, nothing is
written and the decision is taken anew. For a refusal the kit's rule holds (`control/object_writer.py`).
"""

from __future__ import annotations

from typing import Any, TypeVar

from mooring.api.meta import Key, Object, key_of
from mooring.cluster.binder.edits import Edit
from mooring.control.object_writer import ObjectWriter
from mooring.kube.errors import NotFound

T = TypeVar("T", bound=Object)


class Whole(ObjectWriter[T]):
    """Objects of one kind, read and written whole."""

    async def put(self, obj: T, edit: Edit, subresource: str = "") -> T:
        """Writes the object with one change. obj: as it was at the decision. Gives the object after the write, for the
        next one.

        Raises Failed, Stale.
        """
        body = await self._body(obj, strictly=True)
        edit(body)
        return await self._write(obj, self._replace(key_of(obj), body, subresource), "")

    async def refresh(self, key: Key) -> T | None:
        """Reads the object from the API server, also into the cache. None when it is gone. Raises ApiError."""
        try:
            return await self._cache.read(
                key, self._remember(self._cluster.get(self._kind.whole(), key.name, key.namespace))
            )
        except NotFound:
            return None

    async def _replace(self, key: Key, body: dict[str, Any], subresource: str) -> T:
        return await self._remember(
            self._cluster.replace(self._kind.whole(), body, key.namespace, subresource=subresource)
        )
