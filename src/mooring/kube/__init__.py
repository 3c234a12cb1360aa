"""The API server as a port, `Cluster`, its HTTP implementation, and what controllers are built from.

The public names are here, each imported when it is first asked for: who needs no HTTP loads none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mooring.kube.cluster import Cluster, EventType, Page, Patch, PatchType, Selection, WatchEvent
    from mooring.kube.errors import ApiError, Conflict, Gone, Invalid, NotFound, NotServed, Unreachable
    from mooring.kube.events import EventRecorder
    from mooring.kube.http import HttpCluster
    from mooring.kube.informer import Cause, Change, Informer
    from mooring.kube.kubeconfig import load
    from mooring.kube.lease import LeaderElector
    from mooring.kube.patch import json_patch, merge_diff, merge_patch
    from mooring.kube.queue import BackOff, QueueClosed, WorkQueue

_HOMES: Final = {
    "cluster": ("Cluster", "EventType", "Page", "Patch", "PatchType", "Selection", "WatchEvent"),
    "errors": ("ApiError", "Conflict", "Gone", "Invalid", "NotFound", "NotServed", "Unreachable"),
    "events": ("EventRecorder",),
    "http": ("HttpCluster",),
    "informer": ("Cause", "Change", "Informer"),
    "kubeconfig": ("load",),
    "lease": ("LeaderElector",),
    "patch": ("json_patch", "merge_diff", "merge_patch"),
    "queue": ("BackOff", "QueueClosed", "WorkQueue"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ApiError",
    "BackOff",
    "Cause",
    "Change",
    "Cluster",
    "Conflict",
    "EventRecorder",
    "EventType",
    "Gone",
    "HttpCluster",
    "Informer",
    "Invalid",
    "LeaderElector",
    "NotFound",
    "NotServed",
    "Page",
    "Patch",
    "PatchType",
    "QueueClosed",
    "Selection",
    "Unreachable",
    "WatchEvent",
    "WorkQueue",
    "json_patch",
    "load",
    "merge_diff",
    "merge_patch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
