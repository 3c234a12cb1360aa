"""Every reason that a claim is, or is not, being provisioned, in a user's words."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from mooring.controllers.provisioner.claims.outcomes import Failure


class Because(Protocol):
    """A reason; str() tells it to people."""

    def __str__(self) -> str: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    uid: str

    def __str__(self) -> str:
        return f"claim {self.uid} does not exist, and no volume may have been made for it: nothing to do"


@dataclasses.dataclass(frozen=True, slots=True)
class HasVolume:
    volume_name: str

    def __str__(self) -> str:
        return f'it has the volume "{self.volume_name}"'


@dataclasses.dataclass(frozen=True, slots=True)
class NotAsked:
    """provisioner: who is asked, "" for nobody."""

    provisioner: str

    def __str__(self) -> str:
        if not self.provisioner:
            return "nobody has been asked for a volume yet: the PV controller does that"
        return f'its volume is the business of "{self.provisioner}"'


@dataclasses.dataclass(frozen=True, slots=True)
class ClassMissing:
    class_name: str

    def __str__(self) -> str:
        return f'StorageClass "{self.class_name}" does not exist: its arrival is waited for'


@dataclasses.dataclass(frozen=True, slots=True)
class ClassOfAnother:
    class_name: str
    provisioner: str

    def __str__(self) -> str:
        return f'StorageClass "{self.class_name}" belongs to "{self.provisioner}"'


@dataclasses.dataclass(frozen=True, slots=True)
class WaitsForNode:
    def __str__(self) -> str:
        return "it waits for its first consumer: the scheduler selects a node, then the volume is made"


@dataclasses.dataclass(frozen=True, slots=True)
class OfAnotherNode:
    node_name: str

    def __str__(self) -> str:
        return f'its volume is made on node "{self.node_name}"' if self.node_name else "no node has taken it yet"


@dataclasses.dataclass(frozen=True, slots=True)
class Provisioned:
    pv_name: str

    def __str__(self) -> str:
        return f'PersistentVolume "{self.pv_name}" was made for it: the PV controller binds them'


@dataclasses.dataclass(frozen=True, slots=True)
class Saving:
    pv_name: str

    def __str__(self) -> str:
        return f'its volume is there, PersistentVolume "{self.pv_name}" is still to be stored'


@dataclasses.dataclass(frozen=True, slots=True)
class NotYetAgain:
    """An infeasible claim. wait_s: until the next try."""

    error: str
    wait_s: float

    def __str__(self) -> str:
        return f"it can't be served as it is, next try in {self.wait_s:.0f} s or when claim or class change: {self.error}"


@dataclasses.dataclass(frozen=True, slots=True)
class NotRuledOut:
    """Nobody waits for the volume any more, and it was refused. wait_s: until the next try."""

    error: str
    wait_s: float

    def __str__(self) -> str:
        return f"an earlier call may have made its volume, next try to learn of it in {self.wait_s:.0f} s: {self.error}"


@dataclasses.dataclass(frozen=True, slots=True)
class Populated:
    kind: str

    def __str__(self) -> str:
        return f"a volume populator fills it from its {self.kind}"


@dataclasses.dataclass(frozen=True, slots=True)
class LookingUp:
    what: str

    def __str__(self) -> str:
        return f"{self.what} is looked up first"


@dataclasses.dataclass(frozen=True, slots=True)
class Creating:
    pv_name: str
    again: bool = False

    def __str__(self) -> str:
        return f'the CSI driver is asked{" again" if self.again else ""} for volume "{self.pv_name}"'


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """state: of a failed attempt."""

    state: str

    def __str__(self) -> str:
        return self.state


@dataclasses.dataclass(frozen=True, slots=True)
class Hindered:
    """Something must change first."""

    failure: Failure

    def __str__(self) -> str:
        return self.failure.error
