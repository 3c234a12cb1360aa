"""The storage behind the driver: its snapshots. Calls, locks and fates are those of the attacher's backend.

A driver that may have made a snapshot never says that it has not: its errors about that name say that it may be at work. One that judges
requests first says nothing of the name: it refuses a repeated one, whatever became of those before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.csi.capabilities import DriverInfo
from mooring.csi.codes import Code, DriverError
from mooring.csi.proto import csi_pb2 as csi
from tests.sim.backend import FINAL, NOT_FINAL, Backend, Fate, Operation, _one_of
from tests.sim.snapshots.plan import DRIVER, SPELLINGS, Plan

CREATE, DELETE, CREATE_GROUP, DELETE_GROUP = "create", "delete", "create group", "delete group"
SIZE: Final = 1 << 30
CREATED_S: Final = 1_700_000_000
_RPC: Final = csi.ControllerServiceCapability.RPC
_SERVICE: Final = csi.PluginCapability.Service


def info_of(plan: Plan) -> DriverInfo:
    """What the driver says of itself."""
    controller = {
        _RPC.CREATE_DELETE_SNAPSHOT,
        *((_RPC.LIST_SNAPSHOTS,) if plan.lists else ()),
        *((_RPC.GET_SNAPSHOT,) if plan.gets else ()),
    }
    plugin = {_SERVICE.CONTROLLER_SERVICE, *((_SERVICE.GROUP_CONTROLLER_SERVICE,) if plan.groups else ())}
    return DriverInfo(DRIVER, "1", frozenset(plugin), frozenset(), frozenset(controller))


@dataclasses.dataclass(frozen=True, slots=True)
class Snap:
    """One snapshot. name: as it was asked for. ready_at: from then on it can be restored from. group: the handle of its group."""

    handle: str
    name: str
    volume: str
    ready_at: float
    group: str = ""


class SnapshotBackend(Backend):
    """snapshots: by handle; a handle begins with the name, and one that is made again has another number.

    imported: handles that were there before any content named them. over: names whose snapshot was deleted. strange: handles of snapshots
    that were given as answers, and named as of other volumes.
    laws: told of the effects, set by the world. token: of the Secret that calls of some classes must carry.
    """

    laws: Any

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.snapshots: dict[str, Snap] = {}
        self.imported: set[str] = set()
        self.over: set[str] = set()
        self.strange: set[str] = set()
        self.token = "token0"
        self._made_count = 0
        self._asked = ""

    def handle_of(self, name: str) -> str:
        return next((snap.handle for snap in self.snapshots.values() if snap.name == name), "")

    def handles_of_group(self, group: str) -> list[str]:
        return [snap.handle for snap in self.snapshots.values() if snap.group == group]

    def group_of(self, name: str) -> str:
        """The handle of the group of this name, "" for none."""
        return next((snap.group for snap in self.snapshots.values() if snap.group.rpartition("/")[0] == name), "")

    def is_ready(self, handle: str) -> bool:
        return handle in self.snapshots and self.snapshots[handle].ready_at <= self._clock.now()

    def staying(self) -> set[str]:
        """The handles of those that no call is about to delete."""
        return set(self.snapshots) - {operation.node_id for operation in self.locks.values() if operation.verb == DELETE}

    def place(self, volume: str) -> str:
        """A snapshot that somebody made by other means: its handle."""
        self._made_count += 1
        handle = f"old/{self._made_count}"
        self.snapshots[handle] = Snap(handle, handle, volume, self._clock.now())
        self.imported.add(handle)
        return handle

    def shown(self, handle: str) -> csi.Snapshot:
        snap = self.snapshots[handle]
        source = SPELLINGS[self._plan.spells](snap.volume)  # type: ignore[attr-defined]
        made = csi.Snapshot(snapshot_id=handle, source_volume_id=source, size_bytes=SIZE, ready_to_use=self.is_ready(handle))
        made.group_snapshot_id = snap.group
        made.creation_time.seconds = CREATED_S
        return made

    # -- calls; each raises DriverError

    async def create(self, name: str, volume: str, secrets: Mapping[str, str], *, wants_secret: bool) -> csi.Snapshot:
        self._check(name, secrets, wants_secret=wants_secret)
        if self._lies() and not self._may_be_there(name):
            found = self.shown(self.place("elsewhere"))
            if found.source_volume_id:  # else nobody can know
                self.strange.add(found.snapshot_id)
            return found
        await self._ask(CREATE, name, volume)
        return self._made(self.handle_of(name))

    async def delete(self, handle: str) -> None:
        await self._ask(DELETE, handle.rpartition("/")[0] if handle not in self.imported else handle, handle)

    async def create_group(self, name: str, volumes: Iterable[str]) -> csi.VolumeGroupSnapshot:
        self._judge(name)
        await self._ask(CREATE_GROUP, name, " ".join(sorted(volumes)))
        return self.shown_group(self.group_of(name))

    async def delete_group(self, group: str) -> None:
        await self._ask(DELETE_GROUP, group.rpartition("/")[0], group)

    def shown_group(self, group: str) -> csi.VolumeGroupSnapshot:
        """Raises DriverError."""
        handles = self.handles_of_group(group)
        if not group or not handles:
            raise DriverError(Code.NOT_FOUND, f"no group {group}")
        made = csi.VolumeGroupSnapshot(group_snapshot_id=group, snapshots=[self.shown(one) for one in handles])
        made.ready_to_use = all(map(self.is_ready, handles))
        made.creation_time.seconds = CREATED_S
        return made

    def _made(self, handle: str) -> csi.Snapshot:
        if not handle:
            raise DriverError(Code.UNAVAILABLE, "it was deleted meanwhile")
        return self.shown(handle)

    async def _ask(self, verb: str, name: str, what: str) -> None:
        self._asked = name  # for the fate, which is drawn before anything is awaited
        await self.call(verb, name, what, {})

    def _check(self, name: str, secrets: Mapping[str, str], *, wants_secret: bool) -> None:
        is_judged = self._plan.judges_first or not self._may_be_there(name)  # type: ignore[attr-defined]
        if wants_secret and dict(secrets) != {"token": self.token} and is_judged:
            raise DriverError(Code.UNAUTHENTICATED, "wrong token")
        self._judge(name)

    def _judge(self, name: str) -> None:
        """Refuses a request now and then, whose name may be one of something that is made or in the making."""
        if self._plan.judges_first and self.faulty and self._may_be_there(name) and self._randomness.happens(0.4):  # type: ignore[attr-defined]
            raise DriverError(_one_of(FINAL, self._randomness), "judged before the name was looked up")

    def _lies(self) -> bool:
        lies: float = self._plan.lies  # type: ignore[attr-defined]
        return bool(lies) and self.faulty and self._randomness.happens(lies)

    def _may_be_there(self, name: str) -> bool:
        return name in self.locks or bool(self.handle_of(name) or self.group_of(name))

    def _take_effect(self, operation: Operation) -> DriverError | None:
        """The name stands in the operation as handle; volume, volumes, or the handle of what is to go, as node_id."""
        operation.done = True
        name, what = operation.handle, operation.node_id
        match operation.verb:
            case "delete" if what in self.snapshots:
                self.over.add(self.snapshots.pop(what).name)
            case "delete group":
                for handle in self.handles_of_group(what):
                    del self.snapshots[handle]
                self.over.add(name)
            case "create" if not self.handle_of(name):
                self._make(name, what)
            case "create group" if not self.group_of(name):
                self._made_count += 1
                group = f"{name}/{self._made_count}"
                for volume in what.split(" "):
                    self._make(f"{group}/{volume}", volume, group)
                self.laws.is_made(name)
        self._story.tell("backend", f"effect of {operation}: {sorted(self.snapshots)}")
        return None

    def _make(self, name: str, volume: str, group: str = "") -> None:
        self._made_count += 1
        handle = f"{name}/{self._made_count}"
        ready_at = self._clock.now() + self._randomness.uniform(0.0, self._plan.cutting_s)  # type: ignore[attr-defined]
        self.snapshots[handle] = Snap(handle, name, volume, ready_at, group)
        if not group:
            self.laws.is_made(name)

    def _fate(self) -> Fate:
        """One that takes effect, or whose effect is there already, is never answered with an error that says it is not."""
        fate = super()._fate()
        if fate.error is None or fate.error in NOT_FINAL:
            return fate
        if not fate.takes_effect and not self._may_be_there(self._asked):
            return fate
        return dataclasses.replace(fate, error=_one_of(NOT_FINAL, self._randomness))
