"""What wakes a claim or a volume: the changes that could make a difference to it, found by indexes. No rounds."""

from __future__ import annotations

from mooring.api.classes import class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.pods import Pod
from mooring.api.storage import StorageClass
from mooring.binding.match import could_take
from mooring.binding.names import claim_key, claims_of, is_delayed, is_finished, is_fully_bound
from mooring.binding.shelf import is_free, shape_of_volume
from mooring.binding.view import BY_CLAIM, BY_CLASS, BY_SHAPE, BY_VOLUME, UNSET, Reader, View, changed, is_default
from mooring.kube.informer import Change
from mooring.kube.queue import WorkQueue


class Wakes:
    """Handlers for the caches."""

    def __init__(
        self, view: View, claims: Reader[PersistentVolumeClaim], claim_queue: WorkQueue[Key], volume_queue: WorkQueue[str]
    ) -> None:
        self._view, self._claims, self._claim_queue, self._volume_queue = view, claims, claim_queue, volume_queue
        self._offered: dict[Key, str] = {}

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if not changed(change.old, change.new):
            return
        key = change.key
        if change.new is None:
            self._claim_queue.forget(key)  # another of that name has no past
        self._claim_queue.add(key)
        for claim in (change.old, change.new):
            if claim is not None and claim.spec.volume_name:
                self._volume_queue.add(claim.spec.volume_name)
        for pv in self._view.volumes.by(BY_CLAIM, str(key)):
            self._volume_queue.add(pv.metadata.name)

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        if not changed(change.old, change.new):
            return
        self._volume_queue.add(change.key.name)
        for pv in (change.old, change.new):
            if pv is not None and pv.spec.claim_ref is not None:
                self._claim_queue.add(claim_key(pv.spec.claim_ref))
        for claim in self._claims.by(BY_VOLUME, change.key.name):
            self._claim_queue.add(key_of(claim))
        if change.new is not None and is_free(change.new):
            self._offer(change.new)

    def _offer(self, pv: PersistentVolume) -> None:
        """A volume is free: the claim that has waited longest, of those that it fits, looks again. One at a time, since one can have it."""
        for claim in self._claims.by(BY_SHAPE, "|".join(shape_of_volume(pv))):
            key = key_of(claim)
            if key not in self._offered and not self._claim_queue.failures(key) and self._would_take(claim, pv):
                self._offered[key] = pv.metadata.name
                self._claim_queue.add(key)
                return

    def _would_take(self, claim: PersistentVolumeClaim, pv: PersistentVolume) -> bool:
        """True when it will, unless it finds a better one."""
        return could_take(claim, pv) and not is_delayed(self._view.storage_class(class_of(claim)))

    def looked_at(self, key: Key, *, failed: bool = False) -> None:
        """A claim has had its turn. The volume that it was offered, and did not take, is the next one's."""
        pv = self._view.volumes.get(self._offered.get(key, ""))
        claim = self._claims.get(key)
        if pv is not None and is_free(pv) and (failed or claim is None or claim.spec.volume_name):
            self._offer(pv)
        self._offered.pop(key, None)  # last: while it is there, the volume is not offered to this one again

    def class_changed(self, change: Change[StorageClass]) -> None:
        if not changed(change.old, change.new):
            return
        for one in (change.old, change.new):
            if one is not None:
                self._wake_class(one.metadata.name)
                if is_default(one):
                    self._wake_class(UNSET)

    def _wake_class(self, name: str) -> None:
        for claim in self._claims.by(BY_CLASS, name):
            self._claim_queue.add(key_of(claim))

    def pod_changed(self, change: Change[Pod]) -> None:
        """Claims that wait for their first pod tell which one it is."""
        if change.old is not None and change.new is not None and _same_to_claims(change.old, change.new):
            return
        for pod in (change.old, change.new):
            for key in claims_of(pod) if pod is not None else ():
                claim = self._claims.get(key)
                if claim is not None and not is_fully_bound(claim):
                    self._claim_queue.add(key)


def _same_to_claims(old: Pod, new: Pod) -> bool:
    return (old.spec.node_name, is_finished(old), old.metadata.deletion_timestamp) == (
        new.spec.node_name,
        is_finished(new),
        new.metadata.deletion_timestamp,
    )
