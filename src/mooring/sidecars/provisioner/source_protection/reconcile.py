"""Adds a finalizer to a data source, and removes it.

By PUT, as external-provisioner does it: its rights on claims and snapshots, which stay with a swap, have no `patch`. A
PUT needs the whole object, so a GET goes before it; a conflict means that somebody else was quicker. `ObjectWriter`
writes to an object of a cache, and a source is known by its name alone: the cache of snapshots need not run.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import Conflict, NotFound, NotServed
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.source_protection.view import Origin

CONFLICTS_MAX: Final = 5
"""The most conflicts before a write is given up for this time."""


class Finalizers:
    """Adds and removes the finalizers of sources. snapshots: its cache gets the answers to writes while it runs."""

    def __init__(
        self, cluster: Cluster, claims: Informer[PersistentVolumeClaim], snapshots: Informer[VolumeSnapshot]
    ) -> None:
        self._cluster, self._claims, self._snapshots = cluster, claims, snapshots

    async def put_on(self, origin: Origin) -> None:
        """Add the finalizer, unless it is there. Raises ApiError."""
        await self._change(origin, wanted=True)

    async def take_off(self, origin: Origin) -> None:
        """Remove the finalizer, unless it is gone, or its object is; the deletion of a definition deletes all of its
        objects. Raises ApiError.
        """
        with contextlib.suppress(NotFound, NotServed):
            await self._change(origin, wanted=False)

    async def driver_of(self, content_name: str) -> str:
        """The driver of a snapshot's content, "" when there is no such content. Raises ApiError."""
        try:
            content = await self._cluster.get(VOLUME_SNAPSHOT_CONTENTS, content_name)
        except (NotFound, NotServed):
            return ""
        return content.spec.driver

    async def _change(self, origin: Origin, *, wanted: bool) -> None:
        for attempt in range(1, CONFLICTS_MAX + 1):
            try:
                await self._change_once(origin, wanted)
                return
            except Conflict:
                if attempt == CONFLICTS_MAX:
                    raise

    async def _change_once(self, origin: Origin, wanted: bool) -> None:
        finalizer = names.SNAPSHOT_FINALIZER if origin.is_snapshot else names.CLONE_FINALIZER
        kind = VOLUME_SNAPSHOTS if origin.is_snapshot else PERSISTENT_VOLUME_CLAIMS
        body: dict[str, Any] = await self._cluster.get(kind.whole(), origin.name, origin.namespace)
        finalizers = body["metadata"].get("finalizers") or []
        if wanted == (finalizer in finalizers):
            return
        others = [one for one in finalizers if one != finalizer]
        body["metadata"]["finalizers"] = [*others, finalizer] if wanted else others
        if not origin.is_snapshot:
            await self._claims.write(
                origin.key, self._cluster.replace(PERSISTENT_VOLUME_CLAIMS, body, origin.namespace)
            )
        elif self._snapshots.has_synced:
            await self._snapshots.write(origin.key, self._cluster.replace(VOLUME_SNAPSHOTS, body, origin.namespace))
        else:
            await self._cluster.replace(VOLUME_SNAPSHOTS, body, origin.namespace)
