"""The changes that wake claims.

Our own writes wake nobody, so that the report of a failure does not defeat its back-off; but if the answer to a write shows a change by
others, that wakes claims as its event would, since the event will bring nothing new any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.api.storage import VolumeAttributesClass
from mooring.control.decision import rests
from mooring.control.slim import changed
from mooring.kube.cache.informer import Cause, Change
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.claim_controller import ClaimController
from mooring.sidecars.resizer.decision import volume_changed
from mooring.sidecars.resizer.view import BY_CLASS, BY_VOLUME, View


def growth_facts(claim: PersistentVolumeClaim) -> tuple[Any, ...]:
    """The parts of a claim whose change calls for a look at its growth. Conditions are none: they are for people."""
    status = claim.status
    requests = claim.spec.resources.requests
    sizes = (requests, status.capacity, status.allocated_resources, status.allocated_resource_statuses)
    return (
        claim.spec.volume_name,
        status.phase,
        annotation(claim, names.RESIZER),
        *((size or {}).get(names.STORAGE) for size in sizes),
    )


def class_facts(claim: PersistentVolumeClaim) -> tuple[Any, ...]:
    """The same, for its class."""
    spec, status = claim.spec, claim.status
    classes = (
        spec.volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        status.modify_volume_status,
    )
    return (spec.volume_name, status.phase, *classes)


def node_has_acted(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """True for what a node writes of its part of a growth; we write that only after a call that worked."""
    sizes, steps = (
        [(part or {}).get(names.STORAGE) for part in parts]
        for parts in zip(_progress(old), _progress(new), strict=True)
    )
    return sizes[0] != sizes[1] or (steps[0] != steps[1] and steps[1] in names.NODE_STEPS)


def _progress(claim: PersistentVolumeClaim) -> tuple[Any, Any]:
    return claim.status.capacity, claim.status.allocated_resource_statuses


def nobody_has_acted(_old: PersistentVolumeClaim, _new: PersistentVolumeClaim) -> bool:
    """The status of a class is written by us alone."""
    return False


class EventHandlers:
    """Handlers for the caches of one controller. facts: the parts of a claim that it reads.

    others_have_acted: whether the answer to a write of ours, or of the controller beside this one, shows a change of the status by others.
    """

    def __init__(
        self,
        view: View,
        claims: ClaimController,
        facts: Callable[[PersistentVolumeClaim], tuple[Any, ...]],
        others_have_acted: Callable[[PersistentVolumeClaim, PersistentVolumeClaim], bool] = nobody_has_acted,
    ) -> None:
        self._view, self._claims, self._facts, self._others_have_acted = view, claims, facts, others_have_acted

    def look_at_all(self) -> None:
        """A term begins."""
        controller = self._claims.controller
        controller.add_later(controller.newest_due(self._view.claims, key_of, rests(self._claims.decide)))

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterable[Key]:
        if change.new is None:
            self._claims.forget(change.object)
            return ()
        return (change.key,) if self._is_news(change.old, change.new, change.cause) else ()

    def _is_news(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim, cause: Cause) -> bool:
        if old is None or cause is Cause.RESYNC:
            return True
        if cause is Cause.OWN_WRITE:
            return (old.spec, old.status.phase) != (new.spec, new.status.phase) or self._others_have_acted(old, new)
        return self._facts(old) != self._facts(new)

    def volume_changed(self, change: Change[PersistentVolume]) -> Iterable[Key]:
        """A volume that came, or is not what it was, may heal a failure of its claim; it also may have become the claim's."""
        if change.cause in (Cause.OWN_WRITE, Cause.RESYNC) or change.new is None or not changed(change.old, change.new):
            return ()
        self._claims.controller.tell(volume_changed(change.key.name))
        keys = tuple(key_of(claim) for claim in self._view.claims.by(BY_VOLUME, change.key.name))
        for key in keys:
            self._claims.hurry(key)
        return keys

    def class_changed(self, change: Change[VolumeAttributesClass]) -> None:
        if change.new is not None and changed(change.old, change.new):
            for claim in self._view.claims.by(BY_CLASS, change.key.name):
                self._claims.hurry(key_of(claim))
                self._claims.controller.add(key_of(claim))

    def retry_now(self) -> None:
        """Any failure may have been due to something that is over."""
        for claim in self._view.claims.values():
            self._claims.hurry(key_of(claim))
