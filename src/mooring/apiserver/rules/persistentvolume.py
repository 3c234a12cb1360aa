"""core/v1 PersistentVolume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.api.binding import PV_PROTECTION
from mooring.api.classes import CLASS_BETA
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.rules import checks, selectors, volumesources
from mooring.apiserver.rules.checks import protected_by
from mooring.base.clock import rfc3339

MESSAGES: Final = (volumesources.MESSAGES | selectors.NODE_MESSAGES).extended("""
PersistentVolume: 1 metadata ObjectMeta!, 2 spec PersistentVolumeSpec!, 3 status PersistentVolumeStatus!
PersistentVolumeSpec: 1 capacity {q}, 2 <> PersistentVolumeSource, 3 accessModes *s, 4 claimRef ObjectReference?, 5 persistentVolumeReclaimPolicy s, 6 storageClassName s, 7 mountOptions *s, 8 volumeMode s?, 9 nodeAffinity VolumeNodeAffinity?, 10 volumeAttributesClassName s?
PersistentVolumeStatus: 1 phase s, 2 message s, 3 reason s, 4 lastPhaseTransitionTime time?
VolumeNodeAffinity: 1 required NodeSelector?
""")  # noqa: E501

_MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
_RECYCLE_WARNING: Final = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
    "approach is to use "
    "dynamic provisioning."
)


def _default(new: Json) -> None:
    volumesources.default(new["spec"])
    checks.default_amounts(new["spec"].get("capacity"))
    new["spec"].setdefault("volumeMode", "Filesystem")
    new["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    new["status"].setdefault("phase", "Pending")


def _prepare_create(new: Json, now: float) -> None:
    new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(now)}


def _prepare_status(new: Json, old: Json, now: float) -> None:
    """The time of the last phase change is the server's, unless the client says another one."""
    status, before = new["status"], old["status"]
    since = "lastPhaseTransitionTime"
    if status["phase"] == before["phase"]:
        if since in before:
            status.setdefault(since, before[since])
    elif since not in status or status[since] == before.get(since):
        status[since] = rfc3339(now)


def _validate(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    yield from checks.access_modes(spec.get("accessModes") or [], "spec.accessModes")
    yield from _validate_capacity(spec.get("capacity") or {})
    yield from checks.one_of(
        spec["persistentVolumeReclaimPolicy"], "spec.persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain")
    )
    if "nodeAffinity" in spec:
        yield from _validate_affinity(spec["nodeAffinity"])
    yield from volumesources.validate(spec, "spec")
    yield from volumesources.validate_paths(spec, "spec")
    if spec.get("storageClassName"):
        yield from field_errors.named(spec["storageClassName"], "spec.storageClassName", names.dns_subdomain)
    yield from checks.one_of(spec["volumeMode"], "spec.volumeMode", ("Block", "Filesystem"))
    yield from _validate_attributes_class(spec)
    yield from _validate_annotations(new)


def _validate_capacity(capacity: Json) -> Iterator[FieldCause]:
    if not capacity:
        yield field_errors.required("spec.capacity")
    if set(capacity) != {"storage"}:
        yield field_errors.not_supported("spec.capacity", capacity, ["storage"])
    for name, amount in capacity.items():
        value = parse_quantity(amount).value
        if value < 0:
            yield field_errors.invalid(f"spec.capacity[{name}]", amount, "must be a valid resource quantity")
        if value <= 0:
            yield field_errors.invalid(f"spec.capacity[{name}]", amount, "must be greater than zero")


def _validate_affinity(affinity: Json) -> Iterator[FieldCause]:
    if "required" not in affinity:
        yield field_errors.required("spec.nodeAffinity.required", "must specify required node constraints")
        return
    yield from selectors.validate_nodes(affinity["required"], "spec.nodeAffinity.required")


def _validate_attributes_class(spec: Json) -> Iterator[FieldCause]:
    if "volumeAttributesClassName" not in spec:
        return
    name, field = spec["volumeAttributesClassName"], "spec.volumeAttributesClassName"
    yield from (
        field_errors.named(name, field, names.dns_subdomain)
        if name
        else [field_errors.required(field, "an empty string is disallowed")]
    )
    if "csi" not in spec:
        yield field_errors.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _validate_annotations(new: Json) -> list[FieldCause]:
    if "csi" in new["spec"] and _MOUNT_OPTIONS in (new["metadata"].get("annotations") or {}):
        return [
            field_errors.forbidden(
                f"metadata.annotations.{_MOUNT_OPTIONS}", "may not specify mount options for this volume type"
            )
        ]
    return []


def _validate_update(new: Json, old: Json) -> Iterator[FieldCause]:
    spec, before = new["spec"], old["spec"]
    if _source_for_comparison(spec, before) != volumesources.chosen(before):
        yield field_errors.forbidden(
            "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
        )
    yield from checks.unchanged(spec, before, "volumeMode", "volumeMode")
    if "nodeAffinity" in before and not selectors.same_but_for_ga_labels(
        spec.get("nodeAffinity"), before["nodeAffinity"]
    ):
        text = "field is immutable, except for updating from beta label to GA"
        yield field_errors.invalid("nodeAffinity", spec.get("nodeAffinity"), text)
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        yield field_errors.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _source_for_comparison(spec: Json, before: Json) -> Json:
    """The new source, without a controllerExpandSecretRef where there was none: that one may be added."""
    source = volumesources.chosen(spec)
    if "csi" in source and "controllerExpandSecretRef" not in before.get("csi", {"controllerExpandSecretRef": {}}):
        source["csi"] = {part: value for part, value in source["csi"].items() if part != "controllerExpandSecretRef"}
    return source


def _warnings(new: Json, _old: Json | None) -> list[str]:
    warnings = volumesources.warnings(new["spec"], "spec")
    warnings += selectors.node_warnings(
        new["spec"].get("nodeAffinity", {}).get("required") or {}, "spec.nodeAffinity.required"
    )
    if new["spec"].get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(_RECYCLE_WARNING)
    if CLASS_BETA in (new["metadata"].get("annotations") or {}):
        warnings.append(
            f'metadata.annotations[{CLASS_BETA}]: deprecated since v1.8; use "storageClassName" attribute instead'
        )
    return warnings


PERSISTENT_VOLUMES: Final = Resource(
    group="",
    kind="PersistentVolume",
    plural="persistentvolumes",
    namespaced=False,
    short_names=("pv",),
    beginnings=("",),
    message=MESSAGES["PersistentVolume"],
    status=Status.WITH_METADATA,
    default=_default,
    admit=protected_by(PV_PROTECTION),
    prepare_create=_prepare_create,
    prepare_status=_prepare_status,
    validate=_validate,
    validate_update=_validate_update,
    warnings=_warnings,
)
