"""The words of Kubernetes for growing and modifying volumes: annotations, conditions, states, reasons of events."""

from __future__ import annotations

from typing import Final

STORAGE: Final = "storage"

# -- annotations

NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""The annotation of a claim whose driver has grown the volume without the nodes."""
RESIZER: Final = "volume.kubernetes.io/storage-resizer"
"""The annotation of a claim with an in-tree volume: the driver that grows it."""
PRE_RESIZE: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""The annotation of a PersistentVolume that its nodes have still to grow: the size of its file system."""
MODIFY_SECRET_NAME: Final = "volume.kubernetes.io/controller-modify-secret-name"
MODIFY_SECRET_NAMESPACE: Final = "volume.kubernetes.io/controller-modify-secret-namespace"

# -- status.allocatedResourceStatuses of a claim

CONTROLLER_IN_PROGRESS: Final = "ControllerResizeInProgress"
CONTROLLER_INFEASIBLE: Final = "ControllerResizeInfeasible"
NODE_PENDING: Final = "NodeResizePending"
NODE_IN_PROGRESS: Final = "NodeResizeInProgress"
NODE_INFEASIBLE: Final = "NodeResizeInfeasible"
NODE_STEPS: Final = (NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE)

# -- status.modifyVolumeStatus.status of a claim

MODIFY_PENDING: Final = "Pending"
MODIFY_IN_PROGRESS: Final = "InProgress"
MODIFY_INFEASIBLE: Final = "Infeasible"

# -- conditions of a claim

RESIZING: Final = "Resizing"
FS_PENDING: Final = "FileSystemResizePending"
CONTROLLER_ERROR: Final = "ControllerResizeError"
NODE_ERROR: Final = "NodeResizeError"
RESIZE_CONDITIONS: Final = (RESIZING, FS_PENDING, CONTROLLER_ERROR, NODE_ERROR)
MODIFYING: Final = "ModifyingVolume"
MODIFY_ERROR: Final = "ModifyVolumeError"
CONDITIONS: Final = frozenset((*RESIZE_CONDITIONS, MODIFYING, MODIFY_ERROR))

# -- reasons of events

RESIZE_STARTED: Final = "Resizing"
RESIZE_FAILED: Final = "VolumeResizeFailed"
FS_RESIZE_REQUIRED: Final = "FileSystemResizeRequired"
RESIZE_SUCCESSFUL: Final = "VolumeResizeSuccessful"
MODIFY_STARTED: Final = "VolumeModify"
MODIFY_FAILED: Final = "VolumeModifyFailed"
MODIFY_SUCCESSFUL: Final = "VolumeModifySuccessful"
MODIFY_CANCELED: Final = "VolumeModifyCanceled"
