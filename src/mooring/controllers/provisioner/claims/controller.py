"""The changes that wake claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.gateway import ReferenceGrant
from mooring.api.storage import StorageClass
from mooring.control.controller import Controller
from mooring.control.slim import changed
from mooring.controllers.provisioner.caches import ProvisionerCaches
from mooring.controllers.provisioner.claims import wake_topics
from mooring.controllers.provisioner.claims.claim import CLAIM_KIND
from mooring.controllers.provisioner.claims.view import BY_CLASS, BY_SOURCE, ClusterTopology, View, source_key
from mooring.kube.cache.informer import Cause, Change


class ClaimEventHandlers:
    """claims: by uid. ended: called with the uid of each claim that is no more."""

    def __init__(
        self, view: View, caches: ProvisionerCaches, places: ClusterTopology, claims: Controller[str], ended: Callable[[str], None]
    ) -> None:
        self._view, self._places, self._claims, self._ended = view, places, claims, ended
        caches.claims.on_change(self._claim_changed)
        claims.watch(caches.volumes, self._volume_changed)
        claims.watch(caches.classes, self._class_changed)
        caches.csi_nodes.on_change(self._node_changed)
        caches.nodes.on_change(self._node_changed)
        caches.grants.on_change(self._grant_changed)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        """A claim is reconciled whenever its kept part has changed; claims that clone it may have waited for that."""
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            self._ended(old.metadata.uid)
        elif self._is_due(new) and (change.cause is Cause.RESYNC or changed(old, new)):
            self._claims.add(new.metadata.uid)
        key = change.key
        if change.cause is not Cause.RESYNC and self._view.claims.by(BY_SOURCE, source_key(CLAIM_KIND, key.namespace, key.name)):
            self._claims.tell(wake_topics.claim(str(key)), anew=True)

    def _is_due(self, claim: PersistentVolumeClaim) -> bool:
        """False for a claim that has a volume, unless another one may have been made for it."""
        return not claim.spec.volume_name or self._view.records.get(claim.metadata.uid).is_unresolved

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterable[str]:
        """A PersistentVolume that was removed by force, while its claim still waits for it, has to be made again."""
        ref = change.old.spec.claim_ref if change.old is not None and change.new is None else None
        claim = self._view.claim(ref.uid) if ref is not None and ref.uid else None
        return () if claim is None or claim.spec.volume_name else (claim.metadata.uid,)

    def _class_changed(self, change: Change[StorageClass]) -> Iterable[str]:
        """Its claims were waiting for it, or failed because of its former content."""
        if not changed(change.old, change.new):
            return ()
        return [claim.metadata.uid for claim in self._view.claims.by(BY_CLASS, change.key.name)]

    def _node_changed(self, change: Change[Any]) -> None:
        """A node's labels or its registration."""
        if changed(change.old, change.new):
            self._places.invalidate()
            self._claims.tell(wake_topics.NODES)

    def _grant_changed(self, change: Change[ReferenceGrant]) -> None:
        self._claims.tell(wake_topics.grants(change.key.namespace), anew=True)

    def snapshot_changed(self, name: str) -> None:
        """name: with its namespace."""
        self._claims.tell(wake_topics.snapshot(name), anew=True)

    def driver_returned(self) -> None:
        self._claims.tell(wake_topics.DRIVER)
