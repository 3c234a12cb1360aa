"""authentication.k8s.io/v1: who am I, and whose token is this?"""

from __future__ import annotations

from typing import Final

from mooring.apiserver import api_errors, objectmeta
from mooring.apiserver.identity.accounts import ISSUER, bearer_of
from mooring.apiserver.identity.users import User
from mooring.apiserver.resource import Call, Json, answered_kind
from mooring.base.clock import rfc3339

MESSAGES: Final = objectmeta.MESSAGES.extended("""
SelfSubjectReview: 1 metadata ObjectMeta!, 2 status SelfSubjectReviewStatus!
SelfSubjectReviewStatus: 1 userInfo UserInfo!
TokenReview: 1 metadata ObjectMeta!, 2 spec TokenReviewSpec!, 3 status TokenReviewStatus!
TokenReviewSpec: 1 token s, 2 audiences *s
TokenReviewStatus: 1 authenticated b, 2 user UserInfo!, 4 audiences *s, 3 error s
UserInfo: 1 username s, 2 uid s, 3 groups *s, 4 extra {any}
""")


def _who_am_i(call: Call) -> Json:
    return {**call.body, "metadata": {"creationTimestamp": rfc3339(call.now)}, "status": {"userInfo": _shown(call.user)}}


def _whose_token(call: Call) -> Json:
    """Knows the tokens of service accounts. Differs from kube-apiserver: the server's own token is nobody's business."""
    spec = call.body["spec"]
    if not spec.get("token"):
        raise api_errors.bad_request("token is required for TokenReview in authentication")
    claims = call.tokens.claims(spec["token"]) if call.tokens is not None else None
    user = bearer_of(claims, call.store, call.now) if claims is not None else None
    if claims is None or user is None:
        return {**call.body, "status": {"user": {}, "error": "invalid bearer token"}}
    wanted, found = spec.get("audiences") or [ISSUER], claims["aud"]
    audiences = [audience for audience in found if audience in wanted]
    if not audiences:
        told = f"[invalid bearer token, token audiences [{_quoted(found)}] is invalid for the target audiences [{_quoted(wanted)}]]"
        return {**call.body, "status": {"user": {}, "error": told}}
    return {**call.body, "status": {"authenticated": True, "user": _shown(user), "audiences": audiences}}


def _shown(user: User) -> Json:
    told = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(some) for key, some in user.extra.items()},
    }
    return {name: value for name, value in told.items() if value}


def _quoted(audiences: list[str]) -> str:
    return " ".join(f'"{audience}"' for audience in audiences)


IDENTITY_REVIEWS: Final = (
    answered_kind("authentication.k8s.io", "SelfSubjectReview", MESSAGES, _who_am_i),
    answered_kind("authentication.k8s.io", "TokenReview", MESSAGES, _whose_token),
)
