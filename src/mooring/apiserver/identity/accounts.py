"""Service account tokens: signed statements about an account and an object, valid until they expire or one of the two
is replaced.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.api.meta import Key
from mooring.apiserver.resource import Json, StoredObjects
from mooring.apiserver.users import RequestUser
from mooring.kube.errors import NotFound

ISSUER: Final = "https://kubernetes.default.svc"
"""The issuer of tokens, and their audience when no other is requested."""

_PRIVATE: Final = "kubernetes.io"
_EXTRA: Final = "authentication.kubernetes.io"
_BOUND: Final = {"pod": "pods", "secret": "secrets", "node": "nodes"}


def claims_of(account: Json, bound: Json | None, audiences: list[str], now: float, life_s: int, token_id: str) -> Json:
    """The claims of a new token. bound: the object that it is bound to. life_s: seconds."""
    meta, since = account["metadata"], int(now)
    private: Json = {"namespace": meta["namespace"], "serviceaccount": _reference(account)}
    if bound is not None:
        private[bound["kind"].lower()] = _reference(bound)
        if bound["kind"] == "Pod" and bound["spec"].get("nodeName"):
            private["node"] = {"name": bound["spec"]["nodeName"]}
    return {
        "aud": audiences,
        "exp": since + life_s,
        "iat": since,
        "iss": ISSUER,
        "jti": token_id,
        _PRIVATE: private,
        "nbf": since,
        "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
    }


def bearer_of(claims: Json, store: StoredObjects, now: float) -> RequestUser | None:
    """The account that a signed token stands for; None for one that is no good (any more)."""
    if claims.get("iss") != ISSUER or not claims.get("nbf", now) <= now < claims.get("exp", 0):
        return None
    private = claims[_PRIVATE]
    namespace, account = private["namespace"], private["serviceaccount"]
    if not _is_there(store, "serviceaccounts", namespace, account):
        return None
    extra = {f"{_EXTRA}/credential-id": (f"JTI={claims['jti']}",)}
    for kind, plural in _BOUND.items():
        bound = private.get(kind)
        if bound is None:
            continue
        if "uid" in bound and not _is_there(store, plural, "" if kind == "node" else namespace, bound):
            return None
        extra[f"{_EXTRA}/{kind}-name"] = (bound["name"],)
        if "uid" in bound:
            extra[f"{_EXTRA}/{kind}-uid"] = (bound["uid"],)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return RequestUser(claims["sub"], groups, account["uid"], extra)


def _reference(obj: Json) -> Json:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _is_there(store: StoredObjects, plural: str, namespace: str, reference: dict[str, Any]) -> bool:
    resource = store.resource("", "v1", plural)
    if resource is None:
        return False
    try:
        found = store.get(resource, Key(namespace, reference["name"]))
    except NotFound:
        return False
    uid: str = reference["uid"]
    return found.uid == uid
