"""Decides when the finalizer of a data source is removed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from mooring.api.meta import finalizers_of, is_deleting
from mooring.api.snapshot import VolumeSnapshot
from mooring.base.clock import Instant
from mooring.control.decision import Decision
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.source_protection import reasons as why
from mooring.sidecars.provisioner.source_protection.view import Origin, View

NOTHING_KNOWN: Final[Mapping[str, str]] = MappingProxyType({})


class NoteUnused(msgspec.Struct, frozen=True):
    """Remember since when nobody needs a finalizer of unknown origin. A decision without this note forgets it."""

    since: Instant


class LookUp(msgspec.Struct, frozen=True):
    """Read the driver of a content from the API server; then decide again."""

    content_name: str


class TakeOff(msgspec.Struct, frozen=True):
    """Remove the finalizer."""


Action: TypeAlias = NoteUnused | LookUp | TakeOff


def decide_origin(
    view: View, origin: Origin, now: Instant, drivers: Mapping[str, str] = NOTHING_KNOWN
) -> Decision[Action]:
    """The next step for one snapshot or claim that volumes are, or were, made from.

    drivers: of snapshot contents by name, as far as they have been looked up; "" for a content that does not exist.
    """
    return _decide_snapshot(view, origin, now, drivers) if origin.is_snapshot else _decide_claim(view, origin)


def _decide_claim(view: View, origin: Origin) -> Decision[Action]:
    claim = view.claims.get(origin.key)
    if claim is None or names.CLONE_FINALIZER not in finalizers_of(claim):
        return Decision(why.NotProtected())
    if not view.may_be_cloned_here(claim):
        return Decision(why.OfAnother())
    if not is_deleting(claim):
        return Decision(why.NotDeleted())
    users = view.users(origin)
    return Decision(why.InUse(users)) if users else _unused()


def _decide_snapshot(view: View, origin: Origin, now: Instant, drivers: Mapping[str, str]) -> Decision[Action]:
    snapshot = view.snapshots.get(origin.key)
    is_ours = origin in view.ours
    if not is_ours and (snapshot is None or names.SNAPSHOT_FINALIZER not in finalizers_of(snapshot)):
        return Decision(why.NotProtected())
    users = view.present_users(origin) if is_ours else view.users(origin)
    if users:
        return Decision(why.InUse(users))
    if is_ours:
        return _unused()
    assert snapshot is not None
    return _decide_stray(view, origin, snapshot, now, drivers)


def _decide_stray(
    view: View, origin: Origin, snapshot: VolumeSnapshot, now: Instant, drivers: Mapping[str, str]
) -> Decision[Action]:
    """No volume can be made any more of a snapshot that is being deleted and whose content is gone: nothing waits for
    it.
    """
    since = view.unused_since.get(origin, now)
    due = since + view.grace_s
    content_name = (snapshot.status and snapshot.status.bound_volume_snapshot_content_name) or ""
    is_content_gone = content_name in drivers and drivers[content_name] == ""
    if now < due and not is_content_gone:
        if is_deleting(snapshot) and content_name and content_name not in drivers:
            return Decision(why.LookingUp(content_name), (NoteUnused(since), LookUp(content_name)), again=True)
        return Decision(why.Stray(view.grace_s), (NoteUnused(since),), after_s=due - now)
    if content_name and content_name not in drivers:
        return Decision(why.LookingUp(content_name), (NoteUnused(since), LookUp(content_name)), again=True)
    driver_name = drivers.get(content_name, "")
    if driver_name not in ("", view.driver.name):  # its provisioner may know a user of it
        return Decision(why.OfAnother(), (NoteUnused(since),))
    return _unused(NoteUnused(since))


def _unused(*notes: NoteUnused) -> Decision[Action]:
    return Decision(why.Unused(), (*notes, TakeOff()), done="took the finalizer off")
