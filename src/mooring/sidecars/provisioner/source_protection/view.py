"""The users of a data source, from caches and running work."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Set
from typing import NamedTuple

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.snapshot import VolumeSnapshot
from mooring.base.clock import Instant
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.model.cached import (
    BY_SOURCE,
    CLAIM_INDEXES,
    CLAIM_KIND,
    SNAPSHOT_KIND,
    Source,
    source_key,
)


class Origin(NamedTuple):
    """A source that finalizers keep."""

    #: VolumeSnapshot or PersistentVolumeClaim.
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def is_snapshot(self) -> bool:
        return self.kind == SNAPSHOT_KIND

    @property
    def index_value(self) -> str:
        """Under which the claims that wait for it are found."""
        return source_key(self.kind, self.namespace, self.name)

    def __str__(self) -> str:
        return self.index_value


def origin_of(source: Source) -> Origin:
    return Origin(source.kind, source.namespace, source.name)


def origins_of(claim: PersistentVolumeClaim) -> tuple[Origin, ...]:
    """The source that the claim waits for, from the cache's index."""
    found = (Origin(*value.split("/", 2)) for value in CLAIM_INDEXES[BY_SOURCE](claim))
    return tuple(origin for origin in found if origin.kind in (SNAPSHOT_KIND, CLAIM_KIND))


class View(msgspec.Struct, frozen=True):
    """The caches and the memory of source protection, live."""

    driver: DriverCapabilities
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    snapshots: Reader[VolumeSnapshot]
    #: True while a volume is to be made for the claim now.
    is_due: Callable[[PersistentVolumeClaim], bool]
    #: The uids of the claims whose volumes are being made, by source.
    adopted: Mapping[Origin, Collection[str]]
    #: The uids of claims whose volume is made from a snapshot, though they still wait to be bound; a claim of a clone
    #: counts until then, as in external-provisioner.
    done: Set[str]
    #: The snapshots whose finalizer is this provisioner's.
    ours: Set[Origin]
    #: Since when snapshots have a finalizer that nobody needs.
    unused_since: Mapping[Origin, Instant]
    #: How long such a finalizer of unknown origin is let alone.
    grace_s: float

    def may_be_cloned_here(self, claim: PersistentVolumeClaim) -> bool:
        """False where the clones of the claim are another provisioner's, which may know of one that nobody else can
        see.
        """
        pv = self.volumes.get(Key("", claim.spec.volume_name))
        source = None if pv is None else pv.spec.csi
        return self.driver.clones and (source is None or source.driver == self.driver.name)

    def present_users(self, origin: Origin) -> tuple[str, ...]:
        """The `users` without the claims for which nothing is to be made now."""
        resting = {one.metadata.uid for one in self.claims.by(BY_SOURCE, origin.index_value) if not self.is_due(one)}
        return tuple(
            name for uid, name in self._users(origin) if uid not in resting or uid in self.adopted.get(origin, ())
        )

    def users(self, origin: Origin) -> tuple[str, ...]:
        """The claims that need it, by name; the uid of one that is gone while its volume may still be made."""
        return tuple(name for _, name in self._users(origin))

    def _users(self, origin: Origin) -> list[tuple[str, str]]:
        """Uids and names, in the order of the names."""
        waiting = {one.metadata.uid: str(key_of(one)) for one in self.claims.by(BY_SOURCE, origin.index_value)}
        held = {uid: waiting.get(uid, uid) for uid in self.adopted.get(origin, ())}
        counted = {uid: name for uid, name in waiting.items() if uid not in self.done} | held
        return sorted(counted.items(), key=operator.itemgetter(1))
