"""A cache of one kind's objects, with indexes. Pure: no clock, no I/O; changes are returned, and delivered by the
informer.

Three sources feed it, in any interleaving: lists, the watch, and the answers of our own writes. The rules that
reconcile them:

- The newer resource version wins, wherever it comes from. Versions are numbers of one counter per server (Kubernetes'
  API conventions); for texts that are no numbers the order of arrival counts.
- `version` is the point up to which lists and watch have shown everything. The answer of a write at or below it is
  ignored: the watch has shown that state and its successors, perhaps a deletion, and the object would never be removed
  again.
- A list deletes objects that it lacks, except those newer than the list: an own write that the list could not know. An
  object in the list that can't be read stays as it was.
- An object that our own write has ended, or found replaced by another of its name, leaves at once, and its uid stays as
  a tombstone, so that older events still on their way don't bring it back. A tombstone goes when the watch shows the
  deletion, or when a list that began after the write has ended.
- A list whose version lies before `version`, or before that of an own write or of a list that broke off, comes from a
  server that was set back (restored from a backup): then it alone counts. So does the next list once an answer has
  shown that (`is_of_before`).

A change never joins two objects of different uid: a reused name is one change to nothing, then one from nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from mooring.api.meta import Key, Object, key_of
from mooring.base import texts
from mooring.kube.cluster import compare_versions

__all__ = ["TOMBSTONES_MAX", "Cause", "Change", "IndexFunction", "Sight", "Store", "newest_first", "version"]

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]

TOMBSTONES_MAX: Final = 20_000
FEW: Final = 32
"""Objects under one value: with more of them they are looked up, not looked through."""


class Cause(enum.Enum):
    WATCH = "watch"
    RELIST = "relist"
    RESYNC = "resync"
    OWN_WRITE = "own write"


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One object before and after; None where there is none. For RESYNC both are the same."""

    old: T | None
    new: T | None
    cause: Cause

    @property
    def object(self) -> T:
        """The object after the change; one that is gone, before it."""
        about = self.old if self.new is None else self.new
        assert about is not None, "a change from nothing to nothing"
        return about

    @property
    def key(self) -> Key:
        return key_of(self.object)


class Sight(msgspec.Struct, frozen=True):
    """A store's knowledge of one object at a moment, as versions."""

    #: The version up to which lists and watch have shown everything.
    told: str
    #: The object's own, "" for none.
    object: str
    #: How many lists of a server that was set back there have been.
    lists_alone: int


class Store(Generic[T]):
    """indexes: name → function that gives the values under which an object is found; it must depend on the object
    alone.
    """

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[
            str, T
        ] = {}  # by the text of the key, which others have, too: a name, or a value of an index
        self._indexes = {name: Index(function) for name, function in (indexes or {}).items()}
        self._tombstones: dict[str, int] = {}  # uid → how many lists had begun when it was buried
        self._lists_begun = 0
        self.version = ""
        self._ahead = ""  # the newest version of our own writes, and of lists that may not have come to their end
        self.tombstones_lost = 0
        self._is_set_back = False  # the next list alone counts
        self._lists_alone = 0

    def index(self, indexes: Mapping[str, IndexFunction[T]]) -> None:
        """Further indexes, while the store is empty. One that is there already must be the same function."""
        for name, function in indexes.items():
            assert name in self._indexes or not self._objects, f"the index {name} comes late"
            assert name not in self._indexes or self._indexes[name].function == function, (
                f"two indexes are called {name}"
            )
            self._indexes.setdefault(name, Index(function))

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        return self._objects.get(str(key))

    def like(self, obj: T) -> T | None:
        """The object that is stored under the name of this one."""
        return self._objects.get(_place(obj))

    def values(self) -> tuple[T, ...]:
        """All objects; for anything frequent ask an index."""
        return tuple(self._objects.values())

    def places(self) -> dict[str, None]:
        """Where all objects are, the newest first; `at` gives what is there."""
        return dict.fromkeys(sorted(self._objects, key=lambda place: version(self._objects[place]), reverse=True))

    def at(self, place: str) -> T:
        return self._objects[place]

    def by(self, index: str, value: str) -> tuple[T, ...]:
        """The objects under one value of an index, in the order they came under it."""
        return tuple(self._objects[place] for place in self._indexes[index].places(value))

    def count(self, index: str, value: str) -> int:
        """How many objects there are under one value of an index."""
        return len(self._indexes[index].places(value))

    def apply(self, obj: T) -> tuple[Change[T], ...]:
        """The watch showed an object, new or changed."""
        self._advance(obj.metadata.resource_version)
        return self._put(_place(obj), obj, Cause.WATCH)

    def delete(self, obj: T) -> tuple[Change[T], ...]:
        """The watch showed the end of an object. obj carries the version of its deletion."""
        self._advance(obj.metadata.resource_version)
        self._tombstones.pop(obj.metadata.uid, None)
        return self.exclude(obj, Cause.WATCH)

    def exclude(self, obj: T, cause: Cause) -> tuple[Change[T], ...]:
        """The object in this state isn't to be kept: takes out what is stored under its name, unless that is newer."""
        old = self._objects.get(_place(obj))
        if old is None or compare_versions(obj.metadata.resource_version, old.metadata.resource_version) < 0:
            return ()
        return (self._take_out(old, cause),)

    def bookmark(self, version: str) -> None:
        """The watch has told everything up to this version."""
        self._advance(version)

    def wrote(self, obj: T) -> tuple[Change[T], ...]:
        """One of our writes was answered with this object, which is still there.

        An answer that the watch has told of already is no news. One that is newer than the object here all the same, be
        it the same or another of its name, comes from a server that was set back: whoever never sees what his own write
        met would make it again and again, until all is listed anew.
        """
        place, is_told = _place(obj), compare_versions(obj.metadata.resource_version, self.version) <= 0
        if is_told and place not in self._objects:
            return ()
        self._note_ahead(obj.metadata.resource_version)
        return self._put(place, obj, Cause.OWN_WRITE)

    def bury(self, obj: T) -> tuple[Change[T], ...]:
        """One of our writes ended this object."""
        old = self._objects.get(_place(obj))
        if old is None or old.metadata.uid != obj.metadata.uid:
            return ()  # the watch was quicker
        self._entomb(old)
        return (self._take_out(old, Cause.OWN_WRITE),)

    def known(self) -> str:
        """The newest version that the server is known to have come to, by list and watch, or by the answer to an own
        write.
        """
        return self._ahead if compare_versions(self._ahead, self.version) > 0 else self.version

    def sight(self, key: Key) -> Sight:
        """The known state of the object of this key now, while a request about it is about to be sent."""
        obj = self.get(key)
        return Sight(self.version, "" if obj is None else obj.metadata.resource_version, self._lists_alone)

    def is_of_before(self, obj: T, sight: Sight) -> bool:
        """True when the answer to a request with this object shows that the server was set back: it denies what was
        known as it was sent.

        The object has never been as old, or it changed at a time of which the watch had shown all, and not that. A
        server's answer to a write, or to a read of one object, is the object's newest state.
        """
        answered = obj.metadata.resource_version
        if not sight.object or sight.lists_alone != self._lists_alone:
            return False
        step = compare_versions(answered, sight.object)
        return step < 0 or (step > 0 and compare_versions(answered, sight.told) <= 0)

    def set_back(self) -> None:
        """The server was set back."""
        self._is_set_back = True

    def list_begins(self) -> int:
        """A list is about to be asked for (`kube/cache/relist.py`). Gives its number."""
        self._lists_begun += 1
        return self._lists_begun

    def _entomb(self, ended: T) -> None:
        """Remember an object that has ended: its events are still to come, and must not bring it back."""
        self._tombstones[ended.metadata.uid] = self._lists_begun
        if len(self._tombstones) > TOMBSTONES_MAX:
            del self._tombstones[next(iter(self._tombstones))]
            self.tombstones_lost += 1

    def _exhume(self, uid: str, number: int) -> None:
        """The list of this number shows the object: if it was asked for after our write had ended it, the server was
        set back.
        """
        if self._tombstones.get(uid, number) < number:
            del self._tombstones[uid]

    def _advance(self, version: str) -> None:
        if compare_versions(version, self.version) > 0:
            self.version = version

    def _note_ahead(self, version: str) -> None:
        if compare_versions(version, self._ahead) > 0:
            self._ahead = version

    def _put(self, place: str, obj: T, cause: Cause, *, rewound: bool = False) -> tuple[Change[T], ...]:
        if obj.metadata.uid in self._tombstones:
            return ()
        old = self._objects.get(place)
        if old is None:
            self._set(place, None, obj)
            return (Change(None, obj, cause),)
        step = compare_versions(obj.metadata.resource_version, old.metadata.resource_version)
        if step == 0 or (step < 0 and not rewound):
            return ()
        if old.metadata.uid == obj.metadata.uid:
            self._set(place, old, obj)
            return (Change(old, obj, cause),)
        if cause is Cause.OWN_WRITE:  # it met another object under the name; the end of this one is not shown yet
            self._entomb(old)
        ended = self._take_out(old, cause)
        self._set(place, None, obj)
        return ended, Change(None, obj, cause)

    def _listed(self, obj: T, *, rewound: bool) -> tuple[str, tuple[Change[T], ...]]:
        """Take in an object that a list has. Gives its place, too."""
        place = _place(obj)
        return place, self._put(place, obj, Cause.RELIST, rewound=rewound)

    def _lacked(self, obj: T) -> Change[T]:
        """Take out an object that a list has no more."""
        return self._take_out(obj, Cause.RELIST)

    def _take_out(self, old: T, cause: Cause) -> Change[T]:
        self._set(_place(old), old, None)
        return Change(old, None, cause)

    def _set(self, place: str, old: T | None, new: T | None) -> None:
        assert self._objects.get(place) is old
        if new is None:
            del self._objects[place]
        else:
            self._objects[place] = new
        for index in self._indexes.values():
            index.move(place, old, new)


def newest_first(objects: Iterable[T]) -> list[T]:
    """The objects, from the one that changed last to the one that has not changed for longest."""
    return sorted(objects, key=version, reverse=True)


def version(obj: Object) -> int:
    """The object's version as a number, larger for what changed later; 0 where that can't be told."""
    text = obj.metadata.resource_version
    return int(text) if text.isdecimal() else 0


def _place(obj: Object) -> str:
    """The object's key as text. A name has no slash, so no two keys have the same text."""
    meta = obj.metadata
    if not meta.namespace:
        return meta.name
    place = f"{meta.namespace}/{meta.name}"
    return texts.shared(place) if getattr(type(obj), "referred_to_by", ()) else place


class Index(Generic[T]):
    """Values to the places of objects in the store.

    Most values name one object: such a value holds the bare place. A few stand in a tuple: a dict takes three times as
    much.
    """

    __slots__ = ("_buckets", "function")

    def __init__(self, function: IndexFunction[T]) -> None:
        self.function = function
        self._buckets: dict[str, str | tuple[str, ...] | dict[str, None]] = {}

    def places(self, value: str) -> Collection[str]:
        bucket = self._buckets.get(value)
        if bucket is None:
            return ()
        return (bucket,) if isinstance(bucket, str) else bucket

    def move(self, place: str, old: T | None, new: T | None) -> None:
        """An object in this place has taken the place of another."""
        before = () if old is None else tuple(dict.fromkeys(self.function(old)))
        after = () if new is None else tuple(dict.fromkeys(self.function(new)))
        if before == after:
            return
        for value in before:
            if value not in after:
                self._leave(value, place)
        for value in after:
            if value not in before:
                self._enter(texts.shared(value), place)

    def _enter(self, value: str, place: str) -> None:
        bucket = self._buckets.get(value)
        if isinstance(bucket, dict):
            bucket[place] = None
        elif bucket is None:
            self._buckets[value] = place
        elif isinstance(bucket, str):
            self._buckets[value] = (bucket, place)
        else:
            found = (*bucket, place)
            self._buckets[value] = found if len(found) <= FEW else dict.fromkeys(found)

    def _leave(self, value: str, place: str) -> None:
        bucket = self._buckets[value]
        if isinstance(bucket, dict):
            del bucket[place]
        elif isinstance(bucket, tuple):
            at = bucket.index(place)
            bucket = self._buckets[value] = bucket[:at] + bucket[at + 1 :]
        else:
            assert bucket == place
            bucket = ()
        if not bucket:
            del self._buckets[value]
