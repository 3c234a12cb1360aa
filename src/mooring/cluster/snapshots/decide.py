"""The snapshot controller's decisions: the next step for one snapshot, or for one group snapshot.

Pure: the view goes in, actions come out, carried out in order by `reconcile.py`. Nothing is tried again after a while:
each thing that can be missing is in a cache, and its arrival wakes the snapshot. A snapshot that was made once is never
made again, whatever became of its content: today's data are not those of its creation time.

A group becomes one content; when its driver has made the snapshots of all volumes, each becomes a snapshot and a
content, as if made alone. Each round writes what can be written by then: the snapshots, their contents (which name the
snapshots' uids), the contents' status, the group's status. So a restart goes on where the objects say. A ready group
makes lost ones again, since its driver has their snapshots.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshot
from mooring.api.meta import Key, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Class, Content, Row, Snapshot, class_name_of, ref_of, row_of
from mooring.api.snapshot_names import DELETE_POLICY, is_marked
from mooring.base.text import quoted
from mooring.cluster.snapshots import decision as d
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decide_deletion import decide_deletion
from mooring.cluster.snapshots.decide_protection import tell_forsaken
from mooring.cluster.snapshots.decision import Action, Failure
from mooring.cluster.snapshots.members import has_busy_group, joining, lost_members, missing_members
from mooring.cluster.snapshots.objects import (
    CantTell,
    Source,
    as_json,
    check_fit,
    content_for,
    copied,
    default_class,
    sources_of,
)
from mooring.cluster.snapshots.view import (
    BY_GROUP_HANDLE,
    View,
    bound_name,
    group_handle_of,
    is_dynamic,
    is_imported,
    is_of,
    is_part_of_group,
    is_ready,
    lacks_finalizer,
    snapshot_of,
    wanted_content,
    was_made,
)
from mooring.control.decision import Decision

Step: TypeAlias = Decision[Action]


def decide_snapshot(view: View, row: Row, key: Key, waited_s: float, lost_s: float | None = None) -> Step:
    """Decide about one snapshot, or group. waited_s, lost_s: as for `decide_deletion`."""
    snapshot: Snapshot | None = view.of(row).get(key)
    if snapshot is None:
        return Decision(why.Gone(str(key)), tell_forsaken(view, row, key))
    if is_deleting(snapshot):
        return decide_deletion(view, snapshot, waited_s, lost_s)
    if is_ready(snapshot):
        return _decide_ready(view, snapshot)
    refused = _refused(view, snapshot)
    if refused is not None:
        return refused
    if is_part_of_group(snapshot):
        return _decide_member(view, snapshot)
    content = view.content(row, wanted_content(snapshot))
    if content is not None:
        return _decide_bound(view, snapshot, content)
    if not is_dynamic(snapshot) or was_made(snapshot):
        return _missing(row, wanted_content(snapshot), _early(snapshot))
    return _decide_creation(view, snapshot)


def _refused(view: View, snapshot: Snapshot) -> Step | None:
    """The refusal of a class that does not exist, or of a source that is none; None for neither.

    Differs from snapshot-controller: a snapshot that is ready needs no class.
    """
    row, name = row_of(snapshot), class_name_of(snapshot)
    if name and view.class_named(row, name) is None:
        resource = f"{row.classes.name.lower()}.{row.classes.group}"
        text = f'{_failed(row)} to get {row.noun} class with error {resource} "{name}" not found'
        # Our ClusterRole gives no right to get classes of groups.
        look = (d.LookUp(row.classes, Key("", name)),) if row is SINGLES else ()
        return Decision(why.ClassMissing(name), look, Failure(f"Get{row.title}ClassFailed", text, unready=False))
    if not is_part_of_group(snapshot) and _has_source(snapshot) != is_dynamic(snapshot):
        text = f"Exactly one of {_fields_of_sources(row)} should be specified"
        return Decision(why.BadSource(), problem=Failure(f"{row.title}ValidationError", text))
    return None


def _has_source(snapshot: Snapshot) -> bool:
    """True where the snapshot names a claim, or the group selects claims, to be made from."""
    if isinstance(snapshot, VolumeGroupSnapshot):
        return snapshot.spec.source.selector is not None
    return bool(snapshot.spec.source.persistent_volume_claim_name)


def _fields_of_sources(row: Row) -> str:
    if row is SINGLES:
        return "PersistentVolumeClaimName and VolumeSnapshotContentName"
    return "Selector and VolumeGroupSnapshotContentName"


def _missing(row: Row, name: str, before: tuple[Action, ...] = ()) -> Step:
    look = d.LookUp(row.contents, Key("", name))
    problem = Failure(f"{row.title}ContentMissing", f"{row.contents.name} is missing")
    return Decision(why.ContentMissing(name), (look, *before) if name else (), problem)


def _decide_ready(view: View, snapshot: Snapshot) -> Step:
    row, name = row_of(snapshot), bound_name(snapshot)
    content = view.content(row, name)
    if content is None:
        return _missing(row, name, _early(snapshot))
    if not is_of(content, snapshot):
        if row is SINGLES and not is_part_of_group(snapshot):
            return _misbound(content)
        text = f"{row.contents.name} is not bound to the {row.snapshots.name} correctly"
        return Decision(why.ContentMisbound(name), problem=Failure(f"{row.title}Misbound", text))
    actions = (*_protection(snapshot, content.spec.deletion_policy), *_revival(content))
    actions = (*actions, *joining(view, snapshot))
    if row is GROUPS and (members := lost_members(view, snapshot, content)):
        return Decision(
            why.MakingMembers(), (*actions, *members), again=True, done="made snapshots of its volumes again"
        )
    assert snapshot.status is not None
    said = content.status
    if snapshot.status.error is not None and said is not None and said.ready_to_use is True and said.error is None:
        return _copy(view, snapshot, content, actions)  # an error whose write was not answered, before it got ready
    return Decision(why.Ready(), actions)


def _decide_member(view: View, snapshot: Snapshot) -> Step:
    """The step for a member: its group's own reconcile makes and binds it."""
    name = bound_name(snapshot) or wanted_content(snapshot)
    content = view.content(SINGLES, name)
    if content is not None and is_of(content, snapshot):
        return _copy(view, snapshot, content, _protection(snapshot, content.spec.deletion_policy))
    if has_busy_group(view, snapshot):
        return Decision(why.MemberUnbound())
    return _missing(SINGLES, name) if content is None else _misbound(content)


# -- a snapshot with a content


def _decide_bound(view: View, snapshot: Snapshot, content: Content) -> Step:
    """The step where a content of the name that the snapshot wants exists."""
    row, name, uid = row_of(snapshot), content.metadata.name, ref_of(content).uid
    if is_dynamic(snapshot) == is_imported(content):
        return _mismatch(snapshot, name)
    unbound = not uid and not is_dynamic(snapshot)
    if snapshot_of(content) != key_of(snapshot) or (uid != snapshot.metadata.uid and not unbound):
        return _misbound(content)
    foreign = _foreign_class(view, snapshot, content)
    if foreign is not None:
        return foreign
    protection = _protection(snapshot, content.spec.deletion_policy)
    if unbound and is_deleting(content):  # finalizers can't be added any more
        return _going(row, name)
    class_name = (
        "" if is_dynamic(snapshot) or class_name_of(content) or is_deleting(content) else class_name_of(snapshot)
    )
    if unbound or class_name or (row is GROUPS and lacks_finalizer(content)):
        return Decision(
            why.Binding(name), (*protection, d.BindContent(content, snapshot.metadata.uid, class_name)), again=True
        )
    protection = (*protection, *_revival(content))
    members = missing_members(view, snapshot, content) if row is GROUPS else ()
    if members:
        return Decision(why.MakingMembers(), (*protection, *members), again=True, done="made snapshots of its volumes")
    return _copy(view, snapshot, content, protection)


def _protection(snapshot: Snapshot, policy: str, class_name: str = "") -> tuple[Action, ...]:
    """Add the finalizers that the snapshot lacks, in one write: the second only where the content goes with it."""
    row, held = row_of(snapshot), finalizers_of(snapshot)
    wanted = dict.fromkeys(
        (row.source_finalizer, row.bound_finalizer) if policy == DELETE_POLICY else (row.source_finalizer,)
    )
    lacking = tuple(one for one in wanted if one not in held)
    return (d.Protect(snapshot, lacking, class_name),) if lacking or class_name else ()


def _early(snapshot: Snapshot) -> tuple[Action, ...]:
    """The actions for a snapshot that has no content yet, or no more: a group is protected with its content."""
    return _protection(snapshot, "") if row_of(snapshot) is SINGLES else ()


def _revival(content: Content) -> tuple[Action, ...]:
    """Take the mark of a deletion off a content that is bound to a living snapshot: a former snapshot left it."""
    return (d.UnmarkDeleted(content),) if is_marked(content, row_of(content).being_deleted) else ()


def _foreign_class(view: View, snapshot: Snapshot, content: Content) -> Step | None:
    """The refusal of a content whose class is another driver's, since its driver would never look at it. A bound
    content is protected, and goes with the snapshot.
    """
    row, name, driver = row_of(snapshot), content.metadata.name, content.spec.driver
    class_name = class_name_of(content) or class_name_of(snapshot)
    named = view.class_named(row, class_name)
    if named is None or named.driver == driver:
        return None
    problem = (
        f'class "{class_name}" is of driver "{named.driver}", and {row.contents.name} [{name}] of driver "{driver}"'
    )
    protection = _protection(snapshot, content.spec.deletion_policy) if is_of(content, snapshot) else ()
    return Decision(
        why.ContentMismatch(name, problem), protection, Failure(f"{row.title}BindFailed", f"{_bind_text(row)}{problem}")
    )


def _bind_text(row: Row) -> str:
    return "Snapshot failed to bind VolumeSnapshotContent, " if row is SINGLES else ""


def _failed(row: Row) -> str:
    return "Failed" if row is SINGLES else "failed"


def _going(row: Row, name: str) -> Step:
    text = f"{_bind_text(row)}{row.contents.name} [{name}] is being deleted"
    return Decision(why.ContentGoing(name), problem=Failure(f"{row.title}BindFailed", text))


def _mismatch(snapshot: Snapshot, name: str) -> Step:
    row, kinds = row_of(snapshot), ("dynamically provisioned", "pre-provisioned")
    wanted, found = kinds if is_dynamic(snapshot) else reversed(kinds)
    kind = row.contents.name
    text = f"{kind} {name} is {found}" if is_dynamic(snapshot) else f"{kind} is {found}"
    text = f"{text} while expecting a {wanted} one"
    wrong = (
        f"snapshot {key_of(snapshot)} expects a {wanted} {kind} {name} but gets a {found} one"
        if row is SINGLES
        else text
    )
    return Decision(
        why.ContentMismatch(name, text), problem=_also(row, Failure(f"{row.title}ContentMismatch", text), wrong)
    )


def _misbound(content: Content) -> Step:
    row, name = row_of(content), content.metadata.name
    text = f"{row.contents.name} [{name}] is bound to a different {row.noun}"
    return Decision(why.ContentMisbound(name), problem=_also(row, Failure(f"{row.title}ContentMisbound", text), text))


def _also(row: Row, failure: Failure, text: str) -> Failure:
    """The failure with a second Warning, under the reason of the step that it stops."""
    return msgspec.structs.replace(
        failure, also=(f"{row.title}FinalizerError", f"Failed to check and update {row.noun}: {text}")
    )


# -- a dynamic snapshot without content


def _decide_creation(view: View, snapshot: Snapshot) -> Step:
    row = row_of(snapshot)
    try:
        sources = sources_of(view, snapshot)
    except CantTell as error:  # the class of a single snapshot is chosen first
        return _cant_create(snapshot, error) if class_name_of(snapshot) or row is GROUPS else _cant_choose(row, error)
    try:
        found, chosen = _class_for(view, snapshot, sources[0])
    except CantTell as error:
        return _cant_choose(row, error)
    try:
        check_fit(sources, found)
        body = content_for(view, snapshot, sources, found)
    except CantTell as error:
        return _cant_create(
            snapshot, error, also=None if row is SINGLES else (f"Create{row.title}ContentFailed", str(error))
        )
    actions = (
        *_protection(snapshot, found.deletion_policy, chosen),
        *(d.HoldClaim(source.claim) for source in sources),
        d.CreateContent(body),
        d.Tell(
            snapshot,
            "Normal",
            f"Creating{row.title}",
            f"Waiting for a {row.noun} {key_of(snapshot)} to be created by the CSI driver.",
        ),
    )
    return Decision(why.Creating(body["metadata"]["name"]), actions, again=True, done="made its content")


def _class_for(view: View, snapshot: Snapshot, source: Source) -> tuple[Class, str]:
    """The class, and its name where it is the default one and has to be written to the snapshot. Raises CantTell."""
    named = view.class_named(row_of(snapshot), class_name_of(snapshot))
    if named is not None:
        return named, ""
    chosen = default_class(view, snapshot, source.driver)
    return chosen, chosen.metadata.name


def _cant_choose(row: Row, error: CantTell) -> Step:
    text = f"Failed to set default {row.noun} class with error {error}"
    return Decision(
        why.NoDefaultClass(str(error)), error.look_up, Failure(f"SetDefault{row.title}ClassFailed", text, unready=False)
    )


def _cant_create(snapshot: Snapshot, error: CantTell, also: tuple[str, str] | None = None) -> Step:
    row = row_of(snapshot)
    failure = Failure(
        f"{row.title}ContentCreationFailed",
        f"{_failed(row)} to create {row.noun} content with error {error}",
        also=also,
    )
    return Decision(why.CantCreate(str(error)), (*error.look_up, *_early(snapshot)), failure)


# -- the status


def _copy(view: View, snapshot: Snapshot, content: Content, before: tuple[Action, ...]) -> Step:
    group_name = ""
    handle = group_handle_of(content) if view.has_groups and isinstance(snapshot, VolumeSnapshot) else ""
    if handle:
        group_content = next(iter(view.group_contents.by(BY_GROUP_HANDLE, handle)), None)
        if group_content is None:
            return Decision(
                why.GroupContentMissing(handle), before, None if is_part_of_group(snapshot) else _no_group(handle)
            )
        group_name = ref_of(group_content).name
    old, new, because = snapshot.status, copied(snapshot, content, group_name), why.Copying(content.metadata.name)
    if new == old:
        return Decision(because, before)
    row, news = row_of(snapshot), list[tuple[str, str]]()
    if new.creation_time is not None and not was_made(snapshot):
        news.append(
            (f"{row.title}Created", f"{row.title} {key_of(snapshot)} was successfully created by the CSI driver.")
        )
    if new.ready_to_use is True and (old is None or old.ready_to_use is not True):
        news.append((f"{row.title}Ready", f"{row.title} {key_of(snapshot)} is ready to use."))
    tells = (d.Tell(snapshot, "Normal", reason, text) for reason, text in news)
    save, done = d.SaveStatus(snapshot, as_json(new) or {}), "copied the status of its content"
    return Decision(because, (*before, save, *tells), again=bool(group_name), done=done)


def _no_group(handle: str) -> Failure:
    """The failure of an import. A member's group is on its way."""
    text = (
        f"Snapshot status update failed, there is no VolumeGroupSnapshotContent of the group {quoted(handle)} that "
        "it is of"
    )
    return Failure("SnapshotStatusUpdateFailed", text, saved=False)
