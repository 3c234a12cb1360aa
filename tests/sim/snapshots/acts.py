"""Acts of users and administrators: each is a method, drawn by its weight. They see the truth, and nothing fails
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from mooring.api import snapshot_names as names
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.group_snapshot import GROUP_SNAPSHOTS
from mooring.api.meta import Kind
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from tests.sim.keeper import Keeper
from tests.sim.snapshots.endings import Endings
from tests.sim.snapshots.hands import HOLDS, KINDS
from tests.sim.snapshots.objects import CLAIMS, CONTENTS, GROUPS, SNAPSHOTS, Json, handles_of, is_going
from tests.sim.snapshots.odd_acts import OddActs
from tests.sim.snapshots.plan import DRIVER, GROUPED, MISSING_CLASS, NAMESPACE, SNAPSHOTS_MAX
from tests.sim.snapshots.setting_back import SettingBack
from tests.sim.snapshots.surroundings import Surroundings
from tests.sim.snapshots.world import SnapshotWorld

T = TypeVar("T")
_PREFIX = "csi.storage.k8s.io"
_CLAIM_PROTECTION = "kubernetes.io/pvc-protection"


class Acts(Surroundings):
    def __init__(self, world: SnapshotWorld, keepers: Mapping[str, Sequence[Keeper]]) -> None:
        super().__init__(world)
        self._controllers, self._snapshotters = keepers.values()
        self._odd, self.endings = OddActs(world, self._hands), Endings(world, self._hands)
        self._setting_back = SettingBack(world, self._hands)
        world.meddle_with, world.cross = self._odd.meddle, self._odd.cross
        self._handed: set[str] = set()

    async def prepare(self) -> None:
        await self._world.make_kinds()
        await self.restore_secret()
        await self._make_classes()
        await self._odd.prepare()
        for _ in range(2):
            await self.make_claim()
        await self.make_snapshot()

    async def disturb(self) -> None:
        """One act."""
        act: Callable[[], Awaitable[None]] = getattr(self, self._one_of(self._world.plan.acts))
        await act()
        await self._odd.disturb()
        await self._setting_back.disturb(self._odd.kinds_changed)

    async def tend(self) -> None:
        """Kubernetes' own controllers: claims that nobody holds go, with their volumes; so do the objects of groups
        that are gone.
        """
        for claim in self._all(CLAIMS):
            meta = claim["metadata"]
            if meta.get("finalizers") == [_CLAIM_PROTECTION] and "deletionTimestamp" in meta:
                await self._hands.merge(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": None}})
                await self._hands.delete(PERSISTENT_VOLUMES, claim["spec"].get("volumeName", ""))
                self._backend.volumes.discard(f"h-{claim['spec'].get('volumeName', '')}")
        for snapshot in self._all(SNAPSHOTS):
            owners = {owner["uid"] for owner in snapshot["metadata"].get("ownerReferences") or ()}
            if (
                owners
                and not owners & {group["metadata"]["uid"] for group in self._all(GROUPS)}
                and not is_going(snapshot)
            ):
                await self._hands.remove(VOLUME_SNAPSHOTS, snapshot)

    async def make_peace(self) -> None:
        """Everything is back that is needed, and nothing stands in the way any more."""
        self._count += 1
        await self.restore_secret()
        for planned in self._world.plan.classes:
            await self._hands.delete(VOLUME_SNAPSHOT_CLASSES, planned.name)
        await self._make_classes()
        await self._odd.make_peace()
        while await self._let_go():
            pass
        while await self._end_restore():
            pass

    # -- snapshots

    async def make_snapshot(self) -> None:
        claims = [claim for claim in self._all(CLAIMS) if "dataSource" not in claim["spec"]]
        if claims and len(self._own()) < SNAPSHOTS_MAX:
            named = self._one_of((*(planned.name for planned in self._world.plan.classes), None, MISSING_CLASS))
            if named == MISSING_CLASS and self._randomness.happens(0.8):
                named = None
            source = {"persistentVolumeClaimName": self._one_of(claims)["metadata"]["name"]}
            await self._make_snapshot({"source": source, **({"volumeSnapshotClassName": named} if named else {})})

    async def _make_snapshot(self, spec: Json, name: str = "") -> None:
        self._count += 1
        body = {"metadata": {"name": name or f"s{self._count}"}, "spec": spec}
        await self._hands.create(VOLUME_SNAPSHOTS, body, NAMESPACE)

    async def drop_snapshot(self) -> None:
        if own := self._own():
            await self._hands.remove(VOLUME_SNAPSHOTS, self._one_of(own))

    async def touch(self) -> None:
        """Others write to them, too."""
        self._count += 1
        kind, plural = self._one_of(((VOLUME_SNAPSHOTS, SNAPSHOTS), (VOLUME_SNAPSHOT_CONTENTS, CONTENTS)))
        if found := self._all(plural):
            notes = {"users.example.com/count": str(self._count)}
            await self._hands.merge(kind, self._one_of(found), {"metadata": {"annotations": notes}})

    def _own(self) -> list[Json]:
        return [one for one in self._all(SNAPSHOTS) if not one["metadata"].get("ownerReferences")]

    # -- contents

    async def import_content(self) -> None:
        """An administrator has a snapshot in the storage, and a name for its user."""
        self._count += 1
        name, handle = f"s{self._count}", self._backend.place("elsewhere")
        spec = {
            "driver": DRIVER,
            "deletionPolicy": self._one_of(("Delete", "Retain")),
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": {"namespace": NAMESPACE, "name": name},
        }
        await self._hands.create(VOLUME_SNAPSHOT_CONTENTS, {"metadata": {"name": f"import-{name}"}, "spec": spec})

    async def import_snapshot(self) -> None:
        """The user takes an imported snapshot, or somebody else's."""
        if found := self._all(CONTENTS):
            content = self._one_of(found)
            is_right = self._randomness.happens(0.8)
            name = content["spec"]["volumeSnapshotRef"]["name"] if is_right else ""
            if not name or name not in self._objects[SNAPSHOTS]:
                await self._make_snapshot({"source": {"volumeSnapshotContentName": content["metadata"]["name"]}}, name)

    async def import_again(self) -> None:
        """A second content for a snapshot that has one, and mostly a snapshot of the user's for it."""
        known = sorted(
            {handle for one in self._all(CONTENTS) for handle in handles_of(one)} & set(self._backend.snapshots)
        )
        if single := [one for one in known if self._backend.is_ready(one) and not self._backend.snapshots[one].group]:
            self._count += 1
            name, policy = f"s{self._count}", self._one_of(("Delete", "Retain"))
            ref = {"namespace": NAMESPACE, "name": name}
            source = {"snapshotHandle": self._one_of(single)}
            spec = {"driver": DRIVER, "deletionPolicy": policy, "source": source, "volumeSnapshotRef": ref}
            await self._hands.create(VOLUME_SNAPSHOT_CONTENTS, {"metadata": {"name": f"import-{name}"}, "spec": spec})
            if self._randomness.happens(0.8):
                await self._make_snapshot({"source": {"volumeSnapshotContentName": f"import-{name}"}}, name)

    async def hand_over(self) -> None:
        """What a policy has kept is given to another snapshot, and mostly to go with it."""
        alive = {snapshot["metadata"]["uid"] for snapshot in self._all(SNAPSHOTS)}
        kept = [one for one in self._all(CONTENTS) if "snapshotHandle" in one["spec"]["source"] and not is_going(one)]
        kept = [one for one in kept if one["spec"]["volumeSnapshotRef"].get("uid", "") not in ("", *alive)]
        if kept := kept or await self._restored_content():
            self._count += 1
            content, name = self._one_of(kept), f"s{self._count}"
            ref = {"namespace": NAMESPACE, "name": name, "uid": self._one_of((None, ""))}
            policy = {"deletionPolicy": "Delete"} if self._randomness.happens(0.7) else {}
            await self._hands.merge(VOLUME_SNAPSHOT_CONTENTS, content, {"spec": {"volumeSnapshotRef": ref, **policy}})
            await self._make_snapshot({"source": {"volumeSnapshotContentName": content["metadata"]["name"]}}, name)
            self._handed.add(content["metadata"]["name"])

    async def _restored_content(self) -> list[Json]:
        """One that a policy had kept, from a backup of the cluster."""
        self._count += 1
        meta = {
            "name": f"kept-{self._count}",
            "annotations": {names.BEING_DELETED: names.YES},
            "finalizers": [names.CONTENT_FINALIZER],
        }
        ref = {"namespace": NAMESPACE, "name": "former", "uid": f"former-{self._count}"}
        source = {"snapshotHandle": self._backend.place("elsewhere")}
        spec = {"driver": DRIVER, "deletionPolicy": "Retain", "source": source, "volumeSnapshotRef": ref}
        made = await self._hands.create(VOLUME_SNAPSHOT_CONTENTS, {"metadata": meta, "spec": spec})
        return [] if made is None else [made]

    async def drop_content(self) -> None:
        """By hand; rather one that was handed over, since few are."""
        handed = [one for one in self._all(CONTENTS) if one["metadata"]["name"] in self._handed and not is_going(one)]
        if found := handed or self._all(CONTENTS):
            await self._hands.remove(VOLUME_SNAPSHOT_CONTENTS, self._one_of(found))

    async def tear_content(self) -> None:
        """By force, finalizers and all: whoever does that takes care of the snapshot."""
        if found := [
            one for one in self._all(CONTENTS) if names.GROUP_HANDLE not in (one["metadata"].get("annotations") or {})
        ]:
            content = self._one_of(found)
            self._world.laws.torn.add(content["metadata"]["name"])
            await self._hands.remove(VOLUME_SNAPSHOT_CONTENTS, content)
            await self._hands.merge(VOLUME_SNAPSHOT_CONTENTS, content, {"metadata": {"finalizers": None}})

    async def change_policy(self) -> None:
        if found := self._all(CONTENTS):
            content = self._one_of(found)
            policy = "Retain" if content["spec"]["deletionPolicy"] == "Delete" else "Delete"
            await self._hands.merge(VOLUME_SNAPSHOT_CONTENTS, content, {"spec": {"deletionPolicy": policy}})

    async def hold_content(self) -> None:
        if found := [one for one in self._all(CONTENTS) if not is_going(one)]:
            content = self._one_of(found)
            await self._hold(VOLUME_SNAPSHOT_CONTENTS, content)

    async def hold_snapshot(self) -> None:
        if found := [one for one in self._all(SNAPSHOTS) if not is_going(one)]:
            await self._hold(VOLUME_SNAPSHOTS, self._one_of(found))

    async def _hold(self, kind: Kind[Any], obj: Json) -> None:
        """Finalizers of others, at one end of the list or at both."""
        held = obj["metadata"].get("finalizers") or []
        if not set(HOLDS) & set(held):
            first, last = HOLDS
            await self._hands.hold(kind, obj, self._one_of(([*held, last], [first, *held], [first, *held, last])))

    async def let_go(self) -> None:
        await self._let_go()

    async def _let_go(self) -> bool:
        for kind, obj in ((kind, one) for plural, kind in KINDS.items() for one in self._all(plural)):
            held = obj["metadata"].get("finalizers") or []
            if others := [one for one in held if one in HOLDS]:
                await self._hands.hold(kind, obj, [one for one in held if one != others[0]])
                return True
        return False

    # -- groups

    async def make_group(self) -> None:
        if len(self._all(GROUPS)) < 2:
            self._count += 1
            spec = {"source": {"selector": {"matchLabels": GROUPED}}, "volumeGroupSnapshotClassName": "groups"}
            await self._hands.create(
                GROUP_SNAPSHOTS, {"metadata": {"name": f"g{self._count}"}, "spec": spec}, NAMESPACE
            )

    async def drop_group(self) -> None:
        if found := self._all(GROUPS):
            await self._hands.remove(GROUP_SNAPSHOTS, self._one_of(found))

    async def drop_member(self) -> None:
        """It stays as long as its group does."""
        if found := [one for one in self._all(SNAPSHOTS) if one["metadata"].get("ownerReferences")]:
            await self._hands.remove(VOLUME_SNAPSHOTS, self._one_of(found))

    # -- processes

    async def restart_driver(self) -> None:
        self._backend.restart(self._randomness.uniform(0.0, 2.0))

    async def kill_controller(self) -> None:
        self._one_of(self._controllers).kill()

    async def kill_snapshotter(self) -> None:
        self._one_of(self._snapshotters).kill()

    async def roll_controller(self) -> None:
        await self._one_of(self._controllers).roll()

    async def roll_snapshotter(self) -> None:
        await self._one_of(self._snapshotters).roll()
