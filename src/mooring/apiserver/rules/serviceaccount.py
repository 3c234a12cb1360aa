"""core/v1 ServiceAccount, and the tokens that are asked of one."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import Key
from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.identity.accounts import ISSUER, claims_of
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Action, ApiCall, Json, Resource, answered_kind
from mooring.apiserver.rules import checks
from mooring.base.clock import rfc3339
from mooring.kube.errors import ServerError

MESSAGES: Final = META_MESSAGES.extended("""
ServiceAccount: 1 metadata ObjectMeta!, 2 secrets *ObjectReference@name, 3 imagePullSecrets *LocalObjectReference, 4 automountServiceAccountToken b?
ObjectReference=: 1 kind s, 2 namespace s, 3 name s, 4 uid s, 5 apiVersion s, 6 resourceVersion s, 7 fieldPath s
LocalObjectReference=: 1 name s
TokenRequest: 1 metadata ObjectMeta!, 2 spec TokenRequestSpec!, 3 status TokenRequestStatus!
TokenRequestSpec: 1 audiences *s!, 4 expirationSeconds i64!?, 3 boundObjectRef BoundObjectReference!?
BoundObjectReference: 1 kind s, 2 apiVersion s, 3 name s, 4 uid s
TokenRequestStatus: 1 token s!, 2 expirationTimestamp time!
""")  # noqa: E501

_GROUP: Final = "authentication.k8s.io"
_HOUR_S: Final = 3600
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def _token(call: ApiCall) -> Json:
    """A token of the account, in the form of the question."""
    account = call.store.get(call.resource, call.key).whole()
    meta, spec = call.body["metadata"], call.body["spec"]
    if meta.get("name", "") not in ("", call.key.name):
        wrong = field_errors.invalid("metadata.name", meta["name"], "must match the service account name if specified")
        raise field_errors.invalid_object("TokenRequest", _GROUP, call.key.name, [wrong])
    spec["audiences"] = spec["audiences"] or [ISSUER]
    life_s = spec["expirationSeconds"] = _HOUR_S if spec["expirationSeconds"] is None else spec["expirationSeconds"]
    wrong_life = checks.token_life(life_s, "spec.expirationSeconds")
    if wrong_life:
        raise field_errors.invalid_object("TokenRequest", _GROUP, "", wrong_life)
    bound = None if spec["boundObjectRef"] is None else _bound(call, spec["boundObjectRef"])
    if call.tokens is None:
        raise ServerError("this server has no key that could sign tokens", reason="NotImplemented", code=501)
    claims = claims_of(account, bound, spec["audiences"], call.now, life_s, call.store.new_id())
    own = {
        "name": call.key.name,
        "namespace": call.key.namespace,
        "uid": account["metadata"]["uid"],
        "creationTimestamp": rfc3339(call.now),
    }
    status = {"token": call.tokens.sign(claims), "expirationTimestamp": rfc3339(claims["exp"])}
    return {**call.body, "metadata": {**meta, **own}, "status": status}


def _bound(call: ApiCall, reference: Json) -> Json:
    """The object that the token is bound to. Raises NotFound, Conflict, BadRequest."""
    kind, version, name = (reference.get(part, "") for part in ("kind", "apiVersion", "name"))
    plural = _BINDABLE.get(kind)
    resource = call.store.resource("", "v1", plural) if plural is not None and version == "v1" else None
    if resource is None:
        group, _, number = version.rpartition("/")
        raise api_errors.bad_request(f"cannot bind token to object of type {group}/{number}, Kind={kind}")
    found = call.store.get(resource, Key(call.key.namespace if resource.namespaced else "", name)).whole()
    if kind == "Pod" and found["spec"].get("serviceAccountName", "") != call.key.name:
        text = (
            f'cannot bind token for serviceaccount "{call.key.name}" to pod running with different serviceaccount name.'
        )
        raise api_errors.bad_request(text)
    uid = reference.get("uid", "")
    if uid not in ("", found["metadata"]["uid"]):
        why = f"the UID in the bound object reference ({uid}) does not match the UID in record."
        raise api_errors.failed_precondition(
            resource, name, f"{why} The object might have been deleted and then recreated"
        )
    return found


def _names_alone(new: Json) -> None:
    """It keeps the names of an account's secrets."""
    if "secrets" in new:
        new["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in new["secrets"]]


_TOKEN_REQUESTS: Final = answered_kind(_GROUP, "TokenRequest", MESSAGES, _token, namespaced=True)

SERVICE_ACCOUNTS: Final = Resource(
    group="",
    kind="ServiceAccount",
    plural="serviceaccounts",
    namespaced=True,
    short_names=("sa",),
    beginnings=("",),
    message=MESSAGES["ServiceAccount"],
    default=_names_alone,
    actions=(Action(name="token", verbs=("create",), asks=_TOKEN_REQUESTS),),
)
