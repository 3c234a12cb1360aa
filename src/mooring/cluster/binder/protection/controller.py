"""The three protections: finalizers are added to new objects, and removed from objects that may be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.api.binding import claims_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key, Object, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, VolumeAttributesClass
from mooring.base.log import logger
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.protection.decide import (
    AddFinalizer,
    ClaimAction,
    Finalizing,
    ListPods,
    RemoveFinalizer,
    TellInUse,
    decide_attributes_class,
    decide_claim,
    decide_volume,
)
from mooring.cluster.binder.protection.reconcile import LOOK_AGAIN_S, LivePods, set_finalizer
from mooring.cluster.binder.reasons import EventText, Gone
from mooring.cluster.binder.view import BY_ATTRIBUTES, BY_CLAIM, attributes_of
from mooring.cluster.binder.writes import Whole
from mooring.control.backlog import newest_keys
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change
from mooring.kube.cluster import compare_versions

log = logger(__name__)

WORKERS: Final = 4


class ClaimProtection:
    """The controller `persistentvolumeclaim-protection-controller`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches, announcer: Announcer) -> None:
        self._claims, self._pods, self._writes = caches.claims.store, caches.pods.store, caches.whole_claims
        self._announcer, self._live = announcer, LivePods(runtime.cluster, runtime.clock)
        self._listed: dict[
            Key, tuple[str, tuple[Pod, ...]]
        ] = {}  # the pods that a claim, of this uid, was asked for a moment ago
        self.controller: Controller[Key] = Controller(
            runtime,
            "pvcprotection",
            Deciding(self._decide, self._perform),
            workers=WORKERS,
            label="PersistentVolumeClaim",
            log=log,
        )
        self.controllers = (self.controller,)
        self.controller.watch(caches.claims, self._changed)
        self.controller.watch(caches.pods, self._pod_changed)

    async def look_at_all(self) -> None:
        """A term begins."""
        self.controller.add_later(
            newest_keys(self._claims, lambda claim: key_of(claim) if _needs_a_look(claim) else None)
        )

    def _changed(self, change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        if change.new is not None and _needs_a_look(change.new):
            yield change.key

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        """The deleted claims of a changed pod: it may be gone, or over."""
        for pod in (change.old, change.new):
            for key in claims_of(pod) if pod is not None else ():
                claim = self._claims.get(key)
                if claim is not None and is_deleting(claim):
                    yield key

    def _decide(self, key: Key) -> Decision[ClaimAction]:
        claim, (uid, listed) = self._claims.get(key), self._listed.pop(key, ("", ()))
        if claim is None:
            return Decision(Gone(str(key)))
        if uid == claim.metadata.uid:
            return decide_claim(claim, listed, is_fresh=True, again_s=LOOK_AGAIN_S)
        is_fresh = compare_versions(self._pods.version, claim.metadata.resource_version) >= 0
        return decide_claim(claim, self._pods.by(BY_CLAIM, str(key)), is_fresh=is_fresh)

    async def _perform(self, key: Key, decision: Decision[ClaimAction]) -> Result | None:
        """Raises ApiError, Failed, Stale."""
        claim, after_s = self._claims.get(key), decision.after_s
        if claim is None:
            return None
        for action in decision.actions:
            match action:
                case ListPods(version):
                    self._listed[key] = decision.uid, await self._live.of(key.namespace, version)
                    return Result(decision.because, again=True)
                case TellInUse(text):
                    again_s = self._announcer.keep_telling(
                        reference_to(claim, "PersistentVolumeClaim"), EventText("Normal", "ClaimInUse", text)
                    )
                    after_s = again_s if after_s is None else min(after_s, again_s)
                case AddFinalizer() | RemoveFinalizer():
                    await set_finalizer(self._writes, claim, action)
                    return None
        return Result(decision.because, after_s=after_s)


def _needs_a_look(claim: PersistentVolumeClaim) -> bool:
    return bool(decide_claim(claim, (), is_fresh=True).actions)


class VolumeProtection:
    """The controller `persistentvolume-protection-controller`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches) -> None:
        self._volumes, self._store, self._writes = caches.by_name, caches.volumes.store, caches.whole_volumes
        self.controller: Controller[str] = Controller(
            runtime,
            "pvprotection",
            Deciding(self._decide, self._perform),
            workers=WORKERS,
            label="PersistentVolume",
            log=log,
        )
        self.controllers = (self.controller,)
        self.controller.watch(caches.volumes, self._changed)

    async def look_at_all(self) -> None:
        """A term begins."""
        self.controller.add_later(
            newest_keys(self._store, lambda pv: pv.metadata.name if decide_volume(pv).actions else None)
        )

    def _changed(self, change: Change[PersistentVolume]) -> Iterator[str]:
        if change.new is not None and decide_volume(change.new).actions:
            yield change.new.metadata.name

    def _decide(self, name: str) -> Decision[Finalizing]:
        pv = self._volumes.get(name)
        return Decision(Gone(name)) if pv is None else decide_volume(pv)

    async def _perform(self, name: str, decision: Decision[Finalizing]) -> None:
        """Raises Failed, Stale."""
        pv = self._volumes.get(name)
        if pv is not None:
            for action in decision.actions:
                await set_finalizer(self._writes, pv, action)


class AttributesClassProtection:
    """The controller `volumeattributesclass-protection-controller`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches) -> None:
        self._caches = caches
        self._classes = caches.shared.of(
            VOLUME_ATTRIBUTES_CLASSES, may_be_missing=True
        )  # they are v1 since Kubernetes 1.34
        self._writes = Whole(runtime.cluster, VOLUME_ATTRIBUTES_CLASSES, self._classes)
        self.controller: Controller[str] = Controller(
            runtime,
            "vacprotection",
            Deciding(self._decide, self._perform),
            workers=1,
            label="VolumeAttributesClass",
            log=log,
        )
        self.controllers = (self.controller,)
        self.controller.watch(self._classes, self._changed)
        self.controller.watch(caches.claims, self._claim_changed)
        self.controller.watch(caches.volumes, self._volume_changed)

    async def look_at_all(self) -> None:
        """A term begins."""
        self.controller.add_later(
            newest_keys(self._classes.store, lambda one: one.metadata.name if is_deleting(one) else None)
        )

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

    def _decide(self, name: str) -> Decision[Finalizing]:
        one = self._classes.store.get(Key("", name))
        if one is None:
            return Decision(Gone(name))
        holders: list[Object] = [
            *self._caches.claims.store.by(BY_ATTRIBUTES, name),
            *self._caches.volumes.store.by(BY_ATTRIBUTES, name),
        ]
        return decide_attributes_class(one, holders)

    async def _perform(self, name: str, decision: Decision[Finalizing]) -> None:
        """Raises Failed, Stale."""
        one = self._classes.store.get(Key("", name))
        if one is not None:
            for action in decision.actions:
                await set_finalizer(self._writes, one, action)
