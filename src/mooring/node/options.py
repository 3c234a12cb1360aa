"""The options of a node's agent. Durations in seconds."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.base.flagkinds import BOOL, DURATION, UINT, GateStage
from mooring.base.flags import flag, gate

if TYPE_CHECKING:
    from mooring.node.resources import Resources

ROOT: Final = "/var/lib/kubelet"
"""A node's root folder, by default."""
LEASE_S: Final = 40.0
"""How long a Lease lasts, by default."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentOptions:
    """node_name: of the Node. root: the node's root folder, a kubelet's. watches_health: volumes that are not well
    become events.

    labels_all: every volume of a driver that takes SELinux labels is mounted with its pod's, not only those that one
    pod alone may use. registry: where registration sockets appear, None for the kubelet's place below the root.
    heartbeats: the agent gives the node's signs of life, which is False only where another does. lease_s: how long the
    node's Lease lasts. watches_claims: a volume grows at once, not at the next look at its pod; a kubelet's rights do
    not let it watch claims. resources: what the Node says that it has, None where others say so. controller_attaches:
    the Node's annotation tells it to the controller. stats_period_s: from one question for the volumes' usage to the
    next, at the least.
    """

    node_name: str
    root: Path
    watches_health: bool = gate("CSIVolumeHealth", GateStage.ALPHA, False)
    labels_all: bool = gate("SELinuxMount", GateStage.BETA, False)
    registry: Path | None = None
    grace_s: float = flag(
        "driver-removal-grace-period",
        DURATION,
        0.0,
        "How long a driver stays in CSINode when its registration socket is gone; after a start two minutes at least.",
    )
    mounts_max: int = flag(
        "max-mounts-per-driver", UINT, 0, "How many volumes of one driver the agent mounts at once; 0: no limit."
    )
    heartbeats: bool = True
    lease_s: float = LEASE_S
    watches_claims: bool = False
    stats_period_s: float = 60.0
    resources: Resources | None = None
    controller_attaches: bool = flag(
        "enable-controller-attach-detach",
        BOOL,
        True,
        "The attach/detach controller attaches the node's volumes; false: the node makes and deletes its "
        "VolumeAttachments itself.",
    )
