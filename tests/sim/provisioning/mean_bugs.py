"""More bugs to plant: mends of what kinder drivers and users never showed, each taken out again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.volumes import decide as binding
from mooring.control.events import Correlator, EventOnce
from mooring.inspect import references
from mooring.kube.errors import Conflict
from mooring.sidecars.provisioner.claims import decide
from mooring.sidecars.provisioner.claims.decide_after import Holder
from mooring.sidecars.provisioner.claims.provision import PvOwners
from mooring.sidecars.provisioner.claims.view import View as ClaimView
from mooring.sidecars.provisioner.deletion import controller as deletion_controller
from mooring.sidecars.provisioner.deletion import decide as deletion
from mooring.sidecars.provisioner.intents import lease_codec, tracker
from mooring.sidecars.provisioner.intents.lease_store import JournalEntries, LeaseStore
from mooring.sidecars.provisioner.intents.tracker import IntentTracker
from mooring.sidecars.provisioner.model.intent import IntentEvent
from mooring.sidecars.provisioner.model.outcomes import Save
from mooring.sidecars.provisioner.model.topology import ClusterTopology
from mooring.sidecars.provisioner.source_protection import decide as source_decide
from mooring.sidecars.provisioner.source_protection.controller import SourceProtection
from tests.sim.planting import Bug, both

_Plant = contextlib.AbstractContextManager[Any]


def _odd_answers_are_deleted() -> _Plant:
    """A volume of no use is deleted without a look at what else names it."""

    async def refused(self: PvOwners, intent: Any, volume_id: str, refused: str) -> tuple[Save, str]:
        return Save.REFUSED, refused

    unseen = mock.patch.object(ClaimView, "others_naming", return_value=[])
    return both(mock.patch.object(PvOwners, "_unless_named", refused), unseen)


def _claims_and_pods_mean_nothing() -> _Plant:
    """`mooring orphans` looks at PersistentVolumes and intents alone."""
    return mock.patch.object(references, "_left", return_value=())


def _success_settles_all_requests() -> _Plant:
    """One volume rules out what any other request of the claim has made."""

    entry_after = tracker.entry_after

    def none_is_left(entry: Any, intent: Any, event: IntentEvent) -> Any:
        after = entry_after(entry, intent, event)
        return None if event in (IntentEvent.ABSENT, IntentEvent.STORED) else after

    return mock.patch.object(tracker, "entry_after", none_is_left)


def _later_intents_are_dropped() -> _Plant:
    """What a later version has written is taken for nothing."""
    take_in = JournalEntries._take_in

    def taken_in(self: JournalEntries, page: Any, uid: str, text: bytes, *, is_unattended: bool) -> None:
        with contextlib.suppress(lease_codec.UnreadablePage):
            lease_codec.decoded(text)
            take_in(self, page, uid, text, is_unattended=is_unattended)

    return mock.patch.object(JournalEntries, "_take_in", taken_in)


def _policies_pass() -> _Plant:
    """An object that is forbidden is sent for ever, also for a claim that is gone."""
    return mock.patch.object(PvOwners, "holder", mock.AsyncMock(return_value=Holder.UNKNOWN))


def _all_that_wait_hold_a_snapshot() -> _Plant:
    """Also claims for which nothing is being made."""
    view = source_decide.View
    return mock.patch.object(view, "present_users", view.users)


def _new_pages_count_at_once() -> _Plant:
    """A page counts before the first page says so."""
    return mock.patch.object(LeaseStore, "write", _written_alone)


async def _written_alone(self: LeaseStore, page: Any) -> None:
    await self._store(page)


def _changed_pages_are_not_read() -> _Plant:
    """After a conflict a page is written over what stands there."""
    return mock.patch.object(LeaseStore, "_read", _only_the_lease)


def _only_the_lease(self: LeaseStore, page: Any, lease: Any) -> None:
    page.lease, page.stale = lease, True


def _second_volumes_are_asked_for_at_once() -> _Plant:
    """Also while the claim has its own volume, and while that is being deleted."""

    async def wait_for_end(self: IntentTracker, uid: str) -> None:
        if uid in self and not self.open[uid].is_put_off:
            raise Conflict("it is not over")
        await self._intents.wait_for_end(uid)

    return both(
        mock.patch.object(decide, "_has_volume", return_value=False),
        mock.patch.object(IntentTracker, "wait_for_end", wait_for_end),
    )


def _keepers_are_not_seen() -> _Plant:
    """A released volume takes along what another object names."""
    return mock.patch.object(deletion.View, "keeper_of", return_value="")


def _warnings_share_their_room() -> _Plant:
    """Events of all types of one object have one bucket, as in client-go."""
    may_speak = Correlator._may_speak
    return mock.patch.object(Correlator, "_may_speak", lambda self, about, now: may_speak(self, about[0], now))


def _obstacles_are_told_too_late() -> _Plant:
    """Hours after the API server has dropped the event."""
    return mock.patch.object(deletion_controller, "EventOnce", lambda events, clock: EventOnce(events, clock, 7200.0))


def _one_clone_frees_the_source() -> _Plant:
    """Of two claims that clone one source, the first that is done gives it free for both."""

    def abandon(self: SourceProtection, uid: str) -> None:
        origin = self._source_of.pop(uid, None)
        if origin is not None:
            self._users.pop(origin, None)
            self.controller.add(origin)

    return mock.patch.object(SourceProtection, "abandon", abandon)


def _new_places_are_not_seen() -> _Plant:
    """The places of all nodes are worked out once."""

    def invalidate(self: ClusterTopology) -> None:
        self._keys = None
        self._allowed.clear()

    return mock.patch.object(ClusterTopology, "invalidate", invalidate)


def _changes_of_volumes_are_not_indexed() -> _Plant:
    """A volume that comes to be free, or is no longer, by a change of its object, is not seen so."""
    index = BindingCaches._index_available

    def indexed(self: BindingCaches, change: Any) -> None:
        if change.old is None or change.new is None:
            index(self, change)

    return mock.patch.object(BindingCaches, "_index_available", indexed)


def _damaged_references_release() -> _Plant:
    """A volume whose claimRef names no claim is released, whatever claim is bound to it."""
    return mock.patch.object(binding, "_bound_to", return_value=None)


BUGS: Final[Mapping[str, Bug]] = {
    "obstacles-late": Bug(_obstacles_are_told_too_late, {"silent"}),
    "odd-answers-deleted": Bug(_odd_answers_are_deleted, {"deleted-in-use", "deleted-wanted", "deleted-kept"}),
    "orphans-claims-unseen": Bug(_claims_and_pods_mean_nothing, {"orphan-meant"}),
    "success-settles-all": Bug(_success_settles_all_requests, {"leaked"}, disorderly=True),
    "later-dropped": Bug(_later_intents_are_dropped, {"later-lost"}),
    "policies-pass": Bug(_policies_pass, {"intent-left"}),
    "snapshots-held": Bug(_all_that_wait_hold_a_snapshot, {"snapshot-held"}),
    "pages-count-at-once": Bug(_new_pages_count_at_once, {"create-unwritten"}),
    "changed-pages-unread": Bug(_changed_pages_are_not_read, {"later-lost", "create-unwritten", "leaked"}),
    "second-at-once": Bug(
        _second_volumes_are_asked_for_at_once, {"overlap", "leaked", "made-again", "deleted-kept", "intent-left"}
    ),
    "keepers-unseen": Bug(_keepers_are_not_seen, {"deleted-named"}),
    "warnings-crowded-out": Bug(_warnings_share_their_room, {"silent"}),
    "damaged-references": Bug(
        _damaged_references_release,
        {"deleted-in-use", "deleted-wanted", "claim-pending", "bound-twice"},
    ),
    "volume-changes-unindexed": Bug(_changes_of_volumes_are_not_indexed, {"volume-unused"}),
    "one-clone-frees-all": Bug(_one_clone_frees_the_source, {"source-freed"}),
    "new-places-unseen": Bug(_new_places_are_not_seen, {"claim-pending", "intent-left"}),
}
