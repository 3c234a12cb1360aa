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
_OWN_RULES: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def validate(new: Json, old: Json) -> Iterator[FieldCause]:
    after, before = new["spec"], old["spec"]
    changed = [part for part in ("containers", "initContainers") if len(after.get(part) or []) != len(before.get(part) or [])]
    if changed:
        yield from (field_errors.forbidden(f"spec.{part}", "pod updates may not add or remove containers") for part in changed)
        return
    yield from _validate_deadline(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    yield from _validate_tolerations(after, before)
    yield from _validate_gates(after, before)
    if _rest(after, before) != _rest(before, before):
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
    return [field_errors.invalid(field, after, "must be less than or equal to previous value")] if after > before else []


def _validate_tolerations(after: Json, before: Json) -> list[FieldCause]:
    """Each old one is still there, for however long."""
    now = [_timeless(toleration) for toleration in after.get("tolerations") or []]
    if all(_timeless(toleration) in now for toleration in before.get("tolerations") or []):
        return []
    return [field_errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _timeless(toleration: Json) -> Json:
    return {part: value for part, value in toleration.items() if part != "tolerationSeconds" or toleration.get("effect") != "NoExecute"}


def _validate_gates(after: Json, before: Json) -> Iterator[FieldCause]:
    known = [gate["name"] for gate in before.get("schedulingGates") or []]
    yield from (
        field_errors.forbidden(
            f"spec.schedulingGates[{number}].name", f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
        )
        for number, gate in enumerate(after.get("schedulingGates") or [])
        if gate["name"] not in known
    )


def _rest(spec: Json, before: Json) -> Json:
    """Everything that may not change."""
    rest = copy.deepcopy({part: value for part, value in spec.items() if part not in _OWN_RULES})
    for part in ("containers", "initContainers"):
        for container in rest.get(part) or []:
            container.pop("image", None)
    if before.get("schedulingGates"):
        rest.pop("affinity", None)
        chosen, was = rest.pop("nodeSelector", {}), before.get("nodeSelector") or {}
        rest["nodeSelector"] = {key: chosen.get(key) for key in was}  # (while a gate is shut, a choice may become narrower)
    return rest
