"""CSI3xx: volumes published to nodes by the controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.conform.book.exchange import Exchange, same_request
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule
from mooring.csi.volume_capability import SINGLE_NODE_MODES
from mooring.wire.grpc.codes import Code

SAME_CONTEXT = Rule(
    "CSI301",
    "ControllerPublishVolume's answer changes",
    "publish_context MUST NOT change: a repeated ControllerPublishVolume answers with the same.",
    "controllerpublishvolume",
    "The VolumeAttachment holds the last answer, and the node may have worked with the first one.",
    "Work publish_context out from the attachment as it is.",
)
REFUSED_AGAIN = Rule(
    "CSI302",
    "ControllerPublishVolume refuses what is published already",
    "ControllerPublishVolume MUST answer OK for a volume that is published to this node in the same way.",
    "controllerpublishvolume",
    "After a lost answer the VolumeAttachment never becomes attached, and the pod waits for ever.",
    "Look first whether the volume is published to this node, and answer with its publish_context.",
)
TWO_NODES = Rule(
    "CSI303",
    "a volume for one node is published to two",
    "A volume of a single-node access mode that is published to a node MUST be refused elsewhere, with "
    "FailedPrecondition.",
    "controllerpublishvolume",
    "Kubernetes does not ask for this by itself, but after a forced detach both nodes may write: the data is damaged.",
    "Refuse with FailedPrecondition, and name the node that has the volume.",
)
ABSENT = Rule(
    "CSI304",
    "ControllerUnpublishVolume fails for a volume that is not published",
    "ControllerUnpublishVolume MUST answer OK for a volume that is not published to the node.",
    "controllerunpublishvolume",
    "After a lost answer the VolumeAttachment's finalizer stays for ever, and the volume can go to no other node.",
    "Answer OK where there is nothing to unpublish.",
)
INCOMPATIBLE = Rule(
    "CSI305",
    "a volume is published anew in another way",
    "ControllerPublishVolume of a volume that is published to the node in a way that does not fit MUST be "
    "refused with AlreadyExists.",
    "controllerpublishvolume",
    "A pod that reads only and one that writes share an attachment: one of them gets what it did not ask for.",
    "Keep readonly and the capability with the attachment, and compare them.",
)
FULL = Rule(
    "CSI306",
    "a node takes more volumes than it has room for",
    "ControllerPublishVolume SHOULD be refused with ResourceExhausted when the node has "
    "max_volumes_per_node volumes; a driver may leave the count to the caller.",
    "controllerpublishvolume",
    "Nothing, as long as the scheduler counts by CSINode; who attaches by hand overloads the node.",
    "Count the node's volumes in ControllerPublishVolume, or leave max_volumes_per_node at 0.",
)
NOTHING_LEFT = Rule(
    "CSI307",
    "ControllerUnpublishVolume fails where nothing can be published",
    "ControllerUnpublishVolume SHOULD answer OK for a volume that surely is not published to the node: it "
    "was never, or the volume is deleted.",
    "controllerunpublishvolume",
    "A VolumeAttachment whose node or volume is gone keeps its finalizer for ever, and so does its PersistentVolume.",
    "Answer OK when your backend has no attachment of this volume to this node, whatever else is missing.",
)
FORGOTTEN = Rule(
    "CSI308",
    "ControllerUnpublishVolume does not know what was published",
    "ControllerUnpublishVolume's NotFound MUST mean that the volume or the node does not exist.",
    "controllerunpublishvolume",
    "The attacher asks again for ever: the VolumeAttachment keeps its finalizer, and the volume can go to no "
    "other node.",
    "Answer OK where the volume is not attached, and keep attachments where they outlive a restart of the driver.",
)

EVERYWHERE = Rule(
    "CSI309",
    "ControllerUnpublishVolume without a node leaves the volume published",
    "ControllerUnpublishVolume without a node_id MUST unpublish the volume from all nodes.",
    "controllerunpublishvolume",
    "Kubernetes always names the node; people and other orchestrators detach a volume so from nodes that they "
    "do not know.",
    "Without a node_id take every attachment of the volume away, and answer OK where there is none.",
)

ANOTHER_NODE = Rule(
    "CSI310",
    "ControllerUnpublishVolume for one node takes the volume from another",
    "ControllerUnpublishVolume MUST unpublish the volume from the node that it names, and from no other.",
    "controllerunpublishvolume",
    "A late detach from the old node takes the volume away from the pod that runs on the new one: its writes are lost.",
    "Compare node_id with the node that has the volume, and answer OK where it is another.",
)

RULES: Final = (SAME_CONTEXT, REFUSED_AGAIN, TWO_NODES, ABSENT, FORGOTTEN)
ASKED: Final = (INCOMPATIBLE, FULL, NOTHING_LEFT, EVERYWHERE, ANOTHER_NODE)


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.alone:
        return
    if exchange.is_of("controller_publish_volume"):
        yield from _published(exchange, past)
    elif exchange.is_of("controller_unpublish_volume"):
        yield from _unpublished(exchange, past)


def _published(exchange: Exchange, past: Past) -> Iterator[Breach]:
    request = exchange.request
    before = past.published.get((request.volume_id, request.node_id))
    if before is not None and same_request(before.request, request):
        if exchange.refused:
            yield exchange.breaks(
                REFUSED_AGAIN, f"it is published to {request.node_id!r}, and fails now: {exchange.error}"
            )
        elif exchange.ok and before.response.publish_context != exchange.response.publish_context:
            yield exchange.breaks(SAME_CONTEXT, f"publish_context for {request.node_id!r} changed")
    if exchange.ok and request.volume_capability.access_mode.mode in SINGLE_NODE_MODES:
        others = [node for volume, node in past.published if volume == request.volume_id and node != request.node_id]
        if others:
            yield exchange.breaks(TWO_NODES, f"it is published to {others[0]!r}, and to {request.node_id!r} now")


def _unpublished(exchange: Exchange, past: Past) -> Iterator[Breach]:
    volume, node = exchange.request.volume_id, exchange.request.node_id
    if exchange.refused and (volume, node) in past.unpublished:
        yield exchange.breaks(ABSENT, f"it was unpublished from {node!r} before, and fails now: {exchange.error}")
    elif exchange.code == Code.NOT_FOUND and _is_known(volume, node, past):
        yield exchange.breaks(FORGOTTEN, f"the driver published it to {node!r}, and answers NotFound: {exchange.error}")


def _is_known(volume: str, node: str, past: Past) -> bool:
    """True for an attachment of which the driver has told all: NotFound is right where the volume or the node is
    gone.
    """
    return (volume, node) in past.published and volume in past.volumes.names and node in past.node_ids.values()
