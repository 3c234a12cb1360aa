"""The actions for claims and volumes, as values: those that write, which `reconcile.py` carries out, and after them
those that report.
"""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias

import msgspec

from mooring.api.meta import Key
from mooring.cluster.binder.reasons import EventText
from mooring.control.decision import Decision

Operation: TypeAlias = Literal["provision", "delete"]


class Step(enum.Enum):
    """The four writes that bind, in their order. Others rely on seeing the volume's claimRef before the claim's
    volumeName.
    """

    CLAIM_VOLUME = "PUT PersistentVolume: claimRef"
    MARK_VOLUME = "PUT PersistentVolume/status: Bound"
    NAME_VOLUME = "PUT PersistentVolumeClaim: volumeName"
    MARK_CLAIM = "PUT PersistentVolumeClaim/status: Bound"


class Bind(msgspec.Struct, frozen=True):
    """Bind the claim to the volume. steps: those of the four writes that are still to be done."""

    pv_name: str
    steps: tuple[Step, ...]


class SetClass(msgspec.Struct, frozen=True):
    class_name: str


class Ask(msgspec.Struct, frozen=True):
    """Write the provisioner that shall make a volume into the claim."""

    provisioner: str


class SetClaimPhase(msgspec.Struct, frozen=True):
    """Set the phase of a claim without a volume, and remove the volume's fields from its status."""

    phase: str


class SetVolumePhase(msgspec.Struct, frozen=True):
    phase: str


class GiveBack(msgspec.Struct, frozen=True):
    """Remove the claim from the volume. whole: the whole reference, with our mark; else only the uid, and it stays
    reserved by name.
    """

    whole: bool


class LookUpClaim(msgspec.Struct, frozen=True):
    """Ask the API server for a claim that the cache lacks, before its volume is released. uid: of the claim."""

    claim: Key
    uid: str


class LookUpClass(msgspec.Struct, frozen=True):
    """Ask the API server for a class that the cache lacks, before a claim of it is bound: it may have to wait for a
    pod.
    """

    class_name: str


class LookUpVolume(msgspec.Struct, frozen=True):
    """Ask the API server for a volume that the cache lacks, before its claim counts as lost."""

    pv_name: str


class Absent(msgspec.Struct, frozen=True):
    """The objects that the API server has just answered not to have, "" for none."""

    class_name: str = ""
    pv_name: str = ""


class WakeClaim(msgspec.Struct, frozen=True):
    claim: Key


Write: TypeAlias = (
    Bind
    | SetClass
    | Ask
    | SetClaimPhase
    | SetVolumePhase
    | GiveBack
    | LookUpClaim
    | LookUpClass
    | LookUpVolume
    | WakeClaim
)


class Begin(msgspec.Struct, frozen=True):
    """A piece of work whose duration is measured begins. plugin: the provisioner's name."""

    name: Operation
    plugin: str


class End(msgspec.Struct, frozen=True):
    name: Operation


class Tell(msgspec.Struct, frozen=True):
    """The event of the reason. patience_s: how long it has to last before."""

    event: EventText
    patience_s: float = 0.0


class TellClaim(msgspec.Struct, frozen=True):
    """An event for the claim that a volume is reserved for."""

    event: EventText


Report: TypeAlias = Begin | End | Tell | TellClaim
"""What is counted and told once all is written."""

Action: TypeAlias = Write | Report


def writes_of(decision: Decision[Action]) -> tuple[Write, ...]:
    return tuple(action for action in decision.actions if not isinstance(action, Report))
