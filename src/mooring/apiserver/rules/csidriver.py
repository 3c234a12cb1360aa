"""storage.k8s.io/v1 CSIDriver."""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver import field_errors, objectmeta
from mooring.apiserver.deletion import GENERATION_MAX
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks

MESSAGES: Final = objectmeta.MESSAGES.extended("""
CSIDriver: 1 metadata ObjectMeta!, 2 spec CSIDriverSpec!
CSIDriverSpec: 1 attachRequired b?, 2 podInfoOnMount b?, 3 volumeLifecycleModes *s, 4 storageCapacity b?, 5 fsGroupPolicy s?, 6 tokenRequests *TokenRequest, 7 requiresRepublish b?, 8 seLinuxMount b?, 9 nodeAllocatableUpdatePeriodSeconds i64?, 10 serviceAccountTokenInSecrets b?, 11 preventPodSchedulingIfMissing b?
TokenRequest: 1 audience s!, 2 expirationSeconds i64?
""")  # noqa: E501

_DEFAULTS: Final[dict[str, Any]] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "volumeLifecycleModes": ["Persistent"],
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_TOKEN_S_MIN: Final = 600
_TOKEN_S_MAX: Final = 2**32
_UPDATE_PERIOD_S_MIN: Final = 10
_TOKENS_WARNING: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens "
    "in volume attributes"
)


def _default(new: Json) -> None:
    """Also drops the field whose gate is off."""
    new["spec"].pop("preventPodSchedulingIfMissing", None)
    for field, value in _DEFAULTS.items():
        new["spec"].setdefault(field, value)


def _prepare_update(new: Json, old: Json, _now: float) -> None:
    if new["spec"] != old["spec"]:
        new["metadata"]["generation"] = min(old["metadata"].get("generation", 0) + 1, GENERATION_MAX)


def _validate(new: Json) -> list[Cause]:
    spec = new["spec"]
    found = checks.all_of(spec["volumeLifecycleModes"], "spec.volumeLifecycleModes", ("Persistent", "Ephemeral"))
    found += checks.one_of(spec["fsGroupPolicy"], "spec.fsGroupPolicy", ("File", "None", "ReadWriteOnceWithFSType"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _UPDATE_PERIOD_S_MIN:
        text = f"must be greater than or equal to {_UPDATE_PERIOD_S_MIN} seconds"
        found.append(field_errors.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    found += _validate_tokens(spec.get("tokenRequests") or [])
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        found.append(field_errors.invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], text))
    return found


def _validate_tokens(requests: list[Json]) -> list[Cause]:
    found: list[Cause] = []
    audiences: set[str] = set()
    for number, request in enumerate(requests):
        field = f"spec.tokenRequests[{number}]"
        if request["audience"] in audiences:
            found.append(field_errors.duplicate(f"{field}.audience", request["audience"]))
            continue
        audiences.add(request["audience"])
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < _TOKEN_S_MIN:
            found.append(field_errors.invalid(f"{field}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > _TOKEN_S_MAX:
            found.append(field_errors.invalid(f"{field}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    return found


def _validate_update(new: Json, old: Json) -> list[Cause]:
    found = checks.unchanged(new["spec"], old["spec"], "attachRequired", "spec.attachedRequired")
    return found + checks.unchanged(new["spec"], old["spec"], "volumeLifecycleModes", "spec.volumeLifecycleModes")


def _warnings(new: Json, old: Json | None) -> list[str]:
    spec = new["spec"]
    known = old is not None and old["spec"].get("tokenRequests") == spec.get("tokenRequests")
    return [_TOKENS_WARNING] if spec.get("tokenRequests") and "serviceAccountTokenInSecrets" not in spec and not known else []


CSI_DRIVERS: Final = Resource(
    group="storage.k8s.io",
    kind="CSIDriver",
    plural="csidrivers",
    namespaced=False,
    message=MESSAGES["CSIDriver"],
    put_without_version=False,
    default=_default,
    prepare_update=_prepare_update,
    validate=_validate,
    validate_update=_validate_update,
    warnings=_warnings,
)
