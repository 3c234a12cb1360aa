"""The snapshotter's decisions: the next step for one content, of a single snapshot or of a group.

Pure: the view goes in, actions come out, carried out in order by `reconcile.py`; what follows from the driver's answer
stands in `decide_after.py`. All that can be checked is checked before the content is marked: from then on its deletion
has to find out whether the driver has made something.
"""

from __future__ import annotations

import msgspec

from mooring.api.core import SecretReference
from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.meta import Key, is_deleting
from mooring.api.snapshot_kinds import (
    GROUPS,
    SINGLES,
    Content,
    Row,
    handle_of,
    imported_handle,
    is_content_ready,
    row_of,
    volumes_of,
)
from mooring.api.snapshot_names import is_group_content, is_marked
from mooring.base.clock import Instant
from mooring.control.decision import Decision
from mooring.control.result import Because
from mooring.sidecars.snapshotter import reasons as why
from mooring.sidecars.snapshotter.creation import State
from mooring.sidecars.snapshotter.decide_deletion import decide_deletion
from mooring.sidecars.snapshotter.decision import (
    Action,
    Ask,
    Create,
    Failure,
    LoadSecret,
    LookUpClass,
    Mark,
    NoteClass,
    Unmark,
    Way,
)
from mooring.sidecars.snapshotter.requests import (
    Made,
    RequestError,
    create_order,
    creation_secret,
    name_of,
    question_secret,
)
from mooring.sidecars.snapshotter.view import View, is_given_up, is_going, is_open, members_of


def decide_content(view: View, row: Row, name: str, now: Instant) -> Decision[Action]:
    """The next step for one content of this driver."""
    content: Content | None = view.contents_of(row).get(Key("", name))
    if content is None:
        return Decision(why.Gone(name))
    uid, is_foreign = content.metadata.uid, _is_foreign(view, content)
    decision = _decided(view, content, now, is_foreign=is_foreign)
    if is_foreign == (view.memory.of(uid).foreign_at is not None):
        return msgspec.structs.replace(decision, uid=uid)
    done = decision.done if decision.actions else ""
    return msgspec.structs.replace(decision, uid=uid, done=done, actions=(NoteClass(is_foreign), *decision.actions))


def _is_foreign(view: View, content: Content) -> bool:
    """True where its class is another driver's, and the content is not on its way out."""
    found = view.class_of(content)
    is_others = found is not None and found.driver != view.driver.name
    return is_others and not is_given_up(content) and not is_going(content)


def _decided(view: View, content: Content, now: Instant, *, is_foreign: bool) -> Decision[Action]:
    if is_foreign:
        return _decide_foreign(view, content, now)
    imported = imported_handle(content)
    if _has_volumes(content) == (imported is not None):
        return Decision(why.BadSource())
    if is_going(content):
        return decide_deletion(view, content, now)
    if is_content_ready(content):
        return _decide_ready(content, why.Ready())
    if imported is not None:
        return _decide_check(view, content, imported)
    if not isinstance(content, VolumeGroupSnapshotContent) and is_group_content(content):
        handle = handle_of(content)
        if not handle or (_way(view, content) is Way.NONE and view.waits_for_group(content)):
            return Decision(why.Member())
        return _decide_check(view, content, handle)
    return _decide_creation(view, content, now)


def _has_volumes(content: Content) -> bool:
    if isinstance(content, VolumeGroupSnapshotContent):
        return content.spec.source.volume_handles is not None
    return bool(volumes_of(content))


def _decide_ready(content: Content, because: Because) -> Decision[Action]:
    """The mark of its creation goes, whatever has become of its class meanwhile."""
    if is_marked(content, row_of(content).being_created):
        return Decision(why.Settled(), (Unmark(),))
    return Decision(because)


def _decide_foreign(view: View, content: Content, now: Instant) -> Decision[Action]:
    """Differs from csi-snapshotter: a content that nobody will look at hears so; a single one after a while."""
    found, row = view.class_of(content), row_of(content)
    assert found is not None
    because = why.Foreign(found.metadata.name)
    if is_content_ready(content):
        return _decide_ready(content, because)
    left_s = view.memory.foreign_left_s(content.metadata.uid, now)
    if left_s and row is SINGLES:
        return Decision(because, after_s=left_s)
    event, text = (
        (f"{row.title}CreationFailed", f"Failed to create {row.noun}: ")
        if row is GROUPS
        else (f"{row.title}ContentCheckandUpdateFailed", f"Failed to check and update {row.noun} content: ")
    )
    text += f"its class {found.metadata.name} is of driver {found.driver}, and the content of driver {view.driver.name}"
    return Decision(because, problem=Failure(event, text, saved=False))


# -- creation


def _decide_creation(view: View, content: Content, now: Instant) -> Decision[Action]:
    """Decide on making a snapshot, and on one that is made and not ready: that is looked at by a question where the
    driver has one and takes it, else by the same request again.
    """
    row, handle, uid = row_of(content), handle_of(content), content.metadata.uid
    record = view.memory.of(uid)
    way = _way(view, content) if handle and not record.by_name else Way.NONE
    if way is not Way.NONE:
        question = _decide_question(
            view, content, Ask(Made(handle, members_of(content)), way), why.Polling(handle, way.value)
        )
        if question.problem is None:
            return question
    replayed = is_deleting(content) and is_open(content)
    if replayed and is_given_up(content) and record.state is State.DELETED:  # by a handle that could not be saved
        return Decision(why.Deleted(name_of(content, view.options)), (Unmark(),))
    try:
        order = create_order(view, content, replayed=replayed)
        secret = creation_secret(content)
    except RequestError as error:
        return _cant_create(content, error)
    without = replayed and view.memory.secret_is_gone(uid, now)
    load: tuple[Action, ...] = () if secret is None or without else (_creation_secret_of(content, secret),)
    marked = is_marked(content, row.being_created) and not record.mark_lost
    marking: tuple[Action, ...] = () if handle or marked else (Mark(),)
    because = why.FindingOut(order.name) if replayed else why.Creating(", ".join(order.volumes), order.name)
    rpc = "CreateSnapshot" if row is SINGLES else "CreateVolumeGroupSnapshot"
    return Decision(because, (*load, *marking, Create(order)), done=f"{rpc} was answered")


def _way(view: View, content: Content) -> Way:
    if row_of(content) is not SINGLES:
        return Way.GET_GROUP
    return Way.GET if view.driver.gets_snapshots else Way.LIST if view.driver.lists_snapshots else Way.NONE


def _input_text(content: Content) -> str:
    row = row_of(content)
    what = f"failed to get input parameters to create {row.noun} for content {content.metadata.name}"
    return f"Failed to create {row.noun}: {what}: "


def _creation_secret_of(content: Content, ref: SecretReference) -> LoadSecret:
    return LoadSecret(
        ref, (f"{row_of(content).title}CreationFailed", _input_text(content)), saved=not is_deleting(content)
    )


def _cant_create(content: Content, error: RequestError) -> Decision[Action]:
    """The decision where no request can be made: nothing is tried before the class changes, or the content."""
    failure = Failure(f"{row_of(content).title}CreationFailed", f"{_input_text(content)}{error}")
    return Decision(why.CantAsk(str(error)), _class_look_up(error), failure)


def _class_look_up(error: RequestError) -> tuple[Action, ...]:
    return (LookUpClass(error.class_name),) if error.class_name else ()


# -- a snapshot whose handle is known


def _decide_check(view: View, content: Content, handle: str) -> Decision[Action]:
    """Decides on a snapshot that was there before: the driver may have learnt to list since it introduced itself."""
    way = _way(view, content)
    return _decide_question(
        view, content, Ask(Made(handle, members_of(content)), way, learn=True), why.Checking(handle, way.value)
    )


def _decide_question(view: View, content: Content, ask: Ask, because: why.Checking | why.Polling) -> Decision[Action]:
    row = row_of(content)
    try:
        secret = question_secret(view, content)
    except RequestError as error:
        failure = Failure(
            f"{row.title}ContentCheckandUpdateFailed", f"Failed to check and update {row.noun} content: {error}"
        )
        return Decision(why.CantAsk(str(error)), _class_look_up(error), failure)
    load: tuple[Action, ...] = () if secret is None else (_question_secret_of(content, secret, needed=ask.learn),)
    return Decision(because, (*load, ask))


def _question_secret_of(content: Content, ref: SecretReference, *, needed: bool = True) -> LoadSecret:
    row = row_of(content)
    what = f"failed to get credentials for {row.noun} content {content.metadata.name}"
    text = f"Failed to check and update {row.noun} content: {what}: "
    return LoadSecret(ref, (f"{row.title}ContentCheckandUpdateFailed", text), needed=needed)
