"""When does the finalizer leave a data source? Pure."""

from __future__ import annotations

import dataclasses

from mooring.api.meta import finalizers_of, is_deleting
from mooring.base.clock import Instant
from mooring.controllers.provisioner import names
from mooring.controllers.provisioner.source_protection import reasons as why
from mooring.controllers.provisioner.source_protection.view import Origin, View


@dataclasses.dataclass(frozen=True, slots=True)
class LetGo:
    """Take the finalizer off."""


@dataclasses.dataclass(frozen=True, slots=True)
class LetGoIfOurDrivers:
    """The same, unless the snapshot belongs to another driver, whose provisioner may know a user of it. content_name: "" for none."""

    content_name: str


Action = LetGo | LetGoIfOurDrivers


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """wake_at: when to look again; None: a change will say."""

    because: why.Because
    actions: tuple[Action, ...] = ()
    wake_at: Instant | None = None


def decide_origin(view: View, origin: Origin, now: Instant) -> Decision:
    """The next step for one snapshot or claim that volumes are, or were, made from."""
    return _decide_snapshot(view, origin, now) if origin.is_snapshot else _decide_claim(view, origin)


def _decide_claim(view: View, origin: Origin) -> Decision:
    claim = view.claims.get(origin.key)
    if claim is None or names.CLONE_FINALIZER not in finalizers_of(claim):
        return Decision(why.NotHeld())
    if not view.may_be_cloned_here(claim):
        return Decision(why.OfAnother())
    if not is_deleting(claim):
        return Decision(why.NotDeleted())
    users = view.users(origin)
    return Decision(why.InUse(users)) if users else Decision(why.Unused(), (LetGo(),))


def _decide_snapshot(view: View, origin: Origin, now: Instant) -> Decision:
    snapshot = view.snapshots.get(origin.key)
    is_ours = origin in view.ours
    if not is_ours and (snapshot is None or names.SNAPSHOT_FINALIZER not in finalizers_of(snapshot)):
        return Decision(why.NotHeld())
    users = view.users(origin)
    if users:
        return Decision(why.InUse(users))
    if is_ours:
        return Decision(why.Unused(), (LetGo(),))
    due = view.unused_since.get(origin, now) + view.grace_s
    if now < due:
        return Decision(why.Stray(view.grace_s), wake_at=due)
    assert snapshot is not None
    content = snapshot.status.bound_volume_snapshot_content_name if snapshot.status else None
    return Decision(why.Unused(), (LetGoIfOurDrivers(content or ""),))
