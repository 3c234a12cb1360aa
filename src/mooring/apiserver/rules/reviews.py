"""The kinds of authorization.k8s.io and authentication.k8s.io. Differs from kube-apiserver: without roles, every known
user may do all.
"""

from __future__ import annotations

from typing import Final

from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.identity.accounts import ISSUER, bearer_of
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import ApiCall, Json, answered_kind
from mooring.apiserver.users import RequestUser
from mooring.base.clock import rfc3339

_MESSAGES: Final = META_MESSAGES.extended("""
SelfSubjectAccessReview: 1 metadata ObjectMeta!, 2 spec SelfSubjectAccessReviewSpec!+, 3 status SubjectAccessReviewStatus!
SelfSubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes?, 2 nonResourceAttributes NonResourceAttributes?
SubjectAccessReview: 1 metadata ObjectMeta!, 2 spec SubjectAccessReviewSpec!+, 3 status SubjectAccessReviewStatus!
LocalSubjectAccessReview: 1 metadata ObjectMeta!, 2 spec SubjectAccessReviewSpec!+, 3 status SubjectAccessReviewStatus!
SubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes?, 2 nonResourceAttributes NonResourceAttributes?, 3 user s, 4 groups *s, 5 extra {any}, 6 uid s
SubjectAccessReviewStatus: 1 allowed b!, 4 denied b, 2 reason s, 3 evaluationError s
ResourceAttributes: 1 namespace s, 2 verb s, 3 group s, 4 version s, 5 resource s, 6 subresource s, 7 name s, 8 fieldSelector SelectorAttributes?, 9 labelSelector SelectorAttributes?
SelectorAttributes: 1 rawSelector s, 2 requirements *LabelSelectorRequirement
NonResourceAttributes: 1 path s, 2 verb s
SelfSubjectRulesReview: 1 metadata ObjectMeta!, 2 spec SelfSubjectRulesReviewSpec!+, 3 status SubjectRulesReviewStatus!
SelfSubjectRulesReviewSpec: 1 namespace s
SubjectRulesReviewStatus: 1 resourceRules *ResourceRule!, 2 nonResourceRules *NonResourceRule!, 3 incomplete b!, 4 evaluationError s
ResourceRule: 1 verbs *s!, 2 apiGroups *s, 3 resources *s, 4 resourceNames *s
NonResourceRule: 1 verbs *s!, 2 nonResourceURLs *s
SelfSubjectReview: 1 metadata ObjectMeta!, 2 status SelfSubjectReviewStatus!
SelfSubjectReviewStatus: 1 userInfo UserInfo!
TokenReview: 1 metadata ObjectMeta!, 2 spec TokenReviewSpec!+, 3 status TokenReviewStatus!
TokenReviewSpec: 1 token s+, 2 audiences *s
TokenReviewStatus: 1 authenticated b, 2 user UserInfo!, 4 audiences *s, 3 error s
UserInfo: 1 username s, 2 uid s, 3 groups *s, 4 extra {any}
""")  # noqa: E501

_AUTHORIZATION: Final = "authorization.k8s.io"
_ALL: Final = ["*"]
_EVERYTHING: Final = {
    "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
    "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
    "incomplete": False,
}


def _allowed_to_self(call: ApiCall) -> Json:
    _check(call, _wrong_attributes(call.body["spec"]))
    return {**call.body, "status": {"allowed": True}}


def _allowed(call: ApiCall) -> Json:
    spec = call.body["spec"]
    _check(call, _wrong_attributes(spec) + _wrong_subject(spec))
    return {**call.body, "status": {"allowed": True}}


def _allowed_here(call: ApiCall) -> Json:
    """The same for one namespace."""
    spec, field = call.body["spec"], "spec.resourceAttributes"
    if "nonResourceAttributes" in spec:
        wrong = "disallowed on this kind of request"
        _check(call, [field_errors.invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], wrong)])
    namespace = spec.get("resourceAttributes", {}).get("namespace", "")
    found = _wrong_attributes(spec) + _wrong_subject(spec)
    if not found and namespace != call.key.namespace:
        found.append(field_errors.invalid(f"{field}.namespace", namespace, "must match metadata.namespace"))
    _check(call, found)
    return {**call.body, "status": {"allowed": True}}


def _rules(call: ApiCall) -> Json:
    if not call.body["spec"].get("namespace"):
        raise api_errors.bad_request("no namespace on request")
    return {**call.body, "spec": {}, "status": _EVERYTHING}


def _wrong_attributes(spec: Json) -> list[FieldCause]:
    """One of the two, and only one."""
    if "resourceAttributes" in spec and "nonResourceAttributes" in spec:
        wrong = "cannot be specified in combination with resourceAttributes"
        return [field_errors.invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], wrong)]
    if "resourceAttributes" not in spec and "nonResourceAttributes" not in spec:
        wrong = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [field_errors.invalid("spec.resourceAttributes", None, wrong)]
    return []


def _wrong_subject(spec: Json) -> list[FieldCause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [field_errors.invalid("spec.user", "", "at least one of user or group must be specified")]


def _check(call: ApiCall, found: list[FieldCause]) -> None:
    meta = {name: value for name, value in call.body["metadata"].items() if name != "namespace"}
    if meta:
        found = [*found, field_errors.invalid("metadata", meta, "must be empty")]
    if found:
        raise field_errors.invalid_object(call.body["kind"], _AUTHORIZATION, "", found)


ACCESS_REVIEWS: Final = (
    answered_kind(_AUTHORIZATION, "LocalSubjectAccessReview", _MESSAGES, _allowed_here, namespaced=True),
    answered_kind(_AUTHORIZATION, "SelfSubjectAccessReview", _MESSAGES, _allowed_to_self),
    answered_kind(_AUTHORIZATION, "SelfSubjectRulesReview", _MESSAGES, _rules),
    answered_kind(_AUTHORIZATION, "SubjectAccessReview", _MESSAGES, _allowed),
)


def _who_am_i(call: ApiCall) -> Json:
    return {
        **call.body,
        "metadata": {"creationTimestamp": rfc3339(call.now)},
        "status": {"userInfo": _shown(call.user)},
    }


def _whose_token(call: ApiCall) -> Json:
    """Knows the tokens of service accounts. Differs from kube-apiserver: the server's own token is unknown here."""
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
        error = (
            f"[invalid bearer token, token audiences [{_quoted(found)}] is invalid for the target audiences "
            f"[{_quoted(wanted)}]]"
        )
        return {**call.body, "status": {"user": {}, "error": error}}
    return {**call.body, "status": {"authenticated": True, "user": _shown(user), "audiences": audiences}}


def _shown(user: RequestUser) -> Json:
    fields = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(some) for key, some in user.extra.items()},
    }
    return {name: value for name, value in fields.items() if value}


def _quoted(audiences: list[str]) -> str:
    return " ".join(f'"{audience}"' for audience in audiences)


IDENTITY_REVIEWS: Final = (
    answered_kind("authentication.k8s.io", "SelfSubjectReview", _MESSAGES, _who_am_i),
    answered_kind("authentication.k8s.io", "TokenReview", _MESSAGES, _whose_token),
)
