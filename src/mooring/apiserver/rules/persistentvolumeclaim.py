"""core/v1 PersistentVolumeClaim. Its spec, which pods' ephemeral volumes have, too: `rules/claimspec.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.api.binding import PVC_PROTECTION
from mooring.api.classes import CLASS_BETA
from mooring.api.quantity import parse_quantity
from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, OtherObjects, Resource, Status
from mooring.apiserver.rules import checks, claimspec
from mooring.apiserver.rules.checks import protected_by
from mooring.apiserver.rules.classes import STORAGE_CLASSES, default_class

RESIZE_STATES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_OWN_SUFFIX: Final = "kubernetes.io"


def _validate_status(new: Json, _old: Json) -> Iterator[FieldCause]:
    status = new["status"]
    yield from _validate_status_amounts(status.get("capacity") or {}, "status.capacity")
    states, field = status.get("allocatedResourceStatuses") or {}, "status.allocatedResourceStatuses"
    for resource, state in states.items():
        yield from _validate_status_resource(resource, field)
        if state not in RESIZE_STATES:
            yield field_errors.not_supported(field, resource, RESIZE_STATES)  # (so the real one: it shows the resource)
    allocated, field = status.get("allocatedResources") or {}, "status.allocatedResources"
    for resource, amount in allocated.items():
        yield from _validate_status_resource(resource, field) or _validate_status_amounts({resource: amount}, field)


def _validate_status_resource(resource: str, field: str) -> list[FieldCause]:
    """Names of Kubernetes' own: storage alone. Others have a prefix."""
    found = field_errors.named(resource, field, names.qualified_name)
    if found:
        return found
    prefix = resource.rpartition("/")[0]
    if resource == "storage" or (prefix and not prefix.endswith(_OWN_SUFFIX)):
        return []
    return [field_errors.not_supported(field, resource, ["storage"])]


def _validate_status_amounts(amounts: dict[str, str], field: str) -> Iterator[FieldCause]:
    yield from (
        field_errors.invalid(f"{field}[{name}]", amount, "must be a valid resource quantity")
        for name, amount in amounts.items()
        if parse_quantity(amount).value < 0
    )


_FROZEN: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_FREE_WHEN_BOUND: Final = "volumeAttributesClassName"


def _validate_update(new: Json, old: Json) -> Iterator[FieldCause]:
    """Everything that an update changes and may not."""
    yield from claimspec.validate(new["spec"], "spec", old["spec"])
    becomes_named = _class_from_annotation(new, old)
    if _frozen_part(new["spec"], new, old, becomes_named) != _frozen_part(old["spec"], new, old, becomes_named):
        yield field_errors.forbidden("spec", _FROZEN)
    yield from _validate_shrinking(new, old)
    yield from checks.unchanged(new["spec"], old["spec"], "volumeMode", "volumeMode")
    if not becomes_named or CLASS_BETA in _annotations(new):  # (it may go when the field has taken over)
        yield from _validate_annotation(new, old)
    yield from _validate_attributes_class(new, old)


def _request(claim: Json) -> str:
    return str((claim["spec"]["resources"].get("requests") or {}).get("storage", "0"))


def _class_name(claim: Json) -> str:
    """The class that the claim names, "" for none."""
    return str(_annotations(claim).get(CLASS_BETA, claim["spec"].get("storageClassName", "")))


def _frozen_part(spec: Json, new: Json, old: Json, becomes_named: bool) -> Json:
    """The spec without what this update may change."""
    kept = dict(spec)
    if not old["spec"].get("volumeName"):
        kept.pop("volumeName", None)
    if becomes_named or _class_from_nothing(new, old):
        kept.pop("storageClassName", None)
    if new["status"]["phase"] == "Bound":
        kept.pop(_FREE_WHEN_BOUND, None)
    is_free = new["status"]["phase"] == "Bound" and bool(new["spec"]["resources"].get("requests"))
    kept["resources"] = _amounts_but(spec["resources"], but="storage" if is_free else None)
    return kept


def _amounts_but(resources: Json, but: str | None) -> Json:
    """The requested amounts, normalised. but: a request that may change."""
    requests = {
        name: parse_quantity(text).value for name, text in (resources.get("requests") or {}).items() if name != but
    }
    limits = {name: parse_quantity(text).value for name, text in (resources.get("limits") or {}).items()}
    return {**resources, "requests": requests, "limits": limits}


def _class_from_annotation(new: Json, old: Json) -> bool:
    """True when the class that an annotation has named moves into the field."""
    named = _annotations(old).get(CLASS_BETA)
    return named is not None and "storageClassName" not in old["spec"] and new["spec"].get("storageClassName") == named


def _class_from_nothing(new: Json, old: Json) -> bool:
    """True when a claim without a class gets one."""
    return (
        CLASS_BETA not in _annotations(old)
        and "storageClassName" not in old["spec"]
        and "storageClassName" in new["spec"]
    )


def _validate_shrinking(new: Json, old: Json) -> list[FieldCause]:
    """A claim may take back a growth that has not come about yet."""
    wanted = parse_quantity(_request(new)).value
    if wanted >= parse_quantity(_request(old)).value:
        return []
    if wanted > parse_quantity((old["status"].get("capacity") or {}).get("storage", "0")).value:
        return []
    return [field_errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")]


def _validate_annotation(new: Json, old: Json) -> list[FieldCause]:
    now, before = _annotations(new).get(CLASS_BETA, ""), _annotations(old).get(CLASS_BETA, "")
    return [] if now == before else [field_errors.immutable(f"metadata.annotations.{CLASS_BETA}", now)]


def _validate_attributes_class(new: Json, old: Json) -> list[FieldCause]:
    """A volume that has a class of attributes may get another, but not none."""
    part, since = "volumeAttributesClassName", "is forbidden when status.currentVolumeAttributesClassName is not nil"
    name = new["spec"].get(part)
    if name == old["spec"].get(part) or name or "currentVolumeAttributesClassName" not in old["status"]:
        return []
    return [field_errors.forbidden(f"spec.{part}", f"update to {'nil' if name is None else 'empty string'} {since}")]


def _annotations(claim: Json) -> dict[str, str]:
    return claim["metadata"].get("annotations") or {}


MESSAGES: Final = claimspec.MESSAGES.extended("""
PersistentVolumeClaim: 1 metadata ObjectMeta!, 2 spec PersistentVolumeClaimSpec!, 3 status PersistentVolumeClaimStatus!
PersistentVolumeClaimStatus: 1 phase s, 2 accessModes *s, 3 capacity {q}, 4 conditions *PersistentVolumeClaimCondition@type, 5 allocatedResources {q}, 7 allocatedResourceStatuses {s}, 8 currentVolumeAttributesClassName s?, 9 modifyVolumeStatus ModifyVolumeStatus?
PersistentVolumeClaimCondition: 1 type s!, 2 status s!, 3 lastProbeTime time!, 4 lastTransitionTime time!, 5 reason s, 6 message s
ModifyVolumeStatus: 1 targetVolumeAttributesClassName s, 2 status s!
""")  # noqa: E501

_NOT_EXPANDABLE: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)
_protect = protected_by(PVC_PROTECTION)


def _default(new: Json) -> None:
    claimspec.default(new["spec"])
    new["status"].setdefault("phase", "Pending")
    for part in ("capacity", "allocatedResources"):
        checks.default_amounts(new["status"].get(part))


def _prepare_create(new: Json, _now: float) -> None:
    claimspec.prepare(new["spec"])
    new["status"] = {"phase": "Pending"}


def _prepare_update(new: Json, old: Json, _now: float) -> None:
    claimspec.prepare(new["spec"], old["spec"])
    new["status"] = old["status"]


def _admit(new: Json, view: OtherObjects) -> None:
    _protect(new, view)
    if "storageClassName" not in new["spec"] and CLASS_BETA not in (new["metadata"].get("annotations") or {}):
        chosen = default_class(view)
        if chosen is not None:
            new["spec"]["storageClassName"] = chosen


def _admit_update(new: Json, old: Json, view: OtherObjects) -> None:
    if parse_quantity(_request(new)).value > parse_quantity(_request(old)).value and not _may_grow(new, old, view):
        raise api_errors.forbidden(PERSISTENT_VOLUME_CLAIMS, old["metadata"]["name"], _NOT_EXPANDABLE)


def _may_grow(new: Json, old: Json, view: OtherObjects) -> bool:
    """Only where the class says so, and is named all along."""
    name = _class_name(new)
    if not name or name != _class_name(old):
        return False
    return bool((view.get(STORAGE_CLASSES.path, name) or {}).get("allowVolumeExpansion"))


def _warnings(new: Json, _old: Json | None) -> list[str]:
    warnings = claimspec.warnings(new["spec"], "spec")
    if CLASS_BETA in (new["metadata"].get("annotations") or {}):
        warnings.append(
            f'metadata.annotations[{CLASS_BETA}]: deprecated since v1.8; use "storageClassName" attribute instead'
        )
    return warnings


PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    group="",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    namespaced=True,
    short_names=("pvc",),
    beginnings=("",),
    message=MESSAGES["PersistentVolumeClaim"],
    status=Status.WITH_METADATA,
    default=_default,
    admit=_admit,
    admit_update=_admit_update,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=lambda new: claimspec.validate(new["spec"], "spec"),
    validate_update=_validate_update,
    validate_status=_validate_status,
    warnings=_warnings,
)
