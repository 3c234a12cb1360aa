"""Loads a store from its file, without rules or listeners: per kind the objects, then the log, which becomes the kind's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver.disk.rows import Damaged, Entry, Saved
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.base.log import logger

_log = logger(__name__)

_UNREADABLE: Final = (msgspec.MsgspecError, AssertionError, ValueError, KeyError, TypeError, AttributeError)
_DEFINITIONS: Final = "apiextensions.k8s.io/customresourcedefinitions"


def kind_of(resource: Resource) -> str:
    """The file's name for the place of a kind's objects. It has no version: that may change from one Mooring to the next."""
    group, _, plural = resource.storage
    return f"{group}/{plural}"


def load(store: ObjectStore, saved: Saved, serve_custom_kinds: Callable[[], None]) -> None:
    """Fills an empty store. serve_custom_kinds: called once the definitions are there. Raises Damaged for objects that can't be read."""
    objects, log = _by_kind(saved.objects), _by_kind(saved.log)
    store.begin(saved.totals.version)
    definitions = [resource for resource in store.kinds.storing() if kind_of(resource) == _DEFINITIONS]
    for resource in definitions:
        _load_objects(store, resource, objects.get(_DEFINITIONS, ()), log.get(_DEFINITIONS, ()))
    serve_custom_kinds()
    kinds = {kind_of(resource): resource for resource in store.kinds.storing()}
    for kind, resource in kinds.items():
        if kind != _DEFINITIONS:
            _load_objects(store, resource, objects.get(kind, ()), log.get(kind, ()))
    store.finish_loading(saved.version)
    left = {entry.key: entry for entry in (*saved.objects, *saved.log) if entry.kind not in kinds}
    unseen = sorted({entry.kind for entry in left.values() if entry.body is not None})
    if unseen:
        _log.warning("Objects of kinds that are not served stay in the file, unseen", kinds=", ".join(unseen))


def _load_objects(store: ObjectStore, resource: Resource, objects: Iterable[Entry], log: Iterable[Entry]) -> None:
    try:
        for entries, remembered in ((objects, False), (log, True)):
            for entry in entries:
                key = Key(entry.namespace, entry.name)
                store.load_object(resource, key, entry.version, entry.at, entry.body, remembered=remembered)
    except _UNREADABLE as error:
        raise Damaged(f"the objects of {resource.name} can't be read: {type(error).__name__}: {error}; restore a backup") from error


def _by_kind(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.kind, []).append(entry)
    return found
