"""Waits until the plane is as a test wants it, and says what it waits for where that does not come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mooring.api.meta import Key
from mooring.base.clock import Clock
from mooring.base.units import format_duration
from mooring.inspect.objects import NotThere
from mooring.inspect.reading import Reading
from mooring.inspect.served import as_served
from mooring.inspect.why.chains import explained
from mooring.inspect.why.render import as_text
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

WAIT_S: Final = 900.0
"""How much of the cluster's time may pass before something has come: longer than a dead node is waited for."""
_LOOK_S: Final = 0.01
_LOOKS: Final = 20
"""What has not come for long is looked for less often: each so manieth part of the time so far."""
_PACE_MAX: Final = 100.0
"""So much of the cluster's time passes in a second at most, where somebody outside may need the second."""


class NotYet(AssertionError):
    """Something has not come in time."""


class Waiting:
    """cluster: to read. clock: the plane's. stay: time does not leap for so many real seconds."""

    def __init__(self, cluster: Cluster, clock: Clock, stay: Callable[[float], None]) -> None:
        self._cluster, self._clock, self._stay = cluster, clock, stay

    async def until(
        self,
        check: Callable[[], Awaitable[Any]],
        what: str,
        about: tuple[str, Key] | None = None,
        wait_s: float = WAIT_S,
    ) -> Any:
        """The first truthy answer of the check. what: is waited for. about: the object that it hangs on. Raises
        NotYet.
        """
        began_s = self._clock.now()
        while not (found := await check()):
            await self.pause(began_s, what, about, wait_s)
        return found

    async def pause(self, began_s: float, what: str, about: tuple[str, Key] | None, wait_s: float) -> None:
        """Until the next look. began_s: of the first one. Raises NotYet where the time is over."""
        waited_s = self._clock.now() - began_s
        if waited_s >= wait_s:
            raise NotYet(await self._told(what, about, wait_s))
        next_s = min(max(_LOOK_S, waited_s / _LOOKS), wait_s - waited_s)
        self._stay(next_s / _PACE_MAX)
        await self._clock.sleep(next_s)

    async def why(self, kind: str, key: Key) -> str:
        """As `mooring why` says it. kind: pod, pvc, pv, node, volumeattachment or volumesnapshot. Raises ApiError,
        NotThere.
        """
        now_s = self._clock.wall_s()
        return as_text(await explained(Reading(as_served(self._cluster), now_s), kind, key), now_s)

    async def _told(self, what: str, about: tuple[str, Key] | None, wait_s: float) -> str:
        text = f"{what} has not come true within {format_duration(wait_s)} of the cluster's time"
        if about is None:
            return text
        try:
            return f"{text}\n\n{await self.why(*about)}"
        except (NotThere, ApiError) as error:
            return f"{text}\n\n{error}"
