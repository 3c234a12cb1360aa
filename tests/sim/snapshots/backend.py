"""The driver in front of the storage. Calls and locks are those of the attacher's backend; how a call goes is drawn
there, and made worse here by the habits of the plan.

One thing can be relied on, by us and by csi-snapshotter: a request that makes something is not answered by a code which
says that it has not. All else is the driver's to do: a later request of the same name is refused with any code,
whatever became of those before.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from mooring.csi.errors import NON_FINAL, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.sim.backend import FINAL, NOT_FINAL, Fate, Operation, _one_of
from tests.sim.snapshots.habits import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP
from tests.sim.snapshots.plan import SPELLINGS
from tests.sim.snapshots.storage import STRANGER, Storage

LATE_S_MAX: Final = 20.0


class SnapshotBackend(Storage):
    """What it does with a call, and when."""

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
        """A snapshot of another volume: one that nobody knows, or one that a content has. None where no such one is
        there to be lent.
        """
        if not self._habits.borrows or self._odd.happens(0.5):
            return self.shown(self.place("elsewhere"))
        lent = [
            snap
            for snap in self.snapshots.values()
            if snap.volume != volume and not snap.group and snap.handle not in self.imported
        ]
        if not lent or not SPELLINGS[self._plan.spells]("volume"):  # type: ignore[attr-defined]
            return None
        return self.shown(lent[self._odd.below(len(lent))].handle)

    def _may_be_there(self, name: str) -> bool:
        return name in self.locks or bool(self.late[name] or self.handle_of(name) or self.group_of(name))

    # -- effects

    async def _put_off(self, verb: str, name: str, what: str) -> None:
        """Raises DriverError at once; the work is done later, and holds up nobody. A name that is over by then is known
        as used.
        """
        operation = Operation(
            verb, name, what, Fate(self._odd.uniform(0.0, LATE_S_MAX)), asyncio.get_running_loop().create_future()
        )
        self.late[name] += 1
        self.going[what] += verb in (DELETE, DELETE_GROUP)
        self._made_count += 1
        operation.task = self._group.create_task(
            self._later(operation), name=f"backend/late/{operation}/{self._made_count}"
        )
        raise DriverError(_one_of(NOT_FINAL, self._odd), "it may be carried out later")

    async def _later(self, operation: Operation) -> None:
        await self._clock.sleep(operation.fate.before_s)
        self.late[operation.handle] -= 1
        self.going[operation.node_id] -= operation.verb in (DELETE, DELETE_GROUP)
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

    # -- fates

    def _fate(self) -> Fate:
        """A request that makes something is not answered with an error which says that it has not; nothing else is
        certain.
        """
        fate, (verb, name) = super()._fate(), self._asked
        makes = verb in (CREATE, CREATE_GROUP) and fate.takes_effect and not self._may_be_there(name)
        if not makes or fate.error is None or fate.error in NON_FINAL:
            return fate
        return dataclasses.replace(fate, error=_one_of(NOT_FINAL, self._randomness))

    # -- what happens to it from outside

    def restart(self, away_s: float) -> None:
        super().restart(away_s)
        if self._habits.forgets:
            self.forgotten |= set(self.snapshots) - self.imported
            self.snapshots = {handle: dataclasses.replace(snap, name="") for handle, snap in self.snapshots.items()}

    def at_work_on(self) -> list[Operation | str]:
        """What may still take effect."""
        return [*self.locks.values(), *(f"late {name}" for name, count in self.late.items() if count)]
