"""The edits of whole objects that writes make. Pure: an edit changes a copy of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.api.binding import (
    BIND_COMPLETED,
    BOUND,
    BOUND_BY_CONTROLLER,
    PENDING,
    PRE_RESIZE_CAPACITY,
    PROVISIONER,
    PROVISIONER_BETA,
    SELECTED_NODE,
    YES,
)
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import annotation
from mooring.control.result import Stale

Json = dict[str, Any]
Edit = Callable[[Json], None]


def claim_volume(claim: PersistentVolumeClaim) -> Edit:
    """Let the volume name its claim in full, with a note that we chose it, unless the user had. The edit raises Stale
    for another claim's volume.
    """
    meta = claim.metadata
    names = {"namespace": meta.namespace, "name": meta.name}

    def edit(body: Json) -> None:
        ref = body["spec"].get("claimRef") or {}
        is_named = all(ref.get(field) == value for field, value in names.items())
        reserved = ref.get("uid") == meta.uid or (is_named and not ref.get("uid"))
        if ref and not reserved:
            raise Stale(f'PersistentVolume "{body["metadata"]["name"]}" belongs to another claim')
        full = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            **names,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
        body["spec"]["claimRef"] = full
        if not reserved:
            _annotate(body, {BOUND_BY_CONTROLLER: YES})

    return edit


def set_volume_phase(phase: str) -> Edit:
    def edit(body: Json) -> None:
        status = body.setdefault("status", {})
        status["phase"] = phase
        status.pop("message", None)

    return edit


def name_volume(pv_name: str) -> Edit:
    """Let the claim name its volume, with notes that it is bound, and whether we chose the volume."""

    def edit(body: Json) -> None:
        if body["spec"].get("volumeName") != pv_name:
            body["spec"]["volumeName"] = pv_name
            _annotate(body, {BOUND_BY_CONTROLLER: YES})
        _annotate(body, {BIND_COMPLETED: YES})

    return edit


def mark_claim(pv: PersistentVolume) -> Edit:
    """Show the volume in the claim's status; its size only when the claim is first bound: later a resizer writes the
    size.
    """

    def edit(body: Json) -> None:
        status = body.setdefault("status", {})
        before = status.get("phase") or PENDING
        status["accessModes"] = list(pv.spec.access_modes or ())
        if before != BOUND:
            status["phase"] = BOUND
            status["capacity"] = _capacity(pv)
        if before == PENDING and pv.spec.volume_attributes_class_name:
            status["currentVolumeAttributesClassName"] = pv.spec.volume_attributes_class_name

    return edit


def set_claim_phase(phase: str) -> Edit:
    """Set the phase of a claim without a volume, and remove the volume's fields from the status."""

    def edit(body: Json) -> None:
        status = body.setdefault("status", {})
        status["phase"] = phase
        for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
            status.pop(field, None)

    return edit


def set_class(class_name: str) -> Edit:
    def edit(body: Json) -> None:
        body["spec"]["storageClassName"] = class_name

    return edit


def ask(provisioner: str) -> Edit:
    return lambda body: _annotate(body, {PROVISIONER: provisioner, PROVISIONER_BETA: provisioner})


def select_node(node_name: str) -> Edit:
    return lambda body: _annotate(body, {SELECTED_NODE: node_name})


def unselect_node(body: Json) -> None:
    (body["metadata"].get("annotations") or {}).pop(SELECTED_NODE, None)


def give_back(*, whole: bool) -> Edit:
    """Remove the claim from the volume; a volume that a user had reserved by name (not whole) stays reserved."""

    def edit(body: Json) -> None:
        if whole:
            body["spec"].pop("claimRef", None)
            (body["metadata"].get("annotations") or {}).pop(BOUND_BY_CONTROLLER, None)
        elif body["spec"].get("claimRef"):
            body["spec"]["claimRef"].pop("uid", None)

    return edit


def add_finalizer(name: str) -> Edit:
    def edit(body: Json) -> None:
        body["metadata"]["finalizers"] = [*(body["metadata"].get("finalizers") or ()), name]

    return edit


def remove_finalizer(name: str) -> Edit:
    def edit(body: Json) -> None:
        body["metadata"]["finalizers"] = [one for one in body["metadata"].get("finalizers") or () if one != name]

    return edit


def _annotate(body: Json, given: dict[str, str]) -> None:
    body["metadata"]["annotations"] = {**(body["metadata"].get("annotations") or {}), **given}


def _capacity(pv: PersistentVolume) -> dict[str, str]:
    """The size of the file system, which is not the volume's before the file system has grown."""
    shown = annotation(pv, PRE_RESIZE_CAPACITY)
    return {**(pv.spec.capacity or {}), **({"storage": shown} if shown else {})}
