"""PersistentVolumes, their claims, and the kinds of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.binding import IS_DEFAULT
from mooring.api.classes import CLASS_BETA
from mooring.apiserver.printers.column import NAME, UNSET, Cell, Column, at, is_deleted, is_true, plain, table
from mooring.apiserver.resource import Json

_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(given: Iterable[str] | None) -> str:
    """In the order of the short names, each once."""
    present = set(given or ())
    return ",".join(short for mode, short in _MODES.items() if mode in present)


def _class(obj: Json) -> Any:
    annotations = obj["metadata"].get("annotations") or {}
    return annotations[CLASS_BETA] if CLASS_BETA in annotations else obj["spec"].get("storageClassName", "")


def _phase(obj: Json) -> Any:
    return "Terminating" if is_deleted(obj) else obj["status"].get("phase", "")


def _claim(pv: Json) -> str:
    claim = pv["spec"].get("claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


def _of_bound(show: Cell) -> Cell:
    """A cell that is empty until the claim has a volume."""
    return lambda pvc, now: show(pvc, now) if pvc["spec"].get("volumeName") else ""


_CELLS: Final = {"phase": plain(_phase), "class": plain(_class)}

PERSISTENT_VOLUME: Final = table(
    """
    Name
    Capacity                .spec.capacity.storage="0"              The size of the volume.
    Access Modes            modes                                   The ways in which the volume can be mounted.
    Reclaim Policy          .spec.persistentVolumeReclaimPolicy     What happens to the volume when its claim is gone.
    Status                  phase                                   Whether the volume is available, bound, or released.
    Claim                   claim                                   The claim that the volume is bound to.
    StorageClass            class                                   The storage class.
    VolumeAttributesClass   .spec.volumeAttributesClassName="<unset>"  The attributes class.
    Reason                  .status.reason                          What has failed, in a word.
    Age
    VolumeMode*             .spec.volumeMode="<unset>"              Filesystem or raw block.
    """,
    **_CELLS,
    modes=plain(lambda pv: _modes(pv["spec"].get("accessModes"))),
    claim=plain(_claim),
)
PERSISTENT_VOLUME_CLAIM: Final = table(
    """
    Name
    Status                  phase               Whether the claim has a volume.
    Volume                  .spec.volumeName    The volume behind the claim.
    Capacity                capacity            The size of the volume.
    Access Modes            modes               The ways in which the volume can be mounted.
    StorageClass            class               The storage class.
    VolumeAttributesClass   .spec.volumeAttributesClassName="<unset>"  The attributes class.
    Age
    VolumeMode*             .spec.volumeMode="<unset>"  Filesystem or raw block.
    """,
    **_CELLS,
    capacity=_of_bound(at("status", "capacity", "storage", default="0")),
    modes=_of_bound(plain(lambda pvc: _modes(pvc["status"].get("accessModes")))),
)


def _class_name(storage_class: Json) -> str:
    name: str = storage_class["metadata"]["name"]
    return f"{name} (default)" if is_true(storage_class, *IS_DEFAULT) else name


def _audiences(driver: Json) -> str:
    requests = driver["spec"].get("tokenRequests")
    return ",".join(request["audience"] for request in requests) if requests else UNSET


STORAGE_CLASS: Final = (
    Column("Name", plain(_class_name), NAME.description, format="name"),
    *table("""
    Provisioner             .provisioner                    Who makes the volumes.
    ReclaimPolicy           .reclaimPolicy="Delete"         What happens to a volume when its claim is gone.
    VolumeBindingMode       .volumeBindingMode="Immediate"  When a claim gets its volume.
    AllowVolumeExpansion    .allowVolumeExpansion=false     Whether claims may grow.
    Age
    """),
)
VOLUME_ATTRIBUTES_CLASS: Final = table("""
    Name
    DriverName  .driverName  The CSI driver.
    Age
""")
VOLUME_ATTACHMENT: Final = (
    NAME,
    Column("Attacher", at("spec", "attacher"), "The CSI driver that attaches.", format="name"),
    *table("""
    PV                  .spec.source.persistentVolumeName  The volume.
    Node                .spec.nodeName                     The node that it is attached to.
    Attached:boolean    .status.attached=false             Whether it is attached.
    Age
    """),
)
CSI_NODE: Final = table(
    """
    Name
    Drivers:integer  drivers  How many drivers the node has.
    Age
    """,
    drivers=plain(lambda node: len(node["spec"]["drivers"] or ())),
)
CSI_DRIVER: Final = table(
    """
    Name
    AttachRequired:boolean      .spec.attachRequired=true       Whether volumes are attached to nodes.
    PodInfoOnMount:boolean      .spec.podInfoOnMount=false      Whether the driver gets the pod's data.
    StorageCapacity:boolean     .spec.storageCapacity=false     Whether the driver tells its capacity.
    TokenRequests               audiences                       The audiences of the tokens that the driver wants.
    RequiresRepublish:boolean   .spec.requiresRepublish=false   Whether volumes are published again.
    Modes                       modes                           The kinds of volumes it can make.
    Age
    """,
    audiences=plain(_audiences),
    modes=plain(lambda driver: ",".join(driver["spec"].get("volumeLifecycleModes") or ())),
)
