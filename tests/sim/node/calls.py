"""What must hold when an agent calls a driver, and when the driver does its work: a part of `laws.py`, where the laws
are listed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mooring.api.volume_names import unique_name
from mooring.csi.proto import csi_pb2 as csi
from mooring.node.volumes.state import folders
from mooring.node.volumes.steps.requests import TOKENS
from tests.sim.laws import PER_SECOND_MAX
from tests.sim.node.driver import GIVING, PUBLISH, UNPUBLISH, UNSTAGE
from tests.sim.node.groups import Groups
from tests.sim.node.machine import Machine
from tests.sim.node.plan import RWOP, SECRET_MARK, DriverPlan, Plan, VolumePlan
from tests.sim.node.pod_words import Json, is_alive
from tests.sim.node.told import Told
from tests.sim.truth import Truth

AUDIENCE: Final = "storage"
TOKEN: Final = "token of "


class CallLaws:
    """pods: all that there are, by uid. removed_by_force: uids of pods that a user has removed without waiting for the
    node.

    torn: what was detached although a node had it in use, until that has let it go: (handle, node). counts: calls by
    verb. bare: nodes whose Node somebody else has made anew, and whose agent has not said anything since. stats_at:
    when a driver was last asked how full a volume is: by node and path. is_late: whether a write to an object of this
    name was given up, and may come.
    """

    def __init__(
        self,
        truth: Truth,
        site: Any,
        plan: Plan,
        fail: Callable[[str, str], None],
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._truth, self._site, self._plan, self._fail = truth, site, plan, fail
        self._in_flight: dict[tuple[str, int, str], list[tuple[str, str]]] = defaultdict(list)  # verb and path
        self._recent: dict[tuple[int, str], deque[float]] = defaultdict(deque)
        self._in_use: dict[str, frozenset[str]] = {}
        self.pods: dict[str, Json] = {}
        self.removed_by_force: set[str] = set()
        self.torn: set[tuple[str, str]] = set()
        self._renewed: set[tuple[str, str]] = set()  # attached since it was torn away
        self.bare: set[str] = set()
        self.stats_at: dict[tuple[str, str], float] = {}
        self._now = now
        self.told = Told(self.pods, fail, now)
        self.groups = Groups(plan, fail)
        self.counts: Counter[str] = Counter()
        self.on_change: Callable[[], None] = lambda: None
        self.is_late: Callable[[str], bool] = lambda name: False

    def done(self, process: int, what: str, at_s: float) -> None:
        self.told.look()
        recent = self._recent[process, what]
        recent.append(at_s)
        while recent[0] < at_s - 1.0:
            recent.popleft()
        if (
            len(recent) > PER_SECOND_MAX and "events" not in what and not what.startswith(("list", "get secrets"))
        ):  # of all nodes together
            self._fail("hot-loop", f"{what}: {len(recent)} times in a second")

    def log_line(self, line: str) -> None:
        if SECRET_MARK in line:
            self._fail("secret-shown", f"the log has {line.strip()}")

    # -- calls

    def call_begins(self, machine: Machine, process: int, verb: str, handle: str, path: str, request: Any) -> None:
        self.counts[verb] += 1
        key, what = (machine.name, process, handle), f"{verb} {handle} at {machine.name}"
        if others := [
            other for other in self._in_flight[key] if (verb, other[0]) != (UNPUBLISH, UNPUBLISH) or other[1] == path
        ]:
            self._fail("overlap", f"{what} while {others} are in flight")
        self._in_flight[key].append((verb, path))
        volume = self._plan.volume_of(handle)
        if volume is not None and self._driver_of(volume).attaches:
            self._of_attached(machine, volume, verb, path, request, what)
        if verb in GIVING:
            self._is_recorded(machine, verb, handle, path)
        if verb == PUBLISH:
            self._publishes(machine, handle, path, request, what)
        elif verb == UNPUBLISH:
            self._unpublishes(machine, path, what)
        elif verb == UNSTAGE and handle in machine.published.values():
            self._fail("unstage-published", f"{what}, and it is published: {self._targets(machine, handle)}")

    def call_ends(self, machine: Machine, process: int, verb: str, handle: str, path: str) -> None:
        self._in_flight[machine.name, process, handle].remove((verb, path))
        pair = (handle, machine.name)
        if pair in self._renewed and not self._is_on(machine, handle) and not self.coming(machine, handle):
            self.torn.discard(pair)

    def tears(self, handle: str, node: str) -> None:
        """The controller is about to detach it, although the node has it in use."""
        self.torn.add((handle, node))
        self._renewed.discard((handle, node))

    def attaches(self, handle: str, node: str) -> None:
        """What it was torn from holds for as long as the node has that."""
        self._renewed.add((handle, node))

    def _of_attached(self, machine: Machine, volume: VolumePlan, verb: str, path: str, request: Any, what: str) -> None:
        pair = (volume.handle, machine.name)
        is_reported = unique_name(volume.driver, volume.handle) in self._in_use.get(machine.name, ())
        is_trace = (
            verb == UNPUBLISH and path not in machine.published and machine.is_in_doubt(path)
        )  # of what nothing was mounted, found late
        if not is_reported and not is_trace and (verb in GIVING or machine.name not in self.bare):
            self._fail("not-in-use", f"{what}, and the node does not report it in use")
        if pair in self.torn or is_trace:
            return
        if pair not in self._site.attached:
            self._fail("not-attached", f"{what}, and it is not attached")
        elif verb in GIVING and dict(request.publish_context) != self._site.metadata(*pair):
            self._fail(
                "context-wrong", f"{what} with {dict(request.publish_context)}, it is {self._site.metadata(*pair)}"
            )

    def _publishes(
        self, machine: Machine, handle: str, path: str, request: csi.NodePublishVolumeRequest, what: str
    ) -> None:
        volume = self._plan.volume_of(handle)
        if volume is None:
            return
        driver = self._driver_of(volume)  # one that is upgraded refuses it itself: who calls may not know yet
        is_able = driver.stages and not driver.habits.is_upgraded
        if is_able and machine.staged.get(handle) != request.staging_target_path:
            staged = machine.short(machine.staged.get(handle))
            self._fail(
                "publish-unstaged",
                f"{what} from {machine.short(request.staging_target_path)}, it is staged at {staged}",
            )
        others = [target for target, other in machine.published.items() if other == handle and target != path]
        others = [
            target for target in others if not machine.is_in_doubt(target) or self._lives_at(target)
        ]  # a mount without a pod writes nothing
        if volume.mode == RWOP and others:
            self._fail(
                "two-pods", f"{what}, and it is published already: {[machine.short(target) for target in others]}"
            )

    def _unpublishes(self, machine: Machine, path: str, what: str) -> None:
        if pod := self._lives_at(path):
            self._fail("unpublish-wanted", f"{what}, and pod {pod['metadata']['name']} lives")

    def _lives_at(self, path: str) -> Json | None:
        """The pod that lives, and has this path."""
        return next((pod for uid, pod in self.pods.items() if uid in path and is_alive(pod)), None)

    def takes_effect(self, machine: Machine, verb: str, handle: str, path: str) -> None:
        """A driver is about to do its work, perhaps long after its caller gave up."""
        if verb not in GIVING:
            return
        self._is_recorded(machine, verb, handle, path)
        volume = self._plan.volume_of(handle)
        if volume is None or not self._driver_of(volume).attaches:
            return
        if machine.name not in self.bare and unique_name(volume.driver, handle) not in self._in_use.get(
            machine.name, ()
        ):
            self._fail("not-in-use", f"{verb} {handle} comes about at {machine.name}, which does not report it in use")
        elsewhere = [
            other.name for other in self._site.machines.values() if other is not machine and self._is_on(other, handle)
        ]
        pair = (handle, machine.name)
        if pair in self.torn and pair not in self._site.attached:
            return  # begun before it was torn away: nobody can call that back
        if volume.single_node and any((handle, other) not in self.torn for other in elsewhere):
            self._fail("staged-twice", f"{verb} {handle} at {machine.name}, and it is on {elsewhere}")

    # -- the disk

    def _is_recorded(self, machine: Machine, verb: str, handle: str, path: str) -> None:
        volume = self._plan.volume_of(handle)
        folder = Path(path).parent
        if volume is not None and volume.block:
            folder = machine.layout.block_record_folder(volume.name)
        if machine.spoiled and any(path == folder / folders.RECORD for path in machine.spoiled):
            return  # it says nothing now, and said it once
        found = folders.read_record(folder)
        if SECRET_MARK in str(found):
            self._fail("secret-shown", f"the record of {handle} has {found}")
        if found is None or found["volumeHandle"] != handle:
            self._fail("unrecorded", f"{verb} {handle} at {machine.short(path)}, and the record there is {found}")

    def unlinks(self, machine: Machine, path: Path) -> None:
        """The agent is about to remove a file."""
        if path.name != folders.RECORD:
            return
        spoiled = machine.spoiled.get(path)
        handle = json.loads((spoiled and spoiled.before) or path.read_bytes())["volumeHandle"]
        volume = self._plan.volume_of(handle)
        if volume is not None and volume.block:
            paths = [*machine.staged.values()] if handle in machine.staged else []
            paths += [target for target, other in machine.published.items() if other == handle]
        else:
            paths = [one for one in (*machine.staged.values(), *machine.published) if Path(one).parent == path.parent]
        is_block = volume is not None and volume.block
        coming = [one for one in self.coming(machine, handle) if is_block or Path(one).parent == path.parent]
        if paths or coming:
            shown = [machine.short(one) for one in (*paths, *coming)]
            self._fail(
                "record-dropped",
                f"the record {machine.short(path)} is removed, and {handle} is, or may come, at {shown}",
            )

    # -- tokens and usage

    def token_of(self, verb: str, path: str, request: Any, *, wanted: bool) -> None:
        """A driver is called. wanted: it wants a token of each pod."""
        if verb != PUBLISH or not wanted or request.volume_capability.HasField("block"):
            return
        given = json.loads(request.volume_context.get(TOKENS, "{}")).get(AUDIENCE, {}).get("token", "")
        uid = given.removeprefix(TOKEN)
        if not uid or f"/pods/{uid}/" not in path:
            self._fail("token-astray", f"{verb} {request.volume_id} at {path} has the token {given!r}")

    def was_asked_for_stats(self, machine: Machine, handle: str, path: str) -> None:
        """A driver was asked how full a volume is."""
        self.stats_at[machine.name, path] = self._now()

    # -- what is where

    def _driver_of(self, volume: VolumePlan) -> DriverPlan:
        return self._plan.driver_of(volume.driver)

    def _targets(self, machine: Machine, handle: str) -> list[str]:
        return [machine.short(target) for target, other in machine.published.items() if other == handle]

    def _is_on(self, machine: Machine, handle: str) -> bool:
        return handle in machine.staged or handle in machine.published.values()

    def coming(self, machine: Machine, handle: str) -> list[str]:
        """The paths at which calls at work may still bring the volume."""
        found = (service.gives(handle) for service in self._site.services_of(machine.name))
        return [operation.node_id for operation in found if operation is not None]

    def needs(self, machine: Machine) -> set[str]:
        """The volumes that the node must report in use, by unique name."""
        attached = [volume for volume in self._plan.volumes if self._driver_of(volume).attaches]
        return {
            unique_name(volume.driver, volume.handle)
            for volume in attached
            if self._is_on(machine, volume.handle) or self.coming(machine, volume.handle)
        }
