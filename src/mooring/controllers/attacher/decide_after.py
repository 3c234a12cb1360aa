"""The attacher's second decision: whether a publish has to be undone, from the evidence about it.

From the moment of the call until its attachment shows it, a publish is unconfirmed: it may have happened, and nothing in the API server
says so. If the attachment vanishes meanwhile, nobody else would ever unpublish the volume; then the publish is orphaned: it is to be
undone, until that has worked.

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

import dataclasses
import enum


class Learnt(enum.Enum):
    """Evidence about a publish that may have happened."""

    MARKED = "its attachment tells of it"
    UNSENT = "the cache shows the attachment marked so already: nothing was sent, and so nothing learnt of the API server"
    UNKNOWN = "the API server does not say whether its attachment is there"
    VANISHED = "its attachment is no more"
    UNPUBLISHED = "a detach by its attachment has worked"
    RELEASED = "its finalizer is removed knowingly: detached, or another attachment's business"
    SHOWN = "the cache shows it: an attachment that says so, of this name, volume and machine"
    UNDONE = "it was taken back, or left to another attachment"


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """over: the publish is settled. ask: find out whether its attachment is there. undo: it has to be undone.

    freed: nothing is published there any more, which others may wait for.
    """

    over: bool = False
    ask: bool = False
    undo: bool = False
    freed: bool = False


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
