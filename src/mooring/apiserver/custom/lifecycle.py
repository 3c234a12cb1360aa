"""The life of a definition: its defaults, the names it is accepted with, its conditions, its endpoints, its storage
version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.apiserver import deletion
from mooring.apiserver.codecs.scalars import equal_json
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.resource import Json
from mooring.base.clock import rfc3339

_RESOURCE_NAMES: Final = (("plural", "Plural"), ("singular", "Singular"))
_KINDS: Final = (("kind", "Kind"), ("listKind", "ListKind"))
_NO_CONFLICTS: Final = ("NoConflicts", "no conflicts found")


Taken = Callable[[str, str], bool]
"""Whether another definition of the group has the name: of a resource (plural, singular, short), or of a kind."""

RESOURCE: Final = "resource"
KIND: Final = "kind"


def names_of(definition: Json) -> Iterator[tuple[str, str]]:
    """The names that the definition has been accepted with, as `Taken` takes them."""
    names = definition["status"].get("acceptedNames") or {}
    yield from (
        (RESOURCE, name)
        for name in (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ()))
        if name
    )
    yield from ((KIND, names[part]) for part, _ in _KINDS if names.get(part))


def _accepted_names(definition: Json, is_taken: Taken) -> tuple[Json, str, str]:
    """The names that the definition may have, and the reason and message of the last conflict."""
    wanted, had = definition["spec"]["names"], definition["status"].get("acceptedNames") or {}
    got, conflicts = dict(had), [_NO_CONFLICTS]
    for part, word in _RESOURCE_NAMES:
        _accept(part, word, is_taken(RESOURCE, wanted.get(part, "")), wanted, got, conflicts)
    clashes = [name for name in wanted.get("shortNames") or () if is_taken(RESOURCE, name)]
    if clashes:
        conflicts.append(("ShortNamesConflict", _conflict_text(clashes)))
    else:
        got["shortNames"] = list(wanted.get("shortNames") or ())
    for part, word in _KINDS:
        _accept(part, word, is_taken(KIND, wanted.get(part, "")), wanted, got, conflicts)
    got["categories"] = list(wanted.get("categories") or ())
    reason, message = conflicts[-1]
    return {part: value for part, value in got.items() if value or part in ("plural", "kind")}, reason, message


def _accept(part: str, word: str, is_used: bool, wanted: Json, got: Json, conflicts: list[tuple[str, str]]) -> None:
    if is_used:
        conflicts.append((f"{word}Conflict", f'"{wanted[part]}" is already in use'))
    else:
        got[part] = wanted.get(part, "")


def _conflict_text(clashes: list[str]) -> str:
    texts = [f'"{name}" is already in use' for name in clashes]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


APPROVED: Final = "api-approved.kubernetes.io"
_TERMINATING: Final = "Terminating"


def _condition(definition: Json, kind: str) -> Json | None:
    """A condition of the definition's status; None for one that it doesn't have."""
    return next((found for found in definition["status"].get("conditions") or () if found["type"] == kind), None)


def has_condition(definition: Json, kind: str) -> bool:
    found = _condition(definition, kind)
    return found is not None and found["status"] == "True"


def status_of(definition: Json, is_taken: Taken, now: float) -> Json:
    """The status that the definition is to have."""
    got, reason, message = _accepted_names(definition, is_taken)
    free = reason == _NO_CONFLICTS[0]
    status = {**definition["status"], "acceptedNames": got}
    changed = {"status": _with_condition(status, "NamesAccepted", free, reason, message, now)}
    if free and not has_condition(changed, "Established"):
        text = "the initial names have been accepted"
        changed["status"] = _with_condition(changed["status"], "Established", True, "InitialNamesAccepted", text, now)
    elif _condition(changed, "Established") is None:
        changed["status"] = _with_condition(
            changed["status"], "Established", False, "NotAccepted", "not all names are accepted", now
        )
    approved = (definition["metadata"].get("annotations") or {}).get(APPROVED)
    if approved and is_protected(definition["spec"]["group"]):
        return _with_approval(changed["status"], approved, now)
    return changed["status"]


def _terminating(status: Json, now: float) -> Json:
    """The status of a definition whose deletion has been asked for."""
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    return _with_condition(status, _TERMINATING, True, "InstanceDeletionPending", text, now)


def emptying(status: Json, now: float) -> Json:
    """The status while objects are left."""
    return _with_condition(
        status, _TERMINATING, True, "InstanceDeletionInProgress", "CustomResource deletion is in progress", now
    )


def emptied(status: Json, now: float) -> Json:
    """The status of a definition that others hold, when no object is left."""
    return _with_condition(status, _TERMINATING, False, "InstanceDeletionCompleted", "removed all instances", now)


def is_protected(group: str) -> bool:
    """True for groups that belong to Kubernetes: their kinds need an approval."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def _with_condition(status: Json, kind: str, value: bool, reason: str, message: str, now: float) -> Json:
    """The status with that condition; the time is of the change from or to true."""
    text = "True" if value else "False"
    new = {"type": kind, "status": text, "lastTransitionTime": rfc3339(now), "reason": reason, "message": message}
    found = list(status.get("conditions") or ())
    for number, old in enumerate(found):
        if old["type"] == kind:
            if old["status"] == text:
                new["lastTransitionTime"] = old.get("lastTransitionTime") or new["lastTransitionTime"]
            found[number] = new
            return {**status, "conditions": found}
    return {**status, "conditions": [*found, new]}


def _with_approval(status: Json, approved: str, now: float) -> Json:
    kind = "KubernetesAPIApprovalPolicyConformant"
    if approved.startswith("unapproved"):
        text = f'not approved: "{approved}"'
        return _with_condition(status, kind, False, "UnapprovedAnnotation", text, now)
    return _with_condition(status, kind, True, "ApprovedAnnotation", f"approved in {approved}", now)


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
    """A definition is held until its objects are gone. The first deletion marks in a way of its own: without grace
    period and policy.
    """
    meta = obj["metadata"]
    if meta.get("deletionTimestamp"):
        meta.setdefault("deletionGracePeriodSeconds", 0)
        return deletion.plain(obj, options, now)
    meta["deletionTimestamp"] = rfc3339(now)
    finalizers = meta.setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    obj["status"] = _terminating(obj["status"], now)
    return obj


def storage_version(definition: Json) -> str:
    return next((version["name"] for version in definition["spec"]["versions"] or () if version["storage"]), "")


def _remember_storage(definition: Json) -> None:
    stored, current = list(definition["status"].get("storedVersions") or ()), storage_version(definition)
    if current and current not in stored:
        definition["status"]["storedVersions"] = [*stored, current]


_Name = tuple[str, str, str]
"""group, sort, name"""


class AcceptedNames:
    """The names that the definitions of a store have been accepted with, by group: a look-up finds who else has one."""

    def __init__(self) -> None:
        self._holders: dict[_Name, set[str]] = {}
        self._held: dict[str, frozenset[_Name]] = {}

    def put(self, definition: Json) -> None:
        """The names that the definition has now."""
        name, group = definition["metadata"]["name"], definition["spec"]["group"]
        now = frozenset((group, sort, held) for sort, held in names_of(definition))
        before = self._held.get(name, frozenset())
        for gone in before - now:
            self._release(gone, name)
        for new in now - before:
            self._holders.setdefault(new, set()).add(name)
        self._held[name] = now

    def drop(self, name: str) -> None:
        """The definition has gone."""
        for held in self._held.pop(name):
            self._release(held, name)

    def taken_from(self, definition: Json) -> Taken:
        """The names that others have."""
        own, group = {definition["metadata"]["name"]}, definition["spec"]["group"]
        return lambda sort, name: not self._holders.get((group, sort, name), own) <= own

    def _release(self, held: _Name, name: str) -> None:
        holders = self._holders[held]
        holders.discard(name)
        if not holders:
            del self._holders[held]
