"""The snapshotter's writes to contents, each one request. An answer enters the cache at once. All raise Stale and ApiError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.api.meta import Key, finalizers_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshotContent
from mooring.control.result import Stale
from mooring.controllers.snapshotter.decide_after import as_json
from mooring.controllers.snapshotting.names import BEING_CREATED, CONTENT_FINALIZER, is_marked
from mooring.controllers.snapshotting.writes import annotate_as_judged, as_read, mark_as_judged, patch_object, removal
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch
from mooring.kube.patch import json_patch, set_fields, test

_OF_THE_SNAPSHOT: Final = ("snapshotHandle", "readyToUse", "creationTime", "restoreSize")


class Writes:
    """contents: their cache."""

    def __init__(self, cluster: Cluster, contents: Informer[VolumeSnapshotContent]) -> None:
        self._cluster, self._contents = cluster, contents

    def find(self, name: str, uid: str) -> VolumeSnapshotContent:
        """The content as it is now. Raises Stale where it is no more, or another."""
        found = self._contents.store.get(Key("", name))
        if found is None or found.metadata.uid != uid:
            raise Stale(name)
        return found

    async def mark(self, content: VolumeSnapshotContent) -> None:
        """The mark of a creation. Nobody removes the content from under the call."""
        await self._patch(content, mark_as_judged(content, BEING_CREATED, CONTENT_FINALIZER))

    async def unmark(self, content: VolumeSnapshotContent) -> None:
        if is_marked(content, BEING_CREATED):
            await self._patch(content, annotate_as_judged(content, BEING_CREATED, None))

    async def save_status(self, content: VolumeSnapshotContent, status: Mapping[str, Any]) -> None:
        """Writes the fields that differ from the content in hand."""
        patch = set_fields(content, "status", as_json(content.status), status)
        if patch is not None:
            await self._patch(content, patch, "status")

    async def save_error(self, content: VolumeSnapshotContent, status: Mapping[str, Any]) -> None:
        """As `save_status`, on the content as it was read: an error says nothing of one that has turned ready."""
        patch = set_fields(content, "status", as_json(content.status), status)
        if patch is not None:
            await self._patch(content, as_read(content, patch), "status")

    async def clear_status(self, content: VolumeSnapshotContent) -> None:
        """Takes off what is said of the snapshot. An error stays."""
        left = as_json(content.status) or {}
        await self.save_status(content, {name: value for name, value in left.items() if name not in _OF_THE_SNAPSHOT})

    async def release(self, content: VolumeSnapshotContent) -> None:
        """Removes our finalizer, unless it is gone; under this policy alone."""
        if CONTENT_FINALIZER in finalizers_of(content):
            same = test("/spec/deletionPolicy", content.spec.deletion_policy)
            await self._patch(content, json_patch([same, *removal(content, (CONTENT_FINALIZER,))]))

    async def _patch(self, content: VolumeSnapshotContent, patch: Patch, subresource: str = "") -> None:
        await patch_object(self._cluster, self._contents, VOLUME_SNAPSHOT_CONTENTS, content, patch, subresource)
