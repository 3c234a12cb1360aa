"""The few fields of a pod that may change: images, an earlier deadline, more tolerations, gates that open."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json

FROZEN: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OWN_RULES: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def validate(new: Json, old: Json) -> Iterator[FieldCause]:
    after, before = new["spec"], old["spec"]
    changed = [
        part for part in ("containers", "initContainers") if len(after.get(part) or []) != len(before.get(part) or [])
    ]
    if changed:
        yield from (
            field_errors.forbidden(f"spec.{part}", "pod updates may not add or remove containers") for part in changed
        )
        return
    yield from _validate_deadline(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    yield from _validate_tolerations(after, before)
    yield from _validate_gates(after, before)
    if before.get("schedulingGates"):
        yield from _validate_narrowed(after, before)
    narrows = bool(before.get("schedulingGates"))
    if _rest(after, narrows=narrows) != _rest(before, narrows=narrows):
        yield field_errors.forbidden("spec", FROZEN)


def validate_created(new: Json) -> Iterator[FieldCause]:
    """The rules for new pods alone."""
    spec = new["spec"]
    if spec.get("ephemeralContainers"):
        yield field_errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield field_errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _validate_deadline(after: int | None, before: int | None) -> list[FieldCause]:
    if before is None or after == before:
        return []
    field = "spec.activeDeadlineSeconds"
    if after is None:
        return [field_errors.invalid(field, None, "must not update from a positive integer to nil value")]
    return (
        [field_errors.invalid(field, after, "must be less than or equal to previous value")] if after > before else []
    )


def _validate_tolerations(after: Json, before: Json) -> list[FieldCause]:
    """Each old one is still there, for however long."""
    now = [_timeless(toleration) for toleration in after.get("tolerations") or []]
    if all(_timeless(toleration) in now for toleration in before.get("tolerations") or []):
        return []
    return [
        field_errors.forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    ]


def _timeless(toleration: Json) -> Json:
    return {
        part: value
        for part, value in toleration.items()
        if part != "tolerationSeconds" or toleration.get("effect") != "NoExecute"
    }


def _validate_gates(after: Json, before: Json) -> Iterator[FieldCause]:
    known = [gate["name"] for gate in before.get("schedulingGates") or []]
    yield from (
        field_errors.forbidden(
            f"spec.schedulingGates[{number}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for number, gate in enumerate(after.get("schedulingGates") or [])
        if gate["name"] not in known
    )


def _validate_narrowed(after: Json, before: Json) -> Iterator[FieldCause]:
    """Where a gated pod may run may become narrower: by more labels, and by more requirements in each term that there
    was.
    """
    chosen, was = after.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(chosen.get(key) != value for key, value in was.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield field_errors.invalid("spec.nodeSelector", chosen, text)
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    terms, old_terms = _node_terms(after), _node_terms(before)
    if old_terms and len(terms) != len(old_terms):
        yield field_errors.invalid(
            field, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
        return
    for number, (term, old) in enumerate(zip(terms, old_terms, strict=False)):
        if not _is_narrowed(term, old):
            yield field_errors.invalid(
                f"{field}[{number}]", term, "only additions are allowed (no mutations or deletions)"
            )


def _node_terms(spec: Json) -> list[Json]:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _is_narrowed(term: Json, old: Json) -> bool:
    """A term that selects nothing has to stay one."""
    pairs = [(term.get(part) or [], old.get(part) or []) for part in ("matchExpressions", "matchFields")]
    if not any(was for _, was in pairs):
        return not any(now for now, _ in pairs)
    return all(now[: len(was)] == was for now, was in pairs)


def _rest(spec: Json, *, narrows: bool) -> Json:
    """Everything that may not change. narrows: it is of a gated pod."""
    rest = copy.deepcopy({part: value for part, value in spec.items() if part not in _OWN_RULES})
    for part in ("containers", "initContainers"):
        for container in rest.get(part) or []:
            container.pop("image", None)
    if narrows:
        rest.pop("nodeSelector", None)
        if rest.pop("affinity", None):
            rest["affinity"] = {part: value for part, value in spec["affinity"].items() if part != "nodeAffinity"}
            if not rest["affinity"]:
                del rest["affinity"]
    return rest
