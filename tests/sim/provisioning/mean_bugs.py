"""More bugs to plant: mends of what kinder drivers and users never showed, each taken out again."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

from mooring.control.event_correlation import Correlator
from mooring.controllers.binder.volumes import decide as binding
from mooring.controllers.provisioner.claims import decide, pv_store, response_checks
from mooring.controllers.provisioner.claims.create_volume import VolumeCreation
from mooring.controllers.provisioner.claims.outcomes import Save
from mooring.controllers.provisioner.claims.pv_store import PvStore
from mooring.controllers.provisioner.claims.view import View as ClaimView
from mooring.controllers.provisioner.deletion import controller as deletion_controller
from mooring.controllers.provisioner.deletion import decide as deletion_decide
from mooring.controllers.provisioner.deletion import view as deletion
from mooring.controllers.provisioner.intents import lease_codec, tracker
from mooring.controllers.provisioner.intents.journal import Journal
from mooring.controllers.provisioner.intents.lease_store import LeaseStore
from mooring.controllers.provisioner.intents.pages import JournalEntries
from mooring.controllers.provisioner.intents.tracker import IntentTracker
from mooring.controllers.provisioner.source_protection import decide as source_decide
from mooring.kube.errors import ApiError
from mooring.why import references
from tests.sim.planting import Bug, both

_Plant = contextlib.AbstractContextManager[Any]


def _odd_answers_are_deleted() -> _Plant:
    """A volume of no use is deleted without a look at what else names it."""

    async def refused(self: PvStore, intent: Any, volume_id: str, refused: str) -> tuple[Save, str]:
        return Save.REFUSED, refused

    unseen = mock.patch.object(ClaimView, "others_naming", return_value=[])
    return both(mock.patch.object(PvStore, "_unless_named", refused), unseen)


def _places_are_compared_by_key() -> _Plant:
    """A place that is told under another key than it was asked with is another place."""

    def is_at(given: Any, where: Any) -> bool:
        return where.places.position(given) is not None

    return mock.patch.object(response_checks, "_may_be_at", is_at)


def _claims_and_pods_mean_nothing() -> _Plant:
    """`mooring orphans` looks at PersistentVolumes and intents alone."""
    return mock.patch.object(references, "_left", return_value=())


def _entries_count_unpacked() -> _Plant:
    """The room in the journal is counted in bytes before they are packed."""
    return mock.patch.object(lease_codec, "packed_bytes", len)


def _classes_that_are_gone_named_no_secret() -> _Plant:
    """NotFound counts as deleted while the class that may name a Secret is gone."""
    return mock.patch.object(deletion_decide, "_missing_class", return_value="")


def _unreadable_secrets_are_gone() -> _Plant:
    """Whatever keeps a Secret from being read counts as its end."""
    is_gone = decide._is_gone

    def gone(secret: Any, looked: Any) -> bool:
        if secret is None:
            return False
        try:
            looked.get(decide.Wanted(decide.SECRETS, secret.name, secret.namespace))
        except (ApiError, decide.SecretError):
            return True
        return is_gone(secret, looked)

    return mock.patch.object(decide, "_is_gone", gone)


def _success_settles_all_requests() -> _Plant:
    """One volume rules out what any other request of the claim has made."""

    def still_unknown(unknown: list[Any], answered: Any, *, proves_absent: bool) -> list[Any]:
        return [] if proves_absent else unknown

    return mock.patch.object(tracker, "still_unknown", still_unknown)


def _later_intents_are_dropped() -> _Plant:
    """What a later version has written is taken for nothing."""
    take_in = JournalEntries._take_in

    def taken_in(self: JournalEntries, page: Any, uid: str, text: bytes, *, is_unattended: bool) -> None:
        with contextlib.suppress(lease_codec.UnreadablePage):
            lease_codec.decoded(text)
            take_in(self, page, uid, text, is_unattended=is_unattended)

    return mock.patch.object(JournalEntries, "_take_in", taken_in)


def _policies_pass() -> _Plant:
    """An object that is forbidden is sent for ever."""
    return mock.patch.object(pv_store, "DENIED_S_MAX", math.inf)


def _all_that_wait_hold_a_snapshot() -> _Plant:
    """Also claims for which nothing is being made."""
    view = source_decide.View
    return mock.patch.object(view, "present_users", view.users)


def _adopted_sources_are_strangers() -> _Plant:
    """The finalizer of a volume that the journal names counts as somebody else's."""
    return mock.patch.object(VolumeCreation, "found")


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
    """Also while the claim's own volume is being deleted."""

    async def wait_for_end(self: IntentTracker, uid: str) -> None:
        await self._intents.wait_for_end(uid)

    return both(mock.patch.object(decide, "_is_going", return_value=False), mock.patch.object(IntentTracker, "wait_for_end", wait_for_end))


def _stored_handles_stay() -> _Plant:
    """That the claim's volume is deleted is not noted: another one of its handle is taken for it."""
    return mock.patch.object(IntentTracker, "forget_stored", mock.AsyncMock())


def _keepers_are_not_seen() -> _Plant:
    """A released volume takes along what another object names."""
    return mock.patch.object(deletion.View, "keepers_of", return_value=())


def _warnings_share_their_room() -> _Plant:
    """Events of all types of one object have one bucket, as in client-go."""
    may_speak = Correlator._may_speak
    return mock.patch.object(Correlator, "_may_speak", lambda self, about, now: may_speak(self, about[0], now))


def _obstacles_are_told_too_late() -> _Plant:
    """Once an hour, at the first resync after it."""
    init = deletion_controller.VolumeDeletion.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._silent_s = deletion_controller.EVENT_LASTS_S

    return mock.patch.object(deletion_controller.VolumeDeletion, "__init__", made)


def _volumes_are_stored_for_all_who_got_them() -> _Plant:
    """Nobody looks whether another claim is being given the same volume."""
    store = PvStore.store

    async def stored(self: PvStore, volume: Any) -> tuple[Save, str]:
        self._storing.clear()
        try:
            return await store(self, volume)
        except KeyError:  # another one has taken its mark away
            return Save.STORED, ""

    return mock.patch.object(PvStore, "store", stored)


def _damaged_references_release() -> _Plant:
    """A volume whose claimRef names no claim is released, whatever claim is bound to it."""
    return mock.patch.object(binding, "_bound_to", return_value=None)


def _removed_references_free() -> _Plant:
    """A volume without claimRef is anybody's."""
    return mock.patch.object(binding, "_owner", return_value=None)


def _holds_are_not_confirmed() -> _Plant:
    """A repeated call is made without the write that precedes it."""
    return mock.patch.object(Journal, "_confirm_hold", mock.AsyncMock())


BUGS: Final[Mapping[str, Bug]] = {
    "odd-answers-deleted": Bug(_odd_answers_are_deleted, {"deleted-in-use", "deleted-wanted", "shared-volume", "deleted-kept"}),
    "places-by-key": Bug(_places_are_compared_by_key, {"claim-pending", "intent-left"}),
    "orphans-claims-unseen": Bug(_claims_and_pods_mean_nothing, {"orphan-meant"}),
    "entries-unpacked": Bug(_entries_count_unpacked, {"claim-pending"}),
    "class-gone": Bug(_classes_that_are_gone_named_no_secret, {"leaked"}),
    "secrets-gone": Bug(_unreadable_secrets_are_gone, {"leaked"}),
    "success-settles-all": Bug(_success_settles_all_requests, {"leaked"}),
    "later-dropped": Bug(_later_intents_are_dropped, {"later-lost"}),
    "policies-pass": Bug(_policies_pass, {"intent-left"}),
    "snapshots-held": Bug(_all_that_wait_hold_a_snapshot, {"snapshot-held"}),
    "adopted-strangers": Bug(_adopted_sources_are_strangers, {"snapshot-held"}),
    "pages-count-at-once": Bug(_new_pages_count_at_once, {"create-unwritten"}),
    "changed-pages-unread": Bug(_changed_pages_are_not_read, {"later-lost", "create-unwritten", "leaked"}),
    "second-at-once": Bug(_second_volumes_are_asked_for_at_once, {"overlap", "leaked", "made-again", "deleted-kept"}),
    "stored-handles-stay": Bug(_stored_handles_stay, {"leaked"}),
    "keepers-unseen": Bug(_keepers_are_not_seen, {"deleted-named"}),
    "warnings-crowded-out": Bug(_warnings_share_their_room, {"silent"}),
    "obstacles-late": Bug(_obstacles_are_told_too_late, {"silent"}),
    "stored-for-all": Bug(_volumes_are_stored_for_all_who_got_them, {"shared-volume"}),
    "damaged-references": Bug(_damaged_references_release, {"deleted-wanted", "claim-pending", "bound-twice"}),
    "removed-references": Bug(_removed_references_free, {"bound-twice", "claim-pending"}),
    "holds-unconfirmed": Bug(_holds_are_not_confirmed, {"create-unwritten"}),
}
