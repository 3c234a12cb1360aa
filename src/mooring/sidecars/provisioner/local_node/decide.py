"""Decides whether this node becomes the owner of a claim with immediate binding. Pure."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mooring.api.classes import class_of
from mooring.api.core import PersistentVolumeClaim
from mooring.api.storage import StorageClass
from mooring.control.decision import Decision
from mooring.control.result import Because
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.prepare import LeftToPopulator, prepared
from mooring.sidecars.provisioner.claims.view import Looked, NotLookedUp, View, Wanted, requirements
from mooring.sidecars.provisioner.local_node import reasons as why
from mooring.sidecars.provisioner.model.cached import is_asked, requested_bytes, selected_node
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed
from mooring.sidecars.provisioner.model.topology import TopologyError


class LookUp(msgspec.Struct, frozen=True):
    """Look up this object, then decide again."""

    wanted: Wanted


class AskForRoom(msgspec.Struct, frozen=True):
    """Send these requests to the driver until an answer is enough, then decide again."""

    needed_bytes: int
    requests: tuple[csi.GetCapacityRequest, ...]

    def is_enough(self, answer: csi.GetCapacityResponse) -> bool:
        return answer.available_capacity >= self.needed_bytes


class BecomeOwner(msgspec.Struct, frozen=True):
    """Write the node into the claim."""

    claim: PersistentVolumeClaim


class AwaitRoom(msgspec.Struct, frozen=True):
    """Remember that there is no room: it is tried again when a volume is deleted here."""


Action: TypeAlias = LookUp | AskForRoom | BecomeOwner | AwaitRoom


def obstacle(view: View, claim: PersistentVolumeClaim) -> Because | None:
    """The reason why this node does not become its owner, whatever room there is; None when the claim is free."""
    if claim.spec.volume_name:
        return why.NotFree(f'it has the volume "{claim.spec.volume_name}"')
    if not is_asked(view.driver, claim):
        return why.NotFree("another provisioner is asked, or nobody as yet")
    storage_class = view.storage_class(class_of(claim))
    if storage_class is None or not view.driver.is_named(storage_class.provisioner):
        return why.NotFree("its class is not there, or of another driver")
    if storage_class.volume_binding_mode != "Immediate":
        return why.NotFree("the scheduler chooses the node")
    chosen = selected_node(claim)
    return why.Taken(chosen) if chosen else None


def decide_ownership(view: View, uid: str, looked: Looked, has_room: bool | None = None) -> Decision[Action]:
    """The next step for a claim whose turn it is. view.node_name: this node.

    has_room: the driver's answer, None when it was not asked yet. It is not asked where the attempt is going to fail
    anyway, which provisioning then reports.
    """
    claim = view.claim(uid)
    if claim is None:
        return Decision(why.NotFree("it does not exist"))
    hindered = obstacle(view, claim)
    if hindered is not None:
        return Decision(hindered)
    storage_class = view.storage_class(class_of(claim))
    assert storage_class is not None, "it would be an obstacle"
    owned = _as_ours(claim, view.node_name)
    becomes: Decision[Action] = Decision(why.BecomesOwner(view.node_name), (BecomeOwner(claim),))
    try:
        _check_allowed(view, owned, storage_class)
        order = prepared(view, owned, storage_class, looked)
    except TopologyError as error:
        return Decision(why.NotAllowedHere(str(error)))
    except NotLookedUp as missing:
        looking_up = why.LookingUp(f"{missing.wanted.kind.name} {missing.wanted.name}")
        return Decision(looking_up, (LookUp(missing.wanted),), again=True)
    except (AttemptFailed, LeftToPopulator):
        return becomes
    needed_bytes = requested_bytes(claim)
    if has_room is None:
        asks = AskForRoom(needed_bytes, capacity_requests(order.whole({})))
        return Decision(why.Asking(needed_bytes), (asks,), again=True)
    return becomes if has_room else Decision(why.NoRoom(needed_bytes), (AwaitRoom(),), done="no room")


def _as_ours(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim as it would be with this node as its owner."""
    notes = {**(claim.metadata.annotations or {}), names.SELECTED_NODE: node_name}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=notes))


def _check_allowed(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
    """Raises TopologyError."""
    if view.uses_topology and storage_class.allowed_topologies:
        requirements(view, claim, storage_class)


def capacity_requests(request: csi.CreateVolumeRequest) -> tuple[csi.GetCapacityRequest, ...]:
    """One request for each place where the volume may be; one without a place where none is required."""
    places: list[csi.Topology | None] = [*request.accessibility_requirements.requisite] or [None]
    capabilities, parameters = request.volume_capabilities, request.parameters
    return tuple(
        csi.GetCapacityRequest(volume_capabilities=capabilities, parameters=parameters, accessible_topology=place)
        for place in places
    )
