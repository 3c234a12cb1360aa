"""Bugs to plant, each of which the simulation must find: the attacher's own parts, replaced by worse ones for a while.

By name: how to plant it, and the invariants one of which must find it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.api.storage import VolumeAttachment
from mooring.control.call_slots import CallSlots
from mooring.control.decision import Decision, Failed
from mooring.kube.cache.informer import Cause, Informer
from mooring.kube.cluster import Patch
from mooring.kube.patch import add_finalizer, merge_patch
from mooring.sidecars.attacher import controller, decide, drift, writes
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.controller import EventHandlers
from mooring.sidecars.attacher.decide import (
    Action,
    AddFinalizer,
    EndUndo,
    Publish,
    RemoveFinalizer,
    RemoveVolumeFinalizer,
    Unpublish,
)
from mooring.sidecars.attacher.memory import Evidence, Memory
from mooring.sidecars.attacher.reconcile import Reconciler
from mooring.sidecars.attacher.view import View
from mooring.wire.grpc.codes import Code
from tests.sim import bugs_of_habits
from tests.sim.planting import Bug, failures_are_final, no_back_off


def _reordered(first: type[Any], second: type[Any]) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Of each decision, the `first` actions come before the `second` ones, and what is neither before both."""

    def rank(action: Action) -> int:
        return (
            3
            if isinstance(action, EndUndo)
            else 2
            if isinstance(action, second)
            else 1
            if isinstance(action, first)
            else 0
        )

    def decided(view: Any, name: str) -> Decision[Action]:
        decision = decide.decide_attachment(view, name)
        return msgspec.structs.replace(decision, actions=tuple(sorted(decision.actions, key=rank)))

    return lambda: mock.patch.object(controller, "decide_attachment", decided)


def _timeout_is_success() -> contextlib.AbstractContextManager[Any]:
    """A detach whose answer did not come in time is taken for done."""
    unpublish = Reconciler._unpublish

    async def hopeful(self: Reconciler, *args: Any) -> None:
        try:
            await unpublish(self, *args)
        except Failed as failure:
            if failure.code != Code.DEADLINE_EXCEEDED:
                raise

    return mock.patch.object(Reconciler, "_unpublish", hopeful)


def _own_writes_are_forgotten() -> contextlib.AbstractContextManager[Any]:
    """The cache learns of our own writes from the watch alone."""

    async def write(self: Informer[Any], key: Any, request: Any) -> Any:
        return await request

    return mock.patch.object(Informer, "write", write)


def _own_writes_hide_deletions() -> contextlib.AbstractContextManager[Any]:
    """What the answer to a write shows of others' doing wakes nobody."""
    changed = EventHandlers.attachment_changed

    def deaf(self: EventHandlers, change: Any) -> None:
        if change.new is None or change.cause is not Cause.OWN_WRITE:
            changed(self, change)

    return mock.patch.object(EventHandlers, "attachment_changed", deaf)


def _slots_are_ignored() -> contextlib.AbstractContextManager[Any]:
    """Calls for one volume run side by side."""
    slot = mock.MagicMock()
    slot.__exit__.return_value = None
    return mock.patch.object(CallSlots, "begin", return_value=slot)


def _reports_are_ignored() -> contextlib.AbstractContextManager[Any]:
    """What the backend reports contradicts nothing."""
    return mock.patch.object(drift, "find_drift", return_value=None)


def _single_nodes_are_shared() -> contextlib.AbstractContextManager[Any]:
    """An attachment elsewhere keeps nobody from attaching."""
    return mock.patch.object(decide, "_held_elsewhere", return_value=None)


def _users_of_volumes_are_not_seen() -> contextlib.AbstractContextManager[Any]:
    """A deleted volume's finalizer goes at once."""

    def decided(view: Any, pv_name: str) -> Decision[Action]:
        released = Decision(why.VolumeReleased(), (RemoveVolumeFinalizer(pv_name),))
        pv = view.volume(pv_name)
        return released if pv is not None and view.releasable(pv) else decide.decide_volume(view, pv_name)

    return mock.patch.object(controller, "decide_volume", decided)


def _calls_keep_no_volume() -> contextlib.AbstractContextManager[Any]:
    """A deleted volume without attachments loses its finalizer, also under a call for it."""
    return mock.patch.object(View, "caller_for", return_value=None)


def _removals_are_not_tested() -> contextlib.AbstractContextManager[Any]:
    """A finalizer is removed by its place, whatever stands there by then."""
    remove_finalizer = writes.remove_finalizer

    def untested(*args: Any, **options: Any) -> Patch:
        patch = remove_finalizer(*args, **options)
        return Patch(patch.type, [operation for operation in patch.body if operation["op"] != "test"])

    return mock.patch.object(writes, "remove_finalizer", untested)


def _unconfirmed_publishes_end_with_their_attachment() -> contextlib.AbstractContextManager[Any]:
    """That a publish may have happened is forgotten when its attachment is torn away."""

    ended = Memory.ended

    def forgetful(self: Memory, attachment: VolumeAttachment) -> bool:
        if self.orphaned(attachment.metadata.name) is None:
            self.observe(attachment.metadata.name, Evidence.UNDONE)
        return ended(self, attachment)

    return mock.patch.object(Memory, "ended", forgetful)


def _unconfirmed_publishes_end_with_an_attempt() -> contextlib.AbstractContextManager[Any]:
    """That a publish may have happened is forgotten before the unpublish has worked."""
    carry_out = Reconciler.carry_out

    async def hopeful(self: Reconciler, target: Any, actions: tuple[Action, ...], slot: Any) -> None:
        if any(isinstance(action, Unpublish) for action in actions):
            self._memory.observe(target.name, Evidence.UNDONE)
        await carry_out(self, target, actions, slot)

    return mock.patch.object(Reconciler, "carry_out", hopeful)


def _unconfirmed_publishes_hold_no_volume() -> contextlib.AbstractContextManager[Any]:
    """A publish that is still to be taken back keeps the volume neither here nor from other nodes."""
    return mock.patch.object(View, "unconfirmed_about", return_value=())


def _undos_see_no_twin() -> contextlib.AbstractContextManager[Any]:
    """A publish is taken back also where another attachment holds the volume on that node."""

    undo = decide._decide_undo

    def blind(*args: Any) -> Decision[Action]:
        with mock.patch.object(View, "twins", side_effect=lambda *_: iter(())):
            return undo(*args)

    return mock.patch.object(decide, "_decide_undo", blind)


def _names_are_identities() -> contextlib.AbstractContextManager[Any]:
    """A status is written to whichever attachment has the name by then."""
    return mock.patch.object(writes, "merge_patch", lambda body, of: merge_patch(body))


def _removals_are_of_any_object() -> contextlib.AbstractContextManager[Any]:
    """A finalizer is removed from whichever attachment has the name by then."""
    remove_finalizer = writes.remove_finalizer

    def of_any(*args: Any) -> Patch:
        patch = remove_finalizer(*args)
        return Patch(patch.type, [operation for operation in patch.body if operation["path"] != "/metadata/uid"])

    return mock.patch.object(writes, "remove_finalizer", of_any)


def _shown_publishes_stay_unconfirmed() -> contextlib.AbstractContextManager[Any]:
    """A publish whose status patch had no answer is never settled by what the cache shows."""
    return mock.patch.object(decide, "_settle", return_value=())


def _former_machines_are_forgotten() -> contextlib.AbstractContextManager[Any]:
    """The node's name stands for the machine that has it now."""
    return mock.patch.object(View, "former_ids", return_value=())


def _leaving_holders_are_not_seen() -> contextlib.AbstractContextManager[Any]:
    """An attachment that is being deleted keeps its volume from no other node by that."""
    held_elsewhere = decide._held_elsewhere

    def blind(*args: Any) -> Any:
        with mock.patch.object(decide, "is_deleting", return_value=False):
            return held_elsewhere(*args)

    return mock.patch.object(decide, "_held_elsewhere", blind)


def _volumes_are_held_blindly() -> contextlib.AbstractContextManager[Any]:
    """A finalizer is added without a look at the list, also when it may be there already."""
    return mock.patch.object(
        writes, "add_finalizer", lambda pv, finalizer, strictly: add_finalizer(pv, finalizer, strictly=False)
    )


BUGS: Final[Mapping[str, Bug]] = {
    "shown-publishes-unconfirmed": Bug(_shown_publishes_stay_unconfirmed, {"unpublish-mounted"}),
    **bugs_of_habits.BUGS,
    "publish-before-finalizer": Bug(_reordered(Publish, AddFinalizer), {"publish-no-finalizer"}),
    "release-before-unpublish": Bug(
        _reordered(RemoveFinalizer, Unpublish), {"finalizer-dropped", "needless-unpublish"}
    ),
    "timeout-is-success": Bug(_timeout_is_success, {"finalizer-dropped"}),
    "own-writes-forgotten": Bug(
        _own_writes_are_forgotten,
        {"needless-publish", "needless-unpublish", "empty-write", "finalizer-twice"},
    ),
    "own-writes-hide-deletions": Bug(
        _own_writes_hide_deletions,
        {"unwanted-left", "wanted-missing", "wanted-unattached", "volume-left"},
    ),
    "slots-ignored": Bug(_slots_are_ignored, {"overlap"}),
    "reports-ignored": Bug(_reports_are_ignored, {"wanted-unpublished"}),
    "single-nodes-shared": Bug(_single_nodes_are_shared, {"two-nodes"}),
    "no-back-off": Bug(no_back_off, {"hot-loop"}),
    "failures-final": Bug(failures_are_final, {"wanted-unattached", "wanted-missing", "unwanted-left", "volume-left"}),
    "users-of-volumes-unseen": Bug(_users_of_volumes_are_not_seen, {"volume-dropped"}),
    "volumes-held-blindly": Bug(_volumes_are_held_blindly, {"finalizer-twice"}),
    "calls-keep-no-volume": Bug(_calls_keep_no_volume, {"volume-dropped", "unwanted-left"}),
    "removals-untested": Bug(_removals_are_not_tested, {"foreign-touched"}),
    "unconfirmed-publishes-end-with-attachment": Bug(
        _unconfirmed_publishes_end_with_their_attachment,
        {"published-unwanted", "two-nodes", "volume-dropped"},
    ),
    "unconfirmed-publishes-end-with-attempt": Bug(
        _unconfirmed_publishes_end_with_an_attempt,
        {"published-unwanted", "two-nodes", "volume-dropped"},
    ),
    "unconfirmed-publishes-hold-nothing": Bug(_unconfirmed_publishes_hold_no_volume, {"two-nodes", "volume-dropped"}),
    "undos-see-no-twin": Bug(_undos_see_no_twin, {"unpublish-wanted"}),
    "names-are-identities": Bug(_names_are_identities, {"mark-astray", "late-astray"}),
    "removals-of-any-object": Bug(_removals_are_of_any_object, {"late-astray"}),
    "former-machines-forgotten": Bug(
        _former_machines_are_forgotten, {"finalizer-dropped", "published-unwanted", "two-nodes"}
    ),
    "leaving-holders-unseen": Bug(_leaving_holders_are_not_seen, {"two-nodes"}),
}
