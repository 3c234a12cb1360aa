"""The options of `mooring dev`, and the patience of its plane. Durations in seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.flagkinds import BOOL, DURATION, FILE, FOLDER, INT, NAMES
from mooring.base.flags import flag
from mooring.cluster.attachdetach.options import FORCE_AFTER_S
from mooring.cluster.nodehealth.options import NodeHealthOptions

if TYPE_CHECKING:
    from mooring.conform.proxy.script import Script
    from mooring.csi.driver_form import Form
    from mooring.driver.hostpath.layout import Segments

GRACE_S: Final = NodeHealthOptions().node_monitor_grace_period_s


@dataclasses.dataclass(frozen=True, slots=True)
class Patience:
    """With nodes that are gone."""

    grace_s: float = flag(
        "node-monitor-grace-period",
        DURATION,
        GRACE_S,
        "How long a node may give no sign of life before it counts as not ready.",
    )
    force_after_s: float = flag(
        "force-detach-after",
        DURATION,
        FORCE_AFTER_S,
        "How long a volume that no pod wants stays on a node that is not ready and has it mounted.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevChoices:
    """The options that are flags as they are. snapshots: as for `running`."""

    state: str = flag(
        "state",
        FOLDER,
        "",
        "A folder that keeps objects, volumes, certificates and the kubeconfig. Empty: they vanish at the end.",
    )
    port: int = flag("port", INT, 0, "The API server's port; 0 takes that of the folder's last start, or a free one.")
    volumes: tuple[str, ...] = flag(
        "volume",
        NAMES,
        (),
        "A PersistentVolume to make, with a volume of 1 GiB; may be given more than once.",
    )
    snapshots: bool = flag(
        "snapshots",
        BOOL,
        True,
        "Serve the kinds of snapshots, with controller and snapshotter, if the driver makes snapshots.",
    )
    driver_log: str = flag(
        "driver-log", FILE, "", "A file for what the driver's command prints, in place of the terminal."
    )
    default_class: bool = flag(
        "default-class", BOOL, False, "Make the driver's class the default of claims that name none."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevOptions(DevChoices):
    """form: of the driver. nodes: their names, at least one. topology: as for `running`. patience: with nodes that are
    gone.

    script: of faults, None for none. takes_faults: more may be asked for while it runs.
    """

    form: Form
    nodes: Sequence[str]
    topology: Mapping[str, Segments]
    patience: Patience
    script: Script | None = None
    takes_faults: bool = False
