"""storage.k8s.io/v1 VolumeAttributesClass."""

from __future__ import annotations

from typing import Final

from mooring.apiserver import field_errors, objectmeta
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import parameters
from mooring.apiserver.rules.protection import protected_by

MESSAGES: Final = objectmeta.MESSAGES.extended("""
VolumeAttributesClass: 1 metadata ObjectMeta!, 2 driverName s!, 3 parameters {s}
""")

PROTECTION: Final = "kubernetes.io/vac-protection"


def _validate(new: Json) -> list[Cause]:
    return parameters.driver(new["driverName"], "driverName") + parameters.validate(new.get("parameters") or {}, allow_empty=False)


def _validate_update(new: Json, old: Json) -> list[Cause]:
    changed = [part for part in ("driverName", "parameters") if new.get(part) != old.get(part)]
    return [field_errors.forbidden(part, f"updates to {part} are forbidden.") for part in changed]


VOLUME_ATTRIBUTES_CLASSES: Final = Resource(
    group="storage.k8s.io",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    namespaced=False,
    short_names=("vac",),
    message=MESSAGES["VolumeAttributesClass"],
    admit=protected_by(PROTECTION),
    validate=_validate,
    validate_update=_validate_update,
)
