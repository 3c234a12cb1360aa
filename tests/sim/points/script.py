"""A script: a world, its programs, and acts in a fixed order, each of which is brought to its end before the next
one.
"""

from __future__ import annotations

import abc
import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from tests.sim.checkers import Complaint
from tests.sim.course import REST_S, BoundedLoop
from tests.sim.habits import NO_HABITS, NO_STOPS
from tests.sim.keeper import Keeper, Made
from tests.sim.mortal import Mortal
from tests.sim.plan import ApiFaults, DriverFaults
from tests.sim.points.director import Director, led
from tests.sim.standing import WorldGroup
from tests.sim.world import SimWorld

W = TypeVar("W", bound=SimWorld)

NO_API_FAULTS = ApiFaults(refused=0.0, lost=0.0, slow=0.0, stale=0.0, stale_s=0.0, cut=0.0, gone=0.0)
QUICK_S = 0.05
NO_DRIVER_FAULTS = DriverFaults(failed=0.0, lost=0.0, hung=0.0, latency_s=QUICK_S)
NO_FAULTS: dict[str, Any] = {
    "api": NO_API_FAULTS,
    "driver": NO_DRIVER_FAULTS,
    "crash": 0.0,
    "server": NO_HABITS,
    "stops": NO_STOPS,
    "restart_s": 0.0,
    "history_max": 10_000,
    "list_limit": 0,
    "timeout_s": 2.0,
    "worker_threads": 2,
    "retry_start_s": 0.5,
    "retry_max_s": 4.0,
    "resync_s": 0.0,
    "acts": (),
}
"""What every plan of a script has that has such a field: no fault comes of a seed. A field with a default has that."""


def without_faults(plan: Any, **more: Any) -> Any:
    """The plan for a script. more: its fields that have other values."""
    fields = dataclasses.fields(plan)
    habits = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    chosen = {**habits, **{field.name: NO_FAULTS[field.name] for field in fields if field.name in NO_FAULTS}, **more}
    return dataclasses.replace(plan, **chosen)


class Stage(abc.ABC, Generic[W]):
    """One script's world, while it is played. keepers: of its programs. acts: of its part. checkers: the part's module
    of that name.
    """

    acts: Any
    checkers: ClassVar[Any]

    def __init__(self, world: W, director: Director) -> None:
        self.world, self.director = world, director
        self.keepers: list[Keeper] = []

    def keep(self, who: str, make: Callable[[Any, Mortal], Made]) -> Keeper:
        """A program of this script."""
        self.keepers.append(Keeper(self.world, who, led(make, self.director)))
        return self.keepers[-1]

    async def prepare(self) -> None:
        """The world before any program runs."""
        await self.acts.prepare()

    def begin(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[Any]]:
        """What else runs beside the programs."""
        return ()

    async def tend(self) -> None:
        """One round of the controllers beside them."""
        await self.acts.tend()

    def complaints(self) -> Sequence[Complaint]:
        """What is not yet as the last act wants it."""
        found: Sequence[Complaint] = self.checkers.complaints(self.world)
        return found

    def fingerprint(self) -> object:
        """Changes with every write and call."""
        return self.checkers.fingerprint(self.world)

    @abc.abstractmethod
    def storage(self) -> dict[str, Any]:
        """The truth behind the driver, as JSON values."""


def act(name: str) -> Callable[[Stage[Any]], Awaitable[None]]:
    """One of the part's own acts."""

    async def acted(stage: Stage[Any]) -> None:
        await getattr(stage.acts, name)()

    return acted


def world_of(world_type: Callable[[Any, WorldGroup], W], plan: Any, **changes: Any) -> Callable[[WorldGroup], W]:
    """What makes the world of a plan. changes: fields that have other values in it."""
    return lambda group: world_type(dataclasses.replace(plan, **changes), group)


@dataclasses.dataclass(frozen=True, slots=True)
class Script:
    """acts: in their order; each is given the stage. calm_s: the longest way to rest after an act. stops: its processes
    can stand still.

    rest_s: after which nothing may be on its way any more. early_is_same: the end is the same when the last act comes
    before the one before it has come to its end.
    """

    name: str
    about: str
    make_world: Callable[[WorldGroup], Any]
    make_stage: Callable[[Any, Director], Stage[Any]]
    acts: Sequence[Callable[[Any], Awaitable[None]]]
    calm_s: float = 300.0
    make_loop: Callable[[int], BoundedLoop] | None = None
    stops: bool = False
    rest_s: float = REST_S
    early_is_same: bool = True
