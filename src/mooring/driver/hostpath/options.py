"""The options of one host-path driver: the choices of the person who starts it."""

from __future__ import annotations

import dataclasses

from mooring.base.flagkinds import BOOL, INT
from mooring.base.flags import flag


@dataclasses.dataclass(frozen=True, slots=True)
class HostpathOptions:
    """attach: volumes are published by the controller first. check_lifecycle: also where a node was given up. stages:
    nodes have NodeStageVolume. grows_on_nodes: expansion ends on the node. volumes_per_node: -1 for another number from
    1 to 10 at each call. node_volume_bytes_max: of NodeExpandVolume, 0 for no limit.
    """

    attach: bool = flag(
        "attach",
        BOOL,
        True,
        "Publish volumes on nodes. Write --attach=false for a driver that needs no attach. (Also: --enable-attach.)",
    )
    check_lifecycle: bool = flag(
        "check-volume-lifecycle",
        BOOL,
        False,
        "Refuse with Internal to delete or detach a volume that a node still has. Otherwise a volume in use is "
        "not deleted "
        "(FailedPrecondition), and can be detached by force.",
    )
    stages: bool = True
    grows_on_nodes: bool = True
    images: bool = flag(
        "images",
        BOOL,
        False,
        "New volumes are file systems of their real size, in a file, and not folders. Needs mounts and e2fsprogs.",
    )
    mount_group: bool = flag(
        "volume-mount-group", BOOL, False, "Give volumes to the group that a call names: VOLUME_MOUNT_GROUP."
    )
    volumes_per_node: int = flag(
        "max-volumes-per-node",
        INT,
        0,
        "The limit in NodeGetInfo if there is no --attach-limit; 0 is no limit. (Also: --maxvolumespernode.)",
    )
    node_volume_bytes_max: int = 0
