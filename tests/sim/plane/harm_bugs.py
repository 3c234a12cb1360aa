"""Defects that were once there, planted again: what the controllers took for known, and was not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

from mooring.api.meta import Object, annotation
from mooring.base.clock import Instant
from mooring.base.units import parse_duration_s
from mooring.cluster.attachdetach import assemble, decide, reconcile, release
from mooring.cluster.attachdetach.event_handlers import EventHandlers
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.identity import FORCE_AFTER
from mooring.cluster.attachdetach.memory import Deletion, Memory, NodeRecord, Record
from mooring.cluster.attachdetach.reconcile import Reconciler
from mooring.cluster.attachdetach.view import View
from mooring.kube.errors import ApiError
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]


class _NeverRaised(ApiError):
    pass


def _unread_classes_say_nothing() -> Planted:
    """An error when a StorageClass is read counts as no annotation."""
    real = Reconciler._look_up_class

    async def careless(self: Reconciler, volume: Any, place: Place, name: str) -> None:
        try:
            await real(self, volume, place, name)
        except ApiError:
            self._memory.class_waits[name] = None, self._runtime.clock.now()

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


def _unanswered_deletes_are_forgotten() -> Planted:
    """A DELETE whose answer was lost did not happen."""
    real = Reconciler._send_delete

    async def forgetful(self: Reconciler, action: Any) -> None:
        try:
            await real(self, action)
        except ApiError:
            self._memory.deletions.pop(action.uid, None)
            raise

    return mock.patch.object(Reconciler, "_send_delete", forgetful)


def _forced_deletes_are_sent_again() -> Planted:
    """A DELETE by force without an answer is sent again, whatever has become of the node."""

    def blind(volume: Any, place: Place, rules: Any, now: Instant) -> Any:
        assert place.deletion is not None
        forced, place.deletion.forced = place.deletion.forced, ""
        try:
            return real(volume, place, rules, now)
        finally:
            place.deletion.forced = forced

    real = decide._delete_again
    return mock.patch.object(decide, "_delete_again", blind)


def _repeats_are_blind() -> Planted:
    """A DELETE without an answer is sent again also where the Node has listed the volume since.

    Attachments are deleted within their first second with it: no life from 4357 to 4700 is known that shows it otherwise.
    """
    return both(
        mock.patch.object(Deletion, "was_reported", property(lambda self: False, lambda self, value: None)),
        _seconds_are_moments(),
    )


def _one_look_ends_a_post() -> Planted:
    """A POST without an answer was not carried out, and never will be, once its attachment is looked for in vain."""

    def looked_up(self: Record, uid: str, asked_at: Instant) -> None:
        self.creating, self.open_posts = False, 0

    return mock.patch.object(Record, "looked_up", looked_up)


def _requests_end_with_an_error() -> Planted:
    """A request about an attachment that the server answered with 5xx did nothing."""
    return mock.patch.object(reconcile, "ServerError", _NeverRaised)


def _silences_are_one() -> Planted:
    """A return of the node that nobody looked at did not happen."""
    real = Record.observe
    return mock.patch.object(Record, "observe", lambda self, **facts: real(self, **{**facts, "silence": ""}))


def _new_nodes_have_nothing_mounted() -> Planted:
    """A Node that was made anew says what is mounted there from its first moment on."""

    def heard(self: NodeRecord, in_use: Any, *, is_new: bool, is_ready: bool, now: Instant) -> bool:
        return False

    return mock.patch.object(NodeRecord, "heard", heard)


def _nothing_is_inherited() -> Planted:
    """No earlier process has asked for anything that is yet to come."""
    return mock.patch.object(assemble, "_may_have_been_unwanted", return_value=False)


def _seconds_are_moments() -> Planted:
    """An attachment is deleted within the second in which it was made."""
    return mock.patch.object(decide, "STAMP_S", 0.0)


HARM_BUGS: Final[Mapping[str, Bug]] = {
    "unread-classes-say-nothing": Bug(_unread_classes_say_nothing, {"class-word"}, first_seed=325),
    "one-class-counts": Bug(_one_class_counts, {"class-word"}, first_seed=568),
    "classes-end-with-volumes": Bug(_classes_end_with_their_volumes, {"class-word"}, first_seed=915),
    "odd-words-mean-nothing": Bug(_odd_words_mean_nothing, {"class-word"}, first_seed=773),
    "unanswered-deletes-forgotten": Bug(_unanswered_deletes_are_forgotten, {"detach-reported", "I5"}, first_seed=1117),
    "repeats-are-blind": Bug(_repeats_are_blind, {"I4", "I6"}, first_seed=4357),
    "one-look-ends-post": Bug(_one_look_ends_a_post, {"post-open", "I1", "I2"}, first_seed=120),
    "requests-end-with-error": Bug(
        _requests_end_with_an_error, {"post-open", "detach-reported", "I1", "I2"}, first_seed=73
    ),
    "silences-are-one": Bug(_silences_are_one, {"I11", "class-word"}, first_seed=423),
    "new-nodes-empty": Bug(_new_nodes_have_nothing_mounted, {"I6"}, first_seed=342),
    "nothing-inherited": Bug(_nothing_is_inherited, {"detach-reported", "I4", "I6", "two-listed"}, first_seed=135),
    "seconds-are-moments": Bug(_seconds_are_moments, {"I4", "I6"}, first_seed=16453),
}
