"""The rights that each sidecar needs: one table, which a test holds against the manifests in deploy/.

Rules for secrets are not here: the check of the classes looks at those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mooring.inspect.doctor.finding import Severity
from mooring.inspect.doctor.sidecars import Sidecar

STORAGE: Final = "storage.k8s.io"
SNAPSHOTS: Final = "snapshot.storage.k8s.io"
GROUPS: Final = "groupsnapshot.storage.k8s.io"
LEASES: Final = "coordination.k8s.io"

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


class Need(msgspec.Struct, frozen=True):
    """verbs: with spaces between. follows: from its absence. at_home: in the namespace of the Lease alone.

    whose: "ours", "go", "" for both. when: whether this sidecar needs it, by its flags and its pod.
    """

    group: str
    resource: str
    verbs: str
    follows: str
    severity: Severity = ERROR
    at_home: bool = False
    whose: str = ""
    when: Callable[[Sidecar], bool] = lambda _: True

    def is_needed_by(self, sidecar: Sidecar) -> bool:
        return self.whose in ("", "ours" if sidecar.is_ours else "go") and self.when(sidecar)


def _elects(sidecar: Sidecar) -> bool:
    return sidecar.is_on("leader-election")


def _keeps_leases(sidecar: Sidecar) -> bool:
    """Mooring's provisioner has its journal there, too."""
    return _elects(sidecar) or sidecar.is_ours


def _tells_capacity(sidecar: Sidecar) -> bool:
    return sidecar.is_on("enable-capacity")


def _owns_by_deployment(sidecar: Sidecar) -> bool:
    level = sidecar.flag("capacity-ownerref-level")
    return _tells_capacity(sidecar) and level is not None and level.value == "2"


def _restores(sidecar: Sidecar) -> bool:
    """A driver with snapshots has a snapshotter in the same pod."""
    images = [one.image + " ".join((*one.command, *one.args)) for one in sidecar.pods.spec.containers]
    return any("snapshotter" in one for one in images)


def makes_groups(sidecar: Sidecar) -> bool:
    return sidecar.gates().get("CSIVolumeGroupSnapshot", False)


UNTOLD: Final = "users see no events: they do not learn why something fails"
NO_LEADER: Final = "no replica ever leads, so none does any work"


def _election(*, events: bool = False, keeps: Callable[[Sidecar], bool] = _elects) -> tuple[Need, ...]:
    found = (
        Need(LEASES, "leases", "get create update", NO_LEADER, at_home=True, when=keeps),
        Need(LEASES, "leases", "watch", "a standby takes over later", NOTE, at_home=True, whose="ours", when=_elects),
    )
    told = Need(
        "",
        "events",
        "create patch",
        "nobody sees on the Lease who led, and when",
        NOTE,
        at_home=True,
        whose="ours",
        when=_elects,
    )
    return (*found, told) if events else found


_TAKEOVER: Final = Need(
    "",
    "pods",
    "list watch",
    "a standby waits until the Lease of a dead leader runs out",
    NOTE,
    at_home=True,
    whose="ours",
    when=_elects,
)

NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "csi-attacher": (
        Need(
            "",
            "persistentvolumes",
            "get list watch patch",
            "no volume is attached or detached: pods hang in ContainerCreating",
        ),
        Need(STORAGE, "csinodes", "get list watch", "no volume is attached: the node's id is not known"),
        Need(
            STORAGE,
            "volumeattachments",
            "get list watch patch",
            "no volume is attached or detached: pods hang in ContainerCreating",
        ),
        Need(
            STORAGE,
            "volumeattachments/status",
            "patch",
            "no attachment is ever reported: pods hang in ContainerCreating",
        ),
        Need("", "events", "create patch", UNTOLD, NOTE, whose="ours"),
        *_election(events=True),
        _TAKEOVER,
    ),
    "csi-provisioner": (
        Need(
            "",
            "persistentvolumes",
            "get list watch create patch delete",
            "claims stay Pending, or deleted volumes stay",
        ),
        Need("", "persistentvolumeclaims", "get list watch update", "claims stay Pending"),
        Need(STORAGE, "storageclasses", "list watch", "claims stay Pending"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        Need(STORAGE, "csinodes", "list watch", "claims of a driver with topology stay Pending", WARNING),
        Need("", "nodes", "get list watch", "claims of a driver with topology stay Pending", WARNING),
        Need(
            STORAGE,
            "volumeattachments",
            "list watch",
            "claims of a driver that attaches stay Pending, and no volume is deleted",
            WARNING,
        ),
        Need(
            STORAGE, "volumeattributesclasses", "get", "claims that name a VolumeAttributesClass stay Pending", WARNING
        ),
        Need(
            SNAPSHOTS,
            "volumesnapshots",
            "get list watch update",
            "no claim is restored from a snapshot",
            WARNING,
            when=_restores,
        ),
        Need(
            SNAPSHOTS, "volumesnapshotcontents", "get", "no claim is restored from a snapshot", WARNING, when=_restores
        ),
        *_election(keeps=_keeps_leases),
        _TAKEOVER,
        Need(
            STORAGE,
            "csistoragecapacities",
            "list watch create update delete",
            "no capacity is told: pods of a driver that asks for it stay Pending",
            at_home=True,
            when=_tells_capacity,
        ),
        Need(
            "",
            "pods",
            "get",
            "--enable-capacity ends the program: it does not find its owner",
            at_home=True,
            when=_tells_capacity,
        ),
        Need(
            "apps",
            "replicasets",
            "get",
            "--enable-capacity ends the program: it does not find its owner",
            at_home=True,
            when=_owns_by_deployment,
        ),
    ),
    "csi-resizer": (
        Need("", "persistentvolumes", "list watch patch", "no claim grows"),
        Need("", "persistentvolumeclaims", "get list watch", "no claim grows"),
        Need("", "persistentvolumeclaims/status", "patch", "no claim grows"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        Need("", "pods", "list watch", "volumes in use do not grow, if their driver refuses that", WARNING),
        Need(STORAGE, "volumeattributesclasses", "list watch", "no claim gets another VolumeAttributesClass", WARNING),
        *_election(),
    ),
    "csi-snapshotter": (
        Need(SNAPSHOTS, "volumesnapshotcontents", "list watch patch", "no snapshot is made or deleted"),
        Need(SNAPSHOTS, "volumesnapshotcontents/status", "patch", "no snapshot is ever ready"),
        Need(SNAPSHOTS, "volumesnapshotclasses", "get list watch", "no snapshot is made"),
        Need(SNAPSHOTS, "volumesnapshotcontents", "get", "no snapshot is made or deleted", whose="go"),
        Need(SNAPSHOTS, "volumesnapshotcontents/status", "update", "no snapshot is ever ready", whose="go"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        *_election(),
        _TAKEOVER,
        Need(
            GROUPS,
            "volumegroupsnapshotcontents",
            "get list watch patch",
            "no group snapshot is made",
            when=makes_groups,
        ),
        Need(
            GROUPS,
            "volumegroupsnapshotcontents/status",
            "patch update",
            "no group snapshot is ever ready",
            when=makes_groups,
        ),
        Need(GROUPS, "volumegroupsnapshotclasses", "list watch", "no group snapshot is made", when=makes_groups),
    ),
    "snapshot-controller": (
        Need(SNAPSHOTS, "volumesnapshots", "list watch patch", "snapshots stay without a content and a word"),
        Need(SNAPSHOTS, "volumesnapshots/status", "patch", "no snapshot is ever ready"),
        Need(SNAPSHOTS, "volumesnapshots", "get update", "snapshots stay without a content and a word", whose="go"),
        Need(SNAPSHOTS, "volumesnapshots/status", "update", "no snapshot is ever ready", whose="go"),
        Need(
            SNAPSHOTS,
            "volumesnapshotcontents",
            "get list watch create patch delete",
            "snapshots stay without a content and a word",
        ),
        Need(SNAPSHOTS, "volumesnapshotclasses", "get list watch", "no snapshot finds its class"),
        Need("", "persistentvolumeclaims", "get list watch update", "no snapshot of a claim is made"),
        Need("", "persistentvolumes", "get list watch", "no snapshot of a claim is made"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        *_election(),
        _TAKEOVER,
        Need(SNAPSHOTS, "volumesnapshots", "create delete", "groups get no members", when=makes_groups),
        Need(SNAPSHOTS, "volumesnapshotcontents/status", "patch", "groups get no members", when=makes_groups),
        Need(
            GROUPS,
            "volumegroupsnapshots",
            "get list watch patch update",
            "no group snapshot is made",
            when=makes_groups,
        ),
        Need(
            GROUPS, "volumegroupsnapshots/status", "patch update", "no group snapshot is ever ready", when=makes_groups
        ),
        Need(
            GROUPS,
            "volumegroupsnapshotcontents",
            "get list watch create patch delete",
            "no group snapshot is made",
            when=makes_groups,
        ),
        Need(GROUPS, "volumegroupsnapshotclasses", "list watch", "no group snapshot is made", when=makes_groups),
    ),
}
