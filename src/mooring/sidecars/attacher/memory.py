"""The attacher's memory beside the caches: one record for each attachment that there is something to remember of, gone with it.

Only a publish that is to be undone outlives its attachment. From the moment of the call until its attachment shows it, a publish is
unconfirmed: it may have happened, and nothing in the API server says so. If the attachment vanishes meanwhile, nobody else would ever
unpublish the volume; then the publish is orphaned: it is to be undone, until that has worked.

    learnt          unconfirmed                                 orphaned
    MARKED          over                                        to be undone
    UNSENT          the API server is asked                     to be undone
    UNKNOWN         stays unconfirmed                           to be undone
    VANISHED        orphaned: to be undone                      to be undone
    UNPUBLISHED     over, others may go on                      to be undone: the detach may have come before the publish
    RELEASED        over                                        to be undone
    SHOWN           over                                        over
    UNDONE          over, others may go on                      over, others may go on

external-attacher has no undo. Ours is known to this process only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import SecretReference
from mooring.api.storage import VolumeAttachment
from mooring.base.log import logger
from mooring.control.topics import Topic
from mooring.sidecars.attacher.requests import UnpublishOrder

log = logger(__name__)

UNDOS_MAX: Final = 1000
"""Publishes to be undone that are remembered although undoing them has failed."""

UNSURE_MAX: Final = 1000
"""Volumes remembered as unsure; from here on every volume counts as unsure."""


class Learnt(enum.Enum):
    """Evidence about a publish that may have happened."""

    MARKED = "its attachment tells of it"
    UNSENT = (
        "the cache shows the attachment marked so already: nothing was sent, and so nothing learnt of the API server"
    )
    UNKNOWN = "the API server does not say whether its attachment is there"
    VANISHED = "its attachment is no more"
    UNPUBLISHED = "a detach by its attachment has worked"
    RELEASED = "its finalizer is removed knowingly: detached, or another attachment's business"
    SHOWN = (
        "the cache shows it, and the API server has it: an attachment that says so, of this name, volume and machine"
    )
    UNDONE = "it was taken back, or left to another attachment"


class After(msgspec.Struct, frozen=True):
    """over: the publish is settled. ask: find out whether its attachment is there. undo: it has to be undone.

    freed: nothing is published there any more, which others may wait for.
    """

    over: bool = False
    ask: bool = False
    undo: bool = False
    freed: bool = False


class Drift(enum.Enum):
    """How the backend's last report contradicts an attachment's status."""

    MISSING = "attached here, not published in the backend"
    MOVED = "attached here, published on the machine that had the node's name before"
    EXTRA = "not attached here, but published in the backend"


class UnconfirmedPublish(msgspec.Struct, frozen=True):
    """A publish that may have happened, and that no attachment shows. order: undoes it. attachment: its own, as it was then."""

    order: UnpublishOrder
    attachment: VolumeAttachment

    @property
    def name(self) -> str:
        """The attachment's."""
        return self.attachment.metadata.name


class Record(msgspec.Struct, frozen=True):
    """drift: the last report of the backend, where it differs. finalizer_unknown_uid: of the attachment whose patch had no answer.

    orphaned: the attachment of the unconfirmed publish is gone, so the publish is to be undone.
    """

    drift: Drift | None = None
    finalizer_unknown_uid: str | None = None
    unconfirmed: UnconfirmedPublish | None = None
    orphaned: bool = False


_NOTHING: Final = Record()


def decide_after(learnt: Learnt, *, orphaned: bool) -> After:
    """The next step for an unconfirmed publish. orphaned: its attachment is known to have vanished."""
    if learnt in (Learnt.UNDONE, Learnt.SHOWN):
        return After(over=True, freed=learnt is Learnt.UNDONE)
    if orphaned or learnt is Learnt.VANISHED:
        return After(undo=True)
    match learnt:
        case Learnt.MARKED | Learnt.RELEASED:
            return After(over=True)
        case Learnt.UNPUBLISHED:
            return After(over=True, freed=True)
        case Learnt.UNSENT:
            return After(ask=True)
    return After()


def secret_read(ref: SecretReference) -> Topic:
    """Told when the reading of this Secret has ended, in whatever way."""
    return f"secret/{ref.namespace}/{ref.name}"


class CallSecrets:
    """The Secrets of the next calls, by the attachment's name.

    Each is read before a call's slot is taken, so that a slow one holds up no volume that does not need it.

    an attachment             because                                      and becomes
    without its Secret        nobody has read it for its next call         reading it, or sharing it (share) where somebody reads it already
    reading, or sharing       the API server is asked, once for all        with its Secret (succeeded), or failed, all of them alike
    with its Secret           it may have to wait for a slot               without, after its call (forget)

    An attachment that shares is parked and holds no worker. Values are kept until the call that they were read for.
    """

    def __init__(self) -> None:
        self._values: dict[str, tuple[SecretReference, Mapping[str, str]]] = {}
        self._failures: dict[str, tuple[SecretReference, str]] = {}
        self._sharing: dict[SecretReference, set[str]] = {}  # a Secret that is being read → who shares what comes of it

    def is_at_hand(self, name: str, ref: SecretReference) -> bool:
        """True when this Secret was read for the attachment's next call."""
        return name in self._values and self._values[name][0] == ref

    def is_being_read(self, ref: SecretReference) -> bool:
        return ref in self._sharing

    def values(self, name: str) -> Mapping[str, str]:
        """For the call; none where it needs no Secret."""
        return self._values[name][1] if name in self._values else {}

    def share(self, name: str, ref: SecretReference) -> None:
        """This attachment gets what comes of the reading."""
        self._sharing[ref].add(name)

    def failure(self, name: str, ref: SecretReference) -> str | None:
        """The error of the reading that this attachment shared; None for none. Returns each error once."""
        shared, error = self._failures.pop(name, (None, None))
        return error if shared == ref else None

    def begin(self, ref: SecretReference) -> None:
        assert ref not in self._sharing, "two readings of one Secret"
        self._sharing[ref] = set()

    def succeeded(self, name: str, ref: SecretReference, values: Mapping[str, str]) -> None:
        """The attachment has read the Secret; those that share the reading find it fresh in the cache of Secrets."""
        self._values[name] = (ref, values)

    def failed(self, ref: SecretReference, error: str) -> None:
        self._failures.update(dict.fromkeys(self._sharing[ref], (ref, error)))

    def end(self, ref: SecretReference) -> None:
        """Nobody reads it any more."""
        del self._sharing[ref]

    def forget(self, name: str) -> None:
        """Its call is over, or there is none."""
        self._values.pop(name, None)
        self._failures.pop(name, None)
        for sharing in self._sharing.values():
            sharing.discard(name)


class Memory:
    """Records by the attachment's name; and volumes that may carry the finalizer although the cache does not show it.

    secrets: those of the next calls.
    """

    def __init__(self) -> None:
        self.secrets = CallSecrets()
        self._records: dict[str, Record] = {}
        self._unconfirmed: dict[
            str, dict[str, UnconfirmedPublish]
        ] = {}  # by volume handle, then by the attachment's name
        self._unsure_volumes: set[str] = set()
        self._worked_on: set[str] | None = None  # while the backend is asked for a report

    def __len__(self) -> int:
        """Attachments with a record."""
        return len(self._records)

    def ended(self, name: str) -> bool:
        """The attachment is gone. Returns True when a publish under its name is to be undone."""
        self.secrets.forget(name)
        if name not in self._records:
            return False
        self.learn(name, Learnt.VANISHED)
        self._change(name, drift=None, finalizer_unknown_uid=None)
        return self.orphaned(name) is not None

    # -- reports of the backend

    def drift(self, name: str) -> Drift | None:
        return self._records.get(name, _NOTHING).drift

    def mark_drift(self, name: str, drift: Drift | None) -> None:
        """None: the mark is used up."""
        if self.drift(name) is not drift:
            self._change(name, drift=drift)

    def round_begins(self) -> None:
        """The backend is asked for a report."""
        self._worked_on = set()

    def round_ends(self) -> None:
        self._worked_on = None

    def worked_on(self, name: str) -> None:
        """Work on this attachment has ended: a report that was asked for before says nothing about it."""
        if self._worked_on is not None:
            self._worked_on.add(name)

    def worked_on_in_round(self, name: str) -> bool:
        return self._worked_on is not None and name in self._worked_on

    # -- finalizers whose patch had no answer

    def finalizer_unknown(self, attachment: VolumeAttachment) -> bool:
        """True where the answer to our patch was lost: the finalizer may be there."""
        return self._records.get(attachment.metadata.name, _NOTHING).finalizer_unknown_uid == attachment.metadata.uid

    def mark_finalizer_unknown(self, name: str, uid: str) -> None:
        self._change(name, finalizer_unknown_uid=uid)

    def mark_finalizer_known(self, name: str) -> None:
        """The finalizer of this attachment is known."""
        if name in self._records:
            self._change(name, finalizer_unknown_uid=None)

    # -- unconfirmed publishes

    def mark_unconfirmed(self, unconfirmed: UnconfirmedPublish) -> None:
        """From now on this publish may have happened."""
        self._change(unconfirmed.name, unconfirmed=unconfirmed, orphaned=False)

    def orphaned(self, name: str) -> UnconfirmedPublish | None:
        """The publish that an attachment of this name left behind, and that is to be undone."""
        record = self._records.get(name, _NOTHING)
        return record.unconfirmed if record.orphaned else None

    def unconfirmed_of(self, name: str) -> UnconfirmedPublish | None:
        return self._records.get(name, _NOTHING).unconfirmed

    def unconfirmed_about(self, volume_handle: str) -> tuple[UnconfirmedPublish, ...]:
        """The volume's unconfirmed publishes, orphaned ones among them."""
        unconfirmed_publishes = self._unconfirmed.get(volume_handle)
        return tuple(unconfirmed_publishes.values()) if unconfirmed_publishes else ()

    def learn(self, name: str, learnt: Learnt) -> After:
        """The next step for the unconfirmed publish under this name, none where there is no such publish."""
        record = self._records.get(name, _NOTHING)
        if record.unconfirmed is None:
            return After()
        after = decide_after(learnt, orphaned=record.orphaned)
        if after.over:
            self._change(name, unconfirmed=None, orphaned=False)
        elif after.undo and not record.orphaned:
            handle = record.unconfirmed.order.handle
            log.error(
                "the attachment vanished while its volume was being published: undoing",
                VolumeAttachment=name,
                volume=handle,
            )
            self._change(name, orphaned=True)
        return after

    def undo_failed(self, name: str) -> None:
        """It stays orphaned, and is tried again; unless there are too many of them."""
        if sum(record.orphaned for record in self._records.values()) > UNDOS_MAX:
            log.error(
                "too many publishes are to be undone, this one is given up", VolumeAttachment=name, undos=UNDOS_MAX
            )
            self._change(name, unconfirmed=None, orphaned=False)

    # -- volumes

    def is_unsure(self, pv_name: str) -> bool:
        """True for a volume that may carry the finalizer although the cache does not show it."""
        return pv_name in self._unsure_volumes or len(self._unsure_volumes) >= UNSURE_MAX

    def volume_unsure(self, pv_name: str) -> None:
        if len(self._unsure_volumes) < UNSURE_MAX:
            self._unsure_volumes.add(pv_name)

    def volume_sure(self, pv_name: str) -> None:
        """The cache shows the volume as it is, or it is gone."""
        self._unsure_volumes.discard(pv_name)

    # -- records

    def _change(self, name: str, **changes: Any) -> None:
        old = self._records.get(name, _NOTHING)
        new = msgspec.structs.replace(old, **changes)
        if new == _NOTHING:
            self._records.pop(name, None)
        else:
            self._records[name] = new
        if new.unconfirmed is not old.unconfirmed:
            self._index(name, old.unconfirmed, new.unconfirmed)

    def _index(self, name: str, old: UnconfirmedPublish | None, new: UnconfirmedPublish | None) -> None:
        if old is not None:
            unconfirmed_publishes = self._unconfirmed[old.order.handle]
            del unconfirmed_publishes[name]
            if not unconfirmed_publishes:
                del self._unconfirmed[old.order.handle]
        if new is not None:
            self._unconfirmed.setdefault(new.order.handle, {})[name] = new
