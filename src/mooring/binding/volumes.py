"""The PV controller's shell: claims and volumes, each with a queue, decided by pure functions, written one step after the other.

Keys are worked on side by side. Two that mean the same volume take turns (`hands.py`), and a decision is only carried out on the state it
was taken on (`writes.py`).
"""

from __future__ import annotations

import asyncio
import functools
from typing import Final

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.binding import because as why
from mooring.binding.actions import Actions
from mooring.binding.announce import CROWDED_S, REMIND_S, Announcer
from mooring.binding.caches import Caches
from mooring.binding.decide import decide_claim
from mooring.binding.decide_volume import decide_volume
from mooring.binding.decision import Absent, Bind, Decision, SetClass
from mooring.binding.edits import Moved
from mooring.binding.hands import Hands
from mooring.binding.metrics import BindingMetrics
from mooring.binding.names import DELETE, PROVISIONED_BY, reference_to
from mooring.binding.view import View
from mooring.binding.wakes import Wakes
from mooring.binding.workers import Workers
from mooring.kube.errors import ApiError
from mooring.kube.events import EventRecorder
from mooring.kube.informer import Change

log = logger(__name__)

STEPS_MAX: Final = 5
"""Decisions for one key in a row; what has changed under the last of them, too, comes again after a back-off."""

COMPONENT: Final = "persistentvolume-controller"


class VolumeBinding:
    """The part `persistentvolume-binder-controller`."""

    def __init__(self, caches: Caches, *, workers: int, clock: Clock, chance: Chance, metrics: Metrics, events: EventRecorder) -> None:
        self._events = events
        self._announcer = Announcer(events, clock)
        self._clock = clock
        self._hands = Hands()
        self._metrics = metrics.once(BindingMetrics)
        self._claims: Workers[Key] = Workers("claims", workers, self._sync_claim, clock=clock, chance=chance, metrics=metrics)
        self._volumes: Workers[str] = Workers("volumes", workers, self._sync_volume, clock=clock, chance=chance, metrics=metrics)
        self.view = View(caches.claims.store, caches.by_name, caches.classes.store, caches.pods.store, self._hands.taken)
        self._actions = Actions(self.view, caches, self._claims.queue.add)
        wakes = self._wakes = Wakes(self.view, caches.claims.store, self._claims.queue, self._volumes.queue)
        caches.claims.on_change(wakes.claim_changed)
        caches.volumes.on_change(wakes.volume_changed)
        caches.volumes.on_change(self._volume_gone)
        caches.classes.on_change(wakes.class_changed)
        caches.pods.on_change(wakes.pod_changed)
        self._metrics.watch(caches.claims.store, caches.volumes.store)

    async def run(self) -> None:
        """Binds until its queues are closed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run(), name="binder/claims")
            group.create_task(self._volumes.run(), name="binder/volumes")

    def close(self) -> None:
        self._claims.queue.close()
        self._volumes.queue.close()

    # -- claims

    async def _sync_claim(self, key: Key) -> None:
        absent = Absent()
        try:
            for _ in range(STEPS_MAX):
                known = await self._step_of_claim(key, absent)
                if known is None:
                    break
                absent = known
            else:
                self._claims.queue.retry(key)
                self._wakes.looked_at(key, failed=True)
                return
        except ApiError:
            self._wakes.looked_at(key, failed=True)
            raise
        if not self._hands.has_waiting(key):
            self._wakes.looked_at(key)

    async def _step_of_claim(self, key: Key, absent: Absent) -> Absent | None:
        """What is found absent, for the next decision; None when there is no more to decide at once."""
        decision = decide_claim(self.view, key, absent)  # no await between this and the hands
        claim = self.view.claims.get(key)
        log.info(4, "decided", PersistentVolumeClaim=str(key), because=str(decision.because))
        if claim is None:
            return None
        pv_name = next((action.pv_name for action in decision.actions if isinstance(action, Bind)), "")
        if pv_name and self._hands.is_held(pv_name):
            self._hands.wait(pv_name, key, functools.partial(self._claims.queue.add, key))
            return None
        try:
            if pv_name:
                with self._hands.hold(pv_name, key):
                    absent = await self._actions.on_claim(claim, decision)
            else:
                absent = await self._actions.on_claim(claim, decision)
        except Moved:
            return absent
        except ApiError as error:
            self._count_failure(decision, error, claim)
            raise
        self._told_of_claim(claim, decision)
        return absent if decision.again else None

    def _told_of_claim(self, claim: PersistentVolumeClaim, decision: Decision) -> None:
        key = key_of(claim)
        if any(isinstance(action, SetClass) for action in decision.actions):
            self._metrics.retroactive.inc()
        if decision.actions:
            log.info(2, "done", PersistentVolumeClaim=str(key), because=str(decision.because))
            if isinstance(decision.because, why.WaitsForProvisioner):
                self._metrics.began("provision", claim.metadata.uid, decision.because.provisioner, self._clock.now())
            elif isinstance(decision.because, why.Binding):
                self._metrics.ended("provision", claim.metadata.uid, self._clock.now())
        told = decision.because.event
        if told is not None and (not decision.quiet or self._announcer.owes(claim.metadata.uid)):
            sent = self._announcer.tell(reference_to(claim, "PersistentVolumeClaim"), told)
            self._claims.queue.add_after(key, REMIND_S if sent else CROWDED_S)
        elif told is None:
            self._announcer.forget(claim.metadata.uid)
        if decision.failed:
            self._claims.queue.retry(key)
        elif not decision.again:
            self._claims.queue.forget(key)

    def _count_failure(self, decision: Decision, error: ApiError, claim: PersistentVolumeClaim) -> None:
        if any(isinstance(action, SetClass) for action in decision.actions):
            self._metrics.retroactive.inc()
            self._metrics.retroactive_errors.inc()
        if isinstance(decision.because, why.WaitsForProvisioner):
            self._metrics.failed(decision.because.provisioner, "provision")
            told = why.Told("Warning", "ProvisioningFailed", f"Error saving claim: {error}")
            self._announcer.tell(reference_to(claim, "PersistentVolumeClaim"), told)

    # -- volumes

    async def _sync_volume(self, name: str) -> None:
        if self._hands.is_held(name):
            self._hands.wait(name, name, functools.partial(self._volumes.queue.add, name))
            return
        gone_uid = ""
        with self._hands.hold(name):
            for _ in range(STEPS_MAX):
                pv = self.view.volumes.get(name)
                decision = decide_volume(self.view, name, gone_uid)
                log.info(4, "decided", PersistentVolume=name, because=str(decision.because))
                if pv is None:
                    self._volumes.queue.forget(name)
                    return
                try:
                    gone_uid = await self._actions.on_volume(pv, decision)
                except Moved:
                    gone_uid = ""
                    continue
                self._told_of_volume(pv, decision)
                if not decision.again:
                    self._volumes.queue.forget(name)
                    return
        self._volumes.queue.retry(name)

    def _told_of_volume(self, pv: PersistentVolume, decision: Decision) -> None:
        because = decision.because
        if isinstance(because, why.ModesDiffer):
            assert pv.spec.claim_ref is not None
            self._tell_of_volume(pv, because.of_volume)
            claim = self.view.claims.get(Key(pv.spec.claim_ref.namespace, pv.spec.claim_ref.name))
            if claim is not None:
                self._events.event(reference_to(claim, "PersistentVolumeClaim"), *because.of_claim)
        elif because.event is not None and (not decision.quiet or self._announcer.owes(pv.metadata.uid)):
            self._tell_of_volume(pv, because.event)
        if decision.actions:
            log.info(2, "done", PersistentVolume=pv.metadata.name, because=str(because))
            provisioner = annotation(pv, PROVISIONED_BY)
            if isinstance(because, why.Released) and because.policy == DELETE and provisioner:
                self._metrics.began("delete", pv.metadata.uid, provisioner, self._clock.now())

    def _tell_of_volume(self, pv: PersistentVolume, told: why.Told) -> None:
        if not self._announcer.tell(reference_to(pv, "PersistentVolume"), told):
            self._volumes.queue.add_after(pv.metadata.name, CROWDED_S)

    def _volume_gone(self, change: Change[PersistentVolume]) -> None:
        if change.new is None and change.old is not None:
            self._metrics.ended("delete", change.old.metadata.uid, self._clock.now())
