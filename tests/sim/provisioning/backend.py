"""The storage behind the driver: which volumes there are. Calls, locks and most fates are those of the attacher's
backend.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from tests.sim.backend import Backend, Fate, Operation, _one_of
from tests.sim.provisioning.habits import ANOTHERS, HANGS, KIND, STUBBORN_CODES
from tests.sim.provisioning.owed import Owed
from tests.sim.provisioning.plan import SECRETS_OF

CREATE, DELETE = "create", "delete"
UNSURE: Final = (Code.UNAVAILABLE, Code.ABORTED, Code.CANCELED, Code.DEADLINE_EXCEEDED)
"""What a driver may answer while its volume is there, or is about to be."""

JUDGEMENTS: Final = (
    Code.INVALID_ARGUMENT,
    Code.ALREADY_EXISTS,
    Code.PERMISSION_DENIED,
    Code.OUT_OF_RANGE,
    Code.FAILED_PRECONDITION,
)
"""About a request whose name was not looked up."""

LINGERS_S_MAX: Final = 5.0
_STREAM: Final = 2_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """A volume as it is asked for. zone: the preferred one, "" for any. scope: account and zone in which its name is
    unique. token: of its account, "" for none.
    """

    name: str
    flavour: str
    scope: str = ""
    zone: str = ""
    token: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """An answer: another volume's may be too small."""

    handle: str
    is_small: bool = False


class VolumeBackend(Backend):
    """volumes: handle -> name, the truth. Handles begin with the name; a volume made again has another one. flavours:
    handle -> its own.

    scopes, zones: handle -> where it is; the scope is "" where all names are unique. tokens: of Secrets that open an
    account. owned: handles that were made with a Secret, and its token. forgotten: handles whose names the driver has
    lost. passed_off: handles that it has given out as those of a volume of another name.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.volumes: dict[str, str] = {}
        self.flavours: dict[str, str] = {}
        self.scopes: dict[str, str] = {}
        self.zones: dict[str, str] = {}
        self.owned: dict[str, str] = {}
        self.habits = KIND
        self.token, self.tokens = "token0", set(SECRETS_OF.values())
        self.forgotten: set[str] = set()
        self.passed_off: set[str] = set()
        self.owed = Owed(self.handles_at)
        self._draws = Random(self._plan.seed + _STREAM)
        self._lingering: set[str] = set()
        self._late_count = 0
        self._ended: set[tuple[str, str]] = set()  # name and scope of volumes that were deleted
        self._curses: dict[str, tuple[int, bool]] = {}
        self._made_count = 0
        self.on_made: Callable[[str], None] = lambda handle: None

    def handle_of(self, name: str, scope: str | None = None) -> str:
        """The first one of the name, in this scope; "" for none that the driver knows."""
        return next(iter(self.handles_at(name, scope)), "")

    def handles_at(self, name: str, scope: str | None = None) -> list[str]:
        """Those that the driver knows."""
        known = (handle for handle, other in self.volumes.items() if other == name and handle not in self.forgotten)
        return [handle for handle in known if scope is None or self.scopes[handle] == scope]

    @property
    def under_way(self) -> int:
        """How many calls go on that lock nothing."""
        return len(self._lingering) + self._late_count

    # -- calls

    async def create(self, wish: Wish, wants_secret: bool, secrets: Mapping[str, str]) -> Found:
        """Raises DriverError."""
        self._check(wants_secret, secrets)
        if (curse := self.curse_of(wish.name)) is not None:
            return await self._cursed(wish, *curse)
        if self.faulty and self._draws.happens(self.habits.judges):
            raise DriverError(_one_of(JUDGEMENTS, self._draws), "not such a request")
        if self._is_full(wish):
            raise DriverError(Code.RESOURCE_EXHAUSTED, f"no room in {wish.zone}")
        if self.faulty and self._draws.happens(self.habits.odd) and (other := self._another(wish.name)) is not None:
            return other
        if self.faulty and self._draws.happens(self.habits.late):
            self._goes_on(CREATE, wish.name, lambda: self._make_late(wish))
        await self.call(CREATE, wish.name, "@".join((wish.flavour, wish.scope, wish.zone, wish.token)), {})
        return Found(self.handle_of(wish.name, wish.scope))

    def _is_full(self, wish: Wish) -> bool:
        """A zone that is outgrown still tells of what it has."""
        if self.habits.outgrown and self.handle_of(wish.name, wish.scope):
            return False
        return (self.faulty or self.habits.outgrown) and bool(wish.zone) and wish.zone == self.habits.full

    async def delete(self, handle: str, secrets: Mapping[str, str]) -> None:
        """Raises DriverError.

        Who comes with a token of no account is refused: NotFound is the word of an account that was looked into, and a
        driver that says it for a wrong password, too, would tell of volumes as gone that are there, which nobody can
        know.
        """
        if self.habits.tenants and secrets and secrets.get("token") not in self.tokens:
            raise DriverError(Code.UNAUTHENTICATED, "wrong token")
        if self.habits.tenants and handle in self.owned and dict(secrets) != {"token": self.owned[handle]}:
            raise DriverError(Code.NOT_FOUND, "no such volume in this account")
        if handle in self._lingering:
            raise DriverError(Code.ABORTED, "a deletion is at work")
        if self.faulty and self._randomness.happens(self.habits.lingers):
            self._lingering.add(handle)
            self._group.create_task(self._linger(handle), name=f"backend/linger/{handle}/{self._clock.now()}")
            raise DriverError(Code.DEADLINE_EXCEEDED, "still at it")
        await self.call(DELETE, handle.partition("/")[0], handle, {})

    async def _linger(self, handle: str) -> None:
        """Until then the volume is there for everybody who asks for it."""
        await self._clock.sleep(self._randomness.uniform(0.0, LINGERS_S_MAX))
        self._lingering.discard(handle)
        if self._remove(handle):
            self._story.tell("backend", f"late effect of delete {handle}: {sorted(self.volumes)}")

    def _goes_on(self, verb: str, name: str, effect: Callable[[], None]) -> None:
        """Raises DriverError."""

        async def later() -> None:
            await self._clock.sleep(self._draws.uniform(0.0, LINGERS_S_MAX))
            self._late_count -= 1
            effect()

        self._late_count += 1
        self._group.create_task(later(), name=f"backend/late/{verb}/{name}/{self._clock.now()}")
        raise DriverError(Code.DEADLINE_EXCEEDED, "still at it")

    def _make_late(self, wish: Wish) -> None:
        """Unless it was made and deleted meanwhile: who comes back from the dead then is nobody's to know."""
        if not self.handle_of(wish.name, wish.scope) and (wish.name, wish.scope) not in self._ended:
            self._make(wish)
            self._story.tell("backend", f"late effect of create {wish.name}: {sorted(self.volumes)}")

    def _check(self, wants_secret: bool, secrets: Mapping[str, str]) -> None:
        if self.habits.tenants and not secrets:
            return  # an account of the driver's own
        if wants_secret and secrets.get("token") not in self.tokens:
            raise DriverError(Code.INVALID_ARGUMENT if self.habits.judges else Code.UNAUTHENTICATED, "wrong token")

    # -- answers that stay

    def curse_of(self, name: str) -> tuple[int, bool] | None:
        """The one answer for this name, and whether it comes after the effect; None while it is treated as others."""
        if not self.habits.stubborn:
            return None
        if name not in self._curses:
            code = _one_of(STUBBORN_CODES, self._draws) if self._draws.happens(self.habits.stubborn) else Code.OK
            self._curses[name] = code, self._draws.happens(0.5)
        curse = self._curses[name]
        return curse if curse[0] != Code.OK and (self.faulty or self.habits.lasting) else None

    async def _cursed(self, wish: Wish, code: int, is_after: bool) -> Found:
        """Raises DriverError."""
        if code == ANOTHERS:
            if (other := self._another(wish.name)) is not None:
                return other
            raise DriverError(Code.UNAVAILABLE, "for ever")
        if is_after and not self.handle_of(wish.name, wish.scope):
            self._make(wish)
            self._story.tell(
                "backend", f"effect of create {wish.name}, with an answer that stays: {sorted(self.volumes)}"
            )
        if code == HANGS:
            await asyncio.get_running_loop().create_future()
        raise DriverError(code, "for ever")

    def _another(self, name: str) -> Found | None:
        """A name that has a volume, or may be about to have one, is not taken for another's, and what nobody was told
        of is nobody's.
        """
        if name in self.volumes.values() or name in self.locks or self._late_count:
            return None
        others = tuple(
            sorted(
                handle for handle, other in self.volumes.items() if other != name and handle in self.owed.acknowledged
            )
        )
        if not others:
            return None
        found = Found(_one_of(others, self._draws), self._draws.happens(0.5))
        self.passed_off.add(found.handle)
        return found

    def refuses(self, wish: Wish) -> str:
        """Why a request is not served, however often it is made; "" where it is."""
        if (curse := self.curse_of(wish.name)) is not None:
            return f"its answer stays {curse[0]}"
        if self.habits.outgrown and self._is_full(wish):
            # This says nothing of an earlier call, where names are unique in a zone alone.
            return f"{wish.zone} never has room again"
        there = self.handle_of(wish.name, wish.scope)
        return f"{there} has flavour {self.flavours[there]}" if there and self.flavours[there] != wish.flavour else ""

    # -- effects

    def _take_effect(self, operation: Operation) -> DriverError | None:
        """What is to be deleted stands in the operation as node_id, and so does what is to be made."""
        operation.done = True
        if operation.verb == DELETE:
            self._remove(operation.node_id)
        else:
            wish = Wish(operation.handle, *operation.node_id.split("@"))
            handle = self.handle_of(wish.name, wish.scope)
            if not handle:
                self._make(wish)
            elif self.flavours[handle] != wish.flavour:
                return DriverError(Code.ALREADY_EXISTS, f"{handle} has flavour {self.flavours[handle]}")
        self._story.tell("backend", f"effect of {operation}: {sorted(self.volumes)}")
        return None

    def _make(self, wish: Wish) -> None:
        self._made_count += 1
        handle = f"{wish.name}/{wish.scope or 'one' if self.habits.reuses else self._made_count}"
        self.forgotten.discard(handle)
        self.on_made(handle)
        self.volumes[handle], self.flavours[handle] = wish.name, wish.flavour
        self.scopes[handle], self.zones[handle] = wish.scope, wish.zone
        if wish.token:
            self.owned[handle] = wish.token

    def _remove(self, handle: str) -> bool:
        name = self.volumes.pop(handle, None)
        if name is not None:
            self._ended.add((name, self.scopes[handle]))
        return name is not None

    def _fate(self) -> Fate:
        """An honest driver does not answer a call that took effect with an error that says it did not.

        One whose volume is there already may fail of anything: requests are judged before anybody looks for the name.
        """
        fate = super()._fate()
        if fate.error is None or fate.error in UNSURE or (self.habits.lies and fate.error is not Code.NOT_FOUND):
            return fate
        if not fate.takes_effect and fate.error is not Code.NOT_FOUND:  # a deletion that finds nothing is over
            return fate
        return Fate(fate.before_s, fate.after_s, fate.takes_effect, _one_of(UNSURE, self._randomness))

    def restart(self, away_s: float) -> None:
        """One that forgets has then lost the names of what it has never told of."""
        super().restart(away_s)
        if self.habits.forgets:
            lost = set(self.volumes) - self.owed.acknowledged - self.forgotten
            self.forgotten |= lost
            self._story.tell("backend", f"forgets the names of {sorted(lost)}")
