"""Short descriptions of fields in our own words, for `kubectl explain`: of the kinds about storage, not of all."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

_WORDS: Final = """
ObjectMeta: What every object carries.
ObjectMeta.annotations: Notes for tools, by qualified name; nothing is selected by them.
ObjectMeta.creationTimestamp: When the server created the object.
ObjectMeta.deletionGracePeriodSeconds: How long the object may stay after it was deleted.
ObjectMeta.deletionTimestamp: Set by the server when the object is deleted and something still holds it.
ObjectMeta.finalizers: Who has work to do before the object may go; the last one that leaves lets it go.
ObjectMeta.generateName: A prefix; the server completes it to a name where none is given.
ObjectMeta.generation: Grows when the wanted state changes, for kinds that count it.
ObjectMeta.labels: Short values by name; lists and watches select by them.
ObjectMeta.managedFields: Who set which field, once somebody applies the object on the server's side.
ObjectMeta.name: Unique among the kind's objects of a namespace, or among all where the kind has none.
ObjectMeta.namespace: The namespace, for kinds that have one.
ObjectMeta.ownerReferences: Objects that this one belongs to; when all of them are gone, it is deleted.
ObjectMeta.resourceVersion: The version of the last change. An update that names another one is refused.
ObjectMeta.uid: Told apart by it: a new object under an old name has another one.
OwnerReference.blockOwnerDeletion: A foreground deletion of the owner waits for this object.
OwnerReference.controller: The one owner that manages this object.
PersistentVolume: A volume that exists, and what it takes to reach it. It belongs to no namespace.
PersistentVolume.spec: What the volume is, and who may have it.
PersistentVolume.status: How far it has come.
PersistentVolumeSpec.accessModes: From how many nodes, and how, it can be mounted.
PersistentVolumeSpec.capacity: Its size, under the name storage.
PersistentVolumeSpec.claimRef: The claim that has it, or that it is kept for.
PersistentVolumeSpec.csi: A volume of a CSI driver.
PersistentVolumeSpec.mountOptions: Given to mount as they are.
PersistentVolumeSpec.nodeAffinity: The nodes that can reach it; all where nothing is said.
PersistentVolumeSpec.persistentVolumeReclaimPolicy: What becomes of it when its claim goes: Delete or Retain.
PersistentVolumeSpec.storageClassName: The class it was made by; claims of that class can have it.
PersistentVolumeSpec.volumeAttributesClassName: The class of its changeable attributes, as they are now.
PersistentVolumeSpec.volumeMode: Filesystem or Block.
PersistentVolumeStatus.lastPhaseTransitionTime: When the phase changed.
PersistentVolumeStatus.phase: Pending, Available, Bound, Released or Failed.
CSIPersistentVolumeSource: A volume as its CSI driver knows it.
CSIPersistentVolumeSource.controllerExpandSecretRef: The secret for ControllerExpandVolume.
CSIPersistentVolumeSource.controllerPublishSecretRef: The secret for ControllerPublishVolume and ControllerUnpublishVolume.
CSIPersistentVolumeSource.driver: The driver's name.
CSIPersistentVolumeSource.fsType: The file system to make and mount, such as ext4.
CSIPersistentVolumeSource.nodeExpandSecretRef: The secret for NodeExpandVolume.
CSIPersistentVolumeSource.nodePublishSecretRef: The secret for NodePublishVolume.
CSIPersistentVolumeSource.nodeStageSecretRef: The secret for NodeStageVolume.
CSIPersistentVolumeSource.readOnly: Publish it for reading alone.
CSIPersistentVolumeSource.volumeAttributes: What the driver said of it when it was created; given back with each call.
CSIPersistentVolumeSource.volumeHandle: The driver's name for it. It never changes.
PersistentVolumeClaim: A wish for a volume, and the volume that fulfils it.
PersistentVolumeClaim.spec: What is wished for.
PersistentVolumeClaim.status: What there is.
PersistentVolumeClaimSpec.accessModes: From how many nodes, and how, it has to be mountable.
PersistentVolumeClaimSpec.dataSource: What to fill the volume from: a snapshot or another claim of the namespace.
PersistentVolumeClaimSpec.dataSourceRef: The same, also for other kinds.
PersistentVolumeClaimSpec.resources: How large it has to be. It may be raised later, if the class allows it.
PersistentVolumeClaimSpec.selector: Which existing volumes will do, by their labels.
PersistentVolumeClaimSpec.storageClassName: The class that makes it. Empty: no class; not there: the default class.
PersistentVolumeClaimSpec.volumeAttributesClassName: The class of its changeable attributes.
PersistentVolumeClaimSpec.volumeMode: Filesystem or Block.
PersistentVolumeClaimSpec.volumeName: The volume, once the claim is bound to it.
PersistentVolumeClaimStatus.accessModes: Those of the volume.
PersistentVolumeClaimStatus.allocatedResources: The size that is being provided for.
PersistentVolumeClaimStatus.capacity: The size of the volume as it is.
PersistentVolumeClaimStatus.conditions: What goes on: resizing, a file system that has to grow.
PersistentVolumeClaimStatus.phase: Pending, Bound or Lost.
StorageClass: How volumes are made for the claims that name it.
StorageClass.allowVolumeExpansion: Its claims may grow.
StorageClass.allowedTopologies: Where volumes may be made.
StorageClass.mountOptions: Go into each volume.
StorageClass.parameters: Given to the driver's CreateVolume; those of csi.storage.k8s.io/ are for the provisioner.
StorageClass.provisioner: The driver that makes the volumes.
StorageClass.reclaimPolicy: What becomes of them when their claims go: Delete or Retain.
StorageClass.volumeBindingMode: Immediate, or WaitForFirstConsumer: make the volume where its first pod will run.
VolumeAttributesClass: Attributes of volumes that can be changed while they are used.
VolumeAttributesClass.driverName: The driver that can change them.
VolumeAttributesClass.parameters: Given to its ControllerModifyVolume. They don't change; take another class.
VolumeAttachment: A volume is to be attached to a node.
VolumeAttachment.spec: Which volume, which node, by whom. It never changes.
VolumeAttachment.status: What the attacher has reached.
VolumeAttachmentSpec.attacher: The driver, whose attacher does it.
VolumeAttachmentSpec.nodeName: The node.
VolumeAttachmentSpec.source: The volume.
VolumeAttachmentSource.inlineVolumeSpec: A volume that is described here and has no object.
VolumeAttachmentSource.persistentVolumeName: The name of the PersistentVolume.
VolumeAttachmentStatus.attachError: Why the last attempt to attach has failed.
VolumeAttachmentStatus.attached: The volume is attached.
VolumeAttachmentStatus.attachmentMetadata: What ControllerPublishVolume answered; the node needs it.
VolumeAttachmentStatus.detachError: Why the last attempt to detach has failed.
VolumeError.errorCode: The gRPC code of the error.
VolumeError.message: The error, in words.
VolumeError.time: When it happened.
CSIDriver: What a driver needs from those who work with it.
CSIDriverSpec.attachRequired: Volumes are attached before they are mounted. It never changes.
CSIDriverSpec.fsGroupPolicy: May the owner of files be changed for a pod's fsGroup.
CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds: How often each node asks how many volumes it may have.
CSIDriverSpec.podInfoOnMount: NodePublishVolume is told of the pod.
CSIDriverSpec.requiresRepublish: NodePublishVolume is called again and again.
CSIDriverSpec.seLinuxMount: Volumes can be mounted with their own SELinux context.
CSIDriverSpec.serviceAccountTokenInSecrets: Tokens come with the secrets, not in the volume's context.
CSIDriverSpec.storageCapacity: Pods wait for a place with enough capacity, as CSIStorageCapacity objects tell it.
CSIDriverSpec.tokenRequests: Tokens of the pod's service account that NodePublishVolume needs.
CSIDriverSpec.volumeLifecycleModes: Persistent, Ephemeral, or both.
CSINode: The drivers on a node. It has the node's name.
CSINodeSpec.drivers: One entry for each driver that has registered on the node.
CSINodeDriver.allocatable: How many volumes of the driver the node may have.
CSINodeDriver.name: The driver's name.
CSINodeDriver.nodeID: The driver's name for the node.
CSINodeDriver.topologyKeys: The labels by which the driver tells where a node is.
VolumeNodeResources.count: The number of volumes; without it there is no limit.
CSIStorageCapacity: How much a driver can still provide, for one class, in one part of the cluster.
CSIStorageCapacity.capacity: What was left when the driver was asked.
CSIStorageCapacity.maximumVolumeSize: The largest volume that can be made at once.
CSIStorageCapacity.nodeTopology: The nodes that can reach it.
CSIStorageCapacity.storageClassName: The class that was asked about.
Lease: Who leads, and until when.
LeaseSpec.acquireTime: When the holder took it.
LeaseSpec.holderIdentity: Who has it; empty when it was given back.
LeaseSpec.leaseDurationSeconds: How long it holds after each renewal.
LeaseSpec.leaseTransitions: How often it has changed hands.
LeaseSpec.renewTime: When the holder renewed it.
"""

_NOTHING: Final[Mapping[str, str]] = {}


def words_for(message: str) -> Mapping[str, str]:
    """By field; "" is the message itself."""
    return _by_message().get(message, _NOTHING)


@functools.cache
def _by_message() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in _WORDS.strip().splitlines():
        place, _, words = line.partition(": ")
        message, _, field = place.partition(".")
        found.setdefault(message, {})[field] = words
    return found
