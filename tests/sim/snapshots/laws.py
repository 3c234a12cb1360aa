"""What must hold at every step of a life of snapshots, judged on the truth.

| law             | broken when                                                                                            |
|-----------------|--------------------------------------------------------------------------------------------------------|
| create-unmarked | a snapshot is created, and its content carries neither the mark of a creation nor a handle: a crash     |
|                 | leaks it                                                                                               |
| made-again      | a snapshot is made that was made, and deleted, before; but for one whose handle can't be saved: the     |
|                 | driver is asked for it until it is deleted                                                             |
| deleted-wanted  | a snapshot is deleted whose VolumeSnapshot nobody has deleted                                          |
| deleted-strange | a snapshot is deleted that the driver has named as one of another volume                                |
| deleted-kept    | a snapshot is deleted that the policy of its content keeps, as the snapshotter has been shown           |
| claim-let-go    | a claim is let go while a snapshot of its volume may be in the making                                   |
| ready-lies      | an object says ready of a snapshot that is not                                                         |
| handle-changed  | a content gets another handle than it had                                                              |
| bound-twice     | a content, or a snapshot, is bound to another than before                                              |
| left-behind     | a content goes by itself, and the snapshot that was to go with it is still there                        |
| foreign-touched | a program changes what belongs to others                                                               |
| overlap         | two calls of one process are in flight for one snapshot                                                |
| hot-loop        | one thing is done too often                                                                            |
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Change
from mooring.base.clock import Instant
from mooring.controllers.snapshotting import names
from tests.sim.laws import PER_SECOND_MAX, WRITING
from tests.sim.snapshots.backend import SnapshotBackend
from tests.sim.snapshots.habits import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP
from tests.sim.snapshots.objects import (
    CLAIMS,
    CONTENTS,
    GROUP_CONTENTS,
    SNAPSHOTS,
    Json,
    being_made,
    foreign,
    group_handles_of,
    handles_of,
    handles_of_group,
    is_given_up,
    is_going,
    is_imported_without_secret,
    is_member,
    ref_of,
    uid_of,
)
from tests.sim.snapshots.plan import CONTROLLER, Plan
from tests.sim.snapshots.tables import Tables
from tests.sim.snapshots.telling import Telling

KEPT_S: Final = 10.0
"""How long after a change of its policy a deletion that was decided before may still be on its way: a Secret and a call, both slow."""


class Laws:
    """tables: the objects as they are stored. telling: who has been told what. lines: by the name of the process, what it has been shown.

    kept: handles of snapshots whose content went while its policy kept them, or by force. torn: names of contents that went by force.
    loose: handles that these had named, or unbound ones: another content may have left its snapshot to them.
    torn_snapshots: uids of snapshots that went by force. restored: uids that contents had before an administrator gave them away, or were
    given from a backup. ended_by_import: names that
    were made anew, rightly: an import of the snapshot had deleted it. unsaved: names of contents whose status the API server has refused.
    again: names of contents that were made once more. left: names of contents that were written late, when their process was dead.
    retained: names of contents, and since when their policy keeps their snapshot. now: the virtual time.
    """

    def __init__(self, plan: Plan, backend: SnapshotBackend, now: Callable[[], Instant], fail: Callable[[str, str], None]) -> None:
        self._plan, self._backend, self._now, self._fail = plan, backend, now, fail
        self.tables, self.telling = Tables(), Telling(now, plan.habits.obstacle_s)
        self.lines: dict[str, Any] = {}
        self.kept: set[str] = set()
        self.torn: set[str] = set()
        self.loose: set[str] = set()
        self.torn_snapshots: set[str] = set()
        self.restored: set[str] = set()
        self.ended_by_import: set[str] = set()
        self.unsaved: set[str] = set()
        self.again: set[str] = set()
        self.left: set[str] = set()
        self._gone: set[str] = set()
        self.retained: dict[str, Instant] = {}
        self.was_retained: set[str] = set()
        self._in_flight: set[tuple[str, str]] = set()
        self._recent: dict[tuple[str, str], deque[float]] = defaultdict(deque)
        self.counts: Counter[str] = Counter()

    def written_late(self, who: str, name: str) -> None:
        if not self.lines[who].mortal.alive:
            self.left.add(name)

    @property
    def torn_uids(self) -> set[str]:
        """The uids at the ends of the names of contents that went by force."""
        return {name.partition("-")[2] for name in self.torn}

    @property
    def is_single(self) -> bool:
        """True where no two processes of a program are at work at once: two can undo each other's work."""
        return self._plan.controllers == self._plan.snapshotters == 1

    def done(self, process: object, what: str, at_s: float) -> None:
        recent = self._recent[str(process), what]
        recent.append(at_s)
        while recent[0] < at_s - 1.0:
            recent.popleft()
        users = 8 if what.startswith("get ") else 1
        if len(recent) > PER_SECOND_MAX * users and "events" not in what and not what.startswith("list"):
            self._fail("hot-loop", f"{what}: {len(recent)} times in a second")

    # -- calls

    def call_begins(self, who: str, verb: str, name: str) -> None:
        self.counts["calls"] += 1
        if (who, name) in self._in_flight:
            self._fail("overlap", f"two calls of {who} for {name} are in flight")
        self._in_flight.add((who, name))
        if verb == CREATE:
            self._check_marked(name, CONTENTS, names.BEING_CREATED, "volumeSnapshotRef", "snapshotHandle")
        elif verb == CREATE_GROUP:
            self._check_marked(name, GROUP_CONTENTS, names.GROUP_BEING_CREATED, "volumeGroupSnapshotRef", "volumeGroupSnapshotHandle")
        elif verb == DELETE:
            self._check_deletion(who, name)
        elif verb == DELETE_GROUP:
            self._check_group_deletion(who, name)

    def call_ends(self, who: str, name: str) -> None:
        self._in_flight.discard((who, name))

    def _check_marked(self, name: str, plural: str, mark: str, ref: str, handle: str) -> None:
        """name: ends in the uid of the snapshot that it is for."""
        for content in self.tables.objects[plural].values():
            uid = content["spec"][ref].get("uid", "")
            if uid and name.endswith(uid):
                marked = mark in (content["metadata"].get("annotations") or {})
                if content["metadata"]["name"] in self.torn:
                    return  # made anew under the name of one that went by force
                if not marked and not (content.get("status") or {}).get(handle) and self._plan.snapshotters == 1:
                    self._fail("create-unmarked", f"{name} is created, {content['metadata']['name']} does not say so")
                return
        if self.is_single and not self.was_torn(name):
            self._fail("create-unmarked", f"{name} is created, there is no content for it")

    def was_torn(self, name: str) -> bool:
        """True where a content that stood for this name went by force, or came from a backup."""
        uid = uid_of(name)
        return uid in self.restored or uid in self.torn_uids

    def _check_deletion(self, who: str, handle: str) -> None:
        if handle in self._backend.strange and not any(is_going(one) for one in self.tables.imports_of(handle)):
            self._fail("deleted-strange", f"{handle} is deleted, it is of another volume")
        for content in self.tables.contents_of(handle):
            self._check_kept(who, handle, CONTENTS, content)
            if content["spec"]["source"].get("snapshotHandle") == handle:
                self.ended_by_import.add(handle.rpartition("/")[0])

    def _check_group_deletion(self, who: str, group: str) -> None:
        for content in self.tables.objects[GROUP_CONTENTS].values():
            if group in group_handles_of(content):
                self._check_kept(who, group, GROUP_CONTENTS, content)
                if content["spec"]["deletionPolicy"] == names.DELETE_POLICY and is_going(content):
                    self.kept.difference_update(self._backend.handles_of_group(group))
        for handle in self._backend.handles_of_group(group):
            for content in self.tables.contents_of(handle):
                if not is_member(content) and (content.get("status") or {}).get("volumeGroupSnapshotHandle") != group:
                    self._check_kept(who, handle, CONTENTS, content)

    def _check_kept(self, who: str, handle: str, plural: str, content: Json) -> None:
        """handle is about to be deleted, and the content names it."""
        name = content["metadata"]["name"]
        known = int(content["metadata"]["resourceVersion"]) <= self.lines[who].shown_before_now(plural)
        snapshot = self.tables.pointing_to(plural, content)
        if known and snapshot is not None:
            self._fail("deleted-wanted", f"{handle} is deleted, {snapshot['metadata']['name']} is there, and bound to {name}")
        if content["spec"]["deletionPolicy"] == names.DELETE_POLICY and is_going(content):
            self.kept.discard(handle)  # also what a content of the same handle has kept before
        since = self.retained.get(name)
        if known and since is not None and since + KEPT_S < self._now():
            self._fail("deleted-kept", f"{handle} is deleted, the policy of {name} is to keep it")

    def is_made(self, name: str) -> None:
        is_again = name in self._backend.over and self.is_single and not self.was_torn(name) and name not in self.ended_by_import
        if is_again and not self._is_asked_for_its_end(uid_of(name)):
            self._fail("made-again", f"{name} is made, it was made and deleted before")

    def _is_asked_for_its_end(self, uid: str) -> bool:
        """True for one that only its deletion asks for, where nobody could know that it was deleted: its handle can't be saved; or its
        content was made once more, by a late request, while its snapshot waited for that, and its policy may keep it.
        """
        content = next((one for one in self.tables.objects[CONTENTS].values() if ref_of(one).get("uid") == uid), None)
        if content is None:
            return False
        snapshot = self.tables.objects[SNAPSHOTS].get(ref_of(content)["name"])
        is_late = content["metadata"]["name"] in self.again and (snapshot is None or is_going(snapshot))
        return is_late or (content["metadata"]["name"] in self.unsaved and is_given_up(content))

    # -- changes

    def changed(self, resource: Resource, change: Change) -> None:
        """The store has changed. Told of every change, at once."""
        if resource.plural == "events" and change.new is not None:
            self.telling.note(change.new.whole())
        if resource.plural not in self.tables.objects:
            return
        old = None if change.old is None else change.old.whole()
        new = None if change.new is None else change.new.whole()
        self.tables.put(resource.plural, old, new)
        if WRITING.get() is not None and old is not None and new is not None:
            self._check_foreign(resource.plural, old, new)
        if resource.plural == CONTENTS:
            self._content_changed(old, new)
        elif resource.plural == GROUP_CONTENTS:
            self._group_content_changed(old, new)
        elif resource.plural == SNAPSHOTS and new is not None:
            self._snapshot_changed(old, new)
        elif resource.plural == CLAIMS and old is not None:
            self._claim_changed(old, new)

    def _claim_changed(self, old: Json, new: Json | None) -> None:
        held = [names.CLAIM_FINALIZER in (one["metadata"].get("finalizers") or ()) for one in (old, new) if one is not None]
        write = WRITING.get()
        if write is None or not held[0] or held[-1] or not self.is_single:
            return
        for plural in (CONTENTS, GROUP_CONTENTS):
            for name, content in self.tables.objects[plural].items():
                is_of_it = f"h-{old['spec'].get('volumeName')}" in being_made(content)
                if name not in self.torn and is_of_it and not self._is_back_unseen(write.process, plural, content):
                    self._fail("claim-let-go", f"{old['metadata']['name']} is let go, and {name} may be in the making")

    def _is_back_unseen(self, controller: int, plural: str, content: Json) -> bool:
        """True for one that came back from a backup, as it was before, and of which this process has not been shown anything yet."""
        is_back = ref_of(content).get("uid") in self.restored
        line = self.lines[f"{CONTROLLER}#{controller}"]
        return is_back and int(content["metadata"]["resourceVersion"]) > line.shown_before_now(plural)

    def _check_foreign(self, plural: str, old: Json, new: Json) -> None:
        if foreign(old) != foreign(new):
            self._fail("foreign-touched", f"{plural} {new['metadata']['name']}: {foreign(old)} became {foreign(new)}")

    def _content_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            assert old is not None
            self._content_gone(old)
            return
        name, status = new["metadata"]["name"], new.get("status") or {}
        if old is None and name in self._gone:
            self.again.add(name)
        if new["spec"]["deletionPolicy"] == names.DELETE_POLICY:
            self.retained.pop(name, None)
        else:
            self.retained.setdefault(name, self._now())
            self.was_retained.add(name)
        before = (old or {}).get("status") or {}
        handles = [said.get("snapshotHandle") for said in (before, status)]
        if all(handles) and handles[0] != handles[1]:
            self._fail("handle-changed", f"{name} had {handles[0]}, now {handles[1]}")
        uids = [(one or new)["spec"]["volumeSnapshotRef"].get("uid") for one in (old, new)]
        if uids[0] and uids[0] != uids[1]:
            self.restored.add(uids[0])  # given away: the view of it may be an older one
        if uids[0] and uids[0] != uids[1] and WRITING.get() is not None:  # an administrator may
            self._fail("bound-twice", f"{name} was of {uids[0]}, now of {uids[1]}")
        if status.get("readyToUse") and not before.get("readyToUse") and not self._is_ready(status.get("snapshotHandle"), new):
            self._fail("ready-lies", f"{name} is ready, its snapshot {status.get('snapshotHandle')} is not")

    def _group_content_changed(self, old: Json | None, new: Json | None) -> None:
        current = new or old
        assert current is not None
        if current["spec"]["deletionPolicy"] == names.DELETE_POLICY or new is None:
            self.retained.pop(current["metadata"]["name"], None)
        else:
            self.retained.setdefault(current["metadata"]["name"], self._now())
        if new is None and current["spec"]["deletionPolicy"] != names.DELETE_POLICY:
            self.kept.update(handles_of_group(current))

    def _content_gone(self, old: Json) -> None:
        name, status = old["metadata"]["name"], old.get("status") or {}
        self._gone.add(name)
        handle = status.get("snapshotHandle")
        self.loose.update(handles_of(old) if name in self.torn else ())
        unbound = not old["spec"]["volumeSnapshotRef"].get("uid")
        is_wanted_gone = old["spec"]["deletionPolicy"] == names.DELETE_POLICY and "deletionTimestamp" in old["metadata"]
        others = bool(handle) and bool(self.tables.contents_of(handle) or self.tables.groups_with(handle))
        if is_wanted_gone and not is_member(old):  # whatever others have kept before: a deletion that was decided by then may still come
            self.kept.difference_update(handles_of(old))
        if is_member(old):
            pass  # the policy of its group decides
        elif name in self.retained or (name in self.torn and not is_wanted_gone):
            self.kept.update(handles_of(old) & self._backend.staying())
            self.loose.update(handles_of(old) - self._backend.staying())  # a deletion that has begun is not taken back, and may still fail
        elif unbound:  # nothing holds such a one: its snapshot may go or stay
            (self.loose if is_wanted_gone else self.kept).update(handles_of(old) & self._backend.staying())
        elif (
            others or handle in self.kept | self.loose or name in self.torn or not self.is_single
        ):  # one that was to go, and was torn away then, may go or stay
            pass
        elif handle in self._backend.astray or any(f"Snapshot {handle} is deleted without" in text for text in self.telling.texts):
            pass  # its deletion was asked for as another tenant, and whoever can know that has been told
        elif handle in self._backend.private_handles and is_imported_without_secret(old):
            self.loose.add(handle)  # who imported it did not say with which Secret it was made
        elif handle in self._backend.snapshots and not status.get("volumeGroupSnapshotHandle") and name not in self.was_retained:
            self._fail("left-behind", f"{name} is gone, and its snapshot {handle} is still there")
        self.retained.pop(name, None)

    def _snapshot_changed(self, old: Json | None, new: Json) -> None:
        name, status, before = new["metadata"]["name"], new.get("status") or {}, (old or {}).get("status") or {}
        bound = [said.get("boundVolumeSnapshotContentName") for said in (before, status)]
        if bound[0] and bound[0] != bound[1]:
            self._fail("bound-twice", f"{name} was bound to {bound[0]}, now to {bound[1]}")
        content = self.tables.objects[CONTENTS].get(bound[1] or "")
        if status.get("readyToUse") and not before.get("readyToUse") and content is not None and self.is_single:
            handle = (content.get("status") or {}).get("snapshotHandle")
            if handle and not self._is_ready(handle, content):
                self._fail("ready-lies", f"{name} is ready, its snapshot {handle} is not")

    def _is_ready(self, handle: str | None, content: Json) -> bool:
        """True also for one that somebody has deleted by other means, and for an import of which a driver can't be asked."""
        if "snapshotHandle" in content["spec"]["source"] and not (self._plan.lists or self._plan.gets):
            return True
        return self._backend.is_ready(handle or "") or (handle or "") not in self._backend.snapshots
