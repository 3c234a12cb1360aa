"""The content of the view as values: a row for each node, and for each volume on each node that has it or is to have it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final

from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.pods import Pod
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.storage import CSIDriver, CSINode, VolumeAttachment

READY: Final = "Ready"


@dataclasses.dataclass(frozen=True, slots=True)
class Objects:
    """What is read of the API server at one moment."""

    nodes: Collection[Node] = ()
    csi_nodes: Collection[CSINode] = ()
    pods: Collection[Pod] = ()
    claims: Collection[PersistentVolumeClaim] = ()
    volumes: Collection[PersistentVolume] = ()
    attachments: Collection[VolumeAttachment] = ()
    drivers: Collection[CSIDriver] = ()
    snapshots: Collection[VolumeSnapshot] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRow:
    """state: Ready, NotReady or Unknown. zone: "" for none. limit: volumes that the node takes, None for no limit. taints: without what
    all share. for_s: since when it is in this state, None for one that is well.
    """

    name: str
    state: str
    zone: str
    attached: int
    limit: int | None
    pods: int
    taints: tuple[str, ...] = ()
    for_s: float | None = None

    @property
    def is_well(self) -> bool:
        return self.state == READY and not self.taints


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeRow:
    """claim: with its namespace, unless that is `default`; "" for a volume without one. volume: the PersistentVolume. node: "" for none.
    text: the reason that it waits, else who uses it. for_s: since when it waits in this stage, None for one that does not wait.
    """

    claim: str
    volume: str
    node: str
    stage: str
    text: str = ""
    waits: bool = False
    for_s: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.claim, self.volume, self.node


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    nodes: tuple[NodeRow, ...] = ()
    volumes: tuple[VolumeRow, ...] = ()

    @property
    def ticks(self) -> bool:
        """True where something waits: the time that it has waited grows."""
        return any(node.for_s is not None for node in self.nodes) or any(volume.for_s is not None for volume in self.volumes)
