"""The API server's habits beyond a request that fails: rights that are taken away for a while, writes that come late, a
backup.

Its doors stand in each line (`line.py`); what is one for all programs, and what outlives a process, is here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from mooring.apiserver.watch import WatchHub
from mooring.kube.cluster import Request, Verb
from mooring.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotServed,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tests.sim.history import History
from tests.sim.laws import WRITING
from tests.support.backups import put_back

if TYPE_CHECKING:
    from tests.sim.world import SimWorld

Right = tuple[str, str, str]
"""A program, a verb, and a kind with its sub-resource."""

LATE: Final[ContextVar[bool]] = ContextVar("late", default=False)
"""True for what a write that comes late does to the store."""
WATCH: Final = "watch"
AWAY_S: Final = (1.0, 5.0)
"""How long a server is away while it is set back."""
UNSEEN: Final = 100_000
"""Versions of objects that are nobody's here, since a backup."""


def refusals(verb: str, *, writes: bool) -> list[Callable[[], ApiError]]:
    """Every code that such a request may be refused with. A 404 says that the kind is not served: one that says of an
    object that is there that it is not is no answer of a kube-apiserver to these requests, which read the newest state.
    """
    any_request: list[Callable[[], ApiError]] = [
        lambda: Unauthorized("Unauthorized", reason="Unauthorized"),
        lambda: Forbidden("is forbidden: not allowed to", reason="Forbidden"),
        lambda: NotServed("the server could not find the requested resource", reason="NotFound"),
        lambda: TooManyRequests("too many requests", reason="TooManyRequests", retry_after_s=1.0),
        lambda: ServerError("internal error", code=500, reason="InternalError"),
        lambda: ServerError("apiserver is shutting down", code=503, reason="ServiceUnavailable"),
        lambda: ServerError("request did not complete within requested timeout", code=504, reason="Timeout"),
    ]
    if writes:
        any_request += [
            lambda: Conflict("the object has been modified", reason="Conflict"),
            lambda: Invalid("denied by a policy", reason="Invalid"),
        ]
    if verb == WATCH:
        any_request.append(lambda: Gone("too old resource version", reason="Expired"))
    return any_request


def lasting_refusals(*, writes: bool) -> list[Callable[[], ApiError]]:
    """Those of them that stay as they are for long: rights, a webhook, a policy, a kind that is not served for now."""
    return [
        make
        for make in refusals("", writes=writes)
        if not isinstance(make(), Conflict | TooManyRequests | Unauthorized)
    ]


class Server:
    """late_count: writes that were given up and are still on their way. late_names: of the objects that such writes
    were ever made for.

    on_set_back: called when the server was set back, with the version that it has now. on_late: called when a write was
    carried out late, with its process and its object's name.
    """

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._randomness = world.randomness["habits"]
        self.history = History(world.store, world.clock.now) if world.habits.lag or world.habits.set_back else None
        self.late_count = 0
        self.late_names: set[str] = set()
        self.set_back_count = 0
        self.on_set_back: list[Callable[[int], None]] = []
        self.on_late: list[Callable[[str, str], None]] = []
        self._refused: dict[Right, tuple[Callable[[], ApiError], float]] = {}
        self._backup: int | None = None
        self._away_until = 0.0

    @property
    def is_away(self) -> bool:
        """True while it is being set back."""
        return self._world.clock.now() < self._away_until

    # -- refusals

    def refuse(self, right: Right, make: Callable[[], ApiError], seconds: float) -> None:
        """For so long, whatever else happens; a part may also do it as an act."""
        program, verb, what = right
        self._world.story.tell("API server", f"refuses {program} to {verb} {what} for {seconds:.3f} s: {make()}")
        self._refused[right] = make, self._world.clock.now() + seconds

    def refusal(self, right: Right, *, writes: bool) -> ApiError | None:
        """The error for a request that needs this right, None for none. Draws whether a lasting one begins, or this is
        an odd one.
        """
        now, habits, randomness = self._world.clock.now(), self._world.habits, self._randomness
        if self.is_away:
            return Unreachable("connection refused")
        if not self._world.faulty:
            return None
        if habits.lasting and randomness.happens(habits.lasting) and right not in self._refused:
            makes = lasting_refusals(writes=writes)
            self.refuse(right, makes[randomness.below(len(makes))], randomness.uniform(0.0, habits.lasting_s))
        make, until = self._refused.get(right, (None, 0.0))
        if make is not None and now < until:
            return make()
        if habits.odd and randomness.happens(habits.odd):
            odd = refusals(right[1], writes=writes)
            return odd[randomness.below(len(odd))]()
        return None

    # -- writes that come late

    def is_late(self) -> bool:
        """Draws whether a write is given up, and carried out some time later."""
        late = self._world.habits.late
        return late > 0 and self._world.faulty and self._randomness.happens(late)

    def carry_out_late(self, who: str, request: Request) -> float:
        """Begins that. Returns after how many seconds it will come; whatever it does is nobody's write of ours any
        more.
        """
        after_s = self._randomness.uniform(0.0, self._world.habits.late_s)
        uid = self._uid(request)
        self.late_count += 1
        self.late_names.add(request.name)
        token = WRITING.set(None)
        name = f"late/{request.verb}/{request.place}/{self._world.clock.now()}"
        self._world.group.create_task(self._carry_out(who, request, uid, after_s), name=name)
        WRITING.reset(token)
        return after_s

    async def _carry_out(self, who: str, request: Request, uid: str, after_s: float) -> None:
        """Whatever it does to the object that it was made for is bad luck; to another one it must do nothing."""
        await self._world.clock.sleep(after_s)
        self.late_count -= 1
        before = self._uid(request), self._version(request)
        try:
            LATE.set(True)
            await self._world.cluster.ask(request)
            did = self._version(request) != before[1]
        except ApiError:
            did = False
        what = f"{request.verb} {request.place}"
        self._world.story.tell("API server", f"{who}'s late {what}: {'done' if did else 'refused'}")
        for told in self.on_late if did else ():
            told(who, request.name)
        is_meant = before[0] in (uid, "") or before[0] in str(
            request.body
        )  # one that the write names, and a set-back has brought back
        if did and not is_meant and not self._world.may_come_astray(request):
            self._world.fail("late-astray", f"{what} of {who}, given up, changed the next of that name: {request.body}")

    def _uid(self, request: Request) -> str:
        return self._world.truth.uid(request.kind, request.name, request.namespace) if request.name else ""

    def _version(self, request: Request) -> int:
        return self._world.truth.version(request.kind, request.name, request.namespace) if request.name else 0

    # -- a backup

    def back_up(self) -> None:
        """A backup of everything as it is now; the one before it is thrown away. From then on the cluster writes much
        that is not seen.

        Set back once in a life: a server that has given all its versions once more before somebody asks looks as if it
        had gone on.
        """
        if self.set_back_count:
            return
        self._backup = self._world.store.version
        self._world.store.version += UNSEEN
        self._world.story.tell("API server", f"is backed up at version {self._backup}")

    def set_back(self) -> bool:
        """To the backup, with its versions: what was written since is gone, and later versions are given again. False
        where it can't be.

        The server is away for a while, and all watches end with it.
        """
        if self._backup is None or self.set_back_count:
            return False
        assert self.history is not None, "the plan says so, so that the past is known"
        version, store, cluster = self._backup, self._world.store, self._world.cluster
        self._world.story.tell("API server", f"is set back from version {store.version} to {version}")
        cluster._hub.close()
        objects = self.history.objects_at(version)
        for resource in store.resources:
            before = sorted(objects.get(resource.storage, {}).items(), key=lambda item: item[0])
            put_back(store, resource, [stored for _, stored in before], version)
        store._expiring.clear()
        store.version = version
        self.history.forget_after(version)
        cluster._hub = WatchHub(store, clock=self._world.clock, randomness=self._world.randomness["cluster"])
        self._away_until = self._world.clock.now() + self._randomness.uniform(*AWAY_S)
        self.set_back_count += 1
        self._world.truth.forget()
        for told in self.on_set_back:
            told(version)
        return True


def right_of(program: str, request: Request) -> Right:
    part = f"/{request.subresource}" if request.subresource else ""
    verb = "update" if request.verb is Verb.REPLACE else request.verb.value
    return program, verb, f"{request.kind.plural}{part}"
