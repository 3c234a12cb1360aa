"""Dependents by their owner's uid, from the store's changes. An object without owners and deletion mark is known by its
JSON's text.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver.deletion import FOREGROUND, ORPHAN
from mooring.apiserver.kinds import Path
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Stored

_OWNERS: Final = b'"ownerReferences"'
_DELETED: Final = b'"deletionTimestamp"'


class ObjectPlace(msgspec.Struct, frozen=True):
    """Where an object is. storage: the path that its kind is stored under."""

    storage: Path
    key: Key


class StoredOwner(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None

    @property
    def kind_path(self) -> tuple[str, str, str]:
        """group, version, kind"""
        group, _, version = self.api_version.rpartition("/")
        return group, version, self.kind


class OwnerLinks(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that decide over an object's end."""

    owner_references: tuple[StoredOwner, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: str | None = None

    @property
    def owners(self) -> tuple[StoredOwner, ...]:
        return self.owner_references or ()

    @property
    def is_deleting(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def waits_for_dependents(self) -> bool:
        """It is deleted in the foreground: its dependents go first."""
        return self.is_deleting and FOREGROUND in (self.finalizers or ())

    @property
    def waits_for_orphans(self) -> bool:
        """It is deleted, and its dependents are to forget it first."""
        return self.is_deleting and ORPHAN in (self.finalizers or ())


class _Linked(msgspec.Struct, frozen=True):
    metadata: OwnerLinks


NO_LINKS: Final = OwnerLinks()
_decoder: Final = msgspec.json.Decoder(_Linked)


def links_of(stored: Stored | None) -> OwnerLinks:
    """An object's links; those of nothing and of an object that has none are empty."""
    if stored is None or not (_OWNERS in stored.body or _DELETED in stored.body):
        return NO_LINKS
    return _decoder.decode(stored.body).metadata


class _Dependents:
    """The dependents of one owner. blocking_count: those that a deletion in the foreground waits for. is_gone: the
    owner was seen to go.
    """

    __slots__ = ("blocking", "blocking_count", "is_gone")

    def __init__(self) -> None:
        self.is_gone = False
        self.blocking: dict[ObjectPlace, bool] = {}
        self.blocking_count = 0


class Dependents:
    """Dependents by the uid of their owner, whether there is such an owner or not."""

    def __init__(self) -> None:
        self._by_owner: dict[str, _Dependents] = {}

    def of(self, uid: str) -> Iterable[ObjectPlace]:
        """In the order in which they came."""
        found = self._by_owner.get(uid)
        return () if found is None else found.blocking

    def any(self, uid: str) -> bool:
        return uid in self._by_owner

    def any_blocking(self, uid: str) -> bool:
        found = self._by_owner.get(uid)
        return found is not None and found.blocking_count > 0

    def owner_goes(self, uid: str) -> None:
        """Remembered while an object refers to it: its kind may go, too."""
        if uid in self._by_owner:
            self._by_owner[uid].is_gone = True

    def has_lost(self, uid: str) -> bool:
        """True when that owner was seen to go."""
        return uid in self._by_owner and self._by_owner[uid].is_gone

    def link(self, place: ObjectPlace, owners: Iterable[StoredOwner]) -> None:
        for owner in owners:
            self._drop(place, owner.uid)
            found = self._by_owner.setdefault(owner.uid, _Dependents())
            found.blocking[place] = bool(owner.block_owner_deletion)
            found.blocking_count += found.blocking[place]

    def unlink(self, place: ObjectPlace, owners: Iterable[StoredOwner]) -> None:
        for owner in owners:
            self._drop(place, owner.uid)

    def _drop(self, place: ObjectPlace, uid: str) -> None:
        found = self._by_owner.get(uid)
        if found is None:
            return
        found.blocking_count -= found.blocking.pop(place, False)
        assert found.blocking_count >= 0, "each blocking dependent is counted once"
        if not found.blocking:
            del self._by_owner[uid]


class KindIndex:
    """The kinds that are served, as references name them and as places need them. Made when it is first asked."""

    def __init__(self, served: Iterable[Resource]) -> None:
        self._served = served

    @functools.cached_property
    def _by_kind(self) -> Mapping[tuple[str, str, str], Resource]:
        return {
            (resource.group, resource.version, resource.kind): resource
            for resource in self._served
            if resource.answer is None
        }

    @functools.cached_property
    def _by_storage(self) -> Mapping[Path, Resource]:
        return {resource.storage: resource for resource in reversed(tuple(self._served)) if resource.answer is None}

    def of(self, owner: StoredOwner) -> Resource | None:
        """The kind that a reference names; None when it isn't served, or not in this version."""
        return self._by_kind.get(owner.kind_path)

    def at(self, storage: Path) -> Resource | None:
        """A kind that shows the objects stored there, the preferred one of several."""
        return self._by_storage.get(storage)
