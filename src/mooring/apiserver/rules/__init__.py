"""The kinds and their rules: one file each, one line each here."""

from __future__ import annotations

from typing import Final

from mooring.apiserver.resource import Resource
from mooring.apiserver.rules.csidriver import CSI_DRIVERS
from mooring.apiserver.rules.csinode import CSI_NODES
from mooring.apiserver.rules.csistoragecapacity import CSI_STORAGE_CAPACITIES
from mooring.apiserver.rules.customresourcedefinition import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.rules.event import EVENTS
from mooring.apiserver.rules.lease import LEASES
from mooring.apiserver.rules.namespace import NAMESPACES
from mooring.apiserver.rules.node import NODES
from mooring.apiserver.rules.persistentvolume import PERSISTENT_VOLUMES
from mooring.apiserver.rules.persistentvolumeclaim import PERSISTENT_VOLUME_CLAIMS
from mooring.apiserver.rules.secret import SECRETS
from mooring.apiserver.rules.storageclass import STORAGE_CLASSES
from mooring.apiserver.rules.volumeattachment import VOLUME_ATTACHMENTS
from mooring.apiserver.rules.volumeattributesclass import VOLUME_ATTRIBUTES_CLASSES

RESOURCES: Final[tuple[Resource, ...]] = (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    SECRETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_ATTRIBUTES_CLASSES,
)
"""Every kind that the server has."""
