"""The caches of the snapshot controller. Group kinds that the cluster does not have count as kinds without objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_kinds import SINGLES, Row
from mooring.cluster.snapshots import view as v
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.control.caches import Caches
from mooring.control.slim import always
from mooring.kube.cache.informer import Informer
from mooring.kube.cache.store import Store


class OfKind(msgspec.Struct, frozen=True):
    """The caches of single snapshots, or of groups."""

    snapshots: Informer[Any]
    contents: Informer[Any]
    classes: Informer[Any]


class SnapshotCaches:
    """The controller's caches. groups: None unless groups are taken care of; then claims have their labels, by which
    groups choose them.

    view: all caches, live.
    """

    def __init__(self, caches: Caches, options: SnapshotControllerOptions) -> None:
        resync_s, volume = options.resync_s, v.PLACED_VOLUME if options.distributed else v.VOLUME
        self.singles = OfKind(
            caches.of(VOLUME_SNAPSHOTS, keeps=v.keeps_snapshot, indexes=v.SNAPSHOT_INDEXES, resync_s=resync_s),
            caches.of(VOLUME_SNAPSHOT_CONTENTS, keeps=v.keeps_content, indexes=v.CONTENT_INDEXES, resync_s=resync_s),
            caches.of(VOLUME_SNAPSHOT_CLASSES, keeps=v.keeps_class),
        )
        self.claims = caches.of(
            PERSISTENT_VOLUME_CLAIMS, keeps=v.keeps_claim, indexes=v.CLAIM_INDEXES, resync_s=resync_s
        )
        self.volumes = caches.of(PERSISTENT_VOLUMES, keeps=always(volume), indexes=v.VOLUME_INDEXES)
        self._nodes = caches.of(NODES, keeps=always(v.NODE)) if options.distributed else None
        self.groups = _groups(caches, resync_s) if options.groups else None
        if self.groups is not None:
            caches.of(PERSISTENT_VOLUME_CLAIMS, keeps=always(v.LABELLED_CLAIM), indexes=v.NAMESPACE_INDEX)
        self.view = self._view_of(options)

    def of(self, row: Row) -> OfKind:
        found = self.singles if row is SINGLES else self.groups
        assert found is not None
        return found

    def _view_of(self, options: SnapshotControllerOptions) -> v.View:
        singles, groups = self.singles, self.groups
        return v.View(
            singles.snapshots.store,
            singles.contents.store,
            singles.classes.store,
            self.claims.store,
            self.volumes.store,
            Store() if self._nodes is None else self._nodes.store,
            Store(v.GROUP_INDEXES) if groups is None else groups.snapshots.store,
            Store(v.GROUP_CONTENT_INDEXES) if groups is None else groups.contents.store,
            Store() if groups is None else groups.classes.store,
            keeps_mode=options.prevent_volume_mode_conversion,
            distributed=options.distributed,
            has_groups=options.groups,
        )

    def by_plural(self) -> Mapping[str, Informer[Any]]:
        """The caches of kinds that are written or looked up, by the kind's plural."""
        found: dict[str, Informer[Any]] = {
            PERSISTENT_VOLUME_CLAIMS.plural: self.claims,
            PERSISTENT_VOLUMES.plural: self.volumes,
        }
        found |= {
            VOLUME_SNAPSHOTS.plural: self.singles.snapshots,
            VOLUME_SNAPSHOT_CONTENTS.plural: self.singles.contents,
            VOLUME_SNAPSHOT_CLASSES.plural: self.singles.classes,
        }
        if self.groups is not None:
            found |= {
                GROUP_SNAPSHOTS.plural: self.groups.snapshots,
                GROUP_SNAPSHOT_CONTENTS.plural: self.groups.contents,
            }
        return found


def _groups(caches: Caches, resync_s: float) -> OfKind:
    return OfKind(
        caches.of(
            GROUP_SNAPSHOTS, keeps=always(v.GROUP), indexes=v.GROUP_INDEXES, resync_s=resync_s, may_be_missing=True
        ),
        caches.of(
            GROUP_SNAPSHOT_CONTENTS,
            keeps=always(v.GROUP_CONTENT),
            indexes=v.GROUP_CONTENT_INDEXES,
            resync_s=resync_s,
            may_be_missing=True,
        ),
        caches.of(GROUP_SNAPSHOT_CLASSES, keeps=always(v.GROUP_CLASS), may_be_missing=True),
    )
