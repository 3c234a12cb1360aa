"""core/v1 PersistentVolumeClaim."""

from __future__ import annotations

from typing import Final

from mooring.api.classes import CLASS_BETA
from mooring.api.quantity import parse_quantity
from mooring.apiserver import api_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource, Status, View
from mooring.apiserver.rules import amounts, claimchanges, claimspec, claimstatus
from mooring.apiserver.rules.protection import protected_by
from mooring.apiserver.rules.storageclass import STORAGE_CLASSES, default_class

MESSAGES: Final = claimspec.MESSAGES.extended("""
PersistentVolumeClaim: 1 metadata ObjectMeta!, 2 spec PersistentVolumeClaimSpec!, 3 status PersistentVolumeClaimStatus!
PersistentVolumeClaimStatus: 1 phase s, 2 accessModes *s, 3 capacity {q}, 4 conditions *PersistentVolumeClaimCondition@type, 5 allocatedResources {q}, 7 allocatedResourceStatuses {s}, 8 currentVolumeAttributesClassName s?, 9 modifyVolumeStatus ModifyVolumeStatus?
PersistentVolumeClaimCondition: 1 type s!, 2 status s!, 3 lastProbeTime time!, 4 lastTransitionTime time!, 5 reason s, 6 message s
ModifyVolumeStatus: 1 targetVolumeAttributesClassName s, 2 status s!
""")  # noqa: E501

PROTECTION: Final = "kubernetes.io/pvc-protection"
_NOT_EXPANDABLE: Final = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
_protect = protected_by(PROTECTION)


def _default(new: Json) -> None:
    claimspec.default(new["spec"])
    new["status"].setdefault("phase", "Pending")
    for part in ("capacity", "allocatedResources"):
        amounts.default(new["status"].get(part))


def _prepare_create(new: Json, _now: float) -> None:
    claimspec.prepare(new["spec"])
    new["status"] = {"phase": "Pending"}


def _prepare_update(new: Json, old: Json, _now: float) -> None:
    claimspec.prepare(new["spec"], old["spec"])
    new["status"] = old["status"]


def _admit(new: Json, view: View) -> None:
    _protect(new, view)
    if "storageClassName" not in new["spec"] and CLASS_BETA not in (new["metadata"].get("annotations") or {}):
        chosen = default_class(view)
        if chosen is not None:
            new["spec"]["storageClassName"] = chosen


def _admit_update(new: Json, old: Json, view: View) -> None:
    if parse_quantity(claimchanges.request(new)).value > parse_quantity(claimchanges.request(old)).value and not _may_grow(new, old, view):
        raise api_errors.forbidden(PERSISTENT_VOLUME_CLAIMS, old["metadata"]["name"], _NOT_EXPANDABLE)


def _may_grow(new: Json, old: Json, view: View) -> bool:
    """Only where the class says so, and is named all along."""
    name = claimchanges.class_name(new)
    if not name or name != claimchanges.class_name(old):
        return False
    return bool((view.get(STORAGE_CLASSES.path, name) or {}).get("allowVolumeExpansion"))


def _warnings(new: Json, _old: Json | None) -> list[str]:
    told = claimspec.warnings(new["spec"], "spec")
    if CLASS_BETA in (new["metadata"].get("annotations") or {}):
        told.append(f'metadata.annotations[{CLASS_BETA}]: deprecated since v1.8; use "storageClassName" attribute instead')
    return told


def _validate(new: Json) -> list[Cause]:
    return claimspec.validate(new["spec"], "spec")


PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    group="",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    namespaced=True,
    short_names=("pvc",),
    message=MESSAGES["PersistentVolumeClaim"],
    status=Status.WITH_METADATA,
    default=_default,
    admit=_admit,
    admit_update=_admit_update,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate=_validate,
    validate_update=claimchanges.validate,
    validate_status=claimstatus.validate,
    warnings=_warnings,
)
