"""Decides when the finalizer of a data source is removed. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mooring.api.meta import finalizers_of, is_deleting
from mooring.api.snapshot import VolumeSnapshot
from mooring.base.clock import Instant
from mooring.control.result import Because
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.source_protection import reasons as why
from mooring.sidecars.provisioner.source_protection.view import Origin, View

NOTHING_KNOWN: Final[Mapping[str, str]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """removes: the finalizer is removed. look_up: the content whose driver has to be known first, "" for none.

    unused_since: of a finalizer of unknown origin that nobody needs, to be remembered; None to forget it.
    wake_at: when to look again; None: a change will say.
    """

    because: Because
    removes: bool = False
    look_up: str = ""
    unused_since: Instant | None = None
    wake_at: Instant | None = None


def decide_origin(view: View, origin: Origin, now: Instant, drivers: Mapping[str, str] = NOTHING_KNOWN) -> Decision:
    """The next step for one snapshot or claim that volumes are, or were, made from.

    drivers: of snapshot contents by name, as far as they have been looked up; "" for a content that does not exist.
    """
    return _decide_snapshot(view, origin, now, drivers) if origin.is_snapshot else _decide_claim(view, origin)


def _decide_claim(view: View, origin: Origin) -> Decision:
    claim = view.claims.get(origin.key)
    if claim is None or names.CLONE_FINALIZER not in finalizers_of(claim):
        return Decision(why.NotProtected())
    if not view.may_be_cloned_here(claim):
        return Decision(why.OfAnother())
    if not is_deleting(claim):
        return Decision(why.NotDeleted())
    users = view.users(origin)
    return Decision(why.InUse(users)) if users else Decision(why.Unused(), removes=True)


def _decide_snapshot(view: View, origin: Origin, now: Instant, drivers: Mapping[str, str]) -> Decision:
    snapshot = view.snapshots.get(origin.key)
    is_ours = origin in view.ours
    if not is_ours and (snapshot is None or names.SNAPSHOT_FINALIZER not in finalizers_of(snapshot)):
        return Decision(why.NotProtected())
    users = view.present_users(origin) if is_ours else view.users(origin)
    if users:
        return Decision(why.InUse(users))
    if is_ours:
        return Decision(why.Unused(), removes=True)
    assert snapshot is not None
    return _decide_stray(view, origin, snapshot, now, drivers)


def _decide_stray(view: View, origin: Origin, snapshot: VolumeSnapshot, now: Instant, drivers: Mapping[str, str]) -> Decision:
    """No volume can be made any more of a snapshot that is being deleted and whose content is gone: nothing waits for it."""
    since = view.unused_since.get(origin, now)
    due = since + view.grace_s
    content_name = (snapshot.status and snapshot.status.bound_volume_snapshot_content_name) or ""
    is_content_gone = content_name in drivers and drivers[content_name] == ""
    if now < due and not is_content_gone:
        if is_deleting(snapshot) and content_name and content_name not in drivers:
            return Decision(why.LookingUp(content_name), look_up=content_name, unused_since=since)
        return Decision(why.Stray(view.grace_s), unused_since=since, wake_at=due)
    if content_name and content_name not in drivers:
        return Decision(why.LookingUp(content_name), look_up=content_name, unused_since=since)
    driver_name = drivers.get(content_name, "")
    if driver_name not in ("", view.driver.name):  # its provisioner may know a user of it
        return Decision(why.OfAnother(), unused_since=since)
    return Decision(why.Unused(), removes=True, unused_since=since)
