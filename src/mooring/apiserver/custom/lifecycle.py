"""The life of a definition: what is filled in, what each endpoint may write, and which of its versions objects are stored in."""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver import deletion
from mooring.apiserver.custom import conditions
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.equality import equal_json

Json = dict[str, Any]

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that stands for the objects of the kind."""


def default(new: Json) -> None:
    spec = new["spec"]
    names = spec["names"]
    if not names.get("singular"):
        names["singular"] = names["kind"].lower()
    if not names.get("listKind"):
        names["listKind"] = f"{names['kind']}List" if names["kind"] else ""
    spec.setdefault("conversion", {"strategy": "None"})


def prepare_create(new: Json, _now: float) -> None:
    new["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
    _remember_storage(new)
    new["metadata"]["generation"] = 1


def prepare_update(new: Json, old: Json, _now: float) -> None:
    new["status"] = old["status"]
    _remember_storage(new)
    if not equal_json(new["spec"], old["spec"]):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def delete(obj: Json, options: DeleteOptions, now: float) -> Json | None:
    """A definition is held until its objects are gone."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp"):
        finalizers = meta.setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)
        obj["status"] = conditions.terminating(obj["status"], now)
    return deletion.plain(obj, options, now)


def storage_version(definition: Json) -> str:
    return next((version["name"] for version in definition["spec"]["versions"] or () if version["storage"]), "")


def _remember_storage(definition: Json) -> None:
    stored, current = list(definition["status"].get("storedVersions") or ()), storage_version(definition)
    if current and current not in stored:
        definition["status"]["storedVersions"] = [*stored, current]
