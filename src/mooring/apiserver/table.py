"""One kind's objects in order, with their recent history, so that any recent version can be listed and watched from.

A stored object is its JSON bytes, encoded once; writers decode a fresh dict. A change is kept with the object before
and after it: a list at an older resource version is the current list with the later changes undone.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver.resource import Json, Resource, StorageVersion
from mooring.apiserver.shallow import shallow
from mooring.kube.cluster import EventType

_encode = msgspec.json.encode
_decode = msgspec.json.decode


_SHOWN_MAX = 4


class Stored:
    """An object as stored. fields: what field selectors see, metadata.* included. body: its JSON, if it is known
    already.
    """

    __slots__ = ("_shown", "body", "fields", "key", "labels", "rv", "uid")

    def __init__(self, obj: Mapping[str, Any], fields: Mapping[str, str], body: bytes | None = None) -> None:
        metadata = obj["metadata"]
        self.key = Key(metadata.get("namespace", ""), metadata["name"])
        self.rv = int(metadata.get("resourceVersion") or 0)
        self.uid: str = metadata["uid"]
        self.labels: Mapping[str, str] = dict(metadata.get("labels") or {})
        self.fields = fields
        self.body = _encode(obj) if body is None else body
        self._shown: tuple[tuple[StorageVersion, Stored | None], ...] = ()

    def shown_by(self, resource: Resource) -> Stored:
        """The object as the kind shows it. Made once for each storage version, the latest few of them."""
        storage_version = resource.storage_version
        if storage_version is None:
            return self
        for known, stored in self._shown:
            if known is storage_version:
                return stored or self
        obj = self.whole()
        shown = storage_version.decode(obj)
        made = Stored(shown, self.fields)
        same = made.body == self.body  # (the usual case: then nothing is kept twice)
        self._shown = ((storage_version, None if same else made), *self._shown[: _SHOWN_MAX - 1])
        return self if same else made

    def whole(self) -> dict[str, Any]:
        obj: dict[str, Any] = _decode(self.body)
        return obj

    def at_version(self, rv: int) -> Stored:
        """The same content under another resource version: what DELETED carries."""
        obj = shallow(self.body)
        obj["metadata"]["resourceVersion"] = str(rv)
        return Stored(obj, self.fields)


class StoredChange:
    """One step of one object. old: None when it was created; new: None when it was removed; at: seconds since the
    epoch.
    """

    __slots__ = ("_gone", "at", "new", "old", "rv")

    def __init__(self, rv: int, old: Stored | None, new: Stored | None, at: float) -> None:
        assert old is not None or new is not None
        self.rv, self.old, self.new, self.at = rv, old, new, at
        self._gone: Stored | None = None

    @property
    def key(self) -> Key:
        stored = self.new or self.old
        assert stored is not None
        return stored.key

    @property
    def gone(self) -> Stored:
        """The content before the change, under the change's version. Encoded once."""
        assert self.old is not None
        if self._gone is None:
            self._gone = self.old.at_version(self.rv)
        return self._gone

    def seen_by(self, matches: Callable[[Stored], bool]) -> tuple[EventType, Stored] | None:
        """The event for a watcher who selects by `matches`, None for none. Leaving the selection is DELETED, entering
        it ADDED.
        """
        was = self.old is not None and matches(self.old)
        if self.new is not None and matches(self.new):
            return (EventType.MODIFIED if was else EventType.ADDED), self.new
        return (EventType.DELETED, self.gone) if was else None


class HistoryLimits(msgspec.Struct, frozen=True):
    """How much a kind remembers. A change is forgotten by count, by bytes or by age, whichever comes first."""

    changes_max: int = 16_384
    bytes_max: int = 64 * 1024 * 1024
    age_s_max: float = 900.0
    #: For all kinds together. Beyond it the kinds that take most forget.
    sum_bytes_max: int = 128 * 1024 * 1024


DEFAULT_LIMITS = HistoryLimits()

_CUT_AT: Final = 512
"""Forgotten changes that still take memory: so many at the most, and no more than this part of all."""
_CUT_PART: Final = 16


class History:
    """A kind's recent changes. floor: the oldest version to watch from; changes up to it may be forgotten. bytes_count:
    what forgetting them all would set free, roughly.
    """

    def __init__(self, limits: HistoryLimits, floor: int = 0) -> None:
        self.floor = floor
        self._limits = limits
        self._changes: list[StoredChange] = []
        self._first = 0  # (index of the oldest that counts: the list's head is cut in bulk)
        self.bytes_count = 0

    def __len__(self) -> int:
        return len(self._changes) - self._first

    def add(self, change: StoredChange) -> None:
        assert not self._changes or self._changes[-1].rv < change.rv
        self._changes.append(change)
        self.bytes_count += _weight(change)
        self.trim(change.at)

    def trim(self, now: float) -> None:
        """Drops what is over the limits."""
        limits, changes = self._limits, self._changes
        while count := len(changes) - self._first:
            oldest = changes[self._first]
            if (
                count <= limits.changes_max
                and self.bytes_count <= limits.bytes_max
                and oldest.at >= now - limits.age_s_max
            ):
                break
            self._forget_oldest()

    def shrink(self, bytes_max: int) -> None:
        """Drop the oldest changes until the others fit."""
        while self.bytes_count > bytes_max:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._changes[self._first]
        self.floor = oldest.rv
        self.bytes_count -= _weight(oldest)
        self._first += 1
        if self._first >= min(_CUT_AT, len(self._changes) // _CUT_PART + 1):  # (few may be large)
            del self._changes[: self._first]
            self._first = 0

    def after(self, rv: int, count_max: int | None = None) -> list[StoredChange]:
        """Changes later than rv, oldest first. rv: >= floor."""
        assert rv >= self.floor, "the caller checks the floor: a gap must never go unseen"
        start = bisect.bisect_right(self._changes, rv, lo=self._first, key=_version)
        return self._changes[start : None if count_max is None else start + count_max]

    def newest_first(self) -> Iterator[StoredChange]:
        for index in range(len(self._changes) - 1, self._first - 1, -1):
            yield self._changes[index]


class Table:
    """A kind's objects by key, ordered by namespace and name. bytes_count: of all of them together, as JSON."""

    def __init__(self, limits: HistoryLimits, floor: int = 0) -> None:
        """floor: of the history, where objects may have come and gone before."""
        self.history = History(limits, floor)
        self._objects: dict[Key, Stored] = {}
        self._order: list[Key] = []
        self.bytes_count = 0

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> Stored | None:
        return self._objects.get(key)

    def apply(self, change: StoredChange) -> None:
        """Takes the change in and remembers it."""
        key = change.key
        assert self._objects.get(key) is change.old, "a change starts from what is stored"
        if change.new is None:
            del self._objects[key]
            del self._order[bisect.bisect_left(self._order, key)]
        else:
            if change.old is None:
                bisect.insort(self._order, key)
            self._objects[key] = change.new
        self.bytes_count += _size(change.new) - _size(change.old)
        self.history.add(change)

    def place(self, stored: Stored) -> None:
        """Puts an object there that has no history."""
        assert stored.key not in self._objects
        self._objects[stored.key] = stored
        self.bytes_count += _size(stored)
        bisect.insort(self._order, stored.key)

    def items(self, namespace: str | None = None, after: Key | None = None) -> Iterable[Stored]:
        """Objects in order, of one namespace or all, after a key. One that goes before its turn is left out: a thread
        may be reading.
        """
        return filter(None, map(self._objects.get, _between(self._order, namespace, after)))

    def items_at(self, rv: int, namespace: str | None = None, after: Key | None = None) -> Iterable[Stored]:
        """The same as they were at an older version. rv: >= history.floor."""
        assert rv >= self.history.floor
        then: dict[Key, Stored | None] = {}
        for change in self.history.newest_first():
            if change.rv <= rv:
                break
            then[change.key] = change.old
        if not then:
            return self.items(namespace, after)
        order = self._order.copy()
        for key in then.keys() - self._objects.keys():
            bisect.insort(order, key)
        found = (then[key] if key in then else self._objects.get(key) for key in _between(order, namespace, after))
        return (stored for stored in found if stored is not None)


def _between(order: list[Key], namespace: str | None, after: Key | None) -> list[Key]:
    low, high = 0, len(order)
    if namespace is not None:
        low = bisect.bisect_left(order, Key(namespace, ""))
        high = bisect.bisect_left(order, Key(namespace + "\0", ""))
    if after is not None:
        low = max(low, bisect.bisect_right(order, after))
    return order[low:high]


def _version(change: StoredChange) -> int:
    return change.rv


def _weight(change: StoredChange) -> int:
    """Bytes that forgetting the change sets free, roughly: the content before it."""
    return _size(change.old)


def _size(stored: Stored | None) -> int:
    return 0 if stored is None else len(stored.body)


class StoreView:
    """A `resource.View` on the tables of a store. A kind that is not served has no objects."""

    def __init__(self, tables: Mapping[tuple[str, str, str], Table]) -> None:
        self._tables = tables

    def get(self, path: tuple[str, str, str], name: str, namespace: str = "") -> Json | None:
        table = self._tables.get(path)
        stored = table.get(Key(namespace, name)) if table is not None else None
        return None if stored is None else stored.whole()

    def all(self, path: tuple[str, str, str], namespace: str | None = None, word: bytes = b"") -> Iterator[Json]:
        table = self._tables.get(path)
        if table is None:
            return
        for stored in table.items(namespace):
            if word in stored.body:
                yield stored.whole()


class Listing(msgspec.Struct, frozen=True):
    """A list or a page of it. remaining: None where it is not known."""

    items: tuple[Stored, ...]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    @property
    def meta(self) -> dict[str, Any]:
        """The list's metadata."""
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.continue_token:
            meta["continue"] = self.continue_token
            if self.remaining is not None:
                meta["remainingItemCount"] = self.remaining
        return meta


class Written(msgspec.Struct, frozen=True):
    """The result of a create, update or patch. gone: the last finalizer went, and the object with it."""

    stored: Stored
    created: bool = False
    gone: bool = False
    warnings: tuple[str, ...] = ()


class Deleted(msgspec.Struct, frozen=True):
    """gone: False when finalizers hold the object, which is then marked."""

    stored: Stored
    gone: bool
