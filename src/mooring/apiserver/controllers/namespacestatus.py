"""What a namespace that is being deleted tells of itself: conditions, in the words of the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from mooring.apiserver.resource import Json, Resource
from mooring.base.clock import rfc3339


class _Condition(NamedTuple):
    status: str
    reason: str
    message: str


_FINE: Final = {
    "NamespaceDeletionDiscoveryFailure": _Condition("False", "ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": _Condition("False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": _Condition(
        "False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"
    ),
    "NamespaceContentRemaining": _Condition("False", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": _Condition("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class Remains:
    """What a round has left: objects by the names of their kinds, finalizers, and what could not be deleted."""

    def __init__(self, served: Iterable[Resource]) -> None:
        self.counts: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()
        self.failures: list[str] = []
        self._names: dict[tuple[str, str, str], set[str]] = {}
        for resource in served:
            self._names.setdefault(resource.storage, set()).add(f"{resource.plural}.{resource.group}")

    def add(self, resource: Resource, finalizers: Iterable[str]) -> None:
        """An object that is still there. One that two groups show counts for both, as in the real one."""
        self.counts.update(self._names[resource.storage])
        self.finalizers.update(finalizers)


def told(obj: Json, remains: Remains, now: float) -> Json:
    """The namespace, written to, with its conditions as they are after a round.

    Differs from kube-controller-manager: pods are told of as all others are. (There they are the one kind that is not.)
    """
    found = {**_FINE, **_not_fine(remains)}
    before = {condition["type"]: condition for condition in obj["status"].get("conditions") or []}
    others = [condition for name, condition in before.items() if name not in found]
    obj["status"]["conditions"] = others + [_condition(name, one, before.get(name), now) for name, one in found.items()]
    return obj


def _not_fine(remains: Remains) -> dict[str, _Condition]:
    found = {}
    if remains.failures:
        text = f"Failed to delete all resource types, {len(remains.failures)} remaining: {'; '.join(remains.failures[:3])}"
        found["NamespaceDeletionContentFailure"] = _Condition("True", "ContentDeletionFailed", text)
    if remains.counts:
        text = ", ".join(sorted(f"{name} has {count} resource instances" for name, count in remains.counts.items()))
        found["NamespaceContentRemaining"] = _Condition("True", "SomeResourcesRemain", f"Some resources are remaining: {text}")
    if remains.finalizers:
        text = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in remains.finalizers.items()))
        text = f"Some content in the namespace has finalizers remaining: {text}"
        found["NamespaceFinalizersRemaining"] = _Condition("True", "SomeFinalizersRemain", text)
    return found


def _condition(name: str, new: _Condition, old: Json | None, now: float) -> Json:
    since = old["lastTransitionTime"] if old is not None and old["status"] == new.status else rfc3339(now)
    return {"type": name, "status": new.status, "lastTransitionTime": since, "reason": new.reason, "message": new.message}
