"""The snapshotter's decisions about one group content: those about single ones, for all volumes of a group. Pure."""

from __future__ import annotations

from typing import Final

from mooring.api.core import SecretReference
from mooring.api.group_snapshot import VolumeGroupSnapshotClass, VolumeGroupSnapshotContent
from mooring.api.meta import annotation, finalizers_of, is_deleting
from mooring.base.clock import Instant
from mooring.controllers.snapshotter.decide import Unusable, without_secret
from mooring.controllers.snapshotter.decision import Failure, LoadSecret, Tell
from mooring.controllers.snapshotter.groups import reasons as why
from mooring.controllers.snapshotter.groups.decision import (
    Action,
    Ask,
    ClearStatus,
    Create,
    Decision,
    Delete,
    Mark,
    Release,
    Unmark,
)
from mooring.controllers.snapshotter.groups.requests import CreateGroupOrder, GroupHandles, extra_group_metadata
from mooring.controllers.snapshotter.groups.standing import kept_by_content, kept_by_group
from mooring.controllers.snapshotter.groups.view import View, handle_of, is_given_up, is_going, is_open, is_ready
from mooring.controllers.snapshotter.requests import snapshot_name
from mooring.controllers.snapshotting.class_parameters import ClassParameterError, SnapshotSecret, for_driver, secret_of, without_ours
from mooring.controllers.snapshotting.names import (
    DELETE_POLICY,
    GROUP_BEING_CREATED,
    GROUP_CONTENT_FINALIZER,
    GROUP_SECRET_NAME,
    GROUP_SECRET_NAMESPACE,
    is_marked,
)

CREATION_FAILED: Final = "GroupSnapshotCreationFailed"
CHECK_FAILED: Final = "GroupSnapshotContentCheckandUpdateFailed"
DELETION_FAILED: Final = "GroupSnapshotDeleteError"
KEPT: Final = "GroupSnapshotKept"
WITHOUT_SECRET: Final = "GroupSnapshotDeletedWithoutSecret"
CREATION_TEXT: Final = "Failed to create group snapshot: "
CHECK_TEXT: Final = "Failed to check and update group snapshot content: "


def decide_group_content(view: View, name: str, now: Instant) -> Decision:
    """The next step for one group content of this driver."""
    content = view.content(name)
    if content is None:
        return Decision(why.Gone(name))
    decision = _decided(view, content, now)
    return Decision(decision.because, decision.actions, decision.failure, content.metadata.uid, decision.done)


def _decided(view: View, content: VolumeGroupSnapshotContent, now: Instant) -> Decision:
    found = view.class_of(content)
    if found is not None and found.driver != view.driver_name and not is_given_up(content) and not is_going(content):
        return _decide_foreign(view, content, found)
    if is_going(content):
        return _decide_deletion(view, content, now)
    if is_ready(content):
        return Decision(why.Ready(), (Unmark(),) if is_marked(content, GROUP_BEING_CREATED) else ())
    handles = group_handles(content)
    if handles is None or (content.spec.source.group_snapshot_handles is None and view.memory.of(content.metadata.uid).unlisted):
        return _decide_creation(view, content, now)
    return _decide_question(view, content, handles)


def _decide_foreign(view: View, content: VolumeGroupSnapshotContent, found: VolumeGroupSnapshotClass) -> Decision:
    """Differs from csi-snapshotter: a content that nobody will look at hears so, once its group is waited for."""
    because = why.Foreign(found.metadata.name)
    if is_ready(content):
        return Decision(because)
    text = f"its class {found.metadata.name} is of driver {found.driver}, and the content of driver {view.driver_name}"
    return Decision(because, failure=Failure(CREATION_FAILED, f"{CREATION_TEXT}{text}", retries=False, saved=False))


def group_handles(content: VolumeGroupSnapshotContent) -> GroupHandles | None:
    """The handles of a group that is made, or was there before; None while they are not known."""
    imported, handle = content.spec.source.group_snapshot_handles, handle_of(content)
    if imported is not None:
        return GroupHandles(imported.volume_group_snapshot_handle, imported.volume_snapshot_handles)
    if not handle:
        return None
    infos = (content.status.volume_snapshot_info_list if content.status else None) or ()
    return GroupHandles(handle, tuple(info.snapshot_handle for info in infos))


def _decide_creation(view: View, content: VolumeGroupSnapshotContent, now: Instant) -> Decision:
    options, volumes = view.options, content.spec.source.volume_handles or ()
    uid = content.spec.volume_group_snapshot_ref.uid
    name = snapshot_name(options.groupsnapshot_name_prefix, options.groupsnapshot_name_uuid_length, uid)
    try:
        parameters = _parameters(view, content)
        secret = _noted_secret(content)
    except Unusable as error:
        text = f"{CREATION_TEXT}failed to get input parameters to create group snapshot for content {content.metadata.name}: {error}"
        return Decision(why.CantAsk(str(error)), failure=Failure(CREATION_FAILED, text, retries=False))
    failed = (CREATION_FAILED, f"{CREATION_TEXT}failed to get input parameters to create group snapshot: ")
    without = is_deleting(content) and is_open(content) and view.memory.secret_is_gone(content.metadata.uid, now)
    load: tuple[Action, ...] = () if secret is None or without else (LoadSecret(secret, failed, saved=not is_deleting(content)),)
    marked = is_marked(content, GROUP_BEING_CREATED) and not view.memory.of(content.metadata.uid).mark_lost
    marking: tuple[Action, ...] = () if marked or handle_of(content) else (Mark(),)
    actions = (*load, *marking, Create(CreateGroupOrder(name, volumes, parameters)))
    return Decision(why.Creating(len(volumes), name), actions, done="CreateVolumeGroupSnapshot was answered")


def _parameters(view: View, content: VolumeGroupSnapshotContent) -> dict[str, str]:
    """Raises Unusable. A content that goes and may have a group in the driver needs no class: what was sent is sent again, where known."""
    found, name = view.class_of(content), content.spec.volume_group_snapshot_class_name
    extra = dict(extra_group_metadata(content)) if view.options.extra_create_metadata else {}
    replayed = is_deleting(content) and is_open(content)
    if found is None and not replayed:
        raise Unusable(f'volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "{name or ""}" not found')
    if not content.spec.volume_group_snapshot_ref.uid:
        raise Unusable(f"group snapshot content {content.metadata.name} is not bound to a group snapshot")
    if found is None or (replayed and found.driver != view.driver_name):
        sent = view.memory.of(content.metadata.uid).parameters
        return extra if sent is None else dict(sent)
    try:
        return {**(without_ours(found.parameters) if replayed else for_driver(found.parameters)), **extra}
    except ClassParameterError as error:
        raise Unusable(str(error)) from error


def _noted_secret(content: VolumeGroupSnapshotContent) -> SecretReference | None:
    """Raises Unusable for an empty name."""
    noted = content.metadata.annotations or {}
    if GROUP_SECRET_NAME not in noted or GROUP_SECRET_NAMESPACE not in noted:
        return None
    ref = SecretReference(name=annotation(content, GROUP_SECRET_NAME), namespace=annotation(content, GROUP_SECRET_NAMESPACE))
    if not ref.name or not ref.namespace:
        raise Unusable("name or namespace of its secret is empty")
    return ref


def _decide_question(view: View, content: VolumeGroupSnapshotContent, handles: GroupHandles) -> Decision:
    found, tokens = view.class_of(content), {"volumegroupsnapshotcontent.name": content.metadata.name}
    class_name = content.spec.volume_group_snapshot_class_name
    if found is None and class_name:
        missing = f'volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "{class_name}" not found'
        text = f"failed to get group snapshot class {class_name} for group snapshot content {content.metadata.name}: {missing}"
        return Decision(why.CantAsk(text), failure=Failure(CHECK_FAILED, f"{CHECK_TEXT}{text}", retries=False))
    try:
        parameters = found.parameters if found is not None else None
        secret = secret_of(SnapshotSecret.GROUP_GET, parameters, name_tokens=tokens, namespace_tokens=tokens)
    except ClassParameterError as error:
        return Decision(why.CantAsk(str(error)), failure=Failure(CHECK_FAILED, f"{CHECK_TEXT}{error}", retries=False))
    failed = (CHECK_FAILED, f"{CHECK_TEXT}failed to get credentials for group snapshot content {content.metadata.name}: ")
    load: tuple[Action, ...] = () if secret is None else (LoadSecret(secret, failed),)
    return Decision(why.Asking(handles.group), (*load, Ask(handles)))


def _decide_deletion(view: View, content: VolumeGroupSnapshotContent, now: Instant) -> Decision:
    held = GROUP_CONTENT_FINALIZER in finalizers_of(content)
    release: tuple[Action, ...] = (Release(),) if held else ()
    handles = group_handles(content)
    if content.spec.deletion_policy != DELETE_POLICY or handles is None or not handle_of(content):
        return Decision(why.Releasing(), release, done="released the content") if held else Decision(why.Released())
    if other := kept_by_group(view, content):
        text = f"Group snapshot {handles.group} is not deleted: VolumeGroupSnapshotContent [{other}] stands for it, too"
        return Decision(why.Kept(other), (Tell(KEPT, text), *release) if held else (), done="released the content")
    if other := kept_by_content(view, content):
        text = f"Group snapshot {handles.group} is not deleted: VolumeSnapshotContent [{other}] stands for a snapshot of it"
        return Decision(why.Kept(other), failure=Failure(KEPT, text, retries=False, saved=False))
    try:
        secret = _noted_secret(content)
    except Unusable as error:
        text = f"Failed to get group snapshot credentials: {error}"
        return Decision(why.CantAsk(str(error)), failure=Failure(DELETION_FAILED, text, retries=False, saved=False))
    failed = (DELETION_FAILED, "Failed to get group snapshot credentials: ")
    gone = secret is not None and view.memory.secret_is_gone(content.metadata.uid, now)
    load: tuple[Action, ...] = () if secret is None else (LoadSecret(secret, failed, saved=False),)
    if secret is not None and gone:
        load = (Tell(WITHOUT_SECRET, without_secret(f"Group snapshot {handles.group}", secret)),)
    stays = set(finalizers_of(content)) - {GROUP_CONTENT_FINALIZER}
    unmarking: tuple[Action, ...] = (Unmark(),) if is_marked(content, GROUP_BEING_CREATED) else ()  # else it would be made once more
    clearing: tuple[Action, ...] = (*unmarking, ClearStatus()) if stays or not held else ()
    return Decision(why.Deleting(handles.group), (*load, Delete(handles), *clearing, *release), done="deleted the group snapshot")
