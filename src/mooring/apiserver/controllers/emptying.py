"""Kubernetes' namespace controller: empties a deleted namespace, then removes its finalizer.

It works in rounds. A round deletes every object of every kind in the namespace, pods first; finalizers and grace
periods keep some. When nothing is left the finalizer `kubernetes` is removed from the namespace's spec, else its
conditions list the rest. The next round follows when everything has gone, or a while after a change. Decisions need the
objects alone: a new process begins with a round for each namespace that is being deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mooring.api.meta import Key
from mooring.apiserver.controllers.owners import ObjectPlace, links_of
from mooring.apiserver.deletion import DeleteOptions, says_who_follows
from mooring.apiserver.kinds import NAMESPACES
from mooring.apiserver.portions import Portion
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules.namespace import CONTENT
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored, StoredChange
from mooring.base.clock import rfc3339
from mooring.kube.errors import ApiError


class _Condition(NamedTuple):
    status: str
    reason: str
    message: str


_FINE: Final = {
    "NamespaceDeletionDiscoveryFailure": _Condition(
        "False", "ResourcesDiscovered", "All resources successfully discovered"
    ),
    "NamespaceDeletionGroupVersionParsingFailure": _Condition(
        "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"
    ),
    "NamespaceDeletionContentFailure": _Condition(
        "False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"
    ),
    "NamespaceContentRemaining": _Condition("False", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": _Condition(
        "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"
    ),
}


class _Remains:
    """Leftovers of a round: objects by the names of their kinds, finalizers, and objects that could not be deleted."""

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


def _with_conditions(obj: Json, remains: _Remains, now: float) -> Json:
    """Writes the conditions after a round. Differs from kube-controller-manager, which does not report pods: here they
    are as others.
    """
    found = {**_FINE, **_not_fine(remains)}
    before = {condition["type"]: condition for condition in obj["status"].get("conditions") or []}
    others = [condition for name, condition in before.items() if name not in found]
    obj["status"]["conditions"] = others + [_condition(name, one, before.get(name), now) for name, one in found.items()]
    return obj


def _not_fine(remains: _Remains) -> dict[str, _Condition]:
    found = {}
    if remains.failures:
        text = (
            f"Failed to delete all resource types, {len(remains.failures)} remaining: {'; '.join(remains.failures[:3])}"
        )
        found["NamespaceDeletionContentFailure"] = _Condition("True", "ContentDeletionFailed", text)
    if remains.counts:
        text = ", ".join(sorted(f"{name} has {count} resource instances" for name, count in remains.counts.items()))
        found["NamespaceContentRemaining"] = _Condition(
            "True", "SomeResourcesRemain", f"Some resources are remaining: {text}"
        )
    if remains.finalizers:
        text = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in remains.finalizers.items()))
        text = f"Some content in the namespace has finalizers remaining: {text}"
        found["NamespaceFinalizersRemaining"] = _Condition("True", "SomeFinalizersRemain", text)
    return found


def _condition(name: str, new: _Condition, old: Json | None, now: float) -> Json:
    since = old["lastTransitionTime"] if old is not None and old["status"] == new.status else rfc3339(now)
    return {
        "type": name,
        "status": new.status,
        "lastTransitionTime": since,
        "reason": new.reason,
        "message": new.message,
    }


ROUND_S: Final = 1.0
"""Between two rounds of a namespace that doesn't get empty."""

_PODS: Final = ("", "v1", "pods")
_BACKGROUND: Final = DeleteOptions(propagation="Background")


class _Emptying:
    """One namespace's.

    steps: of this round; each gives the object that it was about. left: found and not deleted. due: of the next round;
    None while only a change can cause it.
    """

    def __init__(self) -> None:
        self.steps: Iterator[Stored | None] | None = None
        self.left: set[ObjectPlace] = set()
        self.due: float | None = 0.0
        self._ended_at = 0.0
        self._changed = False

    def is_due(self, now: float) -> bool:
        return self.steps is not None or (self.due is not None and self.due <= now)

    def begin(self, steps: Iterator[Stored | None]) -> None:
        self.steps, self.due, self._changed = steps, None, False

    def end(self, now: float, *, again: bool) -> None:
        """again: the next round follows in any case."""
        self._ended_at = now
        self._plan(again or self._changed)

    def changed(self) -> None:
        """Something in the namespace is not as it was."""
        self._changed = True
        if self.steps is None:
            self._plan(True)

    def _plan(self, again: bool) -> None:
        if not self.left:
            self.due = 0.0
        elif again and self.due is None:
            self.due = self._ended_at + ROUND_S


class Emptier:
    """Follows a store from now on; namespaces that are being deleted already come first."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._emptying: dict[str, _Emptying] = {}
        self._now = 0.0
        store.on_change(self._changed)
        for stored in store.table(store.namespaces).items() if store.namespaces is not None else ():
            self._look_at(stored)

    @property
    def due(self) -> float | None:
        """When there is work, in seconds since the epoch; None when a change must come first."""
        if not self._emptying:
            return None
        times = [0.0 if one.steps is not None else one.due for one in self._emptying.values()]
        return min((time for time in times if time is not None), default=None)

    def work(self, now: float, portion: Portion) -> None:
        """A step for each namespace in turn; who has had one is the last next time."""
        self._now = now
        while not portion.is_spent and (name := self._next(now)) is not None:
            one = self._emptying[name] = self._emptying.pop(name)
            if one.steps is None:
                one.begin(self._round(name, one))
            assert one.steps is not None, "it has begun"
            try:
                portion.spend(next(one.steps))
            except StopIteration:
                one.steps = None
                portion.spend()

    def _next(self, now: float) -> str | None:
        """The first namespace with a step to do."""
        return next((name for name, one in self._emptying.items() if one.is_due(now)), None)

    def _changed(self, resource: Resource, change: StoredChange) -> None:
        if resource.storage == NAMESPACES:
            if change.new is None:
                self._emptying.pop(change.key.name, None)
            else:
                self._look_at(change.new)
        one = self._emptying.get(change.key.namespace) if self._emptying and change.key.namespace else None
        if one is None:
            return
        if change.new is None:
            one.left.discard(ObjectPlace(resource.storage, change.key))
        one.changed()

    def _look_at(self, stored: Stored) -> None:
        name = stored.key.name
        if not (links_of(stored).is_deleting and CONTENT in (stored.whole()["spec"].get("finalizers") or [])):
            self._emptying.pop(name, None)
        elif name not in self._emptying:
            self._emptying[name] = _Emptying()

    # a round

    def _round(self, name: str, one: _Emptying) -> Iterator[Stored | None]:
        """Yields after each object."""
        kinds = [resource for resource in self._store.kinds.storing() if resource.namespaced]
        remains = _Remains(self._store.resources)
        for resource in kinds:
            if resource.storage == _PODS:
                yield from self._delete_all(resource, name, one, remains)
        for resource in kinds if not remains.counts else ():
            if resource.storage != _PODS:
                yield from self._delete_all(resource, name, one, remains)
        self._write_progress(name, remains)
        one.end(self._now, again=bool(remains.failures))

    def _delete_all(self, resource: Resource, name: str, one: _Emptying, remains: _Remains) -> Iterator[Stored | None]:
        if self._store.kinds.get(resource.path) is None:  # (it has gone while others were deleted)
            return
        table = self._store.table(resource)
        for key in [stored.key for stored in table.items(name)]:
            stored = table.get(key)
            if stored is not None:
                try:
                    self._delete(resource, stored)
                except ApiError as error:
                    remains.failures.append(str(error))
            left = table.get(key)
            if left is not None:
                one.left.add(ObjectPlace(resource.storage, key))
                remains.add(resource, links_of(left).finalizers or ())
            yield stored

    def _delete(self, resource: Resource, stored: Stored) -> None:
        links = links_of(stored)
        if not links.is_deleting or says_who_follows(links.finalizers):
            self._store.delete(resource, stored.key, self._now, _BACKGROUND)

    def _write_progress(self, name: str, remains: _Remains) -> None:
        namespaces = self._store.namespaces
        assert namespaces is not None, "a namespace that is emptied is of a kind"
        key, now = Key("", name), self._now
        if self._store.table(namespaces).get(key) is None:
            return
        self._store.patch(namespaces, key, lambda obj: _with_conditions(obj, remains, now), now, subresource="status")
        if not remains.counts and not remains.failures:
            self._store.patch(namespaces, key, _without_finalizer, now, subresource="finalize")


def _without_finalizer(obj: Json) -> Json:
    finalizers = [name for name in obj["spec"].pop("finalizers", []) if name != CONTENT]
    if finalizers:
        obj["spec"]["finalizers"] = finalizers
    return obj
