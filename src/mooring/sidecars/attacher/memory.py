"""What the attacher knows beside the caches. It dies with the process: whatever must outlive it stands in an object.

From the moment of the call until its attachment shows it, a publish is unconfirmed: it may have happened, and nothing
in the API server says so. If its attachment vanishes meanwhile, no other program would ever unpublish the volume. The
life of one publish:

    state         what is known                                  what is done
    SETTLED       an attachment shows it, or it is undone        (it is not remembered)
    UNCONFIRMED   it may have happened                           its attachment is attached again, or detached
    ORPHANED      it may have happened, and its attachment is    it is unpublished, until that has worked, unless
                  gone                                           another attachment has the volume there

external-attacher has no undo. Ours is known to this process only: the finalizer, which is written before the call,
covers what it loses with its memory, unless the attachment is torn away together with that finalizer.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from mooring.api.core import SecretReference
from mooring.api.storage import VolumeAttachment
from mooring.base.log import logger
from mooring.control.topics import Topic
from mooring.sidecars.attacher.requests import UnpublishOrder

log = logger(__name__)


class PublishState(enum.Enum):
    SETTLED = "settled"
    UNCONFIRMED = "unconfirmed"
    ORPHANED = "orphaned"


class Evidence(enum.Enum):
    """What was observed of a publish that may have happened, or of its attachment."""

    MARKED = "its attachment is there, and shows it"
    UNKNOWN = "the API server does not say whether its attachment is there"
    VANISHED = "its attachment is gone"
    UNPUBLISHED = "a detach by its attachment has worked on that machine"
    RELEASED = "its finalizer is removed on purpose: detached, or left to another attachment"
    SHOWN = "an attachment of this name, volume and machine shows it, also in the API server"
    UNDONE = "it is unpublished, or left to another attachment"


_S, _U, _O = PublishState

# fmt: off
_NEXT: Final[Mapping[PublishState, tuple[PublishState, ...]]] = {
    #  MARKED UNKNOWN VANISHED UNPUBLISHED RELEASED SHOWN UNDONE
    _S: (_S,  _S,     _S,      _S,         _S,      _S,   _S),
    _U: (_S,  _U,     _O,      _S,         _S,      _S,   _S),
    # The detach of a vanished attachment may have come before the publish, so only the undo itself is good enough.
    _O: (_O,  _O,     _O,      _O,         _O,      _S,   _S),
}
# fmt: on
NEXT: Final[Mapping[tuple[PublishState, Evidence], PublishState]] = {
    (state, evidence): after for state, row in _NEXT.items() for evidence, after in zip(Evidence, row, strict=True)
}


class Drift(enum.Enum):
    """How the backend's last report contradicts an attachment's status."""

    MISSING = "attached here, not published in the backend"
    MOVED = "attached here, published on the machine that had the node's name before"
    EXTRA = "not attached here, but published in the backend"


class UnconfirmedPublish(msgspec.Struct, frozen=True):
    """A publish that may have happened, and that no attachment shows."""

    #: The unpublish that undoes it.
    order: UnpublishOrder
    #: The attachment that it was for, as it was before the call.
    attachment: VolumeAttachment
    state: PublishState = PublishState.UNCONFIRMED


def secret_read(ref: SecretReference) -> Topic:
    """The topic that is told when the read of this Secret has ended, in whatever way."""
    return f"secret/{ref.namespace}/{ref.name}"


class CallSecrets:
    """The Secrets of the next calls, by the attachment's name.

    Each is read before a call's slot is taken, so that a slow one holds up no volume that does not need it.

    an attachment             because                                      and becomes
    without its Secret        it was not read for the next call yet        reading it, or sharing it (share) where
                                                                           another attachment reads it already
    reading, or sharing       the API server is asked, once for all        with its Secret (succeeded), or failed, all
                                                                           of them alike
    with its Secret           it may have to wait for a slot               without, after its call (forget)

    An attachment that shares a read waits for its end, and holds no worker. Values are kept until the call that they
    were read for.
    """

    def __init__(self) -> None:
        #: The Secret that was read last, and its values or the error's text, by the attachment's name.
        self._read: dict[str, tuple[SecretReference, Mapping[str, str] | str]] = {}
        #: The attachments that share the result, by the Secret that is being read.
        self._sharing: dict[SecretReference, set[str]] = {}

    def is_at_hand(self, name: str, ref: SecretReference) -> bool:
        """True when this Secret was read for the attachment's next call."""
        read_ref, result = self._read.get(name, (None, ""))
        return read_ref == ref and not isinstance(result, str)

    def is_being_read(self, ref: SecretReference) -> bool:
        return ref in self._sharing

    def values(self, name: str) -> Mapping[str, str]:
        """Return the values for the call, none where it needs no Secret."""
        _, result = self._read.get(name, (None, ""))
        return {} if isinstance(result, str) else result

    def share(self, name: str, ref: SecretReference) -> None:
        """Note that the attachment waits for the result of the read."""
        self._sharing[ref].add(name)

    def failure(self, name: str, ref: SecretReference) -> str | None:
        """Return the error of the read that this attachment shared, once; None for none."""
        read_ref, result = self._read.pop(name, (None, ""))
        return result if read_ref == ref and isinstance(result, str) else None

    def begin(self, ref: SecretReference) -> None:
        assert ref not in self._sharing, "two readings of one Secret"
        self._sharing[ref] = set()

    def succeeded(self, name: str, ref: SecretReference, values: Mapping[str, str]) -> None:
        """Keep the values for the attachment that read them. The others find them fresh in the cache of Secrets."""
        self._read[name] = (ref, values)

    def failed(self, ref: SecretReference, error: str) -> None:
        self._read.update(dict.fromkeys(self._sharing[ref], (ref, error)))

    def end(self, ref: SecretReference) -> None:
        del self._sharing[ref]

    def forget(self, name: str) -> None:
        """Drop the values of an attachment whose call is over, or that needs none."""
        self._read.pop(name, None)
        for sharing in self._sharing.values():
            sharing.discard(name)


class Memory:
    """Facts about attachments by their name, which go with the attachment; only an orphaned publish outlives it."""

    def __init__(self) -> None:
        #: The Secrets' values for the next calls.
        self.secrets = CallSecrets()
        #: The backend's last report, where it contradicts the attachment.
        self.drift: dict[str, Drift] = {}
        #: The attachments, by name, whose work ended since the backend was asked for the report that is under way: it
        #: says nothing about them. None between reports.
        self.worked_on: set[str] | None = None
        #: The uids of attachments whose finalizer may be there, since the patch that adds it had no answer.
        self.finalizers_unknown: set[str] = set()
        #: The PersistentVolumes, by name, that may carry the finalizer although the cache does not show it.
        self.unsure_volumes: set[str] = set()
        self._publishes: dict[str, UnconfirmedPublish] = {}
        #: The publishes by the volume's handle.
        self._of_volume: dict[str, dict[str, UnconfirmedPublish]] = {}

    def ended(self, attachment: VolumeAttachment) -> bool:
        """Forget an attachment that is gone. Return True when a publish under its name is to be undone."""
        name = attachment.metadata.name
        self.secrets.forget(name)
        self.drift.pop(name, None)
        self.finalizers_unknown.discard(attachment.metadata.uid)
        return self.observe(name, Evidence.VANISHED) is PublishState.ORPHANED

    # -- publishes

    def mark_unconfirmed(self, unconfirmed: UnconfirmedPublish) -> None:
        """Remember a publish that may have happened from now on."""
        self._put(unconfirmed.attachment.metadata.name, unconfirmed)

    def unconfirmed_of(self, name: str) -> UnconfirmedPublish | None:
        """Return the publish of an attachment of this name that may have happened, an orphaned one, too."""
        return self._publishes.get(name)

    def orphaned(self, name: str) -> UnconfirmedPublish | None:
        """Return the publish that an attachment of this name left behind, and that is to be undone."""
        found = self._publishes.get(name)
        return found if found is not None and found.state is PublishState.ORPHANED else None

    def unconfirmed_about(self, volume_handle: str) -> Collection[UnconfirmedPublish]:
        """Return the volume's publishes that may have happened, orphaned ones, too."""
        return self._of_volume.get(volume_handle, {}).values()

    def observe(self, name: str, evidence: Evidence) -> PublishState:
        """Apply evidence about the publish under this name. Return the publish's state after it."""
        found = self._publishes.get(name)
        before = PublishState.SETTLED if found is None else found.state
        after = NEXT[before, evidence]
        if found is not None and after is not before:
            self._put(name, None if after is PublishState.SETTLED else msgspec.structs.replace(found, state=after))
            if after is PublishState.ORPHANED:
                log.error(
                    "the attachment vanished while its volume was being published: undoing",
                    VolumeAttachment=name,
                    volume=found.order.handle,
                )
        return after

    def _put(self, name: str, new: UnconfirmedPublish | None) -> None:
        old = self._publishes.pop(name, None)
        if old is not None:
            of_volume = self._of_volume[old.order.handle]
            del of_volume[name]
            if not of_volume:
                del self._of_volume[old.order.handle]
        if new is not None:
            self._publishes[name] = new
            self._of_volume.setdefault(new.order.handle, {})[name] = new
