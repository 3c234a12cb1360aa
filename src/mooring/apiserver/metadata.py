"""ObjectMeta: what the server fills in, what nobody may change, what is valid. The same for all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.codecs.schema import Messages
from mooring.apiserver.deletion import FOREGROUND, ORPHAN
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.base.clock import rfc3339

META_MESSAGES: Final = Messages("""
ObjectMeta: 1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, 6 resourceVersion s, 7 generation i64, 8 creationTimestamp time, 9 deletionTimestamp time, 10 deletionGracePeriodSeconds i64?, 11 labels {s}, 12 annotations {s}, 13 ownerReferences *OwnerReference@uid, 14 finalizers *s@, 17 managedFields *ManagedFieldsEntry
ManagedFieldsEntry: 1 manager s, 2 operation s, 3 apiVersion s, 4 time time, 6 fieldsType s, 7 fieldsV1 any?, 8 subresource s
OwnerReference=: 5 apiVersion s!, 1 kind s!, 3 name s!, 4 uid s!, 6 controller b?, 7 blockOwnerDeletion b?
LabelSelector=: 1 matchLabels {s}, 2 matchExpressions *LabelSelectorRequirement
DeleteOptions: 1 gracePeriodSeconds i64?, 2 preconditions Preconditions?, 3 orphanDependents b?, 4 propagationPolicy s?, 5 dryRun *s, 6 ignoreStoreReadErrorWithClusterBreakingPotential b?
Preconditions: 1 uid s?, 2 resourceVersion s?
Condition: 1 type s!, 2 status s!, 3 observedGeneration i64, 4 lastTransitionTime time!, 5 reason s!, 6 message s!
LabelSelectorRequirement: 1 key s!, 2 operator s!, 3 values *s
""")  # noqa: E501


ANNOTATIONS_BYTES_MAX: Final = 262_144
_STANDARD_FINALIZERS: Final = ("kubernetes", ORPHAN, FOREGROUND)

_SERVERS: Final = ("selfLink", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def stamp_new(obj: Json, uid: str, now: float) -> None:
    """Writes the server's own metadata into a new object; users' values of it are dropped."""
    metadata = obj["metadata"]
    for field in _SERVERS:
        metadata.pop(field, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = rfc3339(now)


def carry_over(new: Json, old: Json) -> None:
    """Keeps metadata that clients can't change. A deletionTimestamp that the client sets stays: validation refuses
    it.
    """
    metadata, before = new["metadata"], old["metadata"]
    for field in ("selfLink", "managedFields"):
        metadata.pop(field, None)
    for field in ("generation", "creationTimestamp"):
        _keep(metadata, before, field)
    if not metadata.get("uid"):
        metadata["uid"] = before["uid"]
    if before.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in before and "deletionGracePeriodSeconds" not in metadata:
        metadata["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]


def put_record(obj: Json, record: list[Json]) -> None:
    if record:
        obj["metadata"]["managedFields"] = record


def keep_users_part(metadata: Json, before: Json) -> None:
    """Takes back what users write into metadata: what a /status endpoint that is for status alone may not change."""
    for field in ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"):
        _keep(metadata, before, field)


def without_twins(metadata: Json) -> bool:
    """Drops owner references that name a uid a second time. True if there were any."""
    owners = metadata.get("ownerReferences") or []
    kept = list({owner.get("uid", ""): owner for owner in reversed(owners)}.values())[::-1]
    if len(kept) == len(owners):
        return False
    metadata["ownerReferences"] = kept
    return True


def validate(
    metadata: Json, name_rule: Callable[[str], list[str]], namespaced: bool, *, bare_finalizers: bool = False
) -> Iterator[FieldCause]:
    """Everything wrong with the metadata of an object that is created. bare_finalizers: they need no prefix, as in
    custom kinds.
    """
    yield from _validate_beginning(metadata, names.prefix_of(name_rule))
    yield from _validate_name(metadata, name_rule)
    if namespaced and not metadata.get("namespace"):
        yield field_errors.required("metadata.namespace")
    yield from _validate_common(metadata, bare_finalizers)


def _validate_beginning(metadata: Json, rule: Callable[[str], list[str]]) -> Iterator[FieldCause]:
    if name := metadata.get("generateName"):
        yield from field_errors.named(name, "metadata.generateName", rule)


def validate_update(
    new: Json, old: Json, name_rule: Callable[[str], list[str]] | None = None, *, bare_finalizers: bool = False
) -> Iterator[FieldCause]:
    """Everything wrong with the metadata of an update. name_rule: for the beginning of names, where an update is asked
    for it.
    """
    yield from _validate_beginning(new, names.path_segment_prefix)
    if name_rule is not None:
        yield from _validate_beginning(new, names.prefix_of(name_rule))
    yield from (
        field_errors.immutable(f"metadata.{field}", new.get(field))
        for field in _IMMUTABLE
        if new.get(field) != old.get(field)
    )
    if old.get("deletionTimestamp"):
        added = set(new.get("finalizers") or ()).difference(old.get("finalizers") or ())
        if added:
            shown = ", ".join(f'"{finalizer}"' for finalizer in sorted(added))
            text = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{shown}}}"
            )
            yield field_errors.forbidden("metadata.finalizers", text)
    yield from _validate_common(new, bare_finalizers)


def labels(values: dict[str, str], field: str) -> Iterator[FieldCause]:
    for key, value in values.items():
        yield from field_errors.named(key, field, names.qualified_name)
        yield from field_errors.named(value, field, names.label_value)


def annotation_keys(values: dict[str, str], field: str) -> Iterator[FieldCause]:
    for key in values:
        for reason in names.qualified_name(key.lower()):
            yield field_errors.invalid(field, key, reason)
    if total_bytes(values) > ANNOTATIONS_BYTES_MAX:
        yield field_errors.too_long(field, ANNOTATIONS_BYTES_MAX)


def finalizer_name(name: str, field: str, item: str, *, bare: bool = False) -> Iterator[FieldCause]:
    """Problems of a finalizer. field, item: named by the causes about its letters and about its prefix."""
    yield from field_errors.named(name, field, names.qualified_name)
    if not bare and "/" not in name and name not in _STANDARD_FINALIZERS:
        yield field_errors.invalid(item, name, "name is neither a standard finalizer name nor is it fully qualified")


def total_bytes(values: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in values.items())


def _validate_name(metadata: Json, name_rule: Callable[[str], list[str]]) -> list[FieldCause]:
    name = metadata.get("name", "")
    if not name:
        return [field_errors.required("metadata.name", "name or generateName is required")]
    return field_errors.named(name, "metadata.name", name_rule)


def _validate_common(metadata: Json, bare_finalizers: bool) -> Iterator[FieldCause]:
    if found := metadata.get("labels"):
        yield from labels(found, "metadata.labels")
    if metadata.get("generation", 0) < 0:
        yield field_errors.invalid("metadata.generation", metadata["generation"], "must be greater than or equal to 0")
    if found := metadata.get("annotations"):
        yield from annotation_keys(found, "metadata.annotations")
    if owners := metadata.get("ownerReferences"):
        yield from _validate_owners(owners)
    if finalizers := metadata.get("finalizers"):
        yield from _validate_finalizers(finalizers, bare_finalizers)


def _validate_owners(owners: list[Json]) -> Iterator[FieldCause]:
    field = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion", "")
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            yield field_errors.invalid(f"{field}.apiVersion", version, "version must not be empty")
        missing = [part for part in ("kind", "name", "uid") if not owner.get(part)]
        yield from (
            field_errors.invalid(f"{field}.{part}", owner.get(part, ""), "must not be empty") for part in missing
        )
        if (version.removeprefix("/"), owner.get("kind")) == ("v1", "Event"):
            yield field_errors.invalid(field, owner, "/v1, Kind=Event is disallowed from being an owner")
    controllers = [f"{owner.get('kind', '')}/{owner.get('name', '')}" for owner in owners if owner.get("controller")]
    for other in controllers[1:]:
        text = (
            f'Only one reference can have Controller set to true. Found "true" in references for {controllers[0]} '
            f"and {other}"
        )
        yield field_errors.invalid(field, owners, text)


def _validate_finalizers(finalizers: list[str], bare: bool) -> Iterator[FieldCause]:
    field = "metadata.finalizers"
    for number, name in enumerate(finalizers):
        yield from finalizer_name(name, field, f"{field}[{number}]", bare=bare)
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        yield field_errors.invalid(field, finalizers, f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set")


def _keep(metadata: dict[str, Any], before: dict[str, Any], field: str) -> None:
    metadata.pop(field, None)
    if field in before:
        metadata[field] = before[field]
