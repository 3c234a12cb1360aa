"""The end of a run, so that two runs of one script can be compared: all objects and the storage, without what differs
from run to run.

Uids stand in names, handles and references; each becomes the name of its object. Versions, times and numbers of handles
go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import StoredChange

Ends = dict[str, str]
"""By an object's kind and name, or a part of the storage, what it says."""

STORAGE: Final = "storage"
_LEFT_OUT: Final = ("events", "leases", "namespaces", "customresourcedefinitions", "apiservices")
_META: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_MARKS: Final = (
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
    "mooring.dev/touched-at-version",
    "mooring.dev/fenced-version",
    "mooring.dev/force-detach-since",
    "mooring.dev/volumes-in-use-over",
)
"""Annotations that say nothing any more: of a content that was kept, whoever binds it again takes the first one off;
the others name the version that was overwritten after an answer had been lost, or a time.
"""
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_PROCESS: Final = re.compile(r"\d{13}-\d+-")
_NUMBER: Final = re.compile(r"(?<=[^/\"\s])/\d+(?=[/\"])")


class Uids:
    """Of every object that there ever was, its kind and name."""

    def __init__(self, store: ObjectStore) -> None:
        self._names: dict[str, str] = {}
        store.on_change(self._learn)

    def _learn(self, resource: Resource, change: StoredChange) -> None:
        if change.new is not None:
            self._names.setdefault(change.new.uid, f"<uid of {resource.plural} {change.key.name}>")

    def replaced(self, text: str) -> str:
        """Names have uids in them, too: so again, until there is none that is known."""
        for _ in range(4):
            text = _UID.sub(lambda found: self._names.get(found.group(), found.group()), text)
        return text


def ends_of(store: ObjectStore, uids: Uids, storage: dict[str, Any]) -> Ends:
    """storage: its parts by name, as JSON values."""
    told = [*_objects(store), *((f"{STORAGE} {name}", _text(part)) for name, part in storage.items())]
    return {_told(uids, name): _told(uids, text) for name, text in told}


def difference(expected: Ends, found: Ends) -> str:
    """The first object or part that differs, and all that differs in it; "" for none."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found or name not in expected:
            return f"{name} is {'missing' if name in expected else 'there'}, undisturbed it is not"
        if expected[name] != found[name]:
            before, after = dict(_leaves("", json.loads(expected[name]))), dict(_leaves("", json.loads(found[name])))
            paths = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
            return f"{name}: " + "; ".join(
                f"{path} is {after.get(path)}, undisturbed {before.get(path)}" for path in paths
            )
    return ""


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every value that has no parts, by its path."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}".lstrip("."), inner)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(f"{path}[{number}]", inner)
    else:
        yield path, json.dumps(value)


def _objects(store: ObjectStore) -> Iterator[tuple[str, str]]:
    for resource in store.resources:
        if resource.plural not in _LEFT_OUT:
            for stored in store.table(resource).items():
                obj = _without_versions(stored.whole())
                obj["metadata"] = meta = {name: value for name, value in obj["metadata"].items() if name not in _META}
                meta["annotations"] = {
                    name: text for name, text in (meta.get("annotations") or {}).items() if name not in _MARKS
                }
                if "finalizers" in meta:  # a write that comes late may add one a second time: laws judge where none may
                    meta["finalizers"] = sorted(set(meta["finalizers"]))
                yield f"{resource.plural} {stored.key.namespace}/{stored.key.name}", _text(obj)


def _without_versions(value: Any) -> Any:
    """References may name a version of what they mean."""
    if isinstance(value, dict):
        return {name: _without_versions(inner) for name, inner in value.items() if name != "resourceVersion"}
    return [_without_versions(inner) for inner in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _told(uids: Uids, text: str) -> str:
    return _NUMBER.sub("/#", _PROCESS.sub("<process>-", _TIME.sub("<time>", uids.replaced(text))))
