"""The caches of group snapshots. Kinds that the cluster does not have count as kinds without objects, for which nobody waits."""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.cluster.snapshots import view as v
from mooring.control.caches import Caches
from mooring.control.slim import always


class GroupCaches:
    """claims: with their labels, by which groups choose them."""

    def __init__(self, caches: Caches, resync_s: float) -> None:
        self.groups = caches.of(GROUP_SNAPSHOTS, keeps=always(v.GROUP), indexes=v.GROUP_INDEXES, resync_s=resync_s, may_be_missing=True)
        self.contents = caches.of(
            GROUP_SNAPSHOT_CONTENTS, keeps=always(v.GROUP_CONTENT), indexes=v.GROUP_CONTENT_INDEXES, resync_s=resync_s, may_be_missing=True
        )
        self.classes = caches.of(GROUP_SNAPSHOT_CLASSES, keeps=always(v.GROUP_CLASS), may_be_missing=True)
        self.claims = caches.of(PERSISTENT_VOLUME_CLAIMS, keeps=always(v.LABELLED_CLAIM), indexes=v.NAMESPACE_INDEX)
        self.volumes = caches.of(PERSISTENT_VOLUMES, keeps=always(v.VOLUME), indexes=v.VOLUME_INDEXES)
