"""The kinds and their rules: one file each, one line each here."""

from __future__ import annotations

from typing import Final

from mooring.apiserver.resource import Resource
from mooring.apiserver.rules.csidriver import CSI_DRIVERS
from mooring.apiserver.rules.csinode import CSI_NODES
from mooring.apiserver.rules.event import EVENTS
from mooring.apiserver.rules.lease import LEASES
from mooring.apiserver.rules.namespace import NAMESPACES
from mooring.apiserver.rules.node import NODES
from mooring.apiserver.rules.persistentvolume import PERSISTENT_VOLUMES
from mooring.apiserver.rules.secret import SECRETS
from mooring.apiserver.rules.volumeattachment import VOLUME_ATTACHMENTS

RESOURCES: Final[tuple[Resource, ...]] = (
    CSI_DRIVERS,
    CSI_NODES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    SECRETS,
    VOLUME_ATTACHMENTS,
)
"""Every kind that the server has."""
