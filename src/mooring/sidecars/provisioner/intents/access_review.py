"""Missing rights of this process, by SelfSubjectAccessReviews: every authenticated user may ask about himself."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mooring.api.meta import Kind
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

SELF_REVIEWS: Final[Kind[Any]] = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, dict
)


async def denied(cluster: Cluster, kind: Kind[Any], namespace: str, verbs: tuple[str, ...]) -> tuple[str, ...]:
    """The verbs among these that are denied for certain. Verbs without a clear answer are not among them."""
    answers = await asyncio.gather(*(_is_denied(cluster, kind, namespace, verb) for verb in verbs))
    return tuple(verb for verb, is_denied in zip(verbs, answers, strict=True) if is_denied)


async def _is_denied(cluster: Cluster, kind: Kind[Any], namespace: str, verb: str) -> bool:
    attributes = {"group": kind.group, "resource": kind.plural, "namespace": namespace, "verb": verb}
    body = {
        "apiVersion": SELF_REVIEWS.api_version,
        "kind": SELF_REVIEWS.name,
        "spec": {"resourceAttributes": attributes},
    }
    try:
        review = await cluster.create(SELF_REVIEWS.whole(), body)
    except ApiError:
        return False
    status = review.get("status") or {}
    return status.get("allowed") is False and not status.get("evaluationError")
