"""The kinds and their rules: each kind is a `Resource`, in a file of its name or of its group, and has a line here."""

from __future__ import annotations

from typing import Final

from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules.classes import STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from mooring.apiserver.rules.csi import CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES
from mooring.apiserver.rules.deployment import DEPLOYMENTS, REPLICA_SETS
from mooring.apiserver.rules.event import EVENTS, NEW_EVENTS
from mooring.apiserver.rules.job import JOBS
from mooring.apiserver.rules.lease import LEASES
from mooring.apiserver.rules.namespace import NAMESPACES
from mooring.apiserver.rules.node import NODES
from mooring.apiserver.rules.persistentvolume import PERSISTENT_VOLUMES
from mooring.apiserver.rules.persistentvolumeclaim import PERSISTENT_VOLUME_CLAIMS
from mooring.apiserver.rules.pod import PODS
from mooring.apiserver.rules.podactions import BINDINGS
from mooring.apiserver.rules.reviews import ACCESS_REVIEWS, IDENTITY_REVIEWS
from mooring.apiserver.rules.secret import CONFIG_MAPS, SECRETS
from mooring.apiserver.rules.service import SERVICES
from mooring.apiserver.rules.serviceaccount import SERVICE_ACCOUNTS
from mooring.apiserver.rules.statefulset import CONTROLLER_REVISIONS, STATEFUL_SETS
from mooring.apiserver.rules.volumeattachment import VOLUME_ATTACHMENTS

RESOURCES: Final[tuple[Resource, ...]] = (
    BINDINGS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NEW_EVENTS,
    NODES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_ATTRIBUTES_CLASSES,
    *ACCESS_REVIEWS,
    *IDENTITY_REVIEWS,
)
"""Every kind that the server has."""
