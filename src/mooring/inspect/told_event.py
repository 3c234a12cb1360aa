"""One Event about an object, by a command that somebody has run: who did what, and why. It is written before anything
else is.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.api.core import EVENTS
from mooring.api.meta import Kind
from mooring.base.clock import Clock, rfc3339
from mooring.base.text import shortened
from mooring.control.events import MESSAGE_BYTES_MAX
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

WHO_AM_I: Final[Kind[Any]] = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, dict)
NOBODY: Final = "a user whom the API server does not name"


async def user_of(cluster: Cluster) -> str:
    """The name under which the API server knows whoever runs this."""
    body = {"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.name, "metadata": {}}
    try:
        answer = await cluster.create(WHO_AM_I.whole(), body)
    except ApiError:
        return NOBODY
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or NOBODY)


async def tell(
    cluster: Cluster,
    clock: Clock,
    kind: Kind[Any],
    obj: Any,
    reason: str,
    message: str,
    component: str,
    *,
    is_warning: bool = True,
) -> None:
    """obj: as decoded. is_warning: it is about something that can do harm. Raises ApiError."""
    meta, now = obj.metadata, rfc3339(clock.wall_s())
    namespace = meta.namespace or "default"
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {"generateName": f"{meta.name}.", "namespace": namespace},
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        },
        "type": "Warning" if is_warning else "Normal",
        "reason": reason,
        "message": shortened(message, MESSAGE_BYTES_MAX),
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    await cluster.create(EVENTS.whole(), body, namespace)
