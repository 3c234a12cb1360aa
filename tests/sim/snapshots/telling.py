"""What users and administrators have been told by Warnings, and about whom an Event was refused."""

from __future__ import annotations

from collections.abc import Callable

from mooring.base.clock import Instant
from tests.sim.snapshots.objects import Json


class Telling:
    """told: by the uid of an object, the last Warning about it, and when. texts: of all Warnings. unheard: names of
    objects about which an Event was refused. again_s: so long an Event that was refused may take until it is told
    again. now: the virtual time.
    """

    def __init__(self, now: Callable[[], Instant], again_s: float) -> None:
        self._now, self._again_s = now, again_s
        self.told: dict[str, tuple[Instant, str]] = {}
        self.texts: set[str] = set()
        self.unheard: set[str] = set()

    def note(self, event: Json) -> None:
        if event["type"] == "Warning":
            self.told[event["involvedObject"]["uid"]] = self._now(), event["message"]
            self.texts.add(event["message"])

    def forget(self, names: dict[str, str]) -> None:
        """A server that was set back has forgotten all Events. names: of objects, by their uids."""
        self.unheard.update(names[uid] for uid in self.told if uid in names)
        self.told.clear()

    def last(self, obj: Json) -> str:
        """The last Warning about it, "" for none."""
        return self.told.get(obj["metadata"]["uid"], (0.0, ""))[1]

    def is_told(self, obj: Json, within_s: float) -> bool:
        """True where its status, or a Warning of that time, says what it waits for; or the API server has refused one,
        as is told again within the hour.
        """
        if obj["metadata"]["name"] in self.unheard and self._again_s < within_s:
            return True
        error = ((obj.get("status") or {}).get("error") or {}).get("message")
        at_s, _ = self.told.get(obj["metadata"]["uid"], (float("-inf"), ""))
        return bool(error) or at_s + within_s >= self._now()
