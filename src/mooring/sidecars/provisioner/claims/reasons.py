"""Every reason that a claim is, or is not, being provisioned, in a user's words."""

from __future__ import annotations

import msgspec

from mooring.control.reasons import reason
from mooring.sidecars.provisioner.model.outcomes import Failure


@reason("claim {uid} does not exist, and no volume may have been made for it: nothing to do")
class Gone:
    uid: str


@reason('it has the volume "{volume_name}"')
class HasVolume:
    volume_name: str


class NotAsked(msgspec.Struct, frozen=True):
    """Another provisioner, or none, is asked for the volume."""

    #: "" for none.
    provisioner: str

    def __str__(self) -> str:
        if not self.provisioner:
            return "nobody has been asked for a volume yet: the PV controller does that"
        return f'its volume is the business of "{self.provisioner}"'


@reason('StorageClass "{class_name}" does not exist: its arrival is waited for')
class ClassMissing:
    class_name: str


@reason('StorageClass "{class_name}" belongs to "{provisioner}"')
class ClassOfAnother:
    class_name: str
    provisioner: str


@reason("it waits for its first consumer: the scheduler selects a node, then the volume is made")
class WaitsForNode:
    pass


class OfAnotherNode(msgspec.Struct, frozen=True):
    node_name: str

    def __str__(self) -> str:
        return f'its volume is made on node "{self.node_name}"' if self.node_name else "no node has taken it yet"


@reason('PersistentVolume "{pv_name}" was made for it: the PV controller binds them')
class Provisioned:
    pv_name: str


@reason('its volume is there, PersistentVolume "{pv_name}" is still to be stored')
class Saving:
    pv_name: str


@reason('PersistentVolume "{pv_name}" was made for it, and will never be stored: {error}')
class NotStorable:
    pv_name: str
    error: str


@reason("it can't be served as it is, next try in {wait_s:.0f} s or when claim or class change: {error}")
class NotYetAgain:
    """An infeasible claim."""

    error: str
    #: Until the next try.
    wait_s: float


@reason("an earlier call may have made its volume, next try to learn of it in {wait_s:.0f} s: {error}")
class NotRuledOut:
    """Nobody waits for the volume any more, and it was refused."""

    error: str
    #: Until the next try.
    wait_s: float


@reason("a volume populator fills it from its {kind}")
class Populated:
    kind: str


@reason("{what} is looked up first")
class LookingUp:
    what: str


@reason('the CSI driver is asked{once_more} for volume "{pv_name}"')
class Creating:
    pv_name: str
    again: bool = False

    @property
    def once_more(self) -> str:
        return " again" if self.again else ""


@reason('volume "{handle}" is of no use, and its deletion may be under way: the CSI driver is asked again to delete it')
class CleaningUp:
    handle: str


@reason(
    "an earlier call may have made another volume, it is asked for once the claim and PersistentVolume "
    '"{pv_name}" are gone'
)
class PutOff:
    pv_name: str


@reason("{state}")
class Ended:
    """The attempt has failed."""

    #: A `State` in words.
    state: str


@reason("{failure.error}")
class Hindered:
    """Something must change first."""

    failure: Failure
