"""The rights that each sidecar needs: one table, which a test holds against the manifests in deploy/.

Beside each stands where the Go program asks for it; verbs that it never uses are "ours". Rules for secrets are not
here: the check of the classes looks at those.
"""

from __future__ import annotations

import re
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


def _owner_level(sidecar: Sidecar) -> int:
    """How far above its pod the owner of its capacities is: -1 for capacities without one."""
    level = sidecar.flag("capacity-ownerref-level")
    return int(level.value) if level is not None and re.fullmatch(r"-?\d+", level.value) else 1


def _has_owner(sidecar: Sidecar) -> bool:
    return _tells_capacity(sidecar) and _owner_level(sidecar) >= 0


def _owns_by_deployment(sidecar: Sidecar) -> bool:
    return _tells_capacity(sidecar) and _owner_level(sidecar) == 2


def _since(major: int, minor: int = 0) -> Callable[[Sidecar], bool]:
    return lambda sidecar: sidecar.is_since(major, minor)


def _gate(name: str, major: int) -> Callable[[Sidecar], bool]:
    """major: the release since which it is on without a word."""
    return lambda sidecar: sidecar.gates().get(name, sidecar.is_since(major))


_has_topology: Final = _gate("Topology", 5)


def _watches_nodes(sidecar: Sidecar) -> bool:
    """A provisioner of one node has its topology from the driver."""
    return _has_topology(sidecar) and not sidecar.is_on("node-deployment")


def _attaches(sidecar: Sidecar) -> bool:
    """A driver that attaches has an attacher in the same pod."""
    return _stands_beside(sidecar, "attacher")


def _restores(sidecar: Sidecar) -> bool:
    """A driver with snapshots has a snapshotter in the same pod."""
    return _stands_beside(sidecar, "snapshotter")


def _protects_sources(sidecar: Sidecar) -> bool:
    return _restores(sidecar) and sidecar.is_since(6, 2)


def _stands_beside(sidecar: Sidecar, name: str) -> bool:
    words = [" ".join((one.image, *one.command, *one.args)) for one in sidecar.pods.spec.containers]
    return any(name in one for one in words)


def _watches_pods(sidecar: Sidecar) -> bool:
    return sidecar.flag("handle-volume-inuse-error") is None or sidecar.is_on("handle-volume-inuse-error")


def makes_groups(sidecar: Sidecar) -> bool:
    return sidecar.gates().get("CSIVolumeGroupSnapshot", False)


UNTOLD: Final = "users see no events: they do not learn why something fails"
NO_LEADER: Final = "no replica ever leads, so none does any work"
HANGS: Final = "no volume is attached or detached: pods hang in ContainerCreating"
PENDING: Final = "claims stay Pending, or deleted volumes stay"
BY_TOPOLOGY: Final = "claims of a driver with topology stay Pending"
NO_GROWTH: Final = "no claim grows: the program waits for this before all else"
NO_RESTORE: Final = "no claim is restored from a snapshot"
NO_OWNER: Final = "--enable-capacity ends the program: it does not find its owner"
NO_CONTENT: Final = "snapshots stay without a content and a word"
NO_GROUP: Final = "no group snapshot is made"
NO_MEMBERS: Final = "groups get no members"


def _election(*, events: bool = False, keeps: Callable[[Sidecar], bool] = _elects) -> tuple[Need, ...]:
    told = "nobody sees on the Lease who led, and when"
    found = (
        # client-go, resourcelock/leaselock.go: Get, Create, Update
        Need(LEASES, "leases", "get create update", NO_LEADER, at_home=True, when=keeps),
        Need(LEASES, "leases", "watch", "a standby takes over later", NOTE, at_home=True, whose="ours", when=_elects),
        Need("", "events", "create patch", told, NOTE, at_home=True, whose="ours", when=_elects),
    )
    return found if events else found[:2]


NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "csi-attacher": (
        # csi_handler.go: addPVFinalizer; controller.go: NewCSIAttachController
        Need("", "persistentvolumes", "list watch patch", HANGS),
        Need("", "persistentvolumes", "get", HANGS, whose="ours"),
        # csi_handler.go: getNodeID
        Need(STORAGE, "csinodes", "list watch", "no volume is attached: the node's id is not known"),
        Need(STORAGE, "csinodes", "get", "no volume is attached: the node's id is not known", whose="ours"),
        Need("", "nodes", "get", "a detach from a deleted machine stays an error", WARNING, whose="ours"),
        # csi_handler.go: patchVA
        Need(STORAGE, "volumeattachments", "list watch patch", HANGS),
        Need(STORAGE, "volumeattachments", "get", HANGS, whose="ours"),
        # util.go: markAsAttached
        Need(
            STORAGE,
            "volumeattachments/status",
            "patch",
            "no attachment is ever reported: pods hang in ContainerCreating",
        ),
        *_election(events=True),
    ),
    "csi-provisioner": (
        # sig-storage-lib, controller.go: NewProvisionController, deleteVolumeOperation; volume_store.go: doSaveVolume
        Need("", "persistentvolumes", "list watch create delete", PENDING),
        # sig-storage-lib, controller.go: removePersistentVolumeFinalizer
        Need("", "persistentvolumes", "patch", PENDING, when=_gate("HonorPVReclaimPolicy", 5)),
        # controller.go: getPVCSource
        Need("", "persistentvolumes", "get", "no claim is cloned from another", NOTE, whose="go"),
        Need("", "persistentvolumes", "get", PENDING, whose="ours"),
        # csi-provisioner.go: main
        Need("", "persistentvolumeclaims", "list watch", "claims stay Pending"),
        # sig-storage-lib, controller.go: rescheduleProvisioning; controller.go: setCloneFinalizer
        Need(
            "",
            "persistentvolumeclaims",
            "update",
            "claims that clone another, or whose node has no room, stay Pending",
            WARNING,
        ),
        Need("", "persistentvolumeclaims", "get", "claims stay Pending", whose="ours"),
        # csi-provisioner.go: main
        Need(STORAGE, "storageclasses", "list watch", "claims stay Pending"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        # topology.go: GenerateAccessibilityRequirements
        Need(STORAGE, "csinodes", "list watch", BY_TOPOLOGY, WARNING, when=_watches_nodes),
        Need("", "nodes", "list watch", BY_TOPOLOGY, WARNING, when=_watches_nodes),
        Need("", "nodes", "get", BY_TOPOLOGY, WARNING, whose="ours"),
        # controller.go: canDeleteVolume
        Need(
            STORAGE, "volumeattachments", "list watch", "claims stay Pending, and no volume is deleted", when=_attaches
        ),
        # controller.go: prepareProvision
        Need(
            STORAGE,
            "volumeattributesclasses",
            "get",
            "claims that name a VolumeAttributesClass stay Pending, if the driver has them",
            NOTE,
            when=_gate("VolumeAttributesClass", 6),
        ),
        # controller.go: getSnapshotSource
        Need(SNAPSHOTS, "volumesnapshots", "get", NO_RESTORE, WARNING, when=_restores),
        Need(SNAPSHOTS, "volumesnapshotcontents", "get", NO_RESTORE, WARNING, when=_restores),
        # snapshot_finalizer_controller.go: Run; controller.go: setSnapshotFinalizer. Both go on without.
        Need(
            SNAPSHOTS,
            "volumesnapshots",
            "list watch update",
            "a snapshot may be deleted while a claim is made of it",
            NOTE,
            when=_protects_sources,
        ),
        *_election(keeps=_keeps_leases),
        # capacity.go: syncCapacity, deleteCapacity
        Need(
            STORAGE,
            "csistoragecapacities",
            "list watch create update delete",
            "no capacity is told: pods of a driver that asks for it stay Pending",
            at_home=True,
            when=_tells_capacity,
        ),
        # owner.go: Lookup
        Need("", "pods", "get", NO_OWNER, at_home=True, when=_has_owner),
        Need("apps", "replicasets", "get", NO_OWNER, at_home=True, when=_owns_by_deployment),
    ),
    "csi-resizer": (
        # controller.go: NewResizeController, patchPersistentVolume; util.go: PatchClaim
        Need("", "persistentvolumes", "list watch patch", "no claim grows"),
        Need("", "persistentvolumeclaims", "list watch", "no claim grows"),
        Need("", "persistentvolumeclaims", "get", "no claim grows", whose="ours"),
        Need("", "persistentvolumeclaims/status", "patch", "no claim grows"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        # controller.go: Run
        Need("", "pods", "list watch", NO_GROWTH, whose="go", when=_watches_pods),
        Need(
            "",
            "pods",
            "list watch",
            "volumes in use do not grow, if their driver refuses that",
            WARNING,
            whose="ours",
            when=_watches_pods,
        ),
        # modifycontroller/controller.go: NewModifyController
        Need(
            STORAGE,
            "volumeattributesclasses",
            "list watch",
            "no claim gets another VolumeAttributesClass, if the driver has them",
            NOTE,
            when=_gate("VolumeAttributesClass", 2),
        ),
        *_election(),
    ),
    "csi-snapshotter": (
        # sidecar-controller/snapshot_controller.go: updateSnapshotContentStatus, removeContentFinalizer
        Need(SNAPSHOTS, "volumesnapshotcontents", "get list watch patch", "no snapshot is made or deleted"),
        Need(SNAPSHOTS, "volumesnapshotcontents/status", "patch", "no snapshot is ever ready", when=_since(8)),
        # sidecar-controller/snapshot_controller.go: updateContentErrorStatusWithEvent
        Need(
            SNAPSHOTS,
            "volumesnapshotcontents/status",
            "patch",
            "the snapshot does not tell why it fails",
            WARNING,
            when=lambda sidecar: not sidecar.is_since(8),
        ),
        # sidecar-controller/snapshot_controller.go: clearVolumeContentStatus
        Need(
            SNAPSHOTS,
            "volumesnapshotcontents/status",
            "update",
            "contents of deleted snapshots stay for ever",
            whose="go",
        ),
        # sidecar-controller/snapshot_controller_base.go: Run
        Need(SNAPSHOTS, "volumesnapshotclasses", "list watch", "no snapshot is made"),
        Need(SNAPSHOTS, "volumesnapshotclasses", "get", "no snapshot is made", whose="ours"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        *_election(),
        # sidecar-controller/groupsnapshot_helper.go: updateGroupSnapshotContentStatus, and what it calls
        Need(GROUPS, "volumegroupsnapshotcontents", "get list watch patch", NO_GROUP, when=makes_groups),
        Need(
            GROUPS,
            "volumegroupsnapshotcontents/status",
            "patch update",
            "no group snapshot is ever ready",
            when=makes_groups,
        ),
        Need(GROUPS, "volumegroupsnapshotclasses", "list watch", NO_GROUP, when=makes_groups),
    ),
    "snapshot-controller": (
        # common-controller/snapshot_controller.go: addSnapshotFinalizer, updateSnapshotStatus
        Need(SNAPSHOTS, "volumesnapshots", "list watch patch", NO_CONTENT),
        Need(SNAPSHOTS, "volumesnapshots", "get update", NO_CONTENT, whose="go"),
        Need(SNAPSHOTS, "volumesnapshots/status", "update", "no snapshot is ever ready", whose="go"),
        Need(SNAPSHOTS, "volumesnapshots/status", "patch", "no snapshot is ever ready", whose="ours"),
        # common-controller/snapshot_controller.go: createSnapshotContent, checkandBindSnapshotContent, syncContent
        Need(SNAPSHOTS, "volumesnapshotcontents", "list watch create patch delete", NO_CONTENT),
        Need(SNAPSHOTS, "volumesnapshotcontents", "get", NO_CONTENT, whose="ours"),
        # main.go: ensureCustomResourceDefinitionsExist
        Need(SNAPSHOTS, "volumesnapshotclasses", "list watch", "no snapshot finds its class"),
        Need(SNAPSHOTS, "volumesnapshotclasses", "get", "no snapshot finds its class", whose="ours"),
        # common-controller/snapshot_controller.go: ensurePVCFinalizer, removePVCFinalizer
        Need("", "persistentvolumeclaims", "get list watch update", "no snapshot of a claim is made"),
        # common-controller/snapshot_controller.go: getVolumeFromVolumeSnapshot
        Need("", "persistentvolumes", "get list watch", "no snapshot of a claim is made"),
        Need("", "events", "create patch", UNTOLD, WARNING),
        *_election(),
        # common-controller/groupsnapshot_controller_helper.go: createOrGetVolumeSnapshot, and the next to it
        Need(SNAPSHOTS, "volumesnapshots", "create", NO_MEMBERS, when=makes_groups),
        Need(SNAPSHOTS, "volumesnapshots", "delete", NO_MEMBERS, whose="ours", when=makes_groups),
        Need(SNAPSHOTS, "volumesnapshots/status", "patch", NO_MEMBERS, when=makes_groups),
        Need(SNAPSHOTS, "volumesnapshotcontents/status", "patch", NO_MEMBERS, when=makes_groups),
        # common-controller/groupsnapshot_controller_helper.go: addGroupSnapshotFinalizer, updateGroupSnapshotStatus
        Need(GROUPS, "volumegroupsnapshots", "get list watch patch update", NO_GROUP, when=makes_groups),
        Need(GROUPS, "volumegroupsnapshots/status", "update", "no group snapshot is ever ready", when=makes_groups),
        Need(
            GROUPS,
            "volumegroupsnapshots/status",
            "patch",
            "no group snapshot is ever ready",
            whose="ours",
            when=makes_groups,
        ),
        # common-controller/groupsnapshot_controller_helper.go: createGroupSnapshotContent
        Need(GROUPS, "volumegroupsnapshotcontents", "list watch create patch delete", NO_GROUP, when=makes_groups),
        Need(GROUPS, "volumegroupsnapshotcontents", "get", NO_GROUP, whose="ours", when=makes_groups),
        Need(GROUPS, "volumegroupsnapshotclasses", "list watch", NO_GROUP, when=makes_groups),
    ),
}
