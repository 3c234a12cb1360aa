"""Bugs to plant in the provisioner and what is around it, each of which the simulation must find."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.control.decision import Failed
from mooring.csi.errors import DriverError
from mooring.sidecars.provisioner.claims.prepare import volume_name
from mooring.sidecars.provisioner.claims.provision import PvOwners, VolumeCreation
from mooring.sidecars.provisioner.claims.reconcile import ClaimReconciler
from mooring.sidecars.provisioner.claims.view import View as ClaimView
from mooring.sidecars.provisioner.deletion import decide as deletion
from mooring.sidecars.provisioner.deletion.reconcile import Reconciler as Deletion
from mooring.sidecars.provisioner.intents import journal
from mooring.sidecars.provisioner.intents.journal import Intents, Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLease
from mooring.sidecars.provisioner.intents.lease_store import LeaseStore
from mooring.sidecars.provisioner.intents.tracker import IntentTracker
from mooring.sidecars.provisioner.model import outcomes
from mooring.sidecars.provisioner.model.outcomes import Failure, Save
from mooring.wire.grpc.codes import Code
from tests.sim.planting import Bug, both, failures_are_final, no_back_off
from tests.sim.provisioning import life, mean_bugs, slow_bugs


def _intents_in_memory() -> contextlib.AbstractContextManager[Any]:
    """As external-provisioner has them."""
    return mock.patch.object(life, "Journal", _forgetful)


def _forgetful(*_ports: Any) -> Intents:
    return Intents()


def _begins_do_not_wait() -> contextlib.AbstractContextManager[Any]:
    """CreateVolume is called while the intent is still on its way."""
    return mock.patch.object(Journal, "_written", mock.AsyncMock())


def _timeouts_are_final() -> contextlib.AbstractContextManager[Any]:
    """A call that was not answered in time is taken for not done."""
    return mock.patch.object(outcomes, "_BACKGROUND", frozenset({Code.CANCELED, Code.UNAVAILABLE, Code.ABORTED}))


def _what_is_found_is_dropped() -> contextlib.AbstractContextManager[Any]:
    """Who takes the journal over takes nothing from it."""

    def forget(self: Journal) -> None:
        for uid in self._store.found:
            self._store.drop(uid)
        self._store.found = {}

    return mock.patch.object(Journal, "_adopt_found", forget)


def _orphans_are_given_up() -> contextlib.AbstractContextManager[Any]:
    """Once the claim is gone, nobody asks what became of its volume."""

    async def reconcile(self: ClaimReconciler, uid: str) -> Any:
        if self._view.claim(uid) is None and uid in self._tracker:
            await self._tracker._close(self._tracker.open[uid].last)
        return await original(self, uid)

    original = ClaimReconciler.reconcile
    return mock.patch.object(ClaimReconciler, "reconcile", reconcile)


def _refusals_end_it() -> contextlib.AbstractContextManager[Any]:
    """Whatever the driver refuses with, and whatever earlier calls came to."""

    async def refuse(self: IntentTracker, intent: Any, *, proves_absent: bool = False) -> None:
        await self._close(intent)

    return mock.patch.object(IntentTracker, "refuse", refuse)


def _judgements_rule_out() -> contextlib.AbstractContextManager[Any]:
    """What the driver calls a wrong request can't have made a volume before."""
    of_call = outcomes.of_call

    def judged(error: DriverError, **asked: Any) -> Failure:
        return msgspec.structs.replace(
            of_call(error, **asked), proves_absent=error.code in (Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS)
        )

    return mock.patch.object(outcomes, "of_call", judged)


def _intents_end_early() -> contextlib.AbstractContextManager[Any]:
    """An intent ends in the journal with the driver's answer, before the object is stored."""
    call = VolumeCreation._call

    async def called(self: VolumeCreation, order: Any, secrets: Any) -> Any:
        answer = await call(self, order, secrets)
        await self._tracker._intents.end(order.intent.uid)
        await self._tracker._intents.tidy()
        return answer

    return mock.patch.object(VolumeCreation, "_call", called)


def _names_are_random() -> contextlib.AbstractContextManager[Any]:
    """Each attempt asks for another volume."""
    count = iter(range(10_000_000))
    named = lambda view, uid: f"{volume_name(view, uid)}-{next(count)}"  # noqa: E731
    return mock.patch.multiple("mooring.sidecars.provisioner.claims.prepare", volume_name=named)


def _attachments_are_not_seen() -> contextlib.AbstractContextManager[Any]:
    """Nobody looks whether a volume is still attached."""
    return mock.patch.object(deletion.View, "nodes_of", return_value=())


def _ends_are_never_written() -> contextlib.AbstractContextManager[Any]:
    """Journal.end forgets to tell the book."""

    async def end(self: Journal, uid: str) -> None:
        self._open.pop(uid, None)

    return mock.patch.object(Journal, "end", end)


def _objects_go_before_the_end_is_written() -> contextlib.AbstractContextManager[Any]:
    """A volume loses its finalizer while the journal still says that it is being made: the next process makes it
    again.
    """
    return _unsettled()


@contextlib.contextmanager
def _unsettled() -> Iterator[None]:
    with mock.patch.object(IntentTracker, "wait_for_end", mock.AsyncMock()), mock.patch.object(journal, "TIDY_S", 30.0):
        yield


def _whose_is_not_asked() -> contextlib.AbstractContextManager[Any]:
    """A refused PersistentVolume is not looked for: an earlier try may have been taken. Nor is it seen when its volume
    is about to go.
    """
    owner_of_existing = PvOwners.owner_of_existing

    async def refused_is_gone(self: PvOwners, order: Any, volume_id: str, refused: str = "") -> tuple[Save, str]:
        return (Save.REFUSED, refused) if refused else await owner_of_existing(self, order, volume_id)

    def own_is_unseen(self: PvOwners, intent: Any, volume_id: str) -> str:
        return "".join(self._view.others_naming(volume_id, intent.volume_name)[:1])

    unasked = mock.patch.object(PvOwners, "owner_of_existing", refused_is_gone)
    return both(unasked, mock.patch.object(PvOwners, "keeper_of", own_is_unseen))


def _namesakes_are_ours() -> contextlib.AbstractContextManager[Any]:
    """A PersistentVolume of the name is our own, as external-provisioner has it."""
    owner_of_existing = PvOwners.owner_of_existing

    async def ours(self: PvOwners, order: Any, volume_id: str, refused: str = "") -> tuple[Save, str]:
        found, error = await owner_of_existing(self, order, volume_id, refused)
        return (found, error) if refused or found is Save.LATER else (Save.STORED, "")

    return mock.patch.object(PvOwners, "owner_of_existing", ours)


def _unconfirmed_publishes_are_not_written() -> contextlib.AbstractContextManager[Any]:
    """The next process does not know of what the claim wanted before."""
    write = Journal.write

    async def written(self: Journal, entry: Any) -> None:
        await write(self, msgspec.structs.replace(entry, requests=entry.requests[-1:]))

    return mock.patch.object(Journal, "write", written)


def _same_intents_are_not_looked_up() -> contextlib.AbstractContextManager[Any]:
    """What is open already is taken for written, also after a change whose write was not answered."""
    return both(mock.patch.object(LeaseStore, "is_stored", return_value=True), _the_hold_is_not_confirmed())


def _the_hold_is_not_confirmed() -> contextlib.AbstractContextManager[Any]:
    """A repeated call is made without the write that precedes it."""
    return mock.patch.object(Journal, "_confirm_hold", mock.AsyncMock())


def _failed_writes_changed_nothing() -> contextlib.AbstractContextManager[Any]:
    """A write of the journal whose answer is lost is taken for not done."""
    send = LeaseStore._send

    async def sent(self: LeaseStore, page: JournalLease) -> None:
        before = dict(page.stored)
        try:
            await send(self, page)
        except BaseException:
            page.stored = before
            raise

    return both(mock.patch.object(LeaseStore, "_send", sent), _the_hold_is_not_confirmed())


def _imports_are_not_seen() -> contextlib.AbstractContextManager[Any]:
    """Only the object of a volume's own name is looked at."""
    return mock.patch.object(ClaimView, "others_naming", return_value=[])


def _dying_volumes_are_asked_for() -> contextlib.AbstractContextManager[Any]:
    """A deletion that was not answered leaves no mark."""
    return mock.patch.object(IntentTracker, "condemn", mock.AsyncMock())


def _denials_are_deletions() -> contextlib.AbstractContextManager[Any]:
    """NotFound is taken for done."""
    delete_volume = Deletion._delete_volume

    async def deleted(self: Any, *args: Any) -> None:
        try:
            await delete_volume(self, *args)
        except Failed as failure:
            if getattr(failure.__cause__, "code", None) != Code.NOT_FOUND:
                raise

    return mock.patch.object(Deletion, "_delete_volume", deleted)


BUGS: Final[Mapping[str, Bug]] = {
    "dying-asked-for": Bug(_dying_volumes_are_asked_for, {"dying-stored"}, disorderly=True),
    **mean_bugs.BUGS,
    **slow_bugs.BUGS,
    "intents-in-memory": Bug(_intents_in_memory, {"create-unwritten"}),
    "begins-do-not-wait": Bug(_begins_do_not_wait, {"create-unwritten"}),
    "timeouts-final": Bug(_timeouts_are_final, {"leaked"}),
    "found-dropped": Bug(_what_is_found_is_dropped, {"leaked", "intent-left"}),
    "orphans-given-up": Bug(_orphans_are_given_up, {"leaked"}),
    "refusals-end-it": Bug(_refusals_end_it, {"leaked"}),
    "judgements-rule-out": Bug(_judgements_rule_out, {"leaked"}),
    "intents-end-early": Bug(_intents_end_early, {"leaked", "dying-stored"}),
    "names-random": Bug(_names_are_random, {"two-volumes", "leaked"}),
    "attachments-unseen": Bug(_attachments_are_not_seen, {"deleted-attached"}),
    "no-back-off": Bug(no_back_off, {"hot-loop"}),
    "failures-final": Bug(failures_are_final, {"claim-pending", "volume-left", "claim-left", "intent-left", "leaked"}),
    "ends-unwritten": Bug(_ends_are_never_written, {"intent-left"}),
    "let-go-too-early": Bug(_objects_go_before_the_end_is_written, {"made-again", "deleted-kept", "dying-stored"}),
    "whose-unasked": Bug(_whose_is_not_asked, {"deleted-in-use", "deleted-wanted"}),
    "namesakes-ours": Bug(_namesakes_are_ours, {"leaked"}),
    "unconfirmed-publishes-unwritten": Bug(_unconfirmed_publishes_are_not_written, {"leaked"}, disorderly=True),
    "same-intents-unchecked": Bug(_same_intents_are_not_looked_up, {"create-unwritten"}),
    "imports-unseen": Bug(_imports_are_not_seen, {"deleted-imported", "deleted-in-use"}),
    "denials-deletions": Bug(_denials_are_deletions, {"leaked"}),
    "failed-writes-undone": Bug(_failed_writes_changed_nothing, {"create-unwritten"}),
}
