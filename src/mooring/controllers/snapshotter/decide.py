"""The snapshotter's decisions: the next step for one content.

Pure: the view goes in, actions come out, carried out in order by `reconcile.py`; what follows from the driver's answer stands in
`decide_after.py`. All that can be checked is checked before the content is marked: from then on its deletion has to find out whether the
driver has made something.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.api.core import SecretReference
from mooring.api.meta import annotation, finalizers_of, is_deleting
from mooring.api.snapshot import VolumeSnapshotClass, VolumeSnapshotContent
from mooring.base.clock import Instant
from mooring.base.errors import MooringError
from mooring.base.text import quoted
from mooring.control.result import Because
from mooring.controllers.snapshotter import reasons as why
from mooring.controllers.snapshotter.decision import (
    Action,
    Ask,
    ClearStatus,
    Create,
    Decision,
    Delete,
    Failure,
    LoadSecret,
    LookFor,
    LookUpClass,
    Mark,
    Release,
    Tell,
    Unmark,
    Way,
)
from mooring.controllers.snapshotter.requests import CreateOrder, extra_metadata, snapshot_name
from mooring.controllers.snapshotter.view import View, handle_of, is_given_up, is_going, is_open, is_ready
from mooring.controllers.snapshotting.class_parameters import ClassParameterError, SnapshotSecret, for_driver, secret_of, without_ours
from mooring.controllers.snapshotting.names import (
    BEING_CREATED,
    CONTENT_FINALIZER,
    DELETE_POLICY,
    SECRET_NAME,
    SECRET_NAMESPACE,
    is_group_content,
    is_marked,
)

CREATION_FAILED: Final = "SnapshotCreationFailed"
CHECK_FAILED: Final = "SnapshotContentCheckandUpdateFailed"
DELETION_FAILED: Final = "SnapshotDeleteError"
KEPT: Final = "SnapshotKept"
WITHOUT_SECRET: Final = "SnapshotDeletedWithoutSecret"
CREATION_TEXT: Final = "Failed to create snapshot: "
CHECK_TEXT: Final = "Failed to check and update snapshot content: "
INPUT_TEXT: Final = f"{CREATION_TEXT}failed to get input parameters to create snapshot for content "

LINGER_S: Final = 0.25
"""How long a content stays after its snapshot. Upstream's snapshot-controller deletes a content at each look until it has seen that it is
gone, and tells of an error when it was gone before."""


class Unusable(MooringError):
    """What a call needs is missing or wrong. class_name: of the class that is missing."""

    def __init__(self, text: str, class_name: str = "") -> None:
        super().__init__(text)
        self.class_name = class_name


def decide_content(view: View, name: str, now: Instant) -> Decision:
    """The next step for one content of this driver."""
    content = view.content(name)
    if content is None:
        return Decision(why.Gone(name))
    return dataclasses.replace(_decided(view, content, now), uid=content.metadata.uid)


def _decided(view: View, content: VolumeSnapshotContent, now: Instant) -> Decision:
    found, source = view.class_of(content), content.spec.source
    if found is not None and found.driver != view.driver.name and not is_given_up(content) and not is_going(content):
        return _decide_foreign(view, content, found, now)
    if bool(source.volume_handle) == bool(source.snapshot_handle):
        return Decision(why.BadSource())
    if is_going(content):
        return _decide_deletion(view, content, now)
    if is_ready(content):
        return _decide_ready(content, why.Ready())
    if source.snapshot_handle:
        return _decide_check(view, content, source.snapshot_handle)
    if is_group_content(content):
        handle = handle_of(content)
        if not handle or (_way(view) is Way.NONE and view.waits_for_group(content)):
            return Decision(why.Member())
        return _decide_check(view, content, handle)
    return _decide_creation(view, content, now)


def _decide_ready(content: VolumeSnapshotContent, because: Because) -> Decision:
    """The mark of its creation goes, whatever has become of its class meanwhile."""
    if is_marked(content, BEING_CREATED):
        return Decision(why.Settled(), (Unmark(),))
    return Decision(because)


def _decide_foreign(view: View, content: VolumeSnapshotContent, found: VolumeSnapshotClass, now: Instant) -> Decision:
    """Differs from csi-snapshotter: a content that nobody will look at hears so after a while."""
    because = why.Foreign(found.metadata.name)
    if is_ready(content):
        return _decide_ready(content, because)
    if left_s := view.memory.foreign_left_s(content.metadata.uid, now):
        return Decision(because, after_s=left_s, is_foreign=True)
    text = f"its class {found.metadata.name} is of driver {found.driver}, and the content of driver {view.driver.name}"
    return Decision(because, failure=Failure(CHECK_FAILED, f"{CHECK_TEXT}{text}", retries=False, saved=False), is_foreign=True)


# -- creation


def _decide_creation(view: View, content: VolumeSnapshotContent, now: Instant) -> Decision:
    """Also the look at a snapshot that is made and not ready: by a question where the driver has one and takes it, else by the same
    request again.
    """
    handle, volume_handle = handle_of(content), content.spec.source.volume_handle or ""
    way = _way(view) if handle and not view.memory.of(content.metadata.uid).unlisted else Way.NONE
    if way is not Way.NONE:
        question = _decide_question(view, content, Ask(handle, way), why.Polling(handle, way.value))
        if question.failure is None:
            return question
    replayed = is_deleting(content) and is_open(content)
    try:
        order = CreateOrder(_name(view, content), volume_handle, _parameters(view, content, replayed))
        secret = creation_secret(content)
    except Unusable as error:
        return _cant_create(content, error)
    look = _look_for(view, content, order)
    if look is not None:
        return Decision(why.LookingFor(order.name), (look,), done="ListSnapshots was answered")
    without = replayed and view.memory.secret_is_gone(content.metadata.uid, now)
    load: tuple[Action, ...] = () if secret is None or without else (_creation_secret_of(content, secret),)
    marked = is_marked(content, BEING_CREATED) and not view.memory.of(content.metadata.uid).mark_lost
    marking: tuple[Action, ...] = () if handle or marked else (Mark(),)
    because = why.FindingOut(order.name) if replayed else why.Creating(volume_handle, order.name)
    return Decision(because, (*load, *marking, Create(order)), done="CreateSnapshot was answered")


def _name(view: View, content: VolumeSnapshotContent) -> str:
    options, uid = view.options, content.spec.volume_snapshot_ref.uid
    return snapshot_name(options.snapshot_name_prefix, options.snapshot_name_uuid_length, uid)


def _look_for(view: View, content: VolumeSnapshotContent, order: CreateOrder) -> LookFor | None:
    """None where another request is better, or the list can't be asked."""
    if not (is_given_up(content) and is_open(content) and view.memory.of(content.metadata.uid).to_list and view.driver.lists_snapshots):
        return None
    try:
        secret, made_with = _list_secret(view, content), creation_secret(content)
    except Unusable:
        return None
    if made_with is not None and secret is None:
        return None  # a driver that tells tenants apart by their Secrets lists nothing of this one's
    return LookFor(order, None if secret is None else _list_secret_of(content, secret))


def _way(view: View) -> Way:
    return Way.GET if view.driver.gets_snapshots else Way.LIST if view.driver.lists_snapshots else Way.NONE


def _parameters(view: View, content: VolumeSnapshotContent, replayed: bool) -> dict[str, str]:
    """Raises Unusable.

    replayed: the content goes, and the name counts most: a class that is gone or broken keeps nobody from finding what was made. What was
    sent before is sent again, as far as it is known.
    """
    found, class_name = view.class_of(content), content.spec.volume_snapshot_class_name
    extra = dict(extra_metadata(content)) if view.options.extra_create_metadata else {}
    if found is None and not replayed:
        missing = f'volumesnapshotclass.snapshot.storage.k8s.io "{class_name}" not found'
        text = f"failed to get snapshot class {class_name}: {missing}" if class_name else "the content names no snapshot class"
        raise Unusable(text, class_name or "")
    if not content.spec.volume_snapshot_ref.uid:
        raise Unusable(f"snapshot content {content.metadata.name} is not bound to a snapshot")
    if found is None or found.driver != view.driver.name:
        sent = view.memory.of(content.metadata.uid).parameters
        return extra if sent is None else dict(sent)
    try:
        return {**(without_ours(found.parameters) if replayed else for_driver(found.parameters)), **extra}
    except ClassParameterError as error:
        raise Unusable(str(error)) from error


def creation_secret(content: VolumeSnapshotContent) -> SecretReference | None:
    """The Secret that the annotations name, for making and deleting; None unless both are there. Raises Unusable for an empty one."""
    noted = content.metadata.annotations or {}
    if SECRET_NAME not in noted or SECRET_NAMESPACE not in noted:
        return None
    ref = SecretReference(name=annotation(content, SECRET_NAME), namespace=annotation(content, SECRET_NAMESPACE))
    if not ref.name or not ref.namespace:
        raise Unusable(f"cannot get credentials for snapshot content {quoted(content.metadata.name)}: name or namespace is empty")
    return ref


def _creation_secret_of(content: VolumeSnapshotContent, ref: SecretReference) -> LoadSecret:
    return LoadSecret(ref, (CREATION_FAILED, f"{INPUT_TEXT}{content.metadata.name}: "), saved=not is_deleting(content))


def _cant_create(content: VolumeSnapshotContent, error: Unusable) -> Decision:
    """Nothing is tried before the class changes, or the content."""
    failure = Failure(CREATION_FAILED, f"{INPUT_TEXT}{content.metadata.name}: {error}", retries=False)
    look: tuple[Action, ...] = (LookUpClass(error.class_name),) if error.class_name else ()
    return Decision(why.CantAsk(str(error)), look, failure)


# -- a snapshot whose handle is known


def _decide_check(view: View, content: VolumeSnapshotContent, handle: str) -> Decision:
    """Of one that was there before: the driver may have learnt to list since it introduced itself."""
    return _decide_question(view, content, Ask(handle, _way(view), learn=True), why.Checking(handle, _way(view).value))


def _decide_question(view: View, content: VolumeSnapshotContent, ask: Ask, because: why.Checking | why.Polling) -> Decision:
    try:
        secret = _list_secret(view, content)
    except Unusable as error:
        look: tuple[Action, ...] = (LookUpClass(error.class_name),) if error.class_name else ()
        return Decision(why.CantAsk(str(error)), look, Failure(CHECK_FAILED, f"{CHECK_TEXT}{error}", retries=False))
    load: tuple[Action, ...] = () if secret is None else (_list_secret_of(content, secret, needed=ask.learn),)
    return Decision(because, (*load, ask))


def _list_secret_of(content: VolumeSnapshotContent, ref: SecretReference, *, needed: bool = True) -> LoadSecret:
    failed = (CHECK_FAILED, f"{CHECK_TEXT}failed to get credentials for snapshot content {content.metadata.name}: ")
    return LoadSecret(ref, failed, needed=needed)


def _list_secret(view: View, content: VolumeSnapshotContent) -> SecretReference | None:
    """Raises Unusable. No snapshot is at hand, so that templates may name the content alone."""
    found, class_name = view.class_of(content), content.spec.volume_snapshot_class_name
    if not class_name:
        return None
    if found is None:
        missing = f'volumesnapshotclass.snapshot.storage.k8s.io "{class_name}" not found'
        raise Unusable(f"failed to get snapshot class {class_name} for snapshot content {content.metadata.name}: {missing}", class_name)
    tokens = {"volumesnapshotcontent.name": content.metadata.name}
    try:
        return secret_of(SnapshotSecret.LIST, found.parameters, name_tokens=tokens, namespace_tokens=tokens)
    except ClassParameterError as error:
        raise Unusable(f"failed to get secret reference for snapshot content {content.metadata.name}: {error}") from error


# -- deletion


def _decide_deletion(view: View, content: VolumeSnapshotContent, now: Instant) -> Decision:
    """Policy Delete deletes what has a handle, except members of groups, which the group's deletion took.

    Differs from csi-snapshotter, which deletes a snapshot that another content stands for.
    """
    held = CONTENT_FINALIZER in finalizers_of(content)
    release: tuple[Action, ...] = (Release(),) if held else ()
    handle = handle_of(content)
    is_in_group = content.status is not None and bool(content.status.volume_group_snapshot_handle)
    if content.spec.deletion_policy != DELETE_POLICY or not handle or is_in_group:
        if not held:
            return Decision(why.Released())
        cause = "the driver made nothing" if not handle else "it is a group's" if is_in_group else "its policy keeps the snapshot"
        return Decision(why.Releasing(cause), (*_left(content, handle), *release), done="released the content")
    other = view.other_of(content, handle)
    if other:
        text = f"Snapshot {handle} is not deleted: VolumeSnapshotContent [{other}] stands for it, too"
        cause = f'content "{other}" stands for its snapshot, too'
        return Decision(why.Releasing(cause), (Tell(KEPT, text), *release) if held else (), done="released the content")
    deleted_at = view.memory.of(content.metadata.uid).deleted_at
    if deleted_at is not None:
        return _decide_release(content, handle, deleted_at + LINGER_S - now)
    try:
        secret = creation_secret(content)
    except Unusable as error:
        failure = Failure(DELETION_FAILED, f"Failed to get snapshot credentials: {error}", retries=False, saved=False)
        return Decision(why.CantAsk(str(error)), failure=failure)
    load: tuple[Action, ...] = ()
    if secret is not None and view.memory.secret_is_gone(content.metadata.uid, now):
        load = (Tell(WITHOUT_SECRET, without_secret(f"Snapshot {handle}", secret)),)
    elif secret is not None:
        load = (LoadSecret(secret, (DELETION_FAILED, "Failed to get snapshot credentials: "), saved=False),)
    return Decision(why.Deleting(handle), (*load, Delete(handle)))


def _left(content: VolumeSnapshotContent, handle: str) -> tuple[Action, ...]:
    """An import that the driver has never told of is not deleted in the driver, whatever its policy."""
    imported = content.spec.source.snapshot_handle
    if handle or not imported or content.spec.deletion_policy != DELETE_POLICY:
        return ()
    return (Tell(KEPT, f"Snapshot {imported} is not deleted: the driver has not told of it since it was imported"),)


def without_secret(what: str, secret: SecretReference) -> str:
    where = f"{secret.namespace}/{secret.name}"
    return (
        f"{what} is deleted without Secret {where}, which is gone: a driver that tells tenants apart by it may not find anything to delete"
    )


def _decide_release(content: VolumeSnapshotContent, handle: str, wait_s: float) -> Decision:
    """Its snapshot is deleted. wait_s: for so long the content stays."""
    because = why.Deleted(handle)
    if wait_s > 0:
        return Decision(because, after_s=wait_s)
    held = CONTENT_FINALIZER in finalizers_of(content)
    stays = set(finalizers_of(content)) - {CONTENT_FINALIZER}
    unmarking: tuple[Action, ...] = (Unmark(),) if is_marked(content, BEING_CREATED) else ()  # else it would be made once more
    clearing: tuple[Action, ...] = (*unmarking, ClearStatus()) if stays or not held else ()
    return Decision(because, (*clearing, *((Release(),) if held else ())), done="deleted the snapshot")
