"""Every reason of the snapshot controller, in a user's words. A group snapshot's are those of a snapshot."""

from __future__ import annotations

from mooring.control.reasons import reason

# -- snapshots


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


@reason('its class "{class_name}" does not exist: the class\'s arrival wakes it')
class ClassMissing:
    class_name: str


@reason("no class can be chosen for it: {problem}")
class NoDefaultClass:
    problem: str


@reason("its source is not claims or a content")
class BadSource:
    pass


@reason('content "{content}" does not exist: its arrival wakes the snapshot')
class ContentMissing:
    content: str


@reason('content "{content}" is not of the kind that the snapshot needs: {problem}')
class ContentMismatch:
    content: str
    problem: str


@reason('content "{content}" is bound to another snapshot')
class ContentMisbound:
    content: str


@reason('content "{content}" is being deleted: another one of its name wakes the snapshot')
class ContentGoing:
    content: str


@reason("a content can't be made: {problem}")
class CantCreate:
    problem: str


@reason('its content "{content}" is made, then the driver makes the snapshot')
class Creating:
    content: str


@reason('content "{content}" is bound to it')
class Binding:
    content: str


@reason("snapshots and contents of its volumes are made")
class MakingMembers:
    pass


@reason('what is known of it stands on content "{content}"')
class Copying:
    content: str


@reason("ready to use")
class Ready:
    pass


@reason("it belongs to a group snapshot, whose controller has not bound it yet")
class MemberUnbound:
    pass


@reason('group snapshot content with handle "{handle}" does not exist: its arrival wakes the snapshot')
class GroupContentMissing:
    handle: str


# -- the end of a snapshot


@reason("a claim that waits for its volume restores from it, or from a snapshot of it")
class BeingRestored:
    pass


@reason('it belongs to group snapshot "{group}", with which it goes')
class BelongsToGroup:
    group: str


@reason('it is being deleted, and content "{content}" goes first')
class DeletingContent:
    content: str


@reason('it is being deleted, and content "{content}" stays')
class KeepingContent:
    content: str


@reason("it is being deleted, and nothing of it is left")
class Releasing:
    pass


@reason("it is being deleted, and a write that gives it a content was not answered and may still be carried out")
class WaitingForLostWrite:
    pass


@reason("it is being deleted, and nothing of ours holds it")
class Released:
    pass


@reason('its deletion waits for the end of content "{content}"')
class WaitingForContent:
    content: str


# -- contents and claims


@reason("its source is not one volume or one snapshot")
class BadContentSource:
    pass


@reason("no snapshot has been bound to it yet")
class Unbound:
    pass


@reason("our finalizer is put on it")
class Protecting:
    pass


@reason("our finalizer is on it")
class Protected:
    pass


@reason("it is being deleted: the driver's side takes care of it")
class ContentDeleting:
    pass


@reason('it was deleted by hand, and is bound to snapshot "{snapshot}": it goes with that')
class WaitingForSnapshot:
    snapshot: str


@reason("it is being deleted, and may go: the driver's side is reminded of it")
class Touching:
    pass


@reason("no snapshot needs it, and one may be on its way")
class ClaimIdle:
    pass


@reason("our finalizer is not on it")
class ClaimFree:
    pass


@reason("{user} is not ready yet, and needs it")
class ClaimNeeded:
    user: str


@reason("a content of a snapshot of it is on its way to the API server, and may need it")
class ClaimAwaited:
    pass


@reason("no snapshot needs it any more")
class ClaimReleased:
    pass
