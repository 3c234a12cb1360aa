"""Annotations, finalizers and keys that provisioning shares with the rest of Kubernetes."""

from __future__ import annotations

from typing import Final

STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
STORAGE_PROVISIONER_BETA: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
SELECTED_NODE_ALPHA: Final = "volume.alpha.kubernetes.io/selected-node"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
DELETION_SECRET_NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"
DELETION_SECRET_NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
MODIFY_SECRET_NAME: Final = "volume.kubernetes.io/controller-modify-secret-name"
MODIFY_SECRET_NAMESPACE: Final = "volume.kubernetes.io/controller-modify-secret-namespace"
ALLOW_MODE_CHANGE: Final = "snapshot.storage.kubernetes.io/allow-volume-mode-change"

VOLUME_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
CLONE_FINALIZER: Final = "provisioner.storage.kubernetes.io/cloning-protection"
SNAPSHOT_FINALIZER: Final = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"

IDENTITY: Final = "storage.kubernetes.io/csiProvisionerIdentity"
