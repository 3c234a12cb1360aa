"""The changes that wake claims and volumes, found by indexes. No periodic rounds."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence

from mooring.api.binding import claim_key, claim_uid_in, claims_of, is_delayed, is_finished, is_fully_bound
from mooring.api.classes import volume_class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.pods import Pod
from mooring.api.storage import StorageClass
from mooring.base.clock import in_turns
from mooring.cluster.binder.available_volumes import is_free
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.match import could_take
from mooring.cluster.binder.view import BY_CLAIM, BY_CLASS, BY_OWN, BY_VOLUME, UNSET, View, is_default
from mooring.cluster.binder.volumes.decide import decide_claim, decide_volume
from mooring.cluster.binder.volumes.waiting_claims import WaitingClaims, is_looking
from mooring.control.controller import Controller
from mooring.control.decision import rests
from mooring.control.slim import changed
from mooring.kube.cache.informer import Change
from mooring.kube.cache.reader import Reader


class Offers:
    """Free volumes offered to claims, one at a time, since one can have it: the claim that has waited longest looks
    first. It may take another one that fits it better.

        a claim                        is offered one   its step goes well   its step fails   it is gone
        waits                          was offered      waits, or has one    away             -
        was offered a volume           -                waits, or has one*   away*            -*
        away (its last step failed)    -                waits, or has one    away             -

    *: if the volume is free still, the next claim is offered it; not where the step has gone well and the claim waits
    all the same, for it would be the next one. A step that goes on, with another step or when a volume is unlocked,
    changes nothing here.
    """

    def __init__(self, view: View, claims: Reader[PersistentVolumeClaim], controller: Controller[Key]) -> None:
        self._view, self._claims, self._controller = view, claims, controller
        self._waiting = WaitingClaims()
        self._offered: dict[Key, str] = {}

    async def look_at_all(self) -> Sequence[Key]:
        """A term begins: gives the claims that look for a volume, the oldest first."""
        looking = sorted((claim for claim in self._claims.values() if is_looking(claim)), key=_age)
        keys = [key_of(claim) for claim in looking]
        async for key in in_turns(keys):
            self._waiting.move(key, self._claims.get(key))
        return keys

    def claim_changed(self, key: Key, claim: PersistentVolumeClaim | None) -> None:
        """claim: as it is now, None for one that is gone."""
        self._waiting.move(key, claim)
        if claim is None and key not in self._offered:
            self._waiting.back(key)  # another of that name has not failed

    def offer(self, pv: PersistentVolume) -> None:
        """Wakes the first claim that would take this free volume, unless it finds a better one."""
        if is_delayed(self._view.storage_class(volume_class_of(pv))):
            return
        key = self._waiting.first(pv, lambda key: self._would_take(key, pv))
        if key is not None:
            self._offered[key] = pv.metadata.name
            self._waiting.send_away(key)
            self._controller.add(key)

    def _would_take(self, key: Key, pv: PersistentVolume) -> bool:
        """Ask the cache: while our own write to the claim is under way, the waiting claims are behind it."""
        claim = self._claims.get(key)
        return claim is not None and is_looking(claim) and could_take(claim, pv)

    @contextlib.contextmanager
    def reconciling(self, key: Key) -> Iterator[Turn]:
        """Run a step of a claim: a volume that was offered to the claim and that it did not take is offered to the next
        one.
        """
        turn = Turn()
        try:
            yield turn
        finally:
            if not turn.continues:
                self._end(key, failed=turn.failed)

    def _end(self, key: Key, *, failed: bool) -> None:
        pv = self._view.volumes.get(self._offered.pop(key, ""))
        claim = self._claims.get(key)
        if failed and claim is not None:
            self._waiting.send_away(key)
        if pv is not None and is_free(pv) and (failed or claim is None or claim.spec.volume_name):
            self.offer(pv)  # to the next one: this one is away, or looks for none
        if not failed or claim is None:
            self._waiting.back(key)


class Turn:
    """One claim's step. It has failed unless is_over() was called, or goes_on(): with the next step, or when its volume
    is unlocked.

    A step that turns out stale has failed, too: the claim decides anew before any other that the volume is offered to.
    """

    def __init__(self) -> None:
        self.failed, self.continues = True, False

    def is_over(self) -> None:
        self.failed = False

    def goes_on(self) -> None:
        self.continues = True


class BindingEventHandlers:
    """Handlers for the caches."""

    def __init__(
        self,
        view: View,
        caches: BindingCaches,
        claim_queue: Controller[Key],
        volume_queue: Controller[str],
        offers: Offers,
    ) -> None:
        self._view, self._claims, self._volumes = view, caches.claims.store, caches.volumes.store
        self._claim_queue, self._volume_queue, self._offers = claim_queue, volume_queue, offers
        self._has_looked = False  # before the first look not all waiting claims are known, and each of them will look

    async def look_at_all(self) -> None:
        """A term begins: each claim and each volume is looked at, and first the claims that look for a volume."""
        looking = await self._offers.look_at_all()
        self._has_looked = True
        claims, volumes, view = self._claim_queue, self._volume_queue, self._view
        bound, served = rests(functools.partial(decide_claim, view)), rests(functools.partial(decide_volume, view))
        others = claims.newest_due(self._claims, lambda claim: None if is_looking(claim) else key_of(claim), bound)
        claims.add_later(itertools.chain(looking, others))
        volumes.add_later(volumes.newest_due(self._volumes, lambda pv: pv.metadata.name, served))

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if not changed(change.old, change.new):
            return
        key = change.key
        self._offers.claim_changed(key, change.new)
        if change.new is None:
            self._claim_queue.forget(key)  # another of that name has no failures
        self._claim_queue.add(key)
        for claim in (change.old, change.new):
            if claim is not None and claim.spec.volume_name:
                self._volume_queue.add(claim.spec.volume_name)
                self._look_again(BY_OWN, claim_uid_in(claim.spec.volume_name))  # it named another claim's volume
        for pv in self._view.volumes.by(BY_CLAIM, str(key)):
            self._volume_queue.add(pv.metadata.name)

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        if not changed(change.old, change.new):
            return
        self._volume_queue.add(change.key.name)
        for pv in (change.old, change.new):
            if pv is not None and pv.spec.claim_ref is not None:
                self._claim_queue.add(claim_key(pv.spec.claim_ref))
        self._look_again(BY_VOLUME, change.key.name)
        self._look_again(BY_OWN, claim_uid_in(change.key.name))
        if self._has_looked and change.new is not None and is_free(change.new):
            self._offers.offer(change.new)

    def _look_again(self, index: str, value: str) -> None:
        for claim in self._claims.by(index, value):
            self._claim_queue.add(key_of(claim))

    def class_changed(self, change: Change[StorageClass]) -> Iterator[Key]:
        if changed(change.old, change.new):
            for one in (change.old, change.new):
                if one is not None:
                    yield from self._claims_of(one.metadata.name)
                    if is_default(one):
                        yield from self._claims_of(UNSET)

    def _claims_of(self, class_name: str) -> Iterator[Key]:
        return map(key_of, self._claims.by(BY_CLASS, class_name))

    def pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        """The event of a claim that waits for its first pod names the pod."""
        if change.old is not None and change.new is not None and _same_to_claims(change.old, change.new):
            return
        for pod in (change.old, change.new):
            for key in claims_of(pod) if pod is not None else ():
                claim = self._claims.get(key)
                if claim is not None and not is_fully_bound(claim):
                    yield key


def _age(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.uid


def _same_to_claims(old: Pod, new: Pod) -> bool:
    return (old.spec.node_name, is_finished(old), old.metadata.deletion_timestamp) == (
        new.spec.node_name,
        is_finished(new),
        new.metadata.deletion_timestamp,
    )
