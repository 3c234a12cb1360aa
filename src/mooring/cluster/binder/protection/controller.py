"""The three protections: finalizers are added to new objects, and removed from objects that may be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.api.binding import PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION, claims_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key, Object, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, VolumeAttributesClass
from mooring.base.log import logger
from mooring.cluster.binder.announcer import CROWDED_S, REMIND_S, Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.protection.decide import Guard, decide_attributes_class, decide_claim, decide_volume
from mooring.cluster.binder.protection.reconcile import LOOK_AGAIN_S, LivePods, carry_out
from mooring.cluster.binder.reasons import EventText, Gone
from mooring.cluster.binder.view import BY_ATTRIBUTES, BY_CLAIM, attributes_of
from mooring.cluster.binder.writes import Whole
from mooring.control.controller import Controller
from mooring.control.events import SLACK_S
from mooring.control.result import Result, Stale
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change
from mooring.kube.cluster import order

log = logger(__name__)

WORKERS: Final = 4


class ClaimProtection:
    """The controller `persistentvolumeclaim-protection-controller`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches, announcer: Announcer) -> None:
        self._claims, self._pods, self._writes = caches.claims.store, caches.pods.store, caches.whole_claims
        self._announcer, self._live = announcer, LivePods(runtime.cluster, runtime.clock)
        self.controller: Controller[Key] = Controller(
            runtime, "pvcprotection", self._reconcile, workers=WORKERS, label="PersistentVolumeClaim", log=log
        )
        self.controller.watch(caches.claims, self._changed)
        self.controller.watch(caches.pods, self._pod_changed)

    def _changed(self, change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        claim = change.new
        if claim is not None and decide_claim(claim, (), pods_are_fresh=True).guard is not Guard.NOTHING:
            yield key_of(claim)

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        """The deleted claims of a changed pod: it may be gone, or over."""
        for pod in (change.old, change.new):
            for key in claims_of(pod) if pod is not None else ():
                claim = self._claims.get(key)
                if claim is not None and is_deleting(claim):
                    yield key

    async def _reconcile(self, key: Key) -> Result:
        claim = self._claims.get(key)
        if claim is None:
            return Result(Gone(str(key)))
        version = claim.metadata.resource_version
        fresh = order(self._pods.version, version) >= 0
        decision = decide_claim(claim, self._pods.by(BY_CLAIM, str(key)), pods_are_fresh=fresh)
        after_s = None
        if decision.guard is Guard.ASK:
            live, asked_for = await self._live.of(key.namespace, version), claim
            claim = self._claims.get(key)
            if claim is None:
                return Result(Gone(str(key)))
            if claim.metadata.uid != asked_for.metadata.uid:
                raise Stale(f'another claim is called "{key}" by now, and the pods were listed before it was deleted')
            decision = decide_claim(claim, live, pods_are_fresh=True)
            after_s = LOOK_AGAIN_S if decision.guard is Guard.KEEP else None
        if decision.holder_finished:
            event = EventText("Normal", "ClaimInUse", f"the claim stays until it is free: {decision.because}")
            again_s = REMIND_S + SLACK_S if self._announcer.tell(reference_to(claim, "PersistentVolumeClaim"), event) else CROWDED_S
            after_s = again_s if after_s is None else min(after_s, again_s)
        return await carry_out(self._writes, claim, decision, PVC_PROTECTION, after_s)


class VolumeProtection:
    """The controller `persistentvolume-protection-controller`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches) -> None:
        self._volumes, self._writes = caches.by_name, caches.whole_volumes
        self.controller: Controller[str] = Controller(
            runtime, "pvprotection", self._reconcile, workers=WORKERS, label="PersistentVolume", log=log
        )
        self.controller.watch(caches.volumes, self._changed)

    def _changed(self, change: Change[PersistentVolume]) -> Iterator[str]:
        if change.new is not None and decide_volume(change.new).writes:
            yield change.new.metadata.name

    async def _reconcile(self, name: str) -> Result:
        pv = self._volumes.get(name)
        return Result(Gone(name)) if pv is None else await carry_out(self._writes, pv, decide_volume(pv), PV_PROTECTION)


class AttributesClassProtection:
    """The controller `volumeattributesclass-protection-controller`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches) -> None:
        self._caches = caches
        self._classes = caches.shared.of(VOLUME_ATTRIBUTES_CLASSES, may_be_missing=True)  # they are v1 since Kubernetes 1.34
        self._writes = Whole(runtime.cluster, VOLUME_ATTRIBUTES_CLASSES, self._classes)
        self.controller: Controller[str] = Controller(
            runtime, "vacprotection", self._reconcile, workers=1, label="VolumeAttributesClass", log=log
        )
        self.controller.watch(self._classes, self._changed)
        self.controller.watch(caches.claims, self._claim_changed)
        self.controller.watch(caches.volumes, self._volume_changed)

    def _changed(self, change: Change[VolumeAttributesClass]) -> Iterator[str]:
        if change.new is not None and is_deleting(change.new):
            yield change.new.metadata.name

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterable[str]:
        if change.old is None:
            return ()
        return sorted(set(attributes_of(change.old)) - set(attributes_of(change.new) if change.new is not None else ()))

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterator[str]:
        if change.old is not None and change.old.spec.volume_attributes_class_name:
            yield change.old.spec.volume_attributes_class_name

    async def _reconcile(self, name: str) -> Result:
        one = self._classes.store.get(Key("", name))
        if one is None:
            return Result(Gone(name))
        holders: list[Object] = [*self._caches.claims.store.by(BY_ATTRIBUTES, name), *self._caches.volumes.store.by(BY_ATTRIBUTES, name)]
        return await carry_out(self._writes, one, decide_attributes_class(one, holders), VAC_PROTECTION)
