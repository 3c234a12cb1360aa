"""The PV controller: claims and volumes, each with a queue, decided by pure functions, written one step after the other.

Keys are worked on side by side. Two that mean the same volume take turns (`VolumeLocks`), and a decision is only carried out on the
state it was taken on (`writes.py`). A step that has asked the API server leaves the answer to the next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key
from mooring.base.log import logger
from mooring.cluster.binder.announcer import CROWDED_S, Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.metrics import BindingMetrics
from mooring.cluster.binder.reasons import EventText
from mooring.cluster.binder.view import View
from mooring.cluster.binder.volumes import reasons as why
from mooring.cluster.binder.volumes.decide import NOTHING_ABSENT, decide_claim, decide_volume
from mooring.cluster.binder.volumes.decision import Absent, Ask, Bind, Decision, SetClass
from mooring.cluster.binder.volumes.event_handlers import BindingEventHandlers, Offers
from mooring.cluster.binder.volumes.reconcile import Reconciler
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.topics import Topic
from mooring.kube.cache.informer import Change


def unlocked(pv_name: str) -> Topic:
    """Told when a volume is unlocked."""
    return f"unlocked/{pv_name}"


class VolumeLocks:
    """Volumes by name. tell: called with the topic of each volume that is unlocked."""

    def __init__(self, tell: Callable[[Topic], None]) -> None:
        self.taken: dict[str, Key] = {}
        """Volume → the claim that it is being bound to."""
        self._locked: set[str] = set()
        self._tell = tell

    def is_locked(self, pv_name: str) -> bool:
        return pv_name in self._locked

    @contextlib.contextmanager
    def lock(self, pv_name: str, claim: Key | None = None) -> Iterator[None]:
        """Holds the lock for the block. claim: to which the volume is being bound."""
        assert pv_name not in self._locked, "who finds it locked waits for its topic"
        self._locked.add(pv_name)
        if claim is not None:
            self.taken[pv_name] = claim
        try:
            yield
        finally:
            self._locked.discard(pv_name)
            self.taken.pop(pv_name, None)
            self._tell(unlocked(pv_name))


log = logger(__name__)

VOLUMES_COMPONENT: Final = "persistentvolume-controller"


class VolumeBinding:
    """The controller `persistentvolume-binder-controller`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches, workers: int, events: EventRecorder) -> None:
        self._events = events
        self._announcer = Announcer(events, runtime.clock)
        self._clock = runtime.clock
        self._locks = VolumeLocks(self._tell)
        self._absent: dict[Key, Absent] = {}  # what a step has asked for in vain, for the next one
        self._gone_uids: dict[str, str] = {}
        self._metrics = runtime.metrics.once(BindingMetrics)
        self._claims: Controller[Key] = Controller(
            runtime, "claims", self._reconcile_claim, workers=workers, label="PersistentVolumeClaim", log=log
        )
        self._volumes: Controller[str] = Controller(
            runtime, "volumes", self._reconcile_volume, workers=workers, label="PersistentVolume", log=log
        )
        self.controllers = (self._claims, self._volumes)
        self.view = View(caches.claims.store, caches.by_name, caches.classes.store, caches.pods.store, self._locks.taken)
        self._reconciler = Reconciler(self.view, caches, self._claims.add)
        self._offers = Offers(self.view, caches.claims.store, self._claims)
        handlers = BindingEventHandlers(self.view, caches.claims.store, self._claims, self._volumes, self._offers)
        self._claims.watch(caches.claims, handlers.claim_changed)
        self._volumes.watch(caches.volumes, handlers.volume_changed)
        self._volumes.watch(caches.volumes, self._volume_gone)
        self._claims.watch(caches.classes, handlers.class_changed)
        self._claims.watch(caches.pods, handlers.pod_changed)
        self._metrics.show(caches.claims.store, caches.volumes.store)

    def _tell(self, topic: Topic) -> None:
        for controller in self.controllers:
            controller.tell(topic)

    # -- claims

    async def _reconcile_claim(self, key: Key) -> Result:
        """One step. Raises ApiError, Retry, Stale."""
        decision = decide_claim(self.view, key, self._absent.pop(key, NOTHING_ABSENT))  # no await between this and the lock
        self._claims.explain(key, decision.because)
        claim = self.view.claims.get(key)
        with self._offers.reconciling(key) as turn:
            if claim is None:
                return Result(decision.because)
            pv_name = next((action.pv_name for action in decision.actions if isinstance(action, Bind)), "")
            if pv_name and self._locks.is_locked(pv_name):
                turn.goes_on()
                return Result(decision.because, waits_for=frozenset({unlocked(pv_name)}), keeps_backoff=True)
            try:
                with self._locks.lock(pv_name, key) if pv_name else contextlib.nullcontext():
                    absent = await self._reconciler.on_claim(claim, decision)
            except Retry as failure:
                self._count_failure(decision, failure, claim)
                raise
            self._count(decision, claim)
            after_s = self._tell_users(decision, claim)
            if decision.failed:
                raise Retry(str(decision.because))
            if decision.again:
                self._absent[key] = absent
                turn.goes_on()
                return Result(decision.because, again=True)
            turn.is_over()
            return Result(decision.because, done="done" if decision.actions else "", after_s=after_s)

    def _count(self, decision: Decision, claim: PersistentVolumeClaim) -> None:
        uid, now = claim.metadata.uid, self._clock.now()
        if any(isinstance(action, SetClass) for action in decision.actions):
            self._metrics.retroactive.inc()
        if decision.begins is not None:
            self._metrics.began(decision.begins.name, uid, decision.begins.plugin, now)
        if decision.ends is not None:
            self._metrics.ended(decision.ends.name, uid, now)

    def _count_failure(self, decision: Decision, failure: Retry, claim: PersistentVolumeClaim) -> None:
        for action in decision.actions:
            match action:
                case SetClass():
                    self._metrics.retroactive.inc()
                    self._metrics.retroactive_errors.inc()
                case Ask(provisioner):
                    self._metrics.failed(provisioner, "provision")
                    event = EventText("Warning", "ProvisioningFailed", f"Error saving claim: {failure.__cause__}")
                    self._announcer.tell(reference_to(claim, "PersistentVolumeClaim"), event)

    def _tell_users(self, decision: Decision, claim: PersistentVolumeClaim) -> float | None:
        """Sends the event of the reason, if there is one. Gives the seconds until it is to be sent again."""
        event = decision.because.event
        if event is None:
            self._announcer.forget(claim.metadata.uid)
        elif not decision.quiet or self._announcer.owes(claim.metadata.uid):
            if left_s := self._announcer.waits_s(claim.metadata.uid, event, decision.patience_s):
                return left_s
            return self._announcer.keep_telling(reference_to(claim, "PersistentVolumeClaim"), event)
        return None

    # -- volumes

    async def _reconcile_volume(self, name: str) -> Result:
        """One step. Raises ApiError, Retry, Stale."""
        gone_uid = self._gone_uids.pop(name, "")
        if self._locks.is_locked(name):
            return Result(why.Locked(name), waits_for=frozenset({unlocked(name)}), keeps_backoff=True)
        decision = decide_volume(self.view, name, gone_uid)  # no await between this and the lock
        self._volumes.explain(name, decision.because)
        pv = self.view.volumes.get(name)
        if pv is None:
            return Result(decision.because)
        with self._locks.lock(name):
            gone_uid = await self._reconciler.on_volume(pv, decision)
        after_s = self._report_volume(pv, decision)
        if decision.again:
            self._gone_uids[name] = gone_uid
            return Result(decision.because, again=True)
        return Result(decision.because, done="done" if decision.actions else "", after_s=after_s)

    def _report_volume(self, pv: PersistentVolume, decision: Decision) -> float | None:
        """Sends events, counts. Gives the seconds until an event that was dropped is to be sent."""
        if decision.begins is not None:
            self._metrics.began(decision.begins.name, pv.metadata.uid, decision.begins.plugin, self._clock.now())
        after_s = None
        event = decision.because.event
        if event is not None and (not decision.quiet or self._announcer.owes(pv.metadata.uid)):
            after_s = None if self._announcer.tell(reference_to(pv, "PersistentVolume"), event) else CROWDED_S
        if decision.tells_claim is not None:
            assert pv.spec.claim_ref is not None
            claim = self.view.claims.get(Key(pv.spec.claim_ref.namespace, pv.spec.claim_ref.name))
            if claim is not None:
                self._events.event(reference_to(claim, "PersistentVolumeClaim"), *decision.tells_claim)
        return after_s

    def _volume_gone(self, change: Change[PersistentVolume]) -> None:
        if change.new is None and change.old is not None:
            self._metrics.ended("delete", change.old.metadata.uid, self._clock.now())
