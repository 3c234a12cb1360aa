"""What there is in the storage behind the driver: its snapshots and groups, as they are, and as tenants are shown
them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.sim.quirks import QuirkyBackend
from tests.sim.snapshots.habits import DELETE
from tests.sim.snapshots.plan import SPELLINGS

SIZE: Final = 1 << 30
CREATED_S: Final = 1_700_000_000
STRANGER: Final = "of another tenant"


@dataclasses.dataclass(frozen=True, slots=True)
class Snap:
    """One snapshot. name: as it was asked for, "" where that is forgotten. ready_at: from then on it can be restored
    from. group: the handle of its group. private: only who asks with the Secret sees it.
    """

    handle: str
    name: str
    volume: str
    ready_at: float
    group: str = ""
    private: bool = False


class Storage(QuirkyBackend):
    """snapshots: by handle; a handle begins with the name, and one that is made again has another number. volumes: that
    are there.

    imported: handles that were there before any content named them. over: names whose snapshot was deleted. forgotten:
    handles of those whose names a restart lost. astray: handles whose deletion was asked for as another tenant, by a
    Secret that was. laws: told of the effects, set by the world. token: of the Secret that calls of some classes must
    carry. dying: deleted, and answered with until then. private: names that were asked for with a Secret.
    """

    laws: Any

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        plan: Any = self._plan
        self._habits, self._odd = plan.habits, Random(plan.seed * 1_000_003 + 29)
        self.snapshots: dict[str, Snap] = {}
        self.dying: dict[str, tuple[Snap, float]] = {}
        self.volumes: set[str] = set()
        self.imported: set[str] = set()
        self.over: set[str] = set()
        self.forgotten: set[str] = set()
        self.astray: set[str] = set()
        self.private: set[str] = set()
        self.late: Counter[str] = Counter()  # by name, what was given up and is still to be carried out
        self.going: Counter[str] = Counter()  # by handle, the deletions among it
        self.token = "token0"
        self._made_count = 0

    @property
    def plan_forgets(self) -> bool:
        return bool(self._habits.forgets)

    # -- what there is

    def _answered_with(self) -> list[Snap]:
        """Also those that are deleted, and not gone yet."""
        if not self.dying:
            return list(self.snapshots.values())
        now = self._clock.now()
        self.dying = {handle: (snap, until) for handle, (snap, until) in self.dying.items() if until > now}
        return [*self.snapshots.values(), *(snap for snap, _ in self.dying.values())]

    def handle_of(self, name: str) -> str:
        return next((snap.handle for snap in self._answered_with() if snap.name == name), "")

    def handles_of_group(self, group: str) -> list[str]:
        return [snap.handle for snap in self.snapshots.values() if snap.group == group]

    def group_of(self, name: str) -> str:
        """The handle of the group of this name, "" for none."""
        return next(
            (snap.group for snap in self.snapshots.values() if snap.name and snap.group.rpartition("/")[0] == name), ""
        )

    def is_ready(self, handle: str) -> bool:
        return handle in self.snapshots and self.snapshots[handle].ready_at <= self._clock.now()

    @property
    def private_handles(self) -> set[str]:
        """The handles of those that only who asks with the Secret sees."""
        return {snap.handle for snap in self.snapshots.values() if snap.private}

    def staying(self) -> set[str]:
        """The handles of those that no call is about to delete."""
        going = {operation.node_id for operation in self.locks.values() if operation.verb == DELETE} | set(+self.going)
        return set(self.snapshots) - going - {handle for group in going for handle in self.handles_of_group(group)}

    def place(self, volume: str) -> str:
        """A snapshot that somebody made by other means: its handle."""
        self._made_count += 1
        handle = f"old/{self._made_count}"
        self.snapshots[handle] = Snap(handle, handle, volume, self._clock.now())
        self.imported.add(handle)
        return handle

    def place_group(self, volumes: Iterable[str]) -> str:
        """The same for a group: its handle."""
        self._made_count += 1
        group = f"oldgroup/{self._made_count}"
        for volume in volumes:
            handle = self.place(volume)
            self.snapshots[handle] = dataclasses.replace(self.snapshots[handle], group=group)
        return group

    def shown(self, handle: str, *, asked: bool = False) -> csi.Snapshot:
        """asked: to a question, which may spell ids in its own way."""
        snap = next(one for one in self._answered_with() if one.handle == handle)
        source = SPELLINGS[self._plan.spells](snap.volume)  # type: ignore[attr-defined]
        shown_id = _echo(handle, self._habits.echoes if asked else "")
        is_ready = snap.ready_at <= self._clock.now()
        made = csi.Snapshot(snapshot_id=shown_id, source_volume_id=source, size_bytes=SIZE, ready_to_use=is_ready)
        made.group_snapshot_id = _echo(snap.group, self._habits.kin)
        made.creation_time.seconds = CREATED_S
        return made

    def listed(self, handle: str, volume: str, secrets: Mapping[str, str]) -> list[str]:
        """The handles of the snapshot with this handle, or of those of this volume, as far as this tenant sees them."""
        found = [snap for snap in self._answered_with() if (snap.handle == handle if handle else snap.volume == volume)]
        return [snap.handle for snap in found if not self._is_hidden(snap, secrets)]

    def _is_hidden(self, snap: Snap | None, secrets: Mapping[str, str]) -> bool:
        return snap is not None and snap.private and secrets.get("token", STRANGER) == STRANGER

    def shown_group(self, group: str) -> csi.VolumeGroupSnapshot:
        """Raises DriverError."""
        handles = self.handles_of_group(group)
        if not group or not handles:
            raise DriverError(Code.NOT_FOUND, f"no group {group}")
        made = csi.VolumeGroupSnapshot(group_snapshot_id=group, snapshots=[self.shown(one) for one in handles])
        if self._habits.nameless:
            for one in made.snapshots:
                one.source_volume_id = ""
        made.ready_to_use = all(map(self.is_ready, handles))
        made.creation_time.seconds = CREATED_S
        return made

    # -- what becomes of it

    def _take_away(self, handle: str) -> None:
        snap = self.snapshots.pop(handle)
        if self._habits.lingers_s:
            self.dying[handle] = snap, self._clock.now() + self._odd.uniform(0.0, self._habits.lingers_s)

    def _make(self, name: str, volume: str, group: str = "") -> None:
        self._made_count += 1
        handle = f"{name}/{self._made_count}"
        if any(other.startswith(f"{name.partition('/')[0]}/") for other in self.forgotten):
            self.forgotten.add(handle)  # a second one, of a name that was forgotten
        ready_at = self._clock.now() + self._randomness.uniform(0.0, self._plan.cutting_s)  # type: ignore[attr-defined]
        self.snapshots[handle] = Snap(handle, name, volume, ready_at, group, private=name in self.private)
        if not group:
            self.laws.is_made(name)

    def remove_by_hand(self, uid: str) -> None:
        """What was made for this uid, as an administrator finds it in the storage."""
        for snap in list(self.snapshots.values()):
            if uid in snap.handle:
                del self.snapshots[snap.handle]


def _echo(handle: str, way: str) -> str:
    return {"": handle, "letters": handle.upper(), "none": ""}[way]
