"""authorization.k8s.io/v1: may somebody do something? Whoever gets in may do everything, so the answer is yes.

Differs from kube-apiserver, which knows roles: it says no to users without any.
"""

from __future__ import annotations

from typing import Final

from mooring.apiserver import api_errors, field_errors, objectmeta
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Call, Json, answered_kind

MESSAGES: Final = objectmeta.MESSAGES.extended("""
SelfSubjectAccessReview: 1 metadata ObjectMeta!, 2 spec SelfSubjectAccessReviewSpec!, 3 status SubjectAccessReviewStatus!
SelfSubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes?, 2 nonResourceAttributes NonResourceAttributes?
SubjectAccessReview: 1 metadata ObjectMeta!, 2 spec SubjectAccessReviewSpec!, 3 status SubjectAccessReviewStatus!
LocalSubjectAccessReview: 1 metadata ObjectMeta!, 2 spec SubjectAccessReviewSpec!, 3 status SubjectAccessReviewStatus!
SubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes?, 2 nonResourceAttributes NonResourceAttributes?, 3 user s, 4 groups *s, 5 extra {any}, 6 uid s
SubjectAccessReviewStatus: 1 allowed b!, 4 denied b, 2 reason s, 3 evaluationError s
ResourceAttributes: 1 namespace s, 2 verb s, 3 group s, 4 version s, 5 resource s, 6 subresource s, 7 name s, 8 fieldSelector SelectorAttributes?, 9 labelSelector SelectorAttributes?
SelectorAttributes: 1 rawSelector s, 2 requirements *LabelSelectorRequirement
NonResourceAttributes: 1 path s, 2 verb s
SelfSubjectRulesReview: 1 metadata ObjectMeta!, 2 spec SelfSubjectRulesReviewSpec!, 3 status SubjectRulesReviewStatus!
SelfSubjectRulesReviewSpec: 1 namespace s
SubjectRulesReviewStatus: 1 resourceRules *ResourceRule!, 2 nonResourceRules *NonResourceRule!, 3 incomplete b!, 4 evaluationError s
ResourceRule: 1 verbs *s!, 2 apiGroups *s, 3 resources *s, 4 resourceNames *s
NonResourceRule: 1 verbs *s!, 2 nonResourceURLs *s
""")  # noqa: E501

_GROUP: Final = "authorization.k8s.io"
_ALL: Final = ["*"]
_EVERYTHING: Final = {
    "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
    "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
    "incomplete": False,
}


def _allowed_to_self(call: Call) -> Json:
    _check(call, _wrong_attributes(call.body["spec"]))
    return {**call.body, "status": {"allowed": True}}


def _allowed(call: Call) -> Json:
    spec = call.body["spec"]
    _check(call, _wrong_attributes(spec) + _wrong_subject(spec))
    return {**call.body, "status": {"allowed": True}}


def _allowed_here(call: Call) -> Json:
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


def _rules(call: Call) -> Json:
    if not call.body["spec"].get("namespace"):
        raise api_errors.bad_request("no namespace on request")
    return {**call.body, "spec": {}, "status": _EVERYTHING}


def _wrong_attributes(spec: Json) -> list[Cause]:
    """One of the two, and only one."""
    if "resourceAttributes" in spec and "nonResourceAttributes" in spec:
        wrong = "cannot be specified in combination with resourceAttributes"
        return [field_errors.invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], wrong)]
    if "resourceAttributes" not in spec and "nonResourceAttributes" not in spec:
        wrong = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [field_errors.invalid("spec.resourceAttributes", None, wrong)]
    return []


def _wrong_subject(spec: Json) -> list[Cause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [field_errors.invalid("spec.user", "", "at least one of user or group must be specified")]


def _check(call: Call, found: list[Cause]) -> None:
    meta = {name: value for name, value in call.body["metadata"].items() if name != "namespace"}
    if meta:
        found = [*found, field_errors.invalid("metadata", meta, "must be empty")]
    if found:
        raise field_errors.invalid_object(call.body["kind"], _GROUP, "", found)


ACCESS_REVIEWS: Final = (
    answered_kind(_GROUP, "LocalSubjectAccessReview", MESSAGES, _allowed_here, namespaced=True),
    answered_kind(_GROUP, "SelfSubjectAccessReview", MESSAGES, _allowed_to_self),
    answered_kind(_GROUP, "SelfSubjectRulesReview", MESSAGES, _rules),
    answered_kind(_GROUP, "SubjectAccessReview", MESSAGES, _allowed),
)
