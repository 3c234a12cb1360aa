"""What one host-path driver does, and how strictly: the choices of whoever starts it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """attach: volumes are published by the controller first. check_lifecycle: volumes in use are refused with Internal, also where a node
    was given up. stages: nodes have NodeStageVolume. grows_on_nodes: expansion ends on the node. images: new volumes are file systems of
    their size, not folders. mount_group: NodePublishVolume gives the volume to a group. volumes_per_node: what NodeGetInfo tells, 0 for
    no limit, -1 for another number from 1 to 10 at each call. node_volume_bytes_max: of NodeExpandVolume, 0 for no limit.
    """

    attach: bool = True
    check_lifecycle: bool = False
    stages: bool = True
    grows_on_nodes: bool = True
    images: bool = False
    mount_group: bool = False
    volumes_per_node: int = 0
    node_volume_bytes_max: int = 0
