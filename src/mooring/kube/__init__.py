"""The API server as a port, `Cluster`, its HTTP implementation, and caches that follow it. `mooring.control` builds
controllers on it.

The public names are here, each imported when it is first asked for: who needs no HTTP loads none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.base.lazy import lazy_names

if TYPE_CHECKING:
    from mooring.api.core import reference_to
    from mooring.api.definitions import CUSTOM_RESOURCE_DEFINITIONS
    from mooring.api.meta import (
        ApiStruct,
        CustomObject,
        Key,
        Kind,
        ObjectMeta,
        annotation,
        finalizers_of,
        is_deleting,
        key_of,
        owner_keys,
        owner_reference,
    )
    from mooring.api.quantity import Quantity, parse_quantity
    from mooring.base.errors import ConfigError
    from mooring.kube.cache.informer import Cause, Change, Informer
    from mooring.kube.client.http import HttpCluster
    from mooring.kube.client.kubeconfig import load
    from mooring.kube.cluster import Cluster, EventType, Page, Patch, PatchType, Selection, WatchEvent
    from mooring.kube.errors import (
        AlreadyExists,
        ApiError,
        Conflict,
        Forbidden,
        Gone,
        Invalid,
        NotFound,
        NotServed,
        Unreachable,
    )
    from mooring.kube.patch import add_finalizer, json_patch, merge_diff, merge_patch, remove_finalizer

_HOMES = {
    "mooring.api.core": ("reference_to",),
    "mooring.api.definitions": ("CUSTOM_RESOURCE_DEFINITIONS",),
    "mooring.api.meta": (
        "ApiStruct",
        "CustomObject",
        "Key",
        "Kind",
        "ObjectMeta",
        "annotation",
        "finalizers_of",
        "is_deleting",
        "key_of",
        "owner_keys",
        "owner_reference",
    ),
    "mooring.api.quantity": ("Quantity", "parse_quantity"),
    "mooring.base.errors": ("ConfigError",),
    "mooring.kube.cluster": ("Cluster", "EventType", "Page", "Patch", "PatchType", "Selection", "WatchEvent"),
    "mooring.kube.errors": (
        "AlreadyExists",
        "ApiError",
        "Conflict",
        "Forbidden",
        "Gone",
        "Invalid",
        "NotFound",
        "NotServed",
        "Unreachable",
    ),
    "mooring.kube.client.http": ("HttpCluster",),
    "mooring.kube.cache.informer": ("Cause", "Change", "Informer"),
    "mooring.kube.client.kubeconfig": ("load",),
    "mooring.kube.patch": ("add_finalizer", "json_patch", "merge_diff", "merge_patch", "remove_finalizer"),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "CUSTOM_RESOURCE_DEFINITIONS",
    "AlreadyExists",
    "ApiError",
    "ApiStruct",
    "Cause",
    "Change",
    "Cluster",
    "ConfigError",
    "Conflict",
    "CustomObject",
    "EventType",
    "Forbidden",
    "Gone",
    "HttpCluster",
    "Informer",
    "Invalid",
    "Key",
    "Kind",
    "NotFound",
    "NotServed",
    "ObjectMeta",
    "Page",
    "Patch",
    "PatchType",
    "Quantity",
    "Selection",
    "Unreachable",
    "WatchEvent",
    "add_finalizer",
    "annotation",
    "finalizers_of",
    "is_deleting",
    "json_patch",
    "key_of",
    "load",
    "merge_diff",
    "merge_patch",
    "owner_keys",
    "owner_reference",
    "parse_quantity",
    "reference_to",
    "remove_finalizer",
]
