"""storage.k8s.io/v1 CSIDriver, CSINode and CSIStorageCapacity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.deletion import GENERATION_MAX
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks, selectors

_MESSAGES: Final = META_MESSAGES.extended("""
CSIDriver: 1 metadata ObjectMeta!, 2 spec CSIDriverSpec!+
CSIDriverSpec: 1 attachRequired b?, 2 podInfoOnMount b?, 3 volumeLifecycleModes *s~, 4 storageCapacity b?, 5 fsGroupPolicy s?, 6 tokenRequests *TokenRequest, 7 requiresRepublish b?, 8 seLinuxMount b?, 9 nodeAllocatableUpdatePeriodSeconds i64?, 10 serviceAccountTokenInSecrets b?, 11 preventPodSchedulingIfMissing b?
TokenRequest: 1 audience s!, 2 expirationSeconds i64?
CSINode: 1 metadata ObjectMeta!, 2 spec CSINodeSpec!+
CSINodeSpec: 1 drivers *CSINodeDriver!@name
CSINodeDriver: 1 name s!, 2 nodeID s!, 3 topologyKeys *s!-, 4 allocatable VolumeNodeResources?
VolumeNodeResources: 1 count i32?
CSIStorageCapacity: 1 metadata ObjectMeta!, 2 nodeTopology LabelSelector?, 3 storageClassName s!, 4 capacity q?, 5 maximumVolumeSize q?
""")  # noqa: E501

_DRIVER_DEFAULTS: Final[dict[str, Any]] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "volumeLifecycleModes": ["Persistent"],
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_UPDATE_PERIOD_S_MIN: Final = 10
_TOKENS_WARNING: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
    "possible logging of tokens "
    "in volume attributes"
)


def _default_driver(new: Json) -> None:
    """Also drops the field whose gate is off."""
    new["spec"].pop("preventPodSchedulingIfMissing", None)
    for field, value in _DRIVER_DEFAULTS.items():
        new["spec"].setdefault(field, value)


def _prepare_driver_update(new: Json, old: Json, _now: float) -> None:
    if new["spec"] != old["spec"]:
        new["metadata"]["generation"] = min(old["metadata"].get("generation", 0) + 1, GENERATION_MAX)


def _validate_driver(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    yield from checks.all_of(spec["volumeLifecycleModes"], "spec.volumeLifecycleModes", ("Persistent", "Ephemeral"))
    yield from checks.one_of(spec["fsGroupPolicy"], "spec.fsGroupPolicy", ("File", "None", "ReadWriteOnceWithFSType"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _UPDATE_PERIOD_S_MIN:
        text = f"must be greater than or equal to {_UPDATE_PERIOD_S_MIN} seconds"
        yield field_errors.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text)
    yield from _validate_tokens(spec.get("tokenRequests") or [])
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield field_errors.invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], text)


def _validate_tokens(requests: list[Json]) -> Iterator[FieldCause]:
    repeated = checks.repeated(request["audience"] for request in requests)
    for number, request in enumerate(requests):
        field = f"spec.tokenRequests[{number}]"
        if number in repeated:
            yield field_errors.duplicate(f"{field}.audience", request["audience"])
            continue
        seconds = request.get("expirationSeconds")
        if seconds is not None:
            yield from checks.token_life(seconds, f"{field}.expirationSeconds")


def _validate_driver_update(new: Json, old: Json) -> Iterator[FieldCause]:
    yield from checks.unchanged(new["spec"], old["spec"], "attachRequired", "spec.attachedRequired")
    yield from checks.unchanged(new["spec"], old["spec"], "volumeLifecycleModes", "spec.volumeLifecycleModes")


def _driver_warnings(new: Json, old: Json | None) -> list[str]:
    spec = new["spec"]
    known = old is not None and old["spec"].get("tokenRequests") == spec.get("tokenRequests")
    return (
        [_TOKENS_WARNING]
        if spec.get("tokenRequests") and "serviceAccountTokenInSecrets" not in spec and not known
        else []
    )


CSI_DRIVERS: Final = Resource(
    group="storage.k8s.io",
    kind="CSIDriver",
    plural="csidrivers",
    namespaced=False,
    message=_MESSAGES["CSIDriver"],
    put_without_version=False,
    default=_default_driver,
    prepare_update=_prepare_driver_update,
    validate=_validate_driver,
    validate_update=_validate_driver_update,
    warnings=_driver_warnings,
)


_NODE_ID_MAX: Final = 256


def _validate_node(new: Json) -> Iterator[FieldCause]:
    drivers = new["spec"]["drivers"] or []
    repeated = checks.repeated(driver["name"] for driver in drivers)
    for number, driver in enumerate(drivers):
        field = f"spec.drivers[{number}]"
        yield from _validate_node_driver(driver, field)
        if number in repeated:
            yield field_errors.duplicate(f"{field}.name", driver["name"])


def _validate_node_driver(driver: Json, field: str) -> list[FieldCause]:
    found = checks.driver_name(driver["name"], f"{field}.name")
    if not driver["nodeID"]:
        found.append(field_errors.required(f"{field}.nodeID"))
    elif len(driver["nodeID"].encode()) > _NODE_ID_MAX:
        found.append(
            field_errors.invalid(f"{field}.nodeID", driver["nodeID"], f"must be {_NODE_ID_MAX} characters or less")
        )
    repeated = checks.repeated(driver["topologyKeys"] or [])
    for number, key in enumerate(driver["topologyKeys"] or []):
        if number in repeated:
            found.append(field_errors.duplicate(field, key))
        found += ([] if key else [field_errors.required(field)]) + field_errors.named(key, field, names.qualified_name)
    return found + checks.at_least((driver.get("allocatable") or {}).get("count"), f"{field}.allocatable.count", 0)


def _validate_node_update(new: Json, old: Json) -> Iterator[FieldCause]:
    """An entry may come and go; while it is there only its allocatable may change."""
    before = {driver["name"]: driver for driver in old["spec"]["drivers"] or []}
    yield from (
        field_errors.immutable("spec.drivers", driver)
        for driver in new["spec"]["drivers"] or []
        if driver["name"] in before and _identity(driver) != _identity(before[driver["name"]])
    )


def _identity(driver: Json) -> Json:
    return {part: value for part, value in driver.items() if part != "allocatable"}


CSI_NODES: Final = Resource(
    group="storage.k8s.io",
    kind="CSINode",
    plural="csinodes",
    namespaced=False,
    beginnings=("",),
    message=_MESSAGES["CSINode"],
    put_without_version=False,
    validate=_validate_node,
    validate_update=_validate_node_update,
)


def _validate_capacity(new: Json) -> Iterator[FieldCause]:
    yield from selectors.validate_labels(new.get("nodeTopology") or {}, "nodeTopology")
    yield from field_errors.named(new["storageClassName"], "storageClassName", names.dns_subdomain)
    if "capacity" in new and parse_quantity(new["capacity"]).value < 0:  # (nobody looks at maximumVolumeSize)
        yield field_errors.invalid("capacity", new["capacity"], "must be greater than or equal to 0")


CSI_STORAGE_CAPACITIES: Final = Resource(
    group="storage.k8s.io",
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    namespaced=True,
    beginnings=("",),
    message=_MESSAGES["CSIStorageCapacity"],
    put_without_version=False,
    delete_answers_object=False,
    validate=_validate_capacity,
    validate_update=lambda new, old: checks.all_unchanged(new, old, ("nodeTopology", "storageClassName")),
)
