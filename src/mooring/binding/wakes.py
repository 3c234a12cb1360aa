"""What wakes a claim or a volume: the changes that could make a difference to it, found by indexes. No rounds."""

from __future__ import annotations

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.pods import Pod
from mooring.api.storage import StorageClass
from mooring.binding.names import capacity_of, claim_key, claims_of, is_finished, is_fully_bound, request_of
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

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if not changed(change.old, change.new):
            return
        about = change.new or change.old
        assert about is not None
        key = key_of(about)
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
        about = change.new or change.old
        assert about is not None
        self._volume_queue.add(about.metadata.name)
        for pv in (change.old, change.new):
            if pv is not None and pv.spec.claim_ref is not None:
                self._claim_queue.add(claim_key(pv.spec.claim_ref))
        for claim in self._claims.by(BY_VOLUME, about.metadata.name):
            self._claim_queue.add(key_of(claim))
        if change.new is not None and is_free(change.new):
            self._offer(change.new)

    def _offer(self, pv: PersistentVolume) -> None:
        """A volume is free: the claims that it could fit look again."""
        modes = set(pv.spec.access_modes or ())
        size = capacity_of(pv)
        for claim in self._claims.by(BY_SHAPE, "|".join(shape_of_volume(pv))):
            if request_of(claim) <= size and set(claim.spec.access_modes or ()) <= modes:
                self._claim_queue.add(key_of(claim))

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
