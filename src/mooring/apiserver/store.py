"""The API server's heart: objects and their rules, without I/O, without a clock, without waiting.

One counter of versions for everything. Every write goes through the same steps in the same order:

    create   place -> namespace -> admission -> defaults -> server's fields -> validation -> name taken? -> write
    update   read old -> (patch) -> place -> uid and version -> defaults -> endpoint's reset -> validation -> admission
             -> last finalizer? -> write
    delete   read old -> preconditions -> held by finalizers? -> mark or remove

A write that changes nothing is none: same version, no event. Refusals are the `ApiError`s that clients of the real
server see. Listeners that register are called synchronously, in order, after the state has changed. Code that wants to
write in answer to a change registers a follower, which is called after all listeners.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver import api_errors, field_errors, metadata, write_pipeline
from mooring.apiserver.aside import Overtaken, in_loop
from mooring.apiserver.deletion import PLAIN_DELETE, DeleteOptions, in_force
from mooring.apiserver.kinds import Tables, stored_as
from mooring.apiserver.listing import (
    PLAIN_LIST,
    ListOptions,
    ListScope,
    Moment,
    moment_of,
    page_of,
    parse_version,
    prefiltered,
    token_after,
)
from mooring.apiserver.portions import PortionWorker
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.server_side_apply import managed
from mooring.apiserver.server_side_apply.managed import SERVER, Writer, record_after, record_at_creation
from mooring.apiserver.shallow import shallow
from mooring.apiserver.table import DEFAULT_LIMITS, Deleted, HistoryLimits, Listing, Stored, StoredChange, Written
from mooring.base.randomness import Random

Listener = Callable[[Resource, StoredChange], None]
Follower = Callable[[Resource, StoredChange], None]
Preparer = Callable[[Resource, Json], None]

TRIM_S: Final = 1.0
"""The shortest time between two looks for history that is too old."""
_SWEPT_MAX: Final = 500
"""Objects that go in one turn: some ten milliseconds."""


class ObjectStore(Tables):
    """All objects of a server. `now` in every method: seconds since the epoch."""

    def __init__(
        self, resources: Iterable[Resource], randomness: Random, limits: HistoryLimits = DEFAULT_LIMITS
    ) -> None:
        super().__init__(resources, limits)
        self.follows_owners = False
        """Somebody looks after dependents; without, a deletion's propagation policy means nothing."""
        self.workers: Final[list[PortionWorker]] = []
        """The parts with work after a write's turn; the housekeeping runs them."""
        self._randomness = randomness
        self._listeners: list[Listener] = []
        self._followers: list[Follower] = []
        self._preparers: list[Preparer] = []
        self._trimmed_at = -math.inf

    def on_change(self, listener: Listener) -> None:
        """Calls listener for every change from now on."""
        self._listeners.append(listener)

    def follow(self, follower: Follower) -> None:
        """Calls follower for every change from now on, after all listeners. It may write."""
        self._followers.append(follower)

    def before_writes(self, preparer: Preparer) -> None:
        """Calls preparer with each object that is about to be written, where the writer is: aside for what is long. It
        may not write.
        """
        self._preparers.append(preparer)

    # reading

    def get(self, resource: Resource, key: Key) -> Stored:
        """Raises NotFound."""
        return self._found(resource, key).shown_by(resource)

    def check_reached(self, version: str) -> None:
        """Raises ServerError (504) for a resource version that lies ahead, BadRequest for what is none."""
        wanted = parse_version(version) or 0
        if wanted > self.version:
            raise api_errors.too_new(wanted, self.version)

    def list(self, resource: Resource, scope: ListScope, options: ListOptions = PLAIN_LIST) -> Listing:
        """Raises what `moment_of` raises."""
        moment, version, found = in_loop(lambda: self._at(resource, scope, options))
        page, left = page_of(prefiltered(resource, scope, moment, found), scope, moment.limit)
        shown = page if resource.storage_version is None else tuple(stored.shown_by(resource) for stored in page)
        if not left:
            return Listing(shown, version)
        token = token_after(page[-1].key, version, namespaced=resource.namespaced)
        return Listing(shown, version, token, None if scope.selects else left)

    def _at(self, resource: Resource, scope: ListScope, options: ListOptions) -> tuple[Moment, int, tuple[Stored, ...]]:
        table = self.table(resource)
        moment = moment_of(
            options, self.version, table.history.floor, namespaced=resource.namespaced, cached=resource.cached
        )
        version = self.version if moment.rv is None else moment.rv
        return moment, version, tuple(table.items_at(version, scope.namespace, moment.after))

    # writing

    def create(
        self, resource: Resource, body: Json, namespace: str, now: float, *, dry_run: bool = False, by: Writer = SERVER
    ) -> Written:
        """body: a decoded object of the kind; it is written to. Raises AlreadyExists, Invalid, NotFound and Forbidden
        for the namespace.
        """
        body = resource.encoded(body)
        meta = body["metadata"]
        write_pipeline.check_namespace(resource, meta, namespace)
        space = self._space(resource, meta.get("namespace", ""))
        write_pipeline.check_space(resource, meta, space)
        record = record_at_creation(resource, body, by, now)
        resource.admit(body, self._view)
        resource.default(body)
        warnings = write_pipeline.normalise(body)
        version_given = write_pipeline.has_version(meta)
        metadata.stamp_new(body, self._randomness.uid(), now)
        metadata.put_record(body, record)
        namespace, table = meta.get("namespace", ""), self.table(resource)
        write_pipeline.generate_name(meta, self._randomness, lambda name: table.get(Key(namespace, name)) is not None)
        resource.prepare_create(body, now)
        wrong = write_pipeline.wrong_metadata(resource, body)
        wrong += resource.validate(body)
        wrong += resource.validate_create(body)
        if wrong:
            raise field_errors.invalid_object(body["kind"], resource.storage[0], meta.get("name", ""), wrong)
        warnings += write_pipeline.kind_warnings(resource, body)
        resource.admit_valid(body)
        if version_given:
            raise api_errors.bad_request("resourceVersion should not be set on objects to be created")
        holder = table.get(Key(namespace, meta["name"]))
        if holder is not None:
            raise write_pipeline.name_taken(resource, meta, holder)
        stored = (
            stored_as(resource, body) if dry_run else self._commit(resource, None, body, now, bounded=True, space=space)
        )
        return Written(stored.shown_by(resource), created=True, warnings=warnings)

    def update(
        self,
        resource: Resource,
        key: Key,
        body: Json,
        now: float,
        *,
        subresource: str = "",
        dry_run: bool = False,
        by: Writer = SERVER,
    ) -> Written:
        """PUT. body: a decoded object; it is written to. Raises NotFound, Conflict, Invalid."""
        write_pipeline.check_name(body["metadata"], key.name)
        write_pipeline.check_namespace(resource, body["metadata"], key.namespace)
        old = self.table(resource).get(key)
        uid = body["metadata"].get("uid", "")
        if old is None and (subresource or not resource.put_creates):
            raise api_errors.not_found(resource, key.name)
        if uid and uid != (old.uid if old else ""):
            found = old.uid if old else ""
            raise api_errors.conflict(
                resource, key.name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
            )
        if old is None:
            body["metadata"].pop("resourceVersion", None)
            return self.create(resource, body, key.namespace, now, dry_run=dry_run, by=by)
        return self._rewrite(resource, old, body, now, subresource, dry_run, by)

    def patch(
        self,
        resource: Resource,
        key: Key,
        change: Callable[[Json], Json],
        now: float,
        *,
        subresource: str = "",
        dry_run: bool = False,
        by: Writer = SERVER,
    ) -> Written:
        """change: from the stored object, or {} where an apply may create it. Raises what it raises, NotFound,
        Conflict, Invalid.
        """
        creates = by.applies and not subresource and self.table(resource).get(key) is None
        old = None if creates else self._found(resource, key)
        new = change({} if old is None else old.shown_by(resource).whole())
        write_pipeline.check_name(new["metadata"], key.name)
        write_pipeline.check_namespace(resource, new["metadata"], key.namespace)
        if old is None:
            write_pipeline.forget_version(resource, new["metadata"])
            return self.create(resource, new, key.namespace, now, dry_run=dry_run, by=by)
        return self._rewrite(resource, old, new, now, subresource, dry_run, by)

    def delete(self, resource: Resource, key: Key, now: float, options: DeleteOptions = PLAIN_DELETE) -> Deleted:
        """Raises NotFound; Conflict for a precondition that fails."""
        old = self._found(resource, key)
        if key.name in resource.undeletable:
            raise api_errors.forbidden(resource, key.name, f"this {resource.singular} may not be deleted")
        write_pipeline.check_preconditions(resource, old, options)
        before = old.whole()
        policy = in_force(options, before["metadata"], follows=self.follows_owners, orphans=bool(resource.orphans))
        left = resource.delete(old.whole(), policy, now)
        if left is None:
            if not options.dry_run:
                old = self._remove(resource, old, now)
            return Deleted(old.shown_by(resource), gone=True)
        if left == before:
            return Deleted(old.shown_by(resource), gone=False)
        stored = stored_as(resource, left) if options.dry_run else self._commit(resource, old, left, now)
        gone = resource.graceful and write_pipeline.is_finished(resource, left)
        if gone and not options.dry_run:
            stored = self._remove(resource, stored, now)
        return Deleted(stored.shown_by(resource), gone=gone)

    def amend(
        self, resource: Resource, key: Key, change: Callable[[Json], None], now: float, *, dry_run: bool = False
    ) -> None:
        """A change by the server itself, which knows no rules. change: writes to the object, or raises. Raises
        NotFound.
        """
        old = self._found(resource, key)
        obj = old.whole()
        change(obj)
        if not dry_run and obj != old.whole():
            self._commit(resource, old, obj, now)

    def amend_shallow(self, resource: Resource, key: Key, change: Callable[[Json], None], now: float) -> None:
        """As `amend`, of an object that may be large: change gets it as `shallow` has it. It goes where nothing holds
        it any more.
        """
        assert not resource.field_names, "what is not decoded can't be selected by"
        old = self._found(resource, key)
        obj = shallow(old.body)
        change(obj)
        if write_pipeline.is_finished(resource, obj):
            self._remove(resource, old, now)
        elif msgspec.json.encode(obj) != old.body:
            self._commit(resource, old, obj, now)

    def new_id(self) -> str:
        return self._randomness.uid()

    def sweep(self, now: float) -> bool:
        """Removes what has outlived its kind's time, and forgets old history. False when there is more to remove, in
        another turn.
        """
        if self._expiring and self._expiring[0][0] > now:
            # The clock was ahead when this one was written: it counts as written now, and goes behind earlier ones.
            ordered = sorted(self._expiring, key=lambda written: written[0])
            self._expiring = deque((min(at, now), kind, key, rv) for at, kind, key, rv in ordered)
        for _ in range(_SWEPT_MAX):
            if not self._has_expired(now):
                break
            _, resource, key, rv = self._expiring.popleft()
            stored = self.table(resource).get(key)
            if stored is not None and stored.rv == rv:
                self._remove(resource, stored, now)
        if abs(now - self._trimmed_at) >= TRIM_S:
            self._trimmed_at = now
            for table in self._tables.values():
                table.history.trim(now)
        return not self._has_expired(now)

    def _has_expired(self, now: float) -> bool:
        if not self._expiring:
            return False
        at, resource, *_ = self._expiring[0]
        assert resource.ttl_s is not None
        return at + resource.ttl_s <= now

    # the steps

    def _rewrite(
        self, resource: Resource, old: Stored, new: Json, now: float, subresource: str, dry_run: bool, by: Writer
    ) -> Written:
        """new: as the kind shows it."""
        before = raw = old.whole()
        if resource.storage_version is not None:
            new = resource.encoded(new, old.whole())
            before = resource.encoded(old.shown_by(resource).whole(), old.whole())
        self._space(resource, old.key.namespace)
        meta = new["metadata"]
        write_pipeline.check_version(resource, old, meta)
        meta["resourceVersion"] = str(old.rv)
        resource.default(new)
        warnings = write_pipeline.normalise(new)
        record = record_after(resource, before, new, by, now, subresource)
        metadata.carry_over(new, before)
        metadata.put_record(new, record)
        write_pipeline.reset_readonly(resource, new, before, now, subresource)
        meta = new["metadata"]
        wrong = write_pipeline.wrong_metadata(resource, new, before, subresource)
        wrong += write_pipeline.wrong_in(resource, new, before, subresource)
        if wrong:
            raise field_errors.invalid_object(new["kind"], resource.storage[0], old.key.name, wrong)
        warnings += write_pipeline.kind_warnings(resource, new, before, subresource)
        if not subresource:
            resource.admit_update(new, before, self._view)
        if write_pipeline.is_finished(resource, new):
            if not dry_run:
                self._remove(resource, old, now)
            return Written(stored_as(resource, new).shown_by(resource), gone=True, warnings=warnings)
        if managed.same_but_for_times(new, raw):
            return Written(old.shown_by(resource), warnings=warnings)
        stored = stored_as(resource, new) if dry_run else self._commit(resource, old, new, now, bounded=True)
        return Written(stored.shown_by(resource), warnings=warnings)

    def _found(self, resource: Resource, key: Key) -> Stored:
        """The object as it is stored."""
        stored = self.table(resource).get(key)
        if stored is None:
            raise api_errors.not_found(resource, key.name)
        return stored

    def _space(self, resource: Resource, name: str) -> Stored | None:
        """The namespace of a kind that has one. Raises NotFound: nothing is written outside of namespaces."""
        namespaces = self.namespaces
        return self._found(namespaces, Key("", name)) if resource.namespaced and namespaces is not None else None

    def _commit(
        self,
        resource: Resource,
        old: Stored | None,
        obj: Json,
        now: float,
        *,
        bounded: bool = False,
        space: Stored | None = None,
    ) -> Stored:
        """space: the namespace of what is made. Raises Overtaken in a thread beside the loop."""
        meta = obj["metadata"]
        for preparer in self._preparers:
            preparer(resource, obj)

        def commit() -> Stored:
            self._check_current(resource, Key(meta.get("namespace", ""), meta["name"]), old, space)
            meta["resourceVersion"] = str(self.version + 1)
            new = stored_as(resource, obj)
            if bounded:
                write_pipeline.check_size(resource, new)  # (what the server writes by itself must not fail)
            self._apply(resource, StoredChange(self.version + 1, old, new, now))
            if resource.ttl_s is not None:
                self._expiring.append((now, resource, new.key, new.rv))
            return new

        return in_loop(commit)

    def _remove(self, resource: Resource, old: Stored, now: float) -> Stored:
        def remove() -> Stored:
            self._check_current(resource, old.key, old)
            change = StoredChange(self.version + 1, old, None, now)
            self._apply(resource, change)
            return change.gone

        return in_loop(remove)

    def _check_current(self, resource: Resource, key: Key, old: Stored | None, space: Stored | None = None) -> None:
        """Raises Overtaken where another write came between what was read and its own: in a thread it may, in the loop
        it can't.
        """
        if self.table(resource).get(key) is not old or (
            space is not None and self._space(resource, space.key.name) is not space
        ):
            raise Overtaken

    def _apply(self, resource: Resource, change: StoredChange) -> None:
        assert change.rv == self.version + 1, "versions grow one by one"
        self._remember(resource, change)
        self.version = change.rv
        for listener in self._listeners:
            listener(resource, change)
        for follower in self._followers:
            follower(resource, change)
