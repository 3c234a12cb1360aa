"""Defects that were once there, planted again: what the controllers took for known, and was not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

from mooring.api.meta import Object, annotation
from mooring.api.nodes import is_ready
from mooring.base.clock import Instant
from mooring.base.units import parse_duration_s
from mooring.cluster.attachdetach import assemble, reconcile, release
from mooring.cluster.attachdetach.event_handlers import EventHandlers
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.identity import FORCE_AFTER
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.reconcile import Reconciler
from mooring.cluster.attachdetach.silence import WAITS_SINCE
from mooring.cluster.attachdetach.view import View
from mooring.control.decision import Failed
from mooring.control.object_writer import ObjectWriter
from mooring.kube.errors import ApiError
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]


def _unread_classes_say_nothing() -> Planted:
    """An error when a StorageClass is read counts as no annotation."""
    real = Reconciler._look_up_class

    async def careless(self: Reconciler, volume: Any, name: str) -> None:
        try:
            await real(self, volume, name)
        except ApiError:
            self._memory.class_waits[name] = None, self._clock.now()

    return mock.patch.object(Reconciler, "_look_up_class", careless)


def _one_class_counts() -> Planted:
    """Of several PersistentVolumes of a volume the first one's class says when a detach is forced."""
    real = assemble._classes_of
    return mock.patch.object(assemble, "_classes_of", lambda pvs: real(tuple(pvs)[:1]))


def _classes_end_with_their_volumes() -> Planted:
    """What a class said of a volume is forgotten with its PersistentVolume."""
    return mock.patch.object(Memory, "class_of", return_value="")


def _classes_are_noted_at_looks() -> Planted:
    """The class of a volume whose PersistentVolume is gone counts only where the volume was decided about before."""
    real = reconcile.observe

    def noting(view: View, volume: Volume, now: Instant) -> None:
        real(view, volume, now)
        for name in volume.class_names:
            view.memory.lost_volume(volume.unique, name)

    return both(mock.patch.object(EventHandlers, "_may_be_lost"), mock.patch.object(reconcile, "observe", noting))


def _odd_words_mean_nothing() -> Planted:
    """A text that can't be read counts as none."""

    def lenient(obj: Object | None) -> float | None:
        text = "" if obj is None else annotation(obj, FORCE_AFTER)
        try:
            return release.NEVER if text == "never" else parse_duration_s(text) if text else None
        except ValueError:
            return None

    return both(*(mock.patch.object(module, "force_after_of", lenient) for module in (reconcile, assemble)))


def _nothing_is_fenced() -> Planted:
    """An attachment is reported though a DELETE of it may be under way."""
    return mock.patch.object(Place, "delete_may_be_under_way", property(lambda self: False))


def _deletes_name_no_version() -> Planted:
    """A fence does not stop a DELETE that was sent before it."""
    delete = ObjectWriter.delete

    async def by_uid(self: ObjectWriter[Any], obj: Any, *, strictly: bool = False, **how: Any) -> None:
        await delete(self, obj, **how)

    return mock.patch.object(ObjectWriter, "delete", by_uid)


def _lost_deletes_failed() -> Planted:
    """A DELETE whose answer was lost did not happen, and never will."""
    real = Reconciler._delete

    async def forgetful(self: Reconciler, volume: Any, action: Any) -> None:
        try:
            await real(self, volume, action)
        except Failed:
            self._memory.deletions.pop(action.attachment.metadata.uid, None)
            volume.place.record.fenced_uid = action.attachment.metadata.uid
            raise

    return mock.patch.object(Reconciler, "_delete", forgetful)


def _silences_are_one() -> Planted:
    """A wait that was written down goes on though the node was ready in between."""

    def mark_on(attachment: Any, node: Any, record: Any) -> str:
        return "" if is_ready(node) else annotation(attachment, WAITS_SINCE)

    return mock.patch.object(assemble, "mark_on", mark_on)


def _new_nodes_have_nothing_mounted() -> Planted:
    """A Node that was made anew says what is mounted there from its first moment on."""
    return mock.patch.object(assemble, "unsaid_s", return_value=0.0)


HARM_BUGS: Final[Mapping[str, Bug]] = {
    "classes-noted-at-looks": Bug(_classes_are_noted_at_looks, {"class-word"}),
    "unread-classes-say-nothing": Bug(_unread_classes_say_nothing, {"class-word"}),
    "one-class-counts": Bug(_one_class_counts, {"class-word"}),
    "classes-end-with-volumes": Bug(_classes_end_with_their_volumes, {"class-word"}),
    "odd-words-mean-nothing": Bug(_odd_words_mean_nothing, {"class-word"}),
    "nothing-fenced": Bug(_nothing_is_fenced, {"detach-reported", "I4", "I5", "I6", "two-listed"}),
    "deletes-name-no-version": Bug(_deletes_name_no_version, {"detach-reported", "I4", "I5", "I6"}),
    "lost-deletes-failed": Bug(_lost_deletes_failed, {"detach-reported", "I4", "I5", "I6"}),
    "silences-are-one": Bug(_silences_are_one, {"I11", "class-word"}),
    "new-nodes-empty": Bug(_new_nodes_have_nothing_mounted, {"I6"}),
}
