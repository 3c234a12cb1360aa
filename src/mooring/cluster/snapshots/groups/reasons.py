"""Every reason about group snapshots, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


@reason("{problem}")
class CantGo:
    """What keeps the group from being made."""

    problem: str


@reason('its content "{content}" is made, then the driver makes the snapshots of all its volumes')
class Creating:
    content: str


@reason('content "{content}" is bound to it')
class Binding:
    content: str


@reason('waits for the driver, which works on content "{content}"')
class Waiting:
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


@reason('a claim that waits for its volume restores from its snapshot "{snapshot}"')
class BeingRestored:
    snapshot: str


@reason("it is being deleted, with its content and its snapshots")
class Deleting:
    pass


@reason('its deletion waits for the end of content "{content}"')
class WaitingForContent:
    content: str


@reason("it is being deleted, and a write that gives it a content was not answered and may still be carried out")
class WaitingForLostWrite:
    pass


@reason("it is being deleted, and nothing of ours holds it")
class Released:
    pass
