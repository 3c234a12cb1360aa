"""What users and administrators do once the faults have ended: they give up what can't come to be, and delete all that
there is.
"""

from __future__ import annotations

from typing import Final

from mooring.api import snapshot_names as names
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from tests.sim.snapshots.hands import KINDS, Hands
from tests.sim.snapshots.objects import (
    CLAIMS,
    CONTENTS,
    GROUP_CONTENTS,
    GROUPS,
    SNAPSHOTS,
    Json,
    group_handles_of,
    handles_of,
    handles_of_group,
    is_going,
    members_of,
)
from tests.sim.snapshots.plan import GROUPED, MISSING_CLASS, OTHER_CLASS
from tests.sim.snapshots.world import SnapshotWorld

HELP_S: Final = 60.0
"""How long an administrator looks on before he does what an event has asked him for."""
WAY_OUT: Final = "where the storage has none"


class Endings:
    def __init__(self, world: SnapshotWorld, hands: Hands) -> None:
        self._world, self._hands, self._backend, self._objects = world, hands, world.backend, world.laws.tables.objects
        self._looked_at: dict[str, float] = {}

    async def give_up(self) -> bool:
        """Users delete the snapshots that can't come to be, and administrators the contents of handles that are no
        more. True for some.
        """
        before = self._world.store.version
        for snapshot in self._all(SNAPSHOTS):
            if (
                not is_going(snapshot)
                and not snapshot["metadata"].get("ownerReferences")
                and self._is_hopeless(snapshot)
            ):
                await self._hands.remove(VOLUME_SNAPSHOTS, snapshot)
        alive = {snapshot["metadata"]["uid"] for snapshot in self._all(SNAPSHOTS)}
        for content in self._all(CONTENTS):
            handle = content["spec"]["source"].get("snapshotHandle", "")
            lost = bool(handle) and handle not in self._backend.snapshots
            lost = lost or (not _is_ready(content) and self._is_hopeless_content(content))
            lost = lost or self._is_in_the_way(content) or (is_going(content) and is_dangling(self._world, content))
            is_left = not is_going(content) or is_dangling(self._world, content)
            if lost and content["spec"]["volumeSnapshotRef"].get("uid") not in alive and is_left:
                await self._end(content)
        alive = {group["metadata"]["uid"] for group in self._all(GROUPS)}
        for content in self._all(GROUP_CONTENTS):
            gone = not set(content["spec"]["source"].get("volumeHandles") or ()) <= self._backend.volumes
            gone = gone or "groupSnapshotHandles" in content["spec"]["source"] or self._is_mute()
            gone = gone or bool(handles_of_group(content) & self._backend.forgotten)
            lost = gone and not _is_ready(content) and content["spec"]["volumeGroupSnapshotRef"].get("uid") not in alive
            if lost and not is_going(content):
                await self._hands.remove(GROUP_SNAPSHOT_CONTENTS, content)
            if is_going(content) and content["spec"]["volumeGroupSnapshotRef"].get("uid") not in alive:
                await self._end_forsaken(content)
        for group in self._all(GROUPS):
            if not is_going(group) and self._is_hopeless_group(group):
                await self._hands.remove(GROUP_SNAPSHOTS, group)
        is_waiting = await self._help()
        return is_waiting or self._world.store.version != before

    async def _end_forsaken(self, content: Json) -> None:
        """An administrator does as a Warning says: a content that was deleted by hand, and whose group is gone, is to
        take its data along, as far as its policy says so.
        """
        uid, notes = (
            content["spec"]["volumeGroupSnapshotRef"].get("uid") or "",
            content["metadata"].get("annotations") or {},
        )
        way_out = f"annotate it {names.GROUP_BEING_DELETED}={names.YES}"
        is_told = any(way_out in text and uid in text for text in self._world.laws.telling.texts)
        if uid and is_told and names.GROUP_BEING_DELETED not in notes:
            marked = {"metadata": {"annotations": {names.GROUP_BEING_DELETED: names.YES}}}
            await self._hands.merge(GROUP_SNAPSHOT_CONTENTS, content, marked)

    def _is_in_the_way(self, content: Json) -> bool:
        """True for one that a group which is being deleted waits for, as its event says; or the log, where that was the
        last one of too many events about one object, and was not sent.
        """
        named, now = (
            f"VolumeSnapshotContent [{content['metadata']['name']}] stands for a snapshot of it",
            self._world.clock.now(),
        )
        for group in (one for one in self._all(GROUP_CONTENTS) if is_going(one)):
            if named in self._world.laws.telling.last(group):
                return True
            is_member = bool(handles_of(content) & members_of(group)) and names.GROUP_BEING_DELETED in (
                group["metadata"].get("annotations") or {}
            )
            if is_member and self._looked_at.setdefault(group["metadata"]["uid"], now) + HELP_S <= now:
                return True
        return False

    async def _help(self) -> bool:
        """An administrator looks into the storage for what nobody else can know, and takes the mark off, as he is told.
        True while he looks on.
        """
        is_waiting = False
        for plural, mark in ((CONTENTS, names.BEING_CREATED), (GROUP_CONTENTS, names.GROUP_BEING_CREATED)):
            for content in self._all(plural):
                uid, meta = content["metadata"]["uid"], content["metadata"]
                is_open = (
                    is_going(content) and mark in (meta.get("annotations") or {}) and not handle_in_status(content)
                )
                if not is_open or not self._is_told(content, WAY_OUT) or not self._is_closed(content):
                    continue
                if self._looked_at.setdefault(uid, self._world.clock.now()) + HELP_S > self._world.clock.now():
                    is_waiting = True
                    continue
                ref = content["spec"].get("volumeSnapshotRef") or content["spec"]["volumeGroupSnapshotRef"]
                self._backend.remove_by_hand(ref["uid"])
                await self._hands.merge(KINDS[plural], content, {"metadata": {"annotations": {mark: None}}})
        return is_waiting

    def _is_told(self, content: Json, text: str) -> bool:
        """By an event, or in its status: of many events of one object the last ones are not sent."""
        error = ((content.get("status") or {}).get("error") or {}).get("message") or ""
        return text in error or text in self._world.laws.telling.last(content)

    def _is_closed(self, content: Json) -> bool:
        """True where the driver will refuse for ever."""
        source = content["spec"]["source"]
        is_gone = (
            not {source.get("volumeHandle"), *(source.get("volumeHandles") or ())} - {None} <= self._backend.volumes
        )
        return is_gone or self._lacks_secret(content)

    async def delete_all(self) -> None:
        for group in self._all(GROUPS):
            await self._hands.remove(GROUP_SNAPSHOTS, group)
        for snapshot in self._all(SNAPSHOTS):
            if not snapshot["metadata"].get("ownerReferences"):
                await self._hands.remove(VOLUME_SNAPSHOTS, snapshot)

    async def delete_contents(self) -> None:
        """Those that their policy has kept, or that nobody was bound to. What has lost its snapshot by force goes by
        force.
        """
        alive = {group["metadata"]["uid"] for group in self._all(GROUPS)}
        for content in self._all(GROUP_CONTENTS):
            await self._hands.remove(GROUP_SNAPSHOT_CONTENTS, content)
            uid = content["spec"]["volumeGroupSnapshotRef"].get("uid")
            if uid not in alive and uid in self._world.laws.restored:  # its group went when the server was set back
                self._world.laws.torn.add(content["metadata"]["name"])
                await self._hands.merge(GROUP_SNAPSHOT_CONTENTS, content, {"metadata": {"finalizers": None}})
        for content in self._all(CONTENTS):
            await self._end(content)

    async def _end(self, content: Json) -> None:
        """By force where nobody else ends it."""
        if not is_going(content):
            await self._hands.remove(VOLUME_SNAPSHOT_CONTENTS, content)
        if is_dangling(self._world, content) and names.BEING_DELETED not in (
            content["metadata"].get("annotations") or {}
        ):
            self._world.laws.torn.add(content["metadata"]["name"])
            await self._hands.merge(VOLUME_SNAPSHOT_CONTENTS, content, {"metadata": {"finalizers": None}})

    def _is_hopeless_group(self, group: Json) -> bool:
        """No volume is left for it, or the driver does not say what is of which, or has forgotten its name, or its
        content is gone or another's.
        """
        if (group.get("status") or {}).get("readyToUse"):
            return False
        named = group["spec"]["source"].get("volumeGroupSnapshotContentName")
        content = self._objects[GROUP_CONTENTS].get(named or f"groupsnapcontent-{group['metadata']['uid']}")
        if content is None:
            is_any = any(
                claim["metadata"].get("labels") == GROUPED and not is_going(claim) for claim in self._all(CLAIMS)
            )
            return not is_any or bool(named) or bool((group.get("status") or {}).get("creationTime"))
        if named:
            ref = content["spec"]["volumeGroupSnapshotRef"]
            return (
                self._is_mute()
                or is_going(content)
                or ref.get("uid") not in (None, "", group["metadata"]["uid"])
                or not self._has_all(content)
            )
        gone = not set(content["spec"]["source"]["volumeHandles"]) <= self._backend.volumes or self._is_of_before(
            content
        )
        return gone or self._is_mute() or is_going(content) or bool(handles_of_group(content) & self._backend.forgotten)

    def _is_of_before(self, content: Json) -> bool:
        """True where the server was set back, and the driver has a group of this name from before, of other volumes
        than are chosen by now.
        """
        made = [snap.volume for snap in self._backend.snapshots.values() if snap.group in group_handles_of(content)]
        is_back = content["spec"]["volumeGroupSnapshotRef"].get("uid") in self._world.laws.restored
        return is_back and bool(made) and sorted(made) != sorted(content["spec"]["source"]["volumeHandles"])

    def _is_mute(self) -> bool:
        """True for a driver that does not say which snapshot of a group is of which volume."""
        return self._world.plan.habits.nameless or self._world.plan.spells == "none"

    def _has_all(self, content: Json) -> bool:
        return set(content["spec"]["source"]["groupSnapshotHandles"]["volumeSnapshotHandles"]) <= set(
            self._backend.snapshots
        )

    def _is_hopeless(self, snapshot: Json) -> bool:
        """Its claim is gone, or its content is gone or another's, or its class is another driver's."""
        source, status, spec = snapshot["spec"]["source"], snapshot.get("status") or {}, snapshot["spec"]
        dynamic = source.get("persistentVolumeClaimName")
        wanted = f"snapcontent-{snapshot['metadata']['uid']}" if dynamic else source["volumeSnapshotContentName"]
        content = self._objects[CONTENTS].get(status.get("boundVolumeSnapshotContentName") or wanted)
        if spec.get("volumeSnapshotClassName") in (MISSING_CLASS, OTHER_CLASS) and not status.get("readyToUse"):
            return True
        if content is None:
            claim = self._objects[CLAIMS].get(dynamic or "")
            return claim is None or is_going(claim) or bool(status.get("creationTime"))
        ref = content["spec"]["volumeSnapshotRef"]
        if (ref["name"], ref.get("uid")) != (snapshot["metadata"]["name"], snapshot["metadata"]["uid"]):
            return True
        return not status.get("readyToUse") and self._is_hopeless_content(content)

    def _is_hopeless_content(self, content: Json) -> bool:
        """Nothing is there that the driver could tell of, or it tells of it in words of its own."""
        imported, habits, plan = (
            content["spec"]["source"].get("snapshotHandle"),
            self._world.plan.habits,
            self._world.plan,
        )
        handle = handle_in_status(content) or imported
        if handle and handle not in self._backend.snapshots:
            return True
        if content["spec"].get("volumeSnapshotClassName") == OTHER_CLASS or is_going(content):
            return True
        if imported:
            is_asked = plan.lists or plan.gets
            return is_asked and bool(habits.echoes or habits.tenants or self._backend.snapshots[imported].group)
        is_gone = content["spec"]["source"]["volumeHandle"] not in self._backend.volumes
        return is_gone or handle in self._backend.forgotten or self._lacks_secret(content)

    def _lacks_secret(self, content: Json) -> bool:
        """True where its class wanted no Secret when it was made, and the driver wants one by now."""
        named = content["spec"].get("volumeSnapshotClassName")
        wants = any(planned.secret for planned in self._world.plan.classes if planned.name == named)
        return wants and names.SECRET_NAME not in (content["metadata"].get("annotations") or {})

    def _all(self, plural: str) -> list[Json]:
        return [found for _, found in sorted(self._objects[plural].items())]


def is_dangling(world: SnapshotWorld, content: Json) -> bool:
    """True for a content that points to a snapshot which somebody tore away, or which an older cluster had, or to none
    though it was made for one: nobody touches it. Of two controllers one may make it for a snapshot that the other has
    let go; a process that begins lets a snapshot go at once that is to go by then, and a former one's write may still
    come.
    """
    if "volumeHandle" in content["spec"]["source"] and not content["spec"]["volumeSnapshotRef"].get("uid"):
        return True
    uid = content["spec"]["volumeSnapshotRef"].get("uid")
    alive = world.laws.tables.alive()
    goes = names.BEING_DELETED in (content["metadata"].get("annotations") or {}) and is_going(content)
    excused = uid in world.laws.torn_snapshots or uid in world.laws.restored or world.plan.controllers > 1
    excused = excused or content["metadata"]["name"] in world.laws.left
    return bool(uid) and uid not in alive and not goes and excused


def _is_ready(obj: Json) -> bool:
    return bool((obj.get("status") or {}).get("readyToUse"))


def handle_in_status(content: Json) -> str:
    status = content.get("status") or {}
    return status.get("snapshotHandle") or status.get("volumeGroupSnapshotHandle") or ""
