"""What must hold at every step of a life of growing claims, judged on the truth.

| law             | broken when |
| --- | --- |
| alloc-unwritten | the driver is asked for a size that the claim does not show as allocated |
| quota-wrong     | a volume has grown beyond its claim's request and what that shows as allocated, and the driver has |
|                 | refused nothing since |
| overtaken       | the driver is asked for a size, or a class, while it may be at work on another one |
| class-unwritten | the driver is asked for a class that the claim does not show as its target |
| held-up         | a wish is not asked for at once, without a fault, when what was begun is refused |
| pv-shrank       | a PersistentVolume gets smaller, other than after a node's failure where nodes do all |
| claim-shrank    | the size that a claim shows gets smaller |
| pv-lies         | a PersistentVolume shows more than the driver has |
| claim-lies      | the resizer lets a claim show a size that its volume has not, or a class that it has not |
| node-overridden | the resizer takes a volume from its node, which may be at work on it |
| foreign-touched | the resizer changes a wish, or a condition or annotation of others |
| overlap         | two calls are in flight for one volume |
| hot-loop        | one thing is done too often |
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from mooring.api.quantity import parse_quantity
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.base.clock import Instant
from mooring.sidecars.resizer import names
from tests.sim.growth.backend import GrowthBackend
from tests.sim.growth.habits import EXPAND, MODIFY
from tests.sim.growth.plan import CLAIMS_MAX, Plan
from tests.sim.laws import PER_SECOND_MAX, WRITING
from tests.sim.tears import GRACE_S

Json = dict[str, Any]
CLAIMS: Final = "persistentvolumeclaims"
AT_ONCE_S: Final = 0.05
NODES_TURN: Final = (names.NODE_PENDING, names.NODE_IN_PROGRESS)
_OURS: Final = (names.NOT_REQUIRED, names.PRE_RESIZE)


def bytes_of(amounts: Json | None) -> int:
    """Of storage; 0 for none."""
    text = (amounts or {}).get("storage")
    return parse_quantity(text).whole if text else 0


class Laws:
    """claims, volumes: as they are stored, by name. fail: called with the law's name and what broke it."""

    def __init__(
        self, plan: Plan, backend: GrowthBackend, now: Callable[[], Instant], fail: Callable[[str, str], None]
    ) -> None:
        self._plan, self._backend, self._now, self._fail = plan, backend, now, fail
        self.claims: dict[str, Json] = {}
        self.volumes: dict[str, Json] = {}
        self.line: Any = None  # of the living process: what it has been shown
        self._in_flight: set[tuple[int, str]] = set()
        self._open: dict[tuple[str, str], str] = {}  # by verb and handle, what the driver may be at work on
        self._grown: dict[str, int] = {}  # by handle, the size that was asked for, while nothing was refused since
        self._recent: dict[tuple[int, str], deque[float]] = defaultdict(deque)
        self._freed: dict[
            str, tuple[Instant, str]
        ] = {}  # by handle, when the driver refused which size, and its claim wanted another
        self.told: dict[str, tuple[Instant, str]] = {}  # by the uid of an object, the last Warning about it, and when
        self.unheard: set[str] = set()  # names of objects about which an Event was refused
        self.forgotten_events: set[str] = (
            set()
        )  # uids of objects of which a server that was set back has forgotten the Events
        self.counts: Counter[str] = Counter()
        self._of_before: set[tuple[str, str]] = (
            set()
        )  # handles and sizes that were asked for before a set-back was known
        self._was_set_back, self._heard_at = False, float("inf")

    # -- a server that is set back

    def was_set_back(self, whole: Callable[[str], list[Json]]) -> None:
        """What claims have told since the backup, of what the driver may be at work on, nobody knows.

        whole: the objects of a kind, as they are stored now.
        """
        for table, plural in ((self.claims, CLAIMS), (self.volumes, "persistentvolumes")):
            table.clear()
            table.update({one["metadata"]["name"]: one for one in whole(plural)})
        self._of_before |= {
            (operation.handle, operation.node_id)
            for operation in self._backend.locks.values()
            if operation.verb == EXPAND
        }
        self._of_before |= {
            (handle, wanted) for (verb, handle), wanted in self._open.items() if verb == EXPAND
        }  # some are on their way
        self._open.clear()
        self._grown.clear()
        self._freed.clear()
        self.forgotten_events |= set(self.told)
        self.told.clear()
        self._was_set_back, self._heard_at = True, float("inf")

    def shown(self, plural: str, version: int) -> None:
        """A list or a watch has shown the resizer the kind up to this version."""
        if plural == CLAIMS and self._was_set_back:
            self._heard_at = min(self._heard_at, self._now())

    def _may_precede_set_back(self) -> bool:
        """True while what the resizer does may have been decided before it heard that the server was set back."""
        return self._was_set_back and self._now() < self._heard_at + GRACE_S

    def done(self, process: int, what: str, at_s: float) -> None:
        recent = self._recent[process, what]
        recent.append(at_s)
        while recent[0] < at_s - 1.0:
            recent.popleft()
        users = CLAIMS_MAX * 2 if what.startswith("get secrets") else 1
        if len(recent) > PER_SECOND_MAX * users and "events" not in what and not what.startswith("list"):
            self._fail("hot-loop", f"{what}: {len(recent)} times in a second")

    # -- calls

    def call_begins(self, process: int, verb: str, handle: str, wanted: str) -> None:
        self.counts["calls"] += 1
        self._check_held_up(verb, handle, wanted)
        if (process, handle) in self._in_flight:
            self._fail("overlap", f"two calls for {handle} are in flight")
        self._in_flight.add((process, handle))
        if self._may_precede_set_back():
            self._of_before.add((handle, wanted))
            return
        self._of_before.discard((handle, wanted))
        before = self._open.get((verb, handle), wanted)
        if before != wanted and not (verb == EXPAND and int(before) <= self._backend.sizes.get(handle, 0)):
            self._fail("overtaken", f"{handle} is to become {wanted}, and the driver may be at work on {before}")
        self._open[verb, handle] = wanted
        claim = self._claim_of(handle)
        if claim is None:
            return
        status = claim["status"]
        if verb == EXPAND and bytes_of(status.get("allocatedResources")) != int(wanted):
            self._fail("alloc-unwritten", f"{handle} is to grow to {wanted}, its claim shows {status}")
        target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
        if verb == MODIFY and wanted not in (target, status.get("currentVolumeAttributesClassName")):
            self._fail("class-unwritten", f"{handle} is to become {wanted}, its claim shows {status}")

    def call_ends(self, process: int, handle: str) -> None:
        self._in_flight.discard((process, handle))

    def answered(self, verb: str, handle: str, *, refused: bool, in_use: bool = False) -> None:
        """The driver is not at work any more. in_use: it may have refused because of a pod: the end of that is waited
        for.
        """
        asked = self._open.pop((verb, handle), None)
        if refused and verb == EXPAND and asked is not None and not in_use:
            self._note_refusal(handle, asked)
        if refused and verb == EXPAND:
            self._grown.pop(
                handle, None
            )  # what it refused may have been done by an earlier call: the claim may forget it

    def _note_refusal(self, handle: str, asked: str) -> None:
        """In peace, the size that the claim wants by now comes next, at once."""
        claim = self._claim_of(handle)
        if claim is None or self._backend.faulty or self._backend.stubborn or self._plan.workers < len(self.claims):
            return  # without a worker for each claim it may wait for the call of another one
        if int(claim["metadata"]["resourceVersion"]) > self.line.shown(CLAIMS):
            return
        wish = bytes_of(claim["spec"]["resources"]["requests"])
        if wish not in (int(asked), 0) and wish > bytes_of(claim["status"].get("capacity")):
            self._freed[handle] = self._now(), asked

    def _check_held_up(self, verb: str, handle: str, wanted: str) -> None:
        at_s, refused = self._freed.pop(handle, (0.0, ""))
        if verb == EXPAND and refused and wanted != refused and self._now() - at_s > AT_ONCE_S:
            self._fail(
                "held-up",
                f"{handle} is to grow to {wanted} now, {self._now() - at_s:.2f} s after {refused} was refused",
            )

    def has_grown(self, handle: str, asked: int) -> None:
        if (handle, str(asked)) not in self._of_before:
            self._grown[handle] = asked
            self._check_quota(handle)

    def _check_quota(self, handle: str) -> None:
        claim, asked = self._claim_of(handle), self._grown.get(handle, 0)
        if claim is not None:
            status = claim["status"]
            known = (claim["spec"]["resources"]["requests"], status.get("allocatedResources"), status.get("capacity"))
            if asked > max(map(bytes_of, known)):
                self._fail("quota-wrong", f"{handle} has grown to {asked}, its claim knows of {known}")

    def _claim_of(self, handle: str) -> Json | None:
        return next((claim for claim in self.claims.values() if handle_of(claim) == handle), None)

    # -- changes

    def changed(self, resource: Resource, change: StoredChange) -> None:
        """The store has changed. Told of every change, at once."""
        if resource.plural == "events" and change.new is not None:
            event = change.new.whole()
            if event["type"] == "Warning":
                self.told[event["involvedObject"]["uid"]] = self._now(), event["message"]
        tables = {CLAIMS: self.claims, "persistentvolumes": self.volumes}
        table = tables.get(resource.plural)
        if table is None:
            return
        old = None if change.old is None else change.old.whole()
        new = None if change.new is None else change.new.whole()
        if new is None:
            assert old is not None
            table.pop(old["metadata"]["name"], None)
            return
        table[new["metadata"]["name"]] = new
        if old is None:
            return
        if table is self.claims:
            self._claim_changed(old, new)
        else:
            self._volume_changed(old, new)

    def _claim_changed(self, old: Json, new: Json) -> None:
        name, before, after, handle = new["metadata"]["name"], old["status"], new["status"], handle_of(new)
        if bytes_of(after.get("capacity")) < bytes_of(before.get("capacity")):
            self._fail("claim-shrank", f"{name} showed {before['capacity']}, now {after.get('capacity')}")
        self._check_quota(handle)
        if WRITING.get() is None:
            return
        if _foreign(old) != _foreign(new):
            self._fail("foreign-touched", f"{name}: {_foreign(old)} became {_foreign(new)}")
        pv = self.volumes.get(new["spec"].get("volumeName", ""), {"spec": {}})
        steps = [(status.get("allocatedResourceStatuses") or {}).get("storage", "") for status in (before, after)]
        allocated = bytes_of(before.get("allocatedResources"))
        if steps[0] in NODES_TURN and steps[1] not in NODES_TURN and bytes_of(pv["spec"].get("capacity")) >= allocated:
            self._fail("node-overridden", f"{name} was {steps[0]}, now {steps[1]!r}")
        self._check_claims_word(name, handle, before, after)

    def _check_claims_word(self, name: str, handle: str, before: Json, after: Json) -> None:
        if handle not in self._backend.sizes:
            return
        has = bytes_of(after.get("capacity"))
        real = self._backend.systems if handle in self._backend.node_parts else self._backend.sizes
        if has > bytes_of(before.get("capacity")) and has > real[handle]:
            self._fail("claim-lies", f"{name} shows {has}, it has {real[handle]}")
        level = after.get("currentVolumeAttributesClassName")
        if level != before.get("currentVolumeAttributesClassName") and level != self._backend.classes[handle]:
            self._fail("claim-lies", f"{name} shows class {level}, it has {self._backend.classes[handle]!r}")

    def _volume_changed(self, old: Json, new: Json) -> None:
        name, sizes = new["metadata"]["name"], [bytes_of(pv["spec"].get("capacity")) for pv in (old, new)]
        handle = new["spec"]["csi"]["volumeHandle"]
        if sizes[1] < sizes[0] and not self._plan.on_node:
            self._fail("pv-shrank", f"{name} had {sizes[0]}, now {sizes[1]}")
        if sizes[1] != sizes[0] and not self._plan.on_node and sizes[1] > self._backend.sizes.get(handle, sizes[1]):
            self._fail("pv-lies", f"{name} shows {sizes[1]}, the driver has {self._backend.sizes[handle]}")


def handle_of(claim: Json) -> str:
    """The handle of the volume that the claim is made with."""
    return f"h-{claim['spec'].get('volumeName', '')}"


def _foreign(claim: Json) -> tuple[Any, ...]:
    """What the resizer leaves alone."""
    annotations = {
        name: text for name, text in (claim["metadata"].get("annotations") or {}).items() if name not in _OURS
    }
    conditions = [one for one in claim["status"].get("conditions") or () if one["type"] not in names.CONDITIONS]
    return claim["spec"], annotations, claim["metadata"].get("finalizers"), conditions
