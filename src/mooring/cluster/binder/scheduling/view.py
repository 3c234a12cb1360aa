"""The objects, fields and indexes that the scheduler reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.binding import SELECTED_NODE, has_annotation
from mooring.api.core import Node, PersistentVolumeClaim
from mooring.api.meta import Condition, Key, annotation, key_of
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBindings
from mooring.cluster.binder.view import BY_CLASS, BY_NODE, Volumes
from mooring.control.slim import items, slim, slimmed
from mooring.kube.cache.reader import Reader


class View(msgspec.Struct, frozen=True):
    """The caches and the plans, live; plans count before the caches."""

    claims: Reader[PersistentVolumeClaim]
    volumes: Volumes
    classes: Reader[StorageClass]
    pods: Reader[Pod]
    nodes: Reader[Node]
    csi_nodes: Reader[CSINode]
    drivers: Reader[CSIDriver]
    capacities: Reader[CSIStorageCapacity]
    attachments: Reader[VolumeAttachment]
    plans: AssumedBindings

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(Key("", name)) if name else None

    def node(self, name: str) -> Node | None:
        return self.nodes.get(Key("", name))

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        """The node that was chosen for a claim, None for none yet. An empty annotation chooses "", which no node is
        called.
        """
        if has_annotation(claim, SELECTED_NODE):
            return annotation(claim, SELECTED_NODE)
        return self.plans.node_of(key_of(claim)) or None

    def pods_on(self, node_name: str) -> list[Pod]:
        """The pods on the node that have not ended, and the pods that are assumed there."""
        there = {key_of(pod): pod for pod in self.pods.by(BY_NODE, node_name)}
        for key in self.plans.on_node(node_name):
            pod = self.pods.get(key)
            if pod is not None:
                there[key] = pod
        return list(there.values())

    def pod_count(self, node_name: str) -> int:
        return len(self.pods.by(BY_NODE, node_name)) + len(self.plans.on_node(node_name))


CAPACITY_INDEXES: Final[Mapping[str, Callable[[CSIStorageCapacity], Iterable[str]]]] = {
    BY_CLASS: lambda capacity: (capacity.storage_class_name,),
}
ATTACHMENT_INDEXES: Final[Mapping[str, Callable[[VolumeAttachment], Iterable[str]]]] = {
    BY_NODE: lambda attachment: (attachment.spec.node_name,),
}


def _is_readiness(condition: Condition) -> bool:
    return condition.type == "Ready"


NODE: Final = slimmed(metadata=slim("labels"), status=slim(conditions=items(_is_readiness, slim("type", "status"))))
"""A node; of its conditions only Ready, without the time: a heartbeat wakes nobody."""
