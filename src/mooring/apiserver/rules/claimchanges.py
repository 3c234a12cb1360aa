"""What may change in a PersistentVolumeClaim after its creation."""

from __future__ import annotations

from typing import Final

from mooring.api.classes import CLASS_BETA
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

"""The old way to name a class; it wins over the field."""

_FROZEN: Final = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
_FREE_WHEN_BOUND: Final = "volumeAttributesClassName"


def validate(new: Json, old: Json) -> list[Cause]:
    """Everything that an update changes and may not."""
    becomes_named = _class_from_annotation(new, old)
    found = []
    if _frozen_part(new["spec"], new, old, becomes_named) != _frozen_part(old["spec"], new, old, becomes_named):
        found.append(field_errors.forbidden("spec", _FROZEN))
    found += _validate_shrinking(new, old) + checks.unchanged(new["spec"], old["spec"], "volumeMode", "volumeMode")
    if not becomes_named or CLASS_BETA in _annotations(new):  # (it may go when the field has taken over)
        found += _validate_annotation(new, old)
    return found + _validate_attributes_class(new, old)


def request(claim: Json) -> str:
    """The storage that the claim asks for."""
    return str((claim["spec"]["resources"].get("requests") or {}).get("storage", "0"))


def class_name(claim: Json) -> str:
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
    kept["resources"] = _amounts(spec["resources"], but="storage" if is_free else "")
    return kept


def _amounts(resources: Json, but: str) -> Json:
    """What is asked for, however it is written. but: a request that may change."""
    requests = {name: parse_quantity(text).value for name, text in (resources.get("requests") or {}).items() if name != but}
    limits = {name: parse_quantity(text).value for name, text in (resources.get("limits") or {}).items()}
    return {**resources, "requests": requests, "limits": limits}


def _class_from_annotation(new: Json, old: Json) -> bool:
    """True when the class that an annotation has named moves into the field."""
    named = _annotations(old).get(CLASS_BETA)
    return named is not None and "storageClassName" not in old["spec"] and new["spec"].get("storageClassName") == named


def _class_from_nothing(new: Json, old: Json) -> bool:
    """True when a claim without a class gets one."""
    return CLASS_BETA not in _annotations(old) and "storageClassName" not in old["spec"] and "storageClassName" in new["spec"]


def _validate_shrinking(new: Json, old: Json) -> list[Cause]:
    """A claim may take back a growth that has not come about yet."""
    wanted = parse_quantity(request(new)).value
    if wanted >= parse_quantity(request(old)).value:
        return []
    if wanted > parse_quantity((old["status"].get("capacity") or {}).get("storage", "0")).value:
        return []
    return [field_errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")]


def _validate_annotation(new: Json, old: Json) -> list[Cause]:
    now, before = _annotations(new).get(CLASS_BETA, ""), _annotations(old).get(CLASS_BETA, "")
    return [] if now == before else [field_errors.immutable(f"metadata.annotations.{CLASS_BETA}", now)]


def _validate_attributes_class(new: Json, old: Json) -> list[Cause]:
    """A volume that has a class of attributes may get another, but not none."""
    part, since = "volumeAttributesClassName", "is forbidden when status.currentVolumeAttributesClassName is not nil"
    name = new["spec"].get(part)
    if name == old["spec"].get(part) or name or "currentVolumeAttributesClassName" not in old["status"]:
        return []
    return [field_errors.forbidden(f"spec.{part}", f"update to {'nil' if name is None else 'empty string'} {since}")]


def _annotations(claim: Json) -> dict[str, str]:
    return claim["metadata"].get("annotations") or {}
