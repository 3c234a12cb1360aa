"""Does this node bid for a claim with immediate binding? Pure."""

from __future__ import annotations

import dataclasses

import msgspec

from mooring.api.classes import class_of
from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import annotation
from mooring.api.storage import StorageClass
from mooring.controllers.provisioner import names
from mooring.controllers.provisioner.claims import node_topology
from mooring.controllers.provisioner.claims.claim import provisioner_of, requested_bytes, selected_node
from mooring.controllers.provisioner.claims.outcomes import Failed
from mooring.controllers.provisioner.claims.prepare import LeftToPopulator, prepared
from mooring.controllers.provisioner.claims.view import Looked, NotLookedUp, View, Wanted
from mooring.controllers.provisioner.local_node import reasons as why
from mooring.controllers.provisioner.topology import TopologyError
from mooring.csi.proto import csi_pb2 as csi


@dataclasses.dataclass(frozen=True, slots=True)
class LookUp:
    """Ask for this object, then decide again."""

    wanted: Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Bid:
    """Write the node into the claim, unless the driver says to all questions that there is no room.

    questions: none where the attempt is going to fail anyway, which provisioning then tells the user.
    """

    needed_bytes: int
    questions: tuple[csi.GetCapacityRequest, ...] = ()


Action = LookUp | Bid


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    because: why.Because
    action: Action | None = None


def obstacle(view: View, claim: PersistentVolumeClaim) -> why.Because | None:
    """Why nobody on this node is to bid for it; None when the claim is free."""
    if claim.spec.volume_name:
        return why.NotFree(f'it has the volume "{claim.spec.volume_name}"')
    asked = provisioner_of(claim)
    if not view.driver.is_named(asked) or view.driver.name not in (asked, annotation(claim, names.MIGRATED_TO)):
        return why.NotFree("another provisioner is asked, or nobody as yet")
    storage_class = view.storage_class(class_of(claim))
    if storage_class is None or not view.driver.is_named(storage_class.provisioner):
        return why.NotFree("its class is not there, or of another driver")
    if storage_class.volume_binding_mode != "Immediate":
        return why.NotFree("the scheduler chooses the node")
    chosen = selected_node(claim)
    return why.Taken(chosen) if chosen else None


def decide_bid(view: View, uid: str, looked: Looked) -> Decision:
    """Whether to bid now. view.node_name: this node."""
    claim = view.claim(uid)
    if claim is None:
        return Decision(why.NotFree("it does not exist"))
    hindered = obstacle(view, claim)
    if hindered is not None:
        return Decision(hindered)
    storage_class = view.storage_class(class_of(claim))
    assert storage_class is not None, "it would be an obstacle"
    ours = _as_ours(claim, view.node_name)
    try:
        _check_allowed(view, ours, storage_class)
        order = prepared(view, ours, storage_class, looked)
    except TopologyError as error:
        return Decision(why.NotAllowedHere(str(error)))
    except NotLookedUp as missing:
        return Decision(why.LookingUp(f"{missing.wanted.kind.name} {missing.wanted.name}"), LookUp(missing.wanted))
    except (Failed, LeftToPopulator):
        return Decision(why.Bidding(view.node_name), Bid(requested_bytes(claim)))
    return Decision(why.Bidding(view.node_name), Bid(requested_bytes(claim), _questions(order.request)))


def _as_ours(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim as it would be if the bid were successful."""
    notes = {**(claim.metadata.annotations or {}), names.SELECTED_NODE: node_name}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=notes))


def _check_allowed(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
    """Raises TopologyError."""
    if view.uses_topology and storage_class.allowed_topologies:
        node_topology.requirements(view, claim, storage_class)


def _questions(request: csi.CreateVolumeRequest) -> tuple[csi.GetCapacityRequest, ...]:
    """One for each place where the volume may be; one for anywhere where no place is said."""
    places: list[csi.Topology | None] = [*request.accessibility_requirements.requisite] or [None]
    capabilities, parameters = request.volume_capabilities, request.parameters
    return tuple(
        csi.GetCapacityRequest(volume_capabilities=capabilities, parameters=parameters, accessible_topology=place) for place in places
    )
