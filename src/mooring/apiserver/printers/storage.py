"""The kinds of storage.k8s.io that are no volumes."""

from __future__ import annotations

from typing import Final

from mooring.apiserver.printers.column import AGE, NAME, UNSET, Column, Json, at, is_true, plain

_DEFAULT_CLASS: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _class_name(storage_class: Json) -> str:
    name: str = storage_class["metadata"]["name"]
    return f"{name} (default)" if is_true(storage_class, *_DEFAULT_CLASS) else name


def _audiences(driver: Json) -> str:
    requests = driver["spec"].get("tokenRequests")
    return ",".join(request["audience"] for request in requests) if requests else UNSET


STORAGE_CLASS: Final = (
    Column("Name", plain(_class_name), NAME.description, format="name"),
    Column("Provisioner", at("provisioner"), "Who makes the volumes."),
    Column("ReclaimPolicy", at("reclaimPolicy", default="Delete"), "What happens to a volume when its claim is gone."),
    Column("VolumeBindingMode", at("volumeBindingMode", default="Immediate"), "When a claim gets its volume."),
    Column("AllowVolumeExpansion", at("allowVolumeExpansion", default=False), "Whether claims may grow."),
    AGE,
)

VOLUME_ATTRIBUTES_CLASS: Final = (NAME, Column("DriverName", at("driverName"), "The CSI driver."), AGE)

VOLUME_ATTACHMENT: Final = (
    NAME,
    Column("Attacher", at("spec", "attacher"), "The CSI driver that attaches.", format="name"),
    Column("PV", at("spec", "source", "persistentVolumeName"), "The volume."),
    Column("Node", at("spec", "nodeName"), "The node that it is attached to."),
    Column("Attached", at("status", "attached", default=False), "Whether it is attached.", type="boolean"),
    AGE,
)

CSI_NODE: Final = (
    NAME,
    Column("Drivers", plain(lambda node: len(node["spec"]["drivers"] or ())), "How many drivers the node has.", type="integer"),
    AGE,
)

CSI_DRIVER: Final = (
    NAME,
    Column("AttachRequired", at("spec", "attachRequired", default=True), "Whether volumes are attached to nodes.", type="boolean"),
    Column("PodInfoOnMount", at("spec", "podInfoOnMount", default=False), "Whether the driver is told of the pod.", type="boolean"),
    Column("StorageCapacity", at("spec", "storageCapacity", default=False), "Whether the driver tells its capacity.", type="boolean"),
    Column("TokenRequests", plain(_audiences), "The audiences of the tokens that the driver wants."),
    Column("RequiresRepublish", at("spec", "requiresRepublish", default=False), "Whether volumes are published again.", type="boolean"),
    Column("Modes", plain(lambda driver: ",".join(driver["spec"].get("volumeLifecycleModes") or ())), "The kinds of volumes it can make."),
    AGE,
)
