"""The kinds of objects that people ask about, and the names that people give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.base.errors import ConfigError

ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("pvc", "pvcs", "claim", "persistentvolumeclaim", "persistentvolumeclaims"), "pvc"),
    **dict.fromkeys(("pv", "pvs", "persistentvolume", "persistentvolumes"), "pv"),
    **dict.fromkeys(("va", "volumeattachment", "volumeattachments"), "volumeattachment"),
    **dict.fromkeys(("node", "nodes", "no"), "node"),
    **dict.fromkeys(("vs", "volumesnapshot", "volumesnapshots", "snapshot"), "volumesnapshot"),
    **dict.fromkeys(("vsc", "volumesnapshotcontent", "volumesnapshotcontents"), "volumesnapshotcontent"),
    **dict.fromkeys(
        ("vgsc", "volumegroupsnapshotcontent", "volumegroupsnapshotcontents"), "volumegroupsnapshotcontent"
    ),
    **dict.fromkeys(("vgs", "volumegroupsnapshot", "volumegroupsnapshots", "group"), "volumegroupsnapshot"),
}
"""What people type → the kind."""
UNSTUCK: Final = (
    *("pv", "pvc", "volumeattachment"),
    *("volumesnapshot", "volumesnapshotcontent", "volumegroupsnapshot", "volumegroupsnapshotcontent"),
)
"""The kinds whose finalizers `mooring unstick` judges."""
NAMESPACED: Final = ("pod", "pvc", "volumesnapshot", "volumegroupsnapshot")


class NotThere(ConfigError):
    """The object that was asked about does not exist."""
