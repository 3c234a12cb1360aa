"""Failures: whether a volume may exist, the claim is tried again, the scheduler chooses another node.

Source: external-provisioner's states of provisioning; the table of gRPC codes is its.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from mooring.base.errors import MooringError
from mooring.control.topics import Topic
from mooring.csi.errors import DriverError
from mooring.sidecars.provisioner.model import topics
from mooring.wire.grpc.codes import Code

CLEANUP_TRIES: Final = 5

CLEANUP_PAUSE_S: Final = 0.1
"""Seconds before the second of the CLEANUP_TRIES; each further pause is twice as long."""


class State(enum.Enum):
    """Whether a volume may exist after a failure. The values are for people who read the log."""

    #: No volume exists or is being made.
    FINISHED = "no volume is in the making"
    #: A volume may exist, or be in the making.
    BACKGROUND = "a volume may be in the making"
    #: No call was made, so all is as before the attempt.
    NO_CHANGE = "the driver was not asked"
    #: No volume exists or is being made, and the selected node can't have one.
    RESCHEDULE = "not on the selected node"


class Save(enum.Enum):
    """The result of a try to store a PersistentVolume."""

    #: The object is there, and is the claim's own or names no claim.
    STORED = "stored"
    #: It is not known to be stored or refused: tried again.
    LATER = "later"
    #: It will never be stored, and no object is known that names the volume.
    REFUSED = "refused"
    #: It is not stored, and the volume is left alone, since it may be another's: another claim's PersistentVolume has
    #: the name; another PersistentVolume names the volume, or did so and takes the volume with it; or the volume is
    #: being stored or deleted for another claim.
    TAKEN = "taken"


class Failure(msgspec.Struct, frozen=True):
    """The failure of an attempt."""

    #: The text of the event.
    error: str
    state: State
    #: The same request would fail again, until the driver returns.
    infeasible: bool = False
    #: The topics after which it is tried again at once.
    heals: frozenset[Topic] = frozenset()
    #: Whatever calls with this very request have made is gone, or is somebody's. No error of CreateVolume proves that
    #: of an earlier call: a driver may judge a request before it looks for the volume.
    proves_absent: bool = False

    @property
    def topics(self) -> frozenset[Topic]:
        """The topics that may heal it."""
        return self.heals | {topics.DRIVER} if self.infeasible else self.heals

    @property
    def is_over(self) -> bool:
        """True when the attempt is over for the claim."""
        return self.state in (State.FINISHED, State.RESCHEDULE)


class AttemptFailed(MooringError):
    """An attempt has failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


_BACKGROUND: Final = frozenset({Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED})


def of_call(error: DriverError, *, uses_topology: bool, node_name: str) -> Failure:
    """The failure that an error of CreateVolume means. node_name: the selected node, "" for none."""
    if error.code in _BACKGROUND or error.answered:
        state = State.BACKGROUND
    elif error.code == Code.RESOURCE_EXHAUSTED and uses_topology and node_name:
        state = State.RESCHEDULE
    else:
        state = State.FINISHED
    return Failure(str(error), state, infeasible=error.code == Code.INVALID_ARGUMENT)
