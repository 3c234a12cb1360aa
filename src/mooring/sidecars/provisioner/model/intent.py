"""Intents: requests for volumes, written to the journal before CreateVolume is called, so that no volume is ever lost.

Each request that may have made a volume is one intent in one state. A claim has several where it was changed while an
answer was lost: names may be unique in a zone, or in an account, alone, so each of them may have made its own volume.

    state      known                                           done
    ASKED      its first call is in flight                     -
    UNKNOWN    a call ended without a sure answer, or its      CreateVolume is repeated until the driver answers,
               process did: there may be a volume              whatever became of the claim
    REFUSED    the last call was refused, but an earlier one   nothing while the claim waits for another request; then
               is unknown: there may be a volume all the same  CreateVolume is repeated, seldom
    MADE       there is a volume                               its PersistentVolume is stored
    DELETING   there is a volume, and it is of no use          DeleteVolume is repeated, and nothing else is called
    CLOSED     there is no volume, or an object names it       (the intent is dropped)

An error of CreateVolume proves nothing about an earlier call: ResourceExhausted may mean that no volume can be made
now, InvalidArgument that the Secret was changed, AlreadyExists that there is one. So UNKNOWN becomes REFUSED, and never
CLOSED. To users and to the claim the error is final all the same, as in external-provisioner.

An UNKNOWN request goes before the one that the claim stands for now. The other way round a driver whose names are
unique would answer AlreadyExists for ever: the volume that the former request has made has the name.

Whether the claim has a volume of its own is no state of a request but a fact about the claim (`OwnVolume`). While it
has, its other requests are put off: a driver may answer them with that very volume, under another handle, and then
whatever is done with the answer is done with the claim's data. Once claim and volume are gone each of them is asked for
like any other whose claim is gone: a volume that it has made gets its PersistentVolume, and goes with that.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from mooring.api.core import ObjectReference, SecretReference
from mooring.sidecars.provisioner.model.cached import CLAIM_KIND, Source

STILL_OPEN: Final = (
    "the volume's creation is not over yet: it is once the CSI driver has said for sure whether there is a volume"
)


class IntentState(enum.Enum):
    """The values are written to the journal."""

    ASKED = "asked"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    MADE = "made"
    DELETING = "deleting"
    CLOSED = "closed"


class IntentEvent(enum.Enum):
    BEGUN = "it is in the journal, and CreateVolume is called"
    LEFT = "its process has ended"
    MADE = "the driver has made the volume"
    LOST = "the call ended without a sure answer"
    REFUSED = "the driver refused the call for sure"
    DOOMED = "the volume is of no use, and DeleteVolume is called"
    ABSENT = "no call can make a volume any more, and there is none but perhaps somebody else's"
    STORED = "the PersistentVolume is stored"


_AS, _UN, _RE, _MA, _DE, _CL = IntentState
_X = None  # can't happen

# fmt: off
_NEXT: Final[Mapping[IntentState, tuple[IntentState | None, ...]]] = {
    #                       BEGUN LEFT  MADE LOST REFUSED DOOMED ABSENT STORED
    IntentState.ASKED:     (_AS,  _UN,  _MA, _UN, _CL,    _DE,   _CL,   _CL),
    IntentState.UNKNOWN:   (_UN,  _UN,  _MA, _UN, _RE,    _DE,   _CL,   _CL),
    IntentState.REFUSED:   (_UN,  _RE,  _X,  _X,  _RE,    _X,    _CL,   _CL),
    IntentState.MADE:      (_X,   _UN,  _X,  _UN, _X,     _DE,   _CL,   _CL),
    IntentState.DELETING:  (_X,   _DE,  _X,  _DE, _X,     _DE,   _CL,   _CL),
    IntentState.CLOSED:    (_AS,  _X,   _X,  _X,  _CL,    _X,    _CL,   _CL),
}
# fmt: on
NEXT: Final[Mapping[tuple[IntentState, IntentEvent], IntentState | None]] = {
    (state, event): after for state, row in _NEXT.items() for event, after in zip(IntentEvent, row, strict=True)
}


class Intent(msgspec.Struct, frozen=True):
    """One request, whole: the call can be repeated and the PersistentVolume made when claim and class are gone."""

    #: The claim's.
    uid: str
    namespace: str
    claim_name: str
    #: The name of the PersistentVolume, and of the volume for the driver.
    volume_name: str
    #: The CreateVolumeRequest without secrets, JSON text as protobuf has it.
    request: str
    #: The PersistentVolume as far as it is known before the answer, JSON text.
    volume: str
    #: The Secret for the driver's calls; with that of another account, the driver would make another volume.
    secret: SecretReference | None = None
    #: The selected node, "" for none.
    node_name: str = ""
    #: The class is an in-tree one.
    migrated: bool = False
    #: The StorageClass: a label of the metrics, as source_kind is.
    class_name: str = ""
    source_kind: str = ""
    #: The source of the volume's data, to be held.
    source: Source | None = None
    #: The request names the preferred one of many places alone.
    places_omitted: bool = False
    state: IntentState = IntentState.ASKED
    #: The driver's name for the volume that is being deleted; "" in every state but DELETING.
    dying_handle: str = ""

    @property
    def key(self) -> tuple[str, SecretReference | None]:
        """Tells the requests of a claim apart."""
        return self.request, self.secret

    @property
    def claim_reference(self) -> ObjectReference:
        """Its claim, for events; it may be gone."""
        return ObjectReference("v1", CLAIM_KIND, self.namespace, self.claim_name, self.uid, "")


class OwnVolume(enum.Enum):
    """The volume that a claim has from one of its requests. The values are written to the journal."""

    NONE = "none"
    #: Nobody has written the entry for so long that another program may have made it, and its user kept it.
    UNSEEN = "unseen"
    #: Its PersistentVolume was stored. Where that is gone it went by hand, and the volume may be kept on purpose.
    STORED = "stored"
    #: DeleteVolume was called for it: what another request has made since is kept by nobody.
    DELETED = "deleted"


class ClaimIntents(msgspec.Struct, frozen=True):
    """The open requests of one claim, as the journal has them: one entry, for one event may move several of them.
    Where the claim's volume is stored, one write closes its request and puts off the others.
    """

    #: The claim's.
    uid: str
    #: At least one. All but the last are REFUSED, since a claim has one call at a time, and no other request is made
    #: before that is answered; the one whose refusal is the oldest is first.
    requests: tuple[Intent, ...]
    own: OwnVolume = OwnVolume.NONE

    @property
    def last(self) -> Intent:
        return self.requests[-1]

    @property
    def current(self) -> Intent | None:
        """The request that has to end before the claim gets another one, None where all were refused."""
        return None if self.last.state is IntentState.REFUSED else self.last

    @property
    def next(self) -> Intent:
        """The request to repeat when nobody waits for the claim's volume."""
        return self.current or self.requests[0]

    @property
    def is_put_off(self) -> bool:
        """True when the claim's own volume goes first: no other request is under way."""
        return self.own in (OwnVolume.STORED, OwnVolume.DELETED) and self.current is None

    @property
    def volume_name(self) -> str:
        return self.last.volume_name

    @property
    def namespace(self) -> str:
        return self.last.namespace

    @property
    def claim_name(self) -> str:
        return self.last.claim_name

    def like(self, intent: Intent) -> Intent | None:
        """The open request that is the same as this one."""
        return next((one for one in self.requests if one.key == intent.key), None)

    def left(self) -> ClaimIntents:
        """The entry as the next process finds it, and so as it is written: without calls in flight."""
        return msgspec.structs.replace(self, requests=tuple(_moved(one, IntentEvent.LEFT) for one in self.requests))


def entry_after(entry: ClaimIntents | None, intent: Intent, event: IntentEvent) -> ClaimIntents | None:
    """The entry of the claim after an event of one of its requests; None once no request is open. Pure."""
    before = None if entry is None else entry.like(intent)
    # The caller's request says more than the known one only where it is about to be written.
    newest = intent if before is None or event in (IntentEvent.BEGUN, IntentEvent.DOOMED) else before
    after = _moved(msgspec.structs.replace(newest, state=IntentState.CLOSED if before is None else before.state), event)
    left = [one for one in (() if entry is None else entry.requests) if one is not before]
    if event is IntentEvent.BEGUN:
        # Another one can be open only where its Secret is gone, so that it can't be asked for: it waits.
        left = [msgspec.structs.replace(one, state=IntentState.REFUSED) for one in left]
    if after.state is not IntentState.CLOSED:
        left.append(after)
    if not left:
        return None
    return ClaimIntents(intent.uid, tuple(left)) if entry is None else msgspec.structs.replace(entry, requests=(*left,))


def _moved(intent: Intent, event: IntentEvent) -> Intent:
    after = NEXT[intent.state, event]
    assert after is not None, f"an intent that is {intent.state.value}: {event.value}"
    return msgspec.structs.replace(intent, state=after)


class IntentEnds(Protocol):
    """The ends of intents, for callers that release a PersistentVolume. uid: the claim's."""

    async def wait_for_end(self, uid: str) -> None:
        """Returns once the end of the claim's intents is durable, or that all of them are put off. Raises ApiError,
        Conflict while the volume of one of them may be the claim's.
        """
        ...

    async def forget_stored(self, uid: str) -> None:
        """The volume that the claim had is deleted. Raises ApiError."""
        ...
