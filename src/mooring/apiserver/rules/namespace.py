"""core/v1 Namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api import names
from mooring.apiserver import deletion, field_errors
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES, finalizer_name
from mooring.apiserver.resource import Action, Json, Resource, Status
from mooring.base.clock import rfc3339

MESSAGES: Final = META_MESSAGES.extended("""
Namespace: 1 metadata ObjectMeta!, 2 spec NamespaceSpec!, 3 status NamespaceStatus!
NamespaceSpec: 1 finalizers *s
NamespaceStatus: 1 phase s, 2 conditions *NamespaceCondition@type
NamespaceCondition: 1 type s!, 2 status s!, 4 lastTransitionTime time!, 5 reason s, 6 message s
""")

CONTENT: Final = "kubernetes"
"""The finalizer in spec that stands for the objects inside."""

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def _default(new: Json) -> None:
    _label(new["metadata"])
    new["status"].setdefault("phase", "Active")


def _label(metadata: Json) -> None:
    if metadata.get("name"):
        metadata.setdefault("labels", {})[_NAME_LABEL] = metadata["name"]


def _prepare_create(new: Json, _now: float) -> None:
    if not names.label_value(new["metadata"].get("name", "")):
        _label(new["metadata"])  # (again: by now a generated name is there; a wrong one is told without the label)
    new["status"] = {"phase": "Active"}
    finalizers = new["spec"].setdefault("finalizers", [])
    if CONTENT not in finalizers:
        finalizers.append(CONTENT)


def _prepare_update(new: Json, old: Json, _now: float) -> None:
    new["spec"], new["status"] = old["spec"], old["status"]


def _prepare_finalize(new: Json, old: Json, _now: float) -> None:
    """The endpoint is for spec.finalizers; like the real one it takes metadata with them."""
    new["status"] = old["status"]


def _validate_finalize(new: Json, _old: Json) -> Iterator[FieldCause]:
    yield from (
        cause
        for number, name in enumerate(new["spec"].get("finalizers") or [])
        for cause in finalizer_name(name, f"spec.finalizers[{number}]", f"spec.finalizers[{number}]")
    )


def _validate(new: Json) -> list[FieldCause]:
    field = "spec.finalizers"
    return [cause for name in new["spec"].get("finalizers") or [] for cause in finalizer_name(name, field, field)]


def _validate_status(new: Json, _old: Json) -> list[FieldCause]:
    deleting, phase = bool(new["metadata"].get("deletionTimestamp")), new["status"]["phase"]
    wanted, negation = ("Terminating", "not ") if deleting else ("Active", "")
    if phase == wanted:
        return []
    return [
        field_errors.invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` is {negation}empty")
    ]


def _delete(obj: Json, options: DeleteOptions, now: float) -> Json | None:
    """Differs from other kinds: the first deletion always marks, and writes no grace period; the next waits for the
    content.
    """
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return obj if obj["spec"].get("finalizers") else deletion.plain(obj, options, now)
    if options.orphan_dependents is False:
        options = msgspec.structs.replace(options, orphan_dependents=None, propagation="Foreground")
    deletion.follow(metadata, options)
    metadata["deletionTimestamp"] = rfc3339(now)
    obj["status"]["phase"] = "Terminating"
    return obj


NAMESPACES: Final = Resource(
    group="",
    kind="Namespace",
    plural="namespaces",
    namespaced=False,
    short_names=("ns",),
    message=MESSAGES["Namespace"],
    status=Status.WITH_METADATA,
    deletes_collection=False,
    name_rule=names.dns_label,
    default=_default,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate=_validate,
    holds=lambda obj: bool(obj["spec"].get("finalizers")),
    delete=_delete,
    actions=(Action(name="finalize", verbs=("update",), prepare=_prepare_finalize, validate=_validate_finalize),),
    undeletable=frozenset({"default", "kube-system", "kube-public"}),
    validate_status=_validate_status,
    field_names=frozenset({"status.phase"}),
    fields=lambda obj: {"status.phase": obj["status"]["phase"]},
)
