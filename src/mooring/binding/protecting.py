"""The shells of the three protections: finalizers on what is new, taken off what may go.

pvc-protection asks the API server for a namespace's pods only where the cache can't prove that it has seen all that were there when the
claim was deleted; the peer asks for each batch of claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final, TypeVar

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Object, is_deleting, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, VolumeAttributesClass
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.binding import edits
from mooring.binding.announce import CROWDED_S, Announcer
from mooring.binding.because import Told
from mooring.binding.caches import Caches
from mooring.binding.edits import Moved
from mooring.binding.names import PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION, claims_of, reference_to
from mooring.binding.protect import Guard, Judgement, judge_attributes_class, judge_claim, judge_volume
from mooring.binding.view import BY_ATTRIBUTES, BY_CLAIM, attributes_of
from mooring.binding.workers import Workers
from mooring.binding.writes import Whole
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.informer import Change
from mooring.kube.queue import WorkQueue
from mooring.kube.versions import order

log = logger(__name__)
T = TypeVar("T", bound=Object)
K = TypeVar("K", bound=Hashable)

WORKERS: Final = 4
_EDITS: Final = {Guard.ADD: edits.add_finalizer, Guard.REMOVE: edits.remove_finalizer}


class LivePods:
    """A namespace's pods from the API server, asked for once for all that were deleted before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = asyncio.Lock()
        self._listed: tuple[str, str, tuple[Pod, ...]] = ("", "", ())

    async def of(self, namespace: str, version: str) -> tuple[Pod, ...]:
        """Those with claims, as they were at this version or later."""
        async with self._lock:
            known, at, pods = self._listed
            if known != namespace or order(at, version) < 0:
                page = await self._cluster.list(PODS, Selection(namespace=namespace))
                pods = tuple(pod for pod in page.items if claims_of(pod))
                self._listed = namespace, page.resource_version, pods
            return pods


class ClaimProtection:
    """The part `persistentvolumeclaim-protection-controller`."""

    def __init__(self, caches: Caches, announcer: Announcer, *, clock: Clock, chance: Chance, metrics: Metrics) -> None:
        self._claims, self._pods, self._writes = caches.claims.store, caches.pods.store, caches.whole_claims
        self._announcer, self._live = announcer, LivePods(caches.cluster)
        self.workers: Workers[Key] = Workers("pvcprotection", WORKERS, self._sync, clock=clock, chance=chance, metrics=metrics)
        caches.claims.on_change(self._claim_changed)
        caches.pods.on_change(self._pod_changed)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        claim = change.new
        if claim is not None and judge_claim(claim, (), pods_are_fresh=True).guard is not Guard.NOTHING:
            self.workers.queue.add(key_of(claim))

    def _pod_changed(self, change: Change[Pod]) -> None:
        """Whatever a pod that is gone, over or somewhere else has let go."""
        for pod in (change.old, change.new):
            for key in claims_of(pod) if pod is not None else ():
                claim = self._claims.get(key)
                if claim is not None and is_deleting(claim):
                    self.workers.queue.add(key)

    async def _sync(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        version = claim.metadata.resource_version
        fresh = order(self._pods.version, version) >= 0
        judgement = judge_claim(claim, self._pods.by(BY_CLAIM, str(key)), pods_are_fresh=fresh)
        if judgement.guard is Guard.ASK:
            live = await self._live.of(key.namespace, version)
            claim = self._claims.get(key)
            if claim is None:
                return
            judgement = judge_claim(claim, live, pods_are_fresh=True)
        if judgement.holder_finished:
            told = Told("Normal", "ClaimInUse", f"the claim stays until it is free: {judgement}")
            if not self._announcer.tell(reference_to(claim, "PersistentVolumeClaim"), told):
                self.workers.queue.add_after(key, CROWDED_S)
        await _guard(self.workers.queue, key, self._writes, claim, judgement, PVC_PROTECTION)


class VolumeProtection:
    """The part `persistentvolume-protection-controller`."""

    def __init__(self, caches: Caches, *, clock: Clock, chance: Chance, metrics: Metrics) -> None:
        self._volumes, self._writes = caches.by_name, caches.whole_volumes
        self.workers: Workers[str] = Workers("pvprotection", WORKERS, self._sync, clock=clock, chance=chance, metrics=metrics)
        caches.volumes.on_change(self._changed)

    def _changed(self, change: Change[PersistentVolume]) -> None:
        if change.new is not None and judge_volume(change.new).guard in _EDITS:
            self.workers.queue.add(change.new.metadata.name)

    async def _sync(self, name: str) -> None:
        pv = self._volumes.get(name)
        if pv is not None:
            await _guard(self.workers.queue, name, self._writes, pv, judge_volume(pv), PV_PROTECTION)


class AttributesClassProtection:
    """The part `volumeattributesclass-protection-controller`."""

    def __init__(self, caches: Caches, *, clock: Clock, chance: Chance, metrics: Metrics) -> None:
        self._caches = caches
        self._classes = caches.of(VOLUME_ATTRIBUTES_CLASSES, may_be_missing=True)  # they are v1 since Kubernetes 1.34
        self._writes = Whole(caches.cluster, VOLUME_ATTRIBUTES_CLASSES, self._classes)
        self.workers: Workers[str] = Workers("vacprotection", 1, self._sync, clock=clock, chance=chance, metrics=metrics)
        self._classes.on_change(self._class_changed)
        caches.claims.on_change(self._claim_changed)
        caches.volumes.on_change(self._volume_changed)

    def _class_changed(self, change: Change[VolumeAttributesClass]) -> None:
        if change.new is not None and is_deleting(change.new):
            self.workers.queue.add(change.new.metadata.name)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if change.old is not None:
            self._let_go(set(attributes_of(change.old)) - set(attributes_of(change.new) if change.new is not None else ()))

    def _volume_changed(self, change: Change[PersistentVolume]) -> None:
        if change.old is not None and change.old.spec.volume_attributes_class_name:
            self._let_go({change.old.spec.volume_attributes_class_name})

    def _let_go(self, names: set[str]) -> None:
        for name in sorted(names):
            self.workers.queue.add(name)

    async def _sync(self, name: str) -> None:
        one = self._classes.store.get(Key("", name))
        if one is None:
            return
        holders: list[Object] = [*self._caches.claims.store.by(BY_ATTRIBUTES, name), *self._caches.volumes.store.by(BY_ATTRIBUTES, name)]
        await _guard(self.workers.queue, name, self._writes, one, judge_attributes_class(one, holders), VAC_PROTECTION)


async def _guard(queue: WorkQueue[K], key: K, writes: Whole[T], obj: T, judgement: Judgement, finalizer: str) -> None:
    """Does what was judged; the key comes again when the object has changed meanwhile. Raises ApiError."""
    edit = _EDITS.get(judgement.guard)
    if edit is None:
        queue.forget(key)
        return
    try:
        await writes.put(obj, edit(finalizer))
    except Moved:
        queue.retry(key)
        return
    queue.forget(key)
    log.info(2, f"finalizer: {judgement.guard.value}", finalizer=finalizer, key=str(key_of(obj)))
