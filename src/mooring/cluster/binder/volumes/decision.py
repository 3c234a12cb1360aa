"""The actions for claims and volumes, and a decision: actions with a reason.

Actions are values; `reconcile.py` carries them out, in order, and the first failure stops the rest.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Literal

from mooring.api.meta import Key
from mooring.cluster.binder.reasons import Because, EventText


class Step(enum.Enum):
    """The four writes that bind, in their order. Others rely on seeing the volume's claimRef before the claim's volumeName."""

    CLAIM_VOLUME = "PUT PersistentVolume: claimRef"
    MARK_VOLUME = "PUT PersistentVolume/status: Bound"
    NAME_VOLUME = "PUT PersistentVolumeClaim: volumeName"
    MARK_CLAIM = "PUT PersistentVolumeClaim/status: Bound"


@dataclasses.dataclass(frozen=True, slots=True)
class Bind:
    """steps: those of the four that are still to be done."""

    pv_name: str
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SetClass:
    class_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Write the provisioner that shall make a volume into the claim."""

    provisioner: str


@dataclasses.dataclass(frozen=True, slots=True)
class SetClaimPhase:
    """For a claim without a volume: the volume's fields in the status are removed."""

    phase: str


@dataclasses.dataclass(frozen=True, slots=True)
class SetVolumePhase:
    phase: str


@dataclasses.dataclass(frozen=True, slots=True)
class GiveBack:
    """Remove the claim from the volume. whole: the whole reference, with our mark; else only the uid, and it stays reserved by name."""

    whole: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpClaim:
    """Ask the API server for a claim that the cache lacks, before its volume is released. uid: of the claim."""

    claim: Key
    uid: str


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpClass:
    """Ask the API server for a class that the cache lacks, before a claim of it is bound: it may have to wait for a pod."""

    class_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpVolume:
    """Ask the API server for a volume that the cache lacks, before its claim counts as lost."""

    pv_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Absent:
    """The objects that the API server has just answered not to have, "" for none."""

    class_name: str = ""
    pv_name: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class WakeClaim:
    claim: Key


Action = Bind | SetClass | Ask | SetClaimPhase | SetVolumePhase | GiveBack | LookUpClaim | LookUpClass | LookUpVolume | WakeClaim


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """A piece of work whose duration is measured. plugin: the provisioner's name; "" where the operation ends."""

    name: Literal["provision", "delete"]
    plugin: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order. again: after them there is more to decide at once. failed: the key comes again after its back-off.

    quiet: users got the event when the state began. patience_s: how long it has to last before they do. tells_claim: an event for the claim
    that a volume is reserved for. begins, ends: an operation, once the actions are done.
    """

    because: Because
    actions: tuple[Action, ...] = ()
    again: bool = False
    failed: bool = False
    quiet: bool = False
    patience_s: float = 0.0
    tells_claim: EventText | None = None
    begins: Operation | None = None
    ends: Operation | None = None
