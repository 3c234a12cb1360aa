"""The API server as a port, `Cluster`, its HTTP implementation, and what controllers are built from.

The public names are here, each imported when it is first asked for: who needs no HTTP loads none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mooring.api.meta import ApiStruct, Key, Kind, ObjectMeta, annotation, finalizers_of, is_deleting, key_of
    from mooring.api.quantity import Quantity, parse_quantity
    from mooring.base.errors import ConfigError
    from mooring.kube.cluster import Cluster, EventType, Page, Patch, PatchType, Selection, WatchEvent
    from mooring.kube.errors import ApiError, Conflict, Gone, Invalid, NotFound, NotServed, Unreachable
    from mooring.kube.events import EventRecorder
    from mooring.kube.http import HttpCluster
    from mooring.kube.informer import Cause, Change, Informer
    from mooring.kube.kubeconfig import load
    from mooring.kube.lease import LeaderElector
    from mooring.kube.patch import add_finalizer, json_patch, merge_diff, merge_patch, remove_finalizer
    from mooring.kube.queue import BackOff, QueueClosed, WorkQueue

_HOMES: Final = {
    "mooring.api.meta": ("ApiStruct", "Key", "Kind", "ObjectMeta", "annotation", "finalizers_of", "is_deleting", "key_of"),
    "mooring.api.quantity": ("Quantity", "parse_quantity"),
    "mooring.base.errors": ("ConfigError",),
    "mooring.kube.cluster": ("Cluster", "EventType", "Page", "Patch", "PatchType", "Selection", "WatchEvent"),
    "mooring.kube.errors": ("ApiError", "Conflict", "Gone", "Invalid", "NotFound", "NotServed", "Unreachable"),
    "mooring.kube.events": ("EventRecorder",),
    "mooring.kube.http": ("HttpCluster",),
    "mooring.kube.informer": ("Cause", "Change", "Informer"),
    "mooring.kube.kubeconfig": ("load",),
    "mooring.kube.lease": ("LeaderElector",),
    "mooring.kube.patch": ("add_finalizer", "json_patch", "merge_diff", "merge_patch", "remove_finalizer"),
    "mooring.kube.queue": ("BackOff", "QueueClosed", "WorkQueue"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ApiError",
    "ApiStruct",
    "BackOff",
    "Cause",
    "Change",
    "Cluster",
    "ConfigError",
    "Conflict",
    "EventRecorder",
    "EventType",
    "Gone",
    "HttpCluster",
    "Informer",
    "Invalid",
    "Key",
    "Kind",
    "LeaderElector",
    "NotFound",
    "NotServed",
    "ObjectMeta",
    "Page",
    "Patch",
    "PatchType",
    "Quantity",
    "QueueClosed",
    "Selection",
    "Unreachable",
    "WatchEvent",
    "WorkQueue",
    "add_finalizer",
    "annotation",
    "finalizers_of",
    "is_deleting",
    "json_patch",
    "key_of",
    "load",
    "merge_diff",
    "merge_patch",
    "parse_quantity",
    "remove_finalizer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
