"""The storage behind the driver: its snapshots. Calls and locks are those of the attacher's backend; how a call goes is drawn there, and
made worse here by the habits of the plan.

One thing can be relied on, by us and by csi-snapshotter: a request that makes something is not answered by a code which says that it has
not. All else is the driver's to do: a later request of the same name is refused with any code, whatever became of those before.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.csi.capabilities import DriverInfo
from mooring.csi.codes import NON_FINAL, Code, DriverError
from mooring.csi.proto import csi_pb2 as csi
from tests.sim.backend import FINAL, NOT_FINAL, Backend, Fate, Operation, _one_of
from tests.sim.snapshots.habits import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP, Quirk
from tests.sim.snapshots.plan import DRIVER, SPELLINGS, Plan

SIZE: Final = 1 << 30
CREATED_S: Final = 1_700_000_000
LATE_S_MAX: Final = 20.0
NEVER_S: Final = 1e6
"""A call that takes so long is not answered."""
STRANGER: Final = "of another tenant"
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
    """One snapshot. name: as it was asked for, "" where that is forgotten. ready_at: from then on it can be restored from. group: the
    handle of its group. private: only who asks with the Secret sees it.
    """

    handle: str
    name: str
    volume: str
    ready_at: float
    group: str = ""
    private: bool = False


class SnapshotBackend(Backend):
    """snapshots: by handle; a handle begins with the name, and one that is made again has another number. volumes: that are there.

    imported: handles that were there before any content named them. over: names whose snapshot was deleted. strange: handles of snapshots
    that were given as answers, and named as of other volumes. forgotten: handles of those whose names a restart lost. astray: handles whose
    deletion was asked for as another tenant, by a Secret that was. laws: told of the effects, set by the world. token: of the Secret that
    calls of some classes must carry. dying: deleted, and answered with until then. private: names that were asked for with a Secret.
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
        self.strange: set[str] = set()
        self.forgotten: set[str] = set()
        self.astray: set[str] = set()
        self.private: set[str] = set()
        self.late: Counter[str] = Counter()  # by name, what was given up and is still to be carried out
        self.stubborn = True
        self.token = "token0"
        self._made_count = 0
        self._asked = ("", "")
        self._struck: set[tuple[Quirk, str]] = set()

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
        return next((snap.group for snap in self.snapshots.values() if snap.name and snap.group.rpartition("/")[0] == name), "")

    def is_ready(self, handle: str) -> bool:
        return handle in self.snapshots and self.snapshots[handle].ready_at <= self._clock.now()

    @property
    def private_handles(self) -> set[str]:
        """The handles of those that only who asks with the Secret sees."""
        return {snap.handle for snap in self.snapshots.values() if snap.private}

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

    # -- calls; each raises DriverError

    async def create(self, name: str, volume: str, secrets: Mapping[str, str], *, wants_secret: bool) -> csi.Snapshot:
        self._check(name, (volume,), secrets, wants_secret=wants_secret)
        if self._lies() and not self._may_be_there(name) and (found := self._lie(volume)) is not None:
            return found
        await self._ask(CREATE, name, volume)
        return self._made(self.handle_of(name))

    async def delete(self, handle: str, secrets: Mapping[str, str]) -> None:
        if self._is_hidden(self.snapshots.get(handle), secrets):
            self._story.tell("backend", f"this tenant does not see {handle}: there is nothing to delete")
            if secrets:
                self.astray.add(handle)
            return
        await self._ask(DELETE, handle.rpartition("/")[0] if handle not in self.imported else handle, handle)

    async def create_group(self, name: str, volumes: Iterable[str]) -> csi.VolumeGroupSnapshot:
        self._check(name, volumes, {}, wants_secret=False)
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
        if self._habits.nameless:
            for one in made.snapshots:
                one.source_volume_id = ""
        made.ready_to_use = all(map(self.is_ready, handles))
        made.creation_time.seconds = CREATED_S
        return made

    def _made(self, handle: str) -> csi.Snapshot:
        if not handle:
            raise DriverError(Code.UNAVAILABLE, "it was deleted meanwhile")
        return self.shown(handle)

    async def _ask(self, verb: str, name: str, what: str) -> None:
        if self.faulty and self._odd.happens(self._habits.late):
            await self._put_off(verb, name, what)
        self._asked = verb, name  # for the fate, which is drawn before anything is awaited
        await self.call(verb, name, what, {})

    async def answer_time(self) -> None:
        self._asked = "", ""
        await super().answer_time()

    def _check(self, name: str, volumes: Iterable[str], secrets: Mapping[str, str], *, wants_secret: bool) -> None:
        is_judged = self._plan.judges_first or not self._may_be_there(name)  # type: ignore[attr-defined]
        if self._habits.tenants and secrets:
            self.private.add(name)
        if name in self.private and secrets.get("token", STRANGER) == STRANGER:
            raise DriverError(Code.NOT_FOUND, "this tenant has no such volume")
        if wants_secret and dict(secrets) != {"token": self.token} and is_judged:
            raise DriverError(Code.UNAUTHENTICATED, "wrong token")
        if is_judged and not set(volumes) <= self.volumes:
            raise DriverError(Code.NOT_FOUND, f"no volumes {sorted(set(volumes) - self.volumes)}")
        self._judge(name)

    def _judge(self, name: str) -> None:
        """Refuses a request now and then, whose name may be one of something that is made or in the making."""
        if self._plan.judges_first and self.faulty and self._may_be_there(name) and self._randomness.happens(0.4):  # type: ignore[attr-defined]
            raise DriverError(_one_of(FINAL, self._randomness), "judged before the name was looked up")

    def _lies(self) -> bool:
        lies: float = self._plan.lies  # type: ignore[attr-defined]
        return bool(lies) and self.faulty and self._randomness.happens(lies)

    def _lie(self, volume: str) -> csi.Snapshot | None:
        """A snapshot of another volume: one that nobody knows, or one that a content has. None where no such one is there to be lent."""
        if not self._habits.borrows or self._odd.happens(0.5):
            found = self.shown(self.place("elsewhere"))
            if found.source_volume_id:  # else nobody can know
                self.strange.add(found.snapshot_id)
            return found
        lent = [snap for snap in self.snapshots.values() if snap.volume != volume and not snap.group and snap.handle not in self.imported]
        if not lent or not SPELLINGS[self._plan.spells]("volume"):  # type: ignore[attr-defined]
            return None
        return self.shown(lent[self._odd.below(len(lent))].handle)

    def _may_be_there(self, name: str) -> bool:
        return name in self.locks or bool(self.late[name] or self.handle_of(name) or self.group_of(name))

    # -- effects

    async def _put_off(self, verb: str, name: str, what: str) -> None:
        """Raises DriverError at once; the work is done later, and holds up nobody. A name that is over by then is known as used."""
        operation = Operation(verb, name, what, Fate(self._odd.uniform(0.0, LATE_S_MAX)), asyncio.get_running_loop().create_future())
        self.late[name] += 1
        self._made_count += 1
        operation.task = self._group.create_task(self._later(operation), name=f"backend/late/{operation}/{self._made_count}")
        raise DriverError(_one_of(NOT_FINAL, self._odd), "it may be carried out later")

    async def _later(self, operation: Operation) -> None:
        await self._clock.sleep(operation.fate.before_s)
        self.late[operation.handle] -= 1
        if operation.verb in (DELETE, DELETE_GROUP) or operation.handle not in self.over:
            self._take_effect(operation)

    def _take_effect(self, operation: Operation) -> DriverError | None:
        """The name stands in the operation as handle; volume, volumes, or the handle of what is to go, as node_id."""
        operation.done = True
        name, what = operation.handle, operation.node_id
        match operation.verb:
            case "delete" if what in self.snapshots:
                self._take_away(what)
                self.over.add(name)
            case "delete group":
                for handle in self.handles_of_group(what):
                    self._take_away(handle)
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

    # -- fates

    def _fate(self) -> Fate:
        """A request that makes something is not answered with an error which says that it has not; nothing else is certain."""
        fate, (verb, name) = super()._fate(), self._asked
        quirk = self._quirk(verb, name)
        if quirk is not None:
            fate = _odd_fate(fate, quirk)
        makes = verb in (CREATE, CREATE_GROUP) and fate.takes_effect and not self._may_be_there(name)
        if not makes or fate.error is None or fate.error in NON_FINAL:
            return fate
        return dataclasses.replace(fate, error=_one_of(NOT_FINAL, self._randomness))

    def _quirk(self, verb: str, name: str) -> Quirk | None:
        for quirk in self._habits.quirks if self.stubborn else ():
            if quirk.verb != verb or (quirk.once and ((quirk, name) in self._struck or not self.faulty)):
                continue
            self._struck.add((quirk, name))
            return quirk  # type: ignore[no-any-return]
        return None

    # -- what happens to it from outside

    def restart(self, away_s: float) -> None:
        super().restart(away_s)
        if self._habits.forgets:
            self.forgotten |= set(self.snapshots) - self.imported
            self.snapshots = {handle: dataclasses.replace(snap, name="") for handle, snap in self.snapshots.items()}

    def remove_by_hand(self, uid: str) -> None:
        """What was made for this uid, as an administrator finds it in the storage."""
        for snap in list(self.snapshots.values()):
            if uid in snap.handle:
                del self.snapshots[snap.handle]

    def relent(self) -> None:
        """Nothing stands in the way any more, and calls that would never be answered are."""
        self.stubborn = False
        for name, operation in list(self.locks.items()):
            if max(operation.fate.before_s, operation.fate.after_s) >= NEVER_S:
                assert operation.task is not None
                operation.task.cancel()
                self._answer(operation, DriverError(Code.UNAVAILABLE, "the driver was started again"))
                del self.locks[name]

    def at_work_on(self) -> list[Operation | str]:
        """What may still take effect."""
        return [*self.locks.values(), *(f"late {name}" for name, count in self.late.items() if count)]


def _odd_fate(fate: Fate, quirk: Quirk) -> Fate:
    if quirk.code is not None:
        return Fate(fate.before_s, fate.after_s, takes_effect=quirk.after, error=quirk.code)
    if quirk.after:
        return Fate(fate.before_s, NEVER_S)
    return Fate(NEVER_S, takes_effect=False)


def _echo(handle: str, way: str) -> str:
    return {"": handle, "letters": handle.upper(), "none": ""}[way]
