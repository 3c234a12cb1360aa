"""What must hold at every step of a life of snapshots, judged on the truth.

| law             | broken when |
| --- | --- |
| create-unmarked | a snapshot is created, and its content has neither the mark of a creation nor a handle |
| made-again      | a snapshot is made that was made, and deleted, before; but for one whose handle can't be saved |
| deleted-wanted  | a snapshot is deleted whose VolumeSnapshot nobody has deleted |
| deleted-kept    | a snapshot is deleted that the policy of its content keeps, as the snapshotter has been shown |
| claim-let-go    | a claim is let go while a snapshot of its volume may be in the making |
| ready-lies      | an object says ready of a snapshot that is not |
| handle-changed  | a content gets another handle than it had |
| bound-twice     | a content, or a snapshot, is bound to another than before |
| left-behind     | a content goes by itself, and the snapshot that was to go with it is still there |
| foreign-touched | a program changes what belongs to others |
| overlap         | two calls of one process are in flight for one snapshot |
| hot-loop        | one thing is done too often |
"""

from __future__ import annotations

from mooring.api import snapshot_names as names
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from tests.sim.laws import PER_SECOND_MAX, WRITING
from tests.sim.snapshots.deletions import Deletions
from tests.sim.snapshots.habits import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP
from tests.sim.snapshots.objects import (
    CLAIMS,
    CONTENTS,
    GROUP_CONTENTS,
    GROUPS,
    SNAPSHOTS,
    Json,
    being_made,
    foreign,
    handles_of_group,
    is_given_up,
    is_going,
    ref_of,
    uid_of,
)
from tests.sim.snapshots.plan import CONTROLLER


class Laws(Deletions):
    """All of them. Told of what programs do, of calls, and of changes of the store."""

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
            self._check_marked(who, name, CONTENTS, names.BEING_CREATED, "volumeSnapshotRef", "snapshotHandle")
        elif verb == CREATE_GROUP:
            self._check_marked(
                who,
                name,
                GROUP_CONTENTS,
                names.GROUP_BEING_CREATED,
                "volumeGroupSnapshotRef",
                "volumeGroupSnapshotHandle",
            )
        elif verb == DELETE:
            self._check_deletion(who, name)
        elif verb == DELETE_GROUP:
            self._check_group_deletion(who, name)

    def call_ends(self, who: str, name: str) -> None:
        self._in_flight.discard((who, name))

    def _check_marked(self, who: str, name: str, plural: str, mark: str, ref: str, handle: str) -> None:
        """name: ends in the uid of the snapshot that it is for."""
        for content in self.tables.objects[plural].values():
            uid = content["spec"][ref].get("uid", "")
            if uid and name.endswith(uid):
                marked = mark in (content["metadata"].get("annotations") or {})
                if content["metadata"]["name"] in self.torn:
                    return  # made anew under the name of one that went by force
                if not marked and not (content.get("status") or {}).get(handle) and self._plan.snapshotters == 1:
                    self._blame(
                        who, "create-unmarked", f"{name} is created, {content['metadata']['name']} does not say so"
                    )
                return
        if self.is_single and not self.was_torn(name):
            self._blame(who, "create-unmarked", f"{name} is created, there is no content for it")

    def is_made(self, name: str) -> None:
        is_again = (
            name in self._backend.over
            and self.is_single
            and not self.was_torn(name)
            and name not in self.ended_by_import
        )
        if is_again and not self._is_asked_for_its_end(uid_of(name)):
            self._fail("made-again", f"{name} is made, it was made and deleted before")

    def _is_asked_for_its_end(self, uid: str) -> bool:
        """True for one that only its deletion asks for, where nobody could know that it was deleted: its handle can't
        be saved; or its content was made once more, by a late request, while its snapshot, or its group, waited for
        that, and its policy may keep it.
        """
        objects = self.tables.objects
        for contents, snapshots in ((CONTENTS, SNAPSHOTS), (GROUP_CONTENTS, GROUPS)):
            content = next((one for one in objects[contents].values() if ref_of(one).get("uid") == uid), None)
            if content is None:
                continue
            snapshot = objects[snapshots].get(ref_of(content)["name"])
            is_late = content["metadata"]["name"] in self.again and (snapshot is None or is_going(snapshot))
            return is_late or (content["metadata"]["name"] in self.unsaved and is_given_up(content))
        return False

    # -- changes

    def changed(self, resource: Resource, change: StoredChange) -> None:
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
            self._content_changed(old, new, change.rv)
        elif resource.plural == GROUP_CONTENTS:
            self._group_content_changed(old, new)
        elif resource.plural == SNAPSHOTS and new is not None:
            self._snapshot_changed(old, new)
        elif resource.plural == CLAIMS and old is not None:
            self._claim_changed(old, new)

    def _claim_changed(self, old: Json, new: Json | None) -> None:
        held = [
            names.CLAIM_FINALIZER in (one["metadata"].get("finalizers") or ()) for one in (old, new) if one is not None
        ]
        write = WRITING.get()
        if (
            write is None
            or not held[0]
            or held[-1]
            or not self.is_single
            or self.may_precede_set_back(f"{CONTROLLER}#{write.process}")
        ):
            return
        for plural in (CONTENTS, GROUP_CONTENTS):
            for name, content in self.tables.objects[plural].items():
                is_of_it = f"h-{old['spec'].get('volumeName')}" in being_made(content)
                if name not in self.torn and is_of_it and not self._is_back_unseen(write.process, plural, content):
                    self._fail("claim-let-go", f"{old['metadata']['name']} is let go, and {name} may be in the making")

    def _is_back_unseen(self, controller: int, plural: str, content: Json) -> bool:
        """True for one that came back from a backup, as it was before, and of which this process has not been shown
        anything yet.
        """
        is_back = ref_of(content).get("uid") in self.restored
        line = self.lines[f"{CONTROLLER}#{controller}"]
        return is_back and int(content["metadata"]["resourceVersion"]) > line.shown_before_now(plural)

    def _check_foreign(self, plural: str, old: Json, new: Json) -> None:
        if foreign(old) != foreign(new):
            self._fail("foreign-touched", f"{plural} {new['metadata']['name']}: {foreign(old)} became {foreign(new)}")

    def _content_changed(self, old: Json | None, new: Json | None, version: int) -> None:
        if new is None:
            assert old is not None
            self._content_gone(old, version)
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
        if (
            status.get("readyToUse")
            and not before.get("readyToUse")
            and not self._is_ready(status.get("snapshotHandle"), new)
        ):
            self._fail("ready-lies", f"{name} is ready, its snapshot {status.get('snapshotHandle')} is not")

    def _group_content_changed(self, old: Json | None, new: Json | None) -> None:
        current = new or old
        assert current is not None
        if old is None and current["metadata"]["name"] in self._gone:
            self.again.add(current["metadata"]["name"])
        if new is None:
            self._gone.add(current["metadata"]["name"])
        if current["spec"]["deletionPolicy"] == names.DELETE_POLICY or new is None:
            self.retained.pop(current["metadata"]["name"], None)
        else:
            self.retained.setdefault(current["metadata"]["name"], self._now())
        if new is None and current["spec"]["deletionPolicy"] != names.DELETE_POLICY:
            self.kept.update(handles_of_group(current))

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
        """True also for one that somebody has deleted by other means, and for an import of which a driver can't be
        asked.
        """
        if "snapshotHandle" in content["spec"]["source"] and not (self._plan.lists or self._plan.gets):
            return True
        return self._backend.is_ready(handle or "") or (handle or "") not in self._backend.snapshots
