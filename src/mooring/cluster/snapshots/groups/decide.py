"""The snapshot controller's decisions about one group snapshot. Pure.

A group becomes one content; when its driver has made the snapshots of all volumes, each becomes a snapshot and a content, as if made alone.
Each round writes what can be written by then: the snapshots, their contents (which name the snapshots' uids), the contents' status, the
group's status. So a restart goes on where the objects say.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from mooring.api.group_snapshot import (
    GROUP_SNAPSHOT_CONTENTS,
    GROUP_SNAPSHOTS,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
    VolumeGroupSnapshotStatus,
)
from mooring.api.matching import selects
from mooring.api.meta import Key, annotation, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import (
    GROUP_BEING_DELETED,
    GROUP_CONTENT_FINALIZER,
    GROUP_DEFAULT_CLASS,
    GROUP_FINALIZER,
    is_marked,
    member_content_name,
)
from mooring.cluster.snapshots.content import CantTell, Source, bound_volume, check_stays
from mooring.cluster.snapshots.decision import Failure, HoldClaim, Tell
from mooring.cluster.snapshots.forsaken import tell_forsaken_of_group
from mooring.cluster.snapshots.groups import reasons as why
from mooring.cluster.snapshots.groups.decide_deletion import decide_deletion, points_back
from mooring.cluster.snapshots.groups.decision import Action, Create, Decision, Write
from mooring.cluster.snapshots.groups.objects import group_content, member, member_content, member_key, member_status
from mooring.cluster.snapshots.view import BY_NAMESPACE, View, wanted_group_content
from mooring.control.object_writes import addition, annotate_as_judged, as_judged
from mooring.kube.cluster import Patch
from mooring.kube.patch import add, json_patch, set_fields

CREATION_FAILED = "GroupSnapshotContentCreationFailed"
CREATION_TEXT = "failed to create group snapshot content with error "
OBJECT_FAILED = "CreateGroupSnapshotContentFailed"
_OBJECT_TEXT = "Error creating volume group snapshot content object for group snapshot "
_STATUS_FAILED = "GroupSnapshotStatusUpdateFailed"
CONTENT_MISSING = "GroupSnapshotContentMissing"
MISSING = "VolumeGroupSnapshotContent is missing"
DYNAMIC = "VolumeGroupSnapshotContent is dynamically provisioned while expecting a pre-provisioned one"
STATIC = "is pre-provisioned while expecting a dynamically provisioned one"
BOTH_OR_NONE = "Exactly one of Selector and VolumeGroupSnapshotContentName should be specified"


def decide_group(view: View, key: Key, waited_s: float = 0.0, lost_s: float | None = None) -> Decision:
    """The next step for one group snapshot. waited_s: of one that is to go, since this process saw that. lost_s: of such a one, how long a
    write that gives it a content may still be carried out, None where none was lost.
    """
    group = view.groups.get(key)
    if group is None:
        return Decision(why.Gone(str(key)), tell_forsaken_of_group(view, key))
    if is_deleting(group):
        return decide_deletion(view, group, waited_s, lost_s)
    if _is_ready(group):
        return _decide_ready(view, group)
    source = group.spec.source
    is_static = bool(source.volume_group_snapshot_content_name)
    if (source.selector is not None) == is_static:
        return _cant("GroupSnapshotValidationError", BOTH_OR_NONE)
    class_name = group.spec.volume_group_snapshot_class_name
    if class_name and view.group_classes.get(Key("", class_name)) is None:
        text = f'volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "{class_name}" not found'
        return _cant("GetGroupSnapshotClassFailed", f"failed to get group snapshot class with error {text}", unready=False)
    content = view.group_content(wanted_group_content(group))
    if content is None:
        return _cant(CONTENT_MISSING, MISSING) if is_static or _was_made(group) else _decide_creation(view, group)
    return _decide_bound(view, group, content, is_static=is_static)


def _is_ready(group: VolumeGroupSnapshot) -> bool:
    return group.status is not None and group.status.ready_to_use is True


def _was_made(group: VolumeGroupSnapshot) -> bool:
    return group.status is not None and group.status.creation_time is not None


def _decide_ready(view: View, group: VolumeGroupSnapshot) -> Decision:
    """It is looked at whether its content is still there. A group that was made once is never made again."""
    bound = group.status.bound_volume_group_snapshot_content_name if group.status else None
    content = view.group_content(bound or wanted_group_content(group))
    if content is None:
        return _cant(CONTENT_MISSING, MISSING)
    if not points_back(content, group):
        return _cant("GroupSnapshotMisbound", "VolumeGroupSnapshotContent is not bound to the VolumeGroupSnapshot correctly")
    return Decision(why.Ready(), _revival(content))


def _revival(content: VolumeGroupSnapshotContent) -> tuple[Action, ...]:
    """The mark of a deletion goes from a content that is bound to a living group: it is of one that was bound to it before."""
    if not is_marked(content, GROUP_BEING_DELETED):
        return ()
    patch = annotate_as_judged(content, GROUP_BEING_DELETED, None)
    return (Write(GROUP_SNAPSHOT_CONTENTS, content, patch, "GroupSnapshotBindFailed"),)


def _cant(event: str, text: str, *, unready: bool = True, also: tuple[str, str] | None = None) -> Decision:
    return Decision(why.CantGo(text), failure=Failure(event, text, unready=unready, also=also))


def _also(decision: Decision) -> Decision:
    """The same once more, under the reason of the step that it stops."""
    assert decision.failure is not None
    also = ("GroupSnapshotFinalizerError", f"Failed to check and update group snapshot: {decision.failure.error}")
    return dataclasses.replace(decision, failure=dataclasses.replace(decision.failure, also=also))


def _protection(group: VolumeGroupSnapshot, class_name: str = "") -> tuple[Action, ...]:
    lacking = () if GROUP_FINALIZER in finalizers_of(group) else (GROUP_FINALIZER,)
    if not lacking and not class_name:
        return ()
    chosen = [add("/spec/volumeGroupSnapshotClassName", class_name)] if class_name else []
    patch = json_patch([*addition(group, lacking), *chosen])
    return (Write(GROUP_SNAPSHOTS, group, patch, "GroupSnapshotFinalizerError"),)


# -- the content


def _decide_creation(view: View, group: VolumeGroupSnapshot) -> Decision:
    try:
        sources = _sources(view, group)
    except CantTell as error:
        return _cant(CREATION_FAILED, f"{CREATION_TEXT}{error}")
    driver = sources[0].driver
    try:
        found, chosen = _class_for(view, group, driver)
    except CantTell as error:
        return _cant("SetDefaultGroupSnapshotClassFailed", f"Failed to set default group snapshot class with error {error}", unready=False)
    try:
        _check_fit(sources, found)
        body = group_content(group, found, [source.volume_handle for source in sources])
    except CantTell as error:
        return _cant(CREATION_FAILED, f"{CREATION_TEXT}{error}", also=(OBJECT_FAILED, str(error)))
    waiting = f"Waiting for a group snapshot {key_of(group)} to be created by the CSI driver."
    object_text = f"{_OBJECT_TEXT}{key_of(group)}: "
    actions = (
        *_protection(group, chosen),
        *(HoldClaim(source.claim) for source in sources),
        Create(GROUP_SNAPSHOT_CONTENTS, body, CREATION_FAILED, CREATION_TEXT, saved=True, also=(OBJECT_FAILED, object_text)),
        Tell(group, GROUP_SNAPSHOTS, "Normal", "CreatingGroupSnapshot", waiting),
    )
    return Decision(why.Creating(body["metadata"]["name"]), actions, again=True, done="made its content")


def _sources(view: View, group: VolumeGroupSnapshot) -> list[Source]:
    """The claims and their volumes, by the names of the claims. Raises CantTell."""
    selector, namespace = group.spec.source.selector, group.metadata.namespace
    assert selector is not None
    claims = [claim for claim in view.claims.by(BY_NAMESPACE, namespace) if selects(selector, claim.metadata.labels)]
    if not claims:
        raise CantTell(f"label selector for group snapshot {key_of(group)} not applied to any PVC")
    return [Source(claim, bound_volume(view, claim)) for claim in sorted(claims, key=lambda one: one.metadata.name)]


def _class_for(view: View, group: VolumeGroupSnapshot, driver: str) -> tuple[VolumeGroupSnapshotClass, str]:
    """The class, and its name where it is the default one and the group is to be told. Raises CantTell."""
    name = group.spec.volume_group_snapshot_class_name
    named = view.group_classes.get(Key("", name)) if name else None
    if named is not None:
        return named, ""
    found = [one for one in view.group_classes.values() if one.driver == driver and annotation(one, GROUP_DEFAULT_CLASS) == "true"]
    if not found:
        raise CantTell("cannot find default group snapshot class")
    if len(found) > 1:
        raise CantTell(f"{len(found)} default snapshot classes were found")
    return found[0], found[0].metadata.name


def _check_fit(sources: list[Source], found: VolumeGroupSnapshotClass) -> None:
    """Raises CantTell: one driver makes all, of claims that stay as long as that takes."""
    for source in sources:
        if source.driver != found.driver:
            claim, name = source.claim.metadata.name, found.metadata.name
            raise CantTell(f'the volume of claim "{claim}" is of driver "{source.driver}", and class "{name}" of driver "{found.driver}"')
        check_stays(source.claim)


def _decide_bound(view: View, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, *, is_static: bool) -> Decision:
    name, ref = content.metadata.name, content.spec.volume_group_snapshot_ref
    if is_static == (content.spec.source.group_snapshot_handles is None):
        return _also(_cant("GroupSnapshotContentMismatch", DYNAMIC if is_static else f"VolumeGroupSnapshotContent {name} {STATIC}"))
    unbound = is_static and not ref.uid
    if Key(ref.namespace, ref.name) != key_of(group) or (not unbound and ref.uid != group.metadata.uid):
        return _also(_cant("GroupSnapshotContentMisbound", f"VolumeGroupSnapshotContent [{name}] is bound to a different group snapshot"))
    foreign = _foreign_class(view, group, content)
    if foreign:
        return Decision(why.CantGo(foreign), () if unbound else _protection(group), Failure("GroupSnapshotBindFailed", foreign))
    protection = _protection(group)
    if unbound and is_deleting(content):  # finalizers can't be added any more
        return _cant("GroupSnapshotBindFailed", f"VolumeGroupSnapshotContent [{name}] is being deleted")
    class_name = group.spec.volume_group_snapshot_class_name if is_static and not content.spec.volume_group_snapshot_class_name else None
    if unbound or _lacks_finalizer(content) or (class_name and not is_deleting(content)):
        patch, uid = _binding(group, content, class_name), group.metadata.uid
        write = Write(GROUP_SNAPSHOT_CONTENTS, content, patch, "GroupSnapshotBindFailed", binds=uid)
        return Decision(why.Binding(name), (*protection, write), again=True)
    protection = (*protection, *_revival(content))
    members = _members(view, group, content)
    if members:
        return Decision(why.MakingMembers(), (*protection, *members), again=True, done="made snapshots of its volumes")
    return _copy(group, content, protection)


def _foreign_class(view: View, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent) -> str:
    """The problem with a class of another driver, which the content's own driver would never look at; "" for none."""
    name = content.spec.volume_group_snapshot_class_name or group.spec.volume_group_snapshot_class_name or ""
    named = view.group_classes.get(Key("", name))
    if named is None or named.driver == content.spec.driver:
        return ""
    content_name, driver = content.metadata.name, content.spec.driver
    return f'class "{name}" is of driver "{named.driver}", and VolumeGroupSnapshotContent [{content_name}] of driver "{driver}"'


def _binding(group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, class_name: str | None) -> Patch:
    """The group's uid, its class where there is one, our finalizer; the mark of a former group's deletion goes."""
    protected = {"finalizers": [*finalizers_of(content), GROUP_CONTENT_FINALIZER]} if _lacks_finalizer(content) else {}
    unmarked = {"annotations": {GROUP_BEING_DELETED: None}} if is_marked(content, GROUP_BEING_DELETED) else {}
    named = {"volumeGroupSnapshotClassName": class_name} if class_name else {}
    return as_judged(content, {**protected, **unmarked}, {"volumeGroupSnapshotRef": {"uid": group.metadata.uid}, **named})


def _lacks_finalizer(content: VolumeGroupSnapshotContent) -> bool:
    return GROUP_CONTENT_FINALIZER not in finalizers_of(content) and not is_deleting(content)


# -- the members


def _members(view: View, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent) -> tuple[Action, ...]:
    """The missing snapshots of its volumes, as far as they can be written by now."""
    status = content.status
    if status is None or not status.volume_group_snapshot_handle:
        return ()
    actions: list[Action] = []
    asked = content.spec.source.volume_handles
    for info in status.volume_snapshot_info_list or ():
        if asked is not None and info.volume_handle not in asked:  # its volume could not be told: it is noted to be deleted
            continue
        snapshot = view.snapshots.get(member_key(group, info))
        if snapshot is None:
            actions.append(Create(VOLUME_SNAPSHOTS, member(view, group, content, info), "CreateVolumeSnapshotFailed"))
            continue
        made = view.content(member_content_name(snapshot.metadata.name))
        if made is None:
            actions.append(Create(VOLUME_SNAPSHOT_CONTENTS, member_content(view, snapshot, content, info), CREATION_FAILED))
            continue
        wanted = member_status(content, info)
        said = None if made.status is None else msgspec.to_builtins(made.status)
        known = {**(said or {}), **wanted}
        patch = None if said is not None and said.get("readyToUse") is True else set_fields(made, "status", said, known)
        if patch is not None:
            actions.append(Write(VOLUME_SNAPSHOT_CONTENTS, made, patch, _STATUS_FAILED, "status"))
    return tuple(actions)


# -- the status


def _copy(group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, before: tuple[Action, ...]) -> Decision:
    old, said = group.status or VolumeGroupSnapshotStatus(), content.status
    ready = said is not None and said.ready_to_use is True
    new = VolumeGroupSnapshotStatus(
        bound_volume_group_snapshot_content_name=old.bound_volume_group_snapshot_content_name or content.metadata.name,
        creation_time=old.creation_time or (said.creation_time if said is not None else None),
        ready_to_use=ready,
        error=said.error if said is not None and not ready else None,
    )
    patch = set_fields(group, "status", _json(group.status), _json(new) or {})
    if patch is None:
        return Decision(why.Waiting(content.metadata.name), before)
    write = Write(GROUP_SNAPSHOTS, group, patch, _STATUS_FAILED, "status")
    return Decision(why.Copying(content.metadata.name), (*before, write, *_news(group, old, new)), done="copied the status of its content")


def _news(group: VolumeGroupSnapshot, old: VolumeGroupSnapshotStatus, new: VolumeGroupSnapshotStatus) -> tuple[Tell, ...]:
    told = []
    if new.creation_time and not old.creation_time:
        told.append(("GroupSnapshotCreated", f"GroupSnapshot {key_of(group)} was successfully created by the CSI driver."))
    if new.ready_to_use and not old.ready_to_use:
        told.append(("GroupSnapshotReady", f"GroupSnapshot {key_of(group)} is ready to use."))
    return tuple(Tell(group, GROUP_SNAPSHOTS, "Normal", reason, text) for reason, text in told)


def _json(status: VolumeGroupSnapshotStatus | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found
