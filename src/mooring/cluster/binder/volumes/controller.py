"""The PV controller: claims and volumes, each with a queue, decided by pure functions, written one step after the
other.

Keys are worked on side by side. Two that mean the same volume take turns (`VolumeLocks`), and a decision is only
carried out on the state it was taken on (`writes.py`). A step that has asked the API server leaves the answer to the
next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from mooring.api.binding import claim_key
from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key
from mooring.base.log import logger
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.metrics import BindingMetrics
from mooring.cluster.binder.view import View
from mooring.cluster.binder.volumes import reasons as why
from mooring.cluster.binder.volumes.decide import NOTHING_ABSENT, decide_claim, decide_volume
from mooring.cluster.binder.volumes.decision import Absent, Action, Begin, Bind, End, Tell, TellClaim, writes_of
from mooring.cluster.binder.volumes.event_handlers import BindingEventHandlers, Offers
from mooring.cluster.binder.volumes.reconcile import Reconciler
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.events import EventRecorder
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.control.topics import Topic
from mooring.kube.cache.informer import Change


def unlocked(pv_name: str) -> Topic:
    """The topic that a volume is unlocked."""
    return f"unlocked/{pv_name}"


class VolumeLocks:
    """Volumes by name. tell: called with the topic of each volume that is unlocked."""

    def __init__(self, tell: Callable[[Topic], None]) -> None:
        self.taken: dict[str, Key] = {}
        """The claim that each volume is being bound to, by the volume's name."""
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
        self._absent: dict[Key, Absent] = {}  # what a step has asked the API server for in vain, for the next step
        self._gone_uids: dict[str, str] = {}
        self._metrics = runtime.metrics.once(BindingMetrics)
        self._claims: Controller[Key] = Controller(
            runtime,
            "claims",
            Deciding(self._decide_claim, self._perform_claim),
            workers=workers,
            label="PersistentVolumeClaim",
            log=log,
        )
        self._volumes: Controller[str] = Controller(
            runtime,
            "volumes",
            Deciding(self._decide_volume, self._perform_volume),
            workers=workers,
            label="PersistentVolume",
            log=log,
        )
        self.controllers = (self._claims, self._volumes)
        self.view = View(
            caches.claims.store, caches.by_name, caches.classes.store, caches.pods.store, self._locks.taken
        )
        self._reconciler = Reconciler(self.view, caches, self._announcer, self._metrics, self._claims.add)
        self._offers = Offers(self.view, caches.claims.store, self._claims)
        handlers = self._handlers = BindingEventHandlers(self.view, caches, self._claims, self._volumes, self._offers)
        self._claims.watch(caches.claims, handlers.claim_changed)
        self._volumes.watch(caches.volumes, handlers.volume_changed)
        self._volumes.watch(caches.volumes, self._volume_gone)
        self._claims.watch(caches.classes, handlers.class_changed)
        self._claims.watch(caches.pods, handlers.pod_changed)
        self._metrics.show(caches.claims, caches.volumes)

    async def look_at_all(self) -> None:
        """A term begins."""
        await self._handlers.look_at_all()

    def _tell(self, topic: Topic) -> None:
        for controller in self.controllers:
            controller.tell(topic)

    # -- claims

    def _decide_claim(self, key: Key) -> Decision[Action]:
        return decide_claim(self.view, key, self._absent.pop(key, NOTHING_ABSENT))

    async def _perform_claim(self, key: Key, decision: Decision[Action]) -> Result | None:
        """One step. Raises ApiError, Failed, Stale."""
        claim, writes = self.view.claims.get(key), writes_of(decision)  # no await between the decision and the lock
        with self._offers.reconciling(key) as turn:
            if claim is None:
                return None
            pv_name = next((action.pv_name for action in writes if isinstance(action, Bind)), "")
            if pv_name and self._locks.is_locked(pv_name):
                turn.goes_on()
                return Result(decision.because, waits_for=frozenset({unlocked(pv_name)}), keeps_backoff=True)
            with self._locks.lock(pv_name, key) if pv_name else contextlib.nullcontext():
                absent = await self._reconciler.on_claim(claim, writes)
            after_s = self._report_claim(claim, decision)
            if decision.problem is not None:
                return None
            if decision.again:
                self._absent[key] = absent
                turn.goes_on()
                return Result(decision.because, again=True)
            turn.is_over()
            return Result(decision.because, done="done" if writes else "", after_s=after_s)

    def _report_claim(self, claim: PersistentVolumeClaim, decision: Decision[Action]) -> float | None:
        """Count, and tell users the reason, if it has an event. Return the seconds until that is to be sent again."""
        uid, after_s = claim.metadata.uid, None
        for action in decision.actions:
            match action:
                case Begin(name, plugin):
                    self._metrics.began(name, uid, plugin, self._clock.now())
                case End(name):
                    self._metrics.ended(name, uid, self._clock.now())
                case Tell():
                    after_s = self._tell_claim(claim, action)
        if not any(isinstance(action, Tell) for action in decision.actions):
            self._announcer.forget(uid)
        return after_s

    def _tell_claim(self, claim: PersistentVolumeClaim, tell: Tell) -> float | None:
        uid = claim.metadata.uid
        left_s = self._announcer.waits_s(uid, tell.event, tell.patience_s)
        return left_s or self._announcer.keep_telling(reference_to(claim, "PersistentVolumeClaim"), tell.event)

    # -- volumes

    def _decide_volume(self, name: str) -> Decision[Action]:
        gone_uid = self._gone_uids.pop(name, "")
        if self._locks.is_locked(name):
            return Decision(why.Locked(name), waits_for=frozenset({unlocked(name)}))
        return decide_volume(self.view, name, gone_uid)

    async def _perform_volume(self, name: str, decision: Decision[Action]) -> Result | None:
        """One step. Raises ApiError, Failed, Stale."""
        pv, writes = self.view.volumes.get(name), writes_of(decision)  # no await between the decision and the lock
        if pv is None or decision.waits_for:
            return None
        with self._locks.lock(name):
            gone_uid = await self._reconciler.on_volume(pv, writes)
        self._report_volume(pv, decision)
        if decision.again:
            self._gone_uids[name] = gone_uid
            return Result(decision.because, again=True)
        return Result(decision.because, done="done" if writes else "")

    def _report_volume(self, pv: PersistentVolume, decision: Decision[Action]) -> None:
        """Counts, and sends events."""
        uid = pv.metadata.uid
        for action in decision.actions:
            match action:
                case Begin(name, plugin):
                    self._metrics.began(name, uid, plugin, self._clock.now())
                case Tell(event):
                    self._announcer.tell(reference_to(pv, "PersistentVolume"), event)
                case TellClaim(event):
                    ref = pv.spec.claim_ref
                    claim = None if ref is None else self.view.claims.get(claim_key(ref))
                    if claim is not None:
                        self._events.event(reference_to(claim, "PersistentVolumeClaim"), *event)

    def _volume_gone(self, change: Change[PersistentVolume]) -> None:
        if change.new is None and change.old is not None:
            self._metrics.ended("delete", change.old.metadata.uid, self._clock.now())
