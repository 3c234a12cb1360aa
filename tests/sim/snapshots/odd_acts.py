"""What users and administrators do that nobody expects of them: each act is a method, drawn by its weight, as those of
`acts.py`.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.meta import Kind
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.base.randomness import Random
from tests.sim.acting import Acting, secret_data
from tests.sim.snapshots.hands import HOLDS, KINDS, Hands
from tests.sim.snapshots.objects import CLAIMS, CONTENTS, GROUP_CONTENTS, GROUPS, SNAPSHOTS, Json, handles_of, is_member
from tests.sim.snapshots.plan import DRIVER, NAMESPACE, OTHER_CLASS, OTHER_DRIVER, SECRET, SNAPSHOTS_MAX
from tests.sim.snapshots.storage import STRANGER
from tests.sim.snapshots.world import DEFINITIONS, SnapshotWorld
from tests.support.snapshot_crds import GROUP_CRDS

OWN_MAX: Final = SNAPSHOTS_MAX + 3
LONG: Final = 253


class OddActs(Acting):
    def __init__(self, world: SnapshotWorld, hands: Hands) -> None:
        self._world, self._hands, self._backend, self._objects = world, hands, world.backend, world.laws.tables.objects
        self._habits, self._randomness, self._count = world.plan.habits, Random(world.plan.seed * 1_000_003 + 31), 0
        self._backup: list[tuple[Kind[Any], Json]] = []
        self.has_group_kinds, self.kinds_changed = world.plan.groups, 0

    async def prepare(self) -> None:
        if any("other_class" in act for act in self._habits.acts):
            body = {"metadata": {"name": OTHER_CLASS}, "driver": OTHER_DRIVER, "deletionPolicy": "Delete"}
            await self._hands.create(VOLUME_SNAPSHOT_CLASSES, body)

    async def disturb(self) -> None:
        """One act, now and then."""
        if self._randomness.happens(self._habits.act_share):
            await self._one_act(self._habits.acts)

    async def make_peace(self) -> None:
        await self.group_kinds_come()

    def _name(self) -> str:
        self._count += 1
        return f"odd{self._count}".ljust(LONG, "x") if self._habits.long_names else f"odd{self._count}"

    # -- imports

    async def import_in_making(self) -> None:
        """A snapshot that is in the storage, and that its content does not have yet, or not ready."""
        ready = {
            handle
            for one in self._all(CONTENTS)
            if (one.get("status") or {}).get("readyToUse")
            for handle in handles_of(one)
        }
        if found := sorted(
            snap.handle for snap in self._backend.snapshots.values() if not snap.group and snap.handle not in ready
        ):
            await self._import(self._one_of(found))

    async def import_member(self) -> None:
        """A snapshot of a group, by itself; of one that nobody has imported, now and then."""
        if self._randomness.happens(0.3):
            await self._import(self._backend.handles_of_group(self._backend.place_group(("elsewhere",)))[0])
        elif found := sorted(snap.handle for snap in self._backend.snapshots.values() if snap.group):
            await self._import(self._one_of(found))

    async def import_of_other_class(self) -> None:
        """Its class is of another driver: on the snapshot, on the content, or on both."""
        on = self._randomness.below(3)
        handle = self._backend.place("elsewhere")
        await self._import(handle, OTHER_CLASS if on != 1 else "", OTHER_CLASS if on != 0 else "")

    async def write_by_hand(self) -> None:
        """An import with what stands in files that somebody wrote: "", null, empty lists."""
        name, handle = self._name(), self._backend.place("elsewhere")
        ref = {
            "namespace": NAMESPACE,
            "name": name,
            "uid": self._one_of(("", None)),
            "resourceVersion": self._one_of(("", None)),
        }
        spec = {
            "driver": DRIVER,
            "deletionPolicy": self._one_of(("Delete", "Retain")),
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": ref,
            "volumeSnapshotClassName": self._one_of(("", None)),
        }
        empty: Json = {
            "labels": self._one_of(({}, None)),
            "annotations": self._one_of(({}, None)),
            "finalizers": self._one_of(([], None)),
        }
        await self._hands.create(
            VOLUME_SNAPSHOT_CONTENTS, {"metadata": {"name": f"import-{name}"[:LONG], **empty}, "spec": spec}
        )
        spec = {"source": {"volumeSnapshotContentName": f"import-{name}"[:LONG]}}
        await self._hands.create(
            VOLUME_SNAPSHOTS, {"metadata": {"name": name, **empty}, "spec": spec, "status": None}, NAMESPACE
        )

    async def _import(self, handle: str, of_snapshot: str = "", of_content: str = "") -> None:
        if len(self._all(SNAPSHOTS)) >= OWN_MAX:
            return
        name, policy = self._name(), self._one_of(("Delete", "Delete", "Retain"))
        content, ref = f"import-{name}"[:LONG], {"namespace": NAMESPACE, "name": name}
        spec = {
            "driver": DRIVER,
            "deletionPolicy": policy,
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": ref,
        }
        named = {"volumeSnapshotClassName": of_content} if of_content else {}
        await self._hands.create(VOLUME_SNAPSHOT_CONTENTS, {"metadata": {"name": content}, "spec": {**spec, **named}})
        if self._randomness.happens(0.8):
            named = {"volumeSnapshotClassName": of_snapshot} if of_snapshot else {}
            spec = {"source": {"volumeSnapshotContentName": content}, **named}
            await self._hands.create(VOLUME_SNAPSHOTS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)

    async def rebind(self) -> None:
        """A content whose snapshot is gone, of whatever kind, is given to another one."""
        alive = {snapshot["metadata"]["uid"] for snapshot in self._all(SNAPSHOTS)}
        left = [
            one for one in self._all(CONTENTS) if one["spec"]["volumeSnapshotRef"].get("uid", "") not in ("", *alive)
        ]
        left = [
            one for one in left if handles_of(one)
        ]  # else its name, by which alone the driver can be asked, would be lost
        if left and len(self._all(SNAPSHOTS)) < OWN_MAX:
            content, name = self._one_of(left), self._name()
            ref = {"namespace": NAMESPACE, "name": name, "uid": self._one_of((None, ""))}
            await self._hands.merge(VOLUME_SNAPSHOT_CONTENTS, content, {"spec": {"volumeSnapshotRef": ref}})
            spec = {"source": {"volumeSnapshotContentName": content["metadata"]["name"]}}
            await self._hands.create(VOLUME_SNAPSHOTS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)

    # -- classes and secrets

    async def take_over_class(self) -> None:
        """Another class stands under the name: of another driver, or with another policy."""
        planned = self._one_of(self._world.plan.classes)
        await self._hands.delete(VOLUME_SNAPSHOT_CLASSES, planned.name)
        driver, policy = self._one_of((OTHER_DRIVER, OTHER_DRIVER, DRIVER)), self._one_of(("Delete", "Retain"))
        await self._hands.create(
            VOLUME_SNAPSHOT_CLASSES, {"metadata": {"name": planned.name}, "driver": driver, "deletionPolicy": policy}
        )

    async def snapshot_of_other_class(self) -> None:
        claims = [claim for claim in self._all(CLAIMS) if "dataSource" not in claim["spec"]]
        if claims and len(self._all(SNAPSHOTS)) < OWN_MAX:
            source = {"persistentVolumeClaimName": self._one_of(claims)["metadata"]["name"]}
            body = {
                "metadata": {"name": self._name()},
                "spec": {"source": source, "volumeSnapshotClassName": OTHER_CLASS},
            }
            await self._hands.create(VOLUME_SNAPSHOTS, body, NAMESPACE)

    async def swap_secret(self) -> None:
        """The Secret becomes another tenant's."""
        data = secret_data(STRANGER)
        await self._hands.delete(SECRETS, SECRET, NAMESPACE)
        await self._hands.create(SECRETS, {"metadata": {"name": SECRET}, "data": data}, NAMESPACE)

    # -- force

    async def tear_snapshot(self) -> None:
        """Finalizers and all. Whoever does that looks after its content."""
        if found := [one for one in self._all(SNAPSHOTS) if not one["metadata"].get("ownerReferences")]:
            snapshot = self._one_of(found)
            self._world.laws.torn_snapshots.add(snapshot["metadata"]["uid"])
            await self._hands.remove(VOLUME_SNAPSHOTS, snapshot)
            await self._hands.merge(VOLUME_SNAPSHOTS, snapshot, {"metadata": {"finalizers": None}})

    async def tear_claim(self) -> None:
        """With its volume, whatever is made of it."""
        if found := [claim for claim in self._all(CLAIMS) if "dataSource" not in claim["spec"]]:
            claim = self._one_of(found)
            await self._hands.remove(PERSISTENT_VOLUME_CLAIMS, claim)
            await self._hands.merge(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": None}})
            await self._hands.delete(PERSISTENT_VOLUMES, claim["spec"].get("volumeName", ""))
            self._backend.volumes.discard(f"h-{claim['spec'].get('volumeName', '')}")

    # -- backups

    async def back_up(self) -> None:
        """Of the cluster's objects; the storage goes on."""
        of_snapshots = [
            (VOLUME_SNAPSHOTS, one) for one in self._all(SNAPSHOTS) if not one["metadata"].get("ownerReferences")
        ]
        of_contents = [(VOLUME_SNAPSHOT_CONTENTS, one) for one in self._all(CONTENTS) if not is_member(one)]
        self._backup = [(kind, copy.deepcopy(one)) for kind, one in (*of_snapshots, *of_contents)]

    async def restore_backup(self) -> None:
        """What is missing is made again, in any order, as tools do it: with new uids, without status, and with whatever
        else it had.
        """
        backup: list[Any] = list(self._backup)
        self._randomness.shuffle(backup)
        for kind, whole in backup[: 1 + self._randomness.below(4)]:
            kept = {
                key: whole["metadata"][key]
                for key in ("name", "annotations", "labels", "finalizers")
                if key in whole["metadata"]
            }
            if kind is VOLUME_SNAPSHOT_CONTENTS:
                self._world.laws.restored.add(f"{whole['spec']['volumeSnapshotRef'].get('uid', '')}")
            body = {"metadata": kept, "spec": copy.deepcopy(whole["spec"])}
            await self._hands.create(kind, body, whole["metadata"].get("namespace", ""))

    # -- groups

    async def import_group(self) -> None:
        """A group that is in the storage; mostly with its user's object."""
        if not self.has_group_kinds or len(self._all(GROUP_CONTENTS)) >= 3:
            return
        name = self._name()
        group = self._backend.place_group(("elsewhere", "elsewhere-2")[: 1 + self._randomness.below(2)])
        handles = {
            "volumeGroupSnapshotHandle": group,
            "volumeSnapshotHandles": sorted(self._backend.handles_of_group(group)),
        }
        spec = {
            "driver": DRIVER,
            "deletionPolicy": self._one_of(("Delete", "Retain")),
            "source": {"groupSnapshotHandles": handles},
            "volumeGroupSnapshotRef": {"namespace": NAMESPACE, "name": name},
        }
        await self._hands.create(GROUP_SNAPSHOT_CONTENTS, {"metadata": {"name": f"import-{name}"[:LONG]}, "spec": spec})
        if self._randomness.happens(0.6):
            spec = {"source": {"volumeGroupSnapshotContentName": f"import-{name}"[:LONG]}}
            await self._hands.create(GROUP_SNAPSHOTS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)

    async def drop_group_content(self) -> None:
        if found := self._all(GROUP_CONTENTS):
            await self._hands.remove(GROUP_SNAPSHOT_CONTENTS, self._one_of(found))

    async def group_kinds_go(self) -> None:
        """Nobody removes kinds that have objects."""
        if self.has_group_kinds and not self._all(GROUPS) and not self._all(GROUP_CONTENTS):
            self.has_group_kinds = False
            self.kinds_changed += 1
            for definition in GROUP_CRDS[1:]:
                await self._hands.delete(DEFINITIONS, definition["metadata"]["name"])

    async def group_kinds_come(self) -> None:
        if self._world.plan.groups and not self.has_group_kinds:
            for definition in GROUP_CRDS[1:]:
                await self._hands.create(DEFINITIONS, definition)
            self.has_group_kinds = True
            self.kinds_changed += 1

    # -- finalizers of others

    async def meddle(self, what: str) -> None:
        """Others move their finalizers on the object that a write is on its way to. what: the write, as laws name
        it.
        """
        plural, _, name = what.partition(" ")[2].partition(" ")
        plural = plural.partition("/")[0]
        found = self._objects.get(plural, {}).get(name)
        if plural not in KINDS or found is None:
            return
        held, first = found["metadata"].get("finalizers") or [], HOLDS[0]
        if first in held:
            await self._hands.hold(KINDS[plural], found, [one for one in held if one != first])
        elif "deletionTimestamp" not in found["metadata"]:
            await self._hands.hold(KINDS[plural], found, [first, *(one for one in held if one != HOLDS[1]), HOLDS[1]])

    async def cross(self, what: str) -> None:
        """Its owner deletes a snapshot, or an import that nobody is bound to, just when a write is on its way to it.
        what: the write, as laws name it.
        """
        plural, _, name = what.partition(" ")[2].partition(" ")
        plural = plural.partition("/")[0]
        found = self._objects[plural].get(name) if plural in (SNAPSHOTS, CONTENTS) else None
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        if plural == SNAPSHOTS and not found["metadata"].get("ownerReferences"):
            await self._hands.remove(VOLUME_SNAPSHOTS, found)
        elif plural == CONTENTS and not found["spec"]["volumeSnapshotRef"].get("uid"):
            await self._hands.remove(VOLUME_SNAPSHOT_CONTENTS, found)

    # -- the truth

    def _all(self, plural: str) -> list[Json]:
        return [found for _, found in sorted(self._objects[plural].items())]
