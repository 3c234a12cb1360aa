"""What must hold at every step of a life of nodes, judged on the truth: the server's store, the machines and the drivers.

| law               | broken when                                                                                              |
|-------------------|----------------------------------------------------------------------------------------------------------|
| not-attached      | a driver is called for a volume that is not attached to the node, and has to be                          |
| context-wrong     | a driver is given what the attacher noted for another attachment                                         |
| not-in-use        | a volume is, or may become, staged or published on a node that does not report it in use                 |
| detached-in-use   | the controller detaches a volume that is staged or published, because the node did not report it         |
| staged-twice      | a volume for one node is staged on two                                                                   |
| two-pods          | a volume for one pod is published to two                                                                 |
| publish-unstaged  | a volume is published that is not staged, though its driver stages, or with another staging path         |
| unstage-published | a volume is unstaged that is published to a pod                                                          |
| unpublish-wanted  | a volume is taken from a pod that lives                                                                  |
| unrecorded        | a volume becomes staged or published without its record on the disk                                      |
| record-dropped    | a record is removed while its volume is, or may become, staged or published                              |
| deleted-in-mount  | something is removed from a mounted volume                                                               |
| running-without   | a pod is said to run, and not all of its volumes are there                                               |
| pod-dropped       | a pod is removed while something of its volumes is, or may come, there, or that nobody has deleted       |
| secret-shown      | a secret's value stands in the log, in an object or in a record                                          |
| token-astray      | a driver is given the token of another pod, or none though it wants one                                  |
| count-astray      | a node is said to hold as many volumes as a driver has told of another node                              |
| pod-rejected      | a pod that runs is rejected because the node is full                                                     |
| ended-runs        | a pod that has ended is said to run                                                                      |
| told-wrong        | users are told that a driver has taken a volume back, and it was asked for the contrary                  |
| held-up           | somebody waits for a driver that has nothing to do with him                                              |
| overlap           | one agent has two calls in flight for one volume, that do not both take it from pods                     |
| untold            | a pod that waits has no event that says why: `told.py`                                                   |
| told-astray       | an event says that a driver does not answer, and it was not asked: `told.py`                             |
| group-…           | what becomes of the groups that pods want: `groups.py`                                                   |
| hot-loop          | one thing is done too often                                                                              |
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from mooring.api.core import NODES
from mooring.api.volume_names import unique_name
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Change
from mooring.csi.proto import csi_pb2 as csi
from mooring.node import records
from mooring.node.layout import inline_volume_id
from mooring.node.volumes.requests import TOKENS
from tests.sim.laws import PER_SECOND_MAX
from tests.sim.node.driver import GIVING, PUBLISH, UNPUBLISH, UNSTAGE
from tests.sim.node.groups import Groups
from tests.sim.node.machine import Machine
from tests.sim.node.plan import RWOP, SECRET_MARK, DriverPlan, Plan, VolumePlan
from tests.sim.node.told import Told
from tests.sim.truth import Truth

FINISHED: Final = ("Succeeded", "Failed")
AUDIENCE: Final = "storage"
TOKEN: Final = "token of "
FULL: Final = "VolumeAttachmentLimitExceeded"
COUNT_ELSEWHERE: Final = 1000
"""What a driver tells of a node that is not this one."""
_GIVES: Final = ("MountVolume.MountDevice", "MountVolume.SetUp", "MapVolume.SetUpDevice", "MapVolume.MapPodDevice")
Json = dict[str, Any]


class Laws:
    """pods: all that there are, by uid. removed_by_force: uids of pods that a user has removed without waiting for the node.

    torn: what was detached although a node had it in use: (handle, node). counts: calls by verb. bare: nodes whose Node somebody else has
    made anew, and whose agent has not said anything since. stats_at: when a driver was last asked how full a volume is: by node and path.
    is_late: whether a write to an object of this name was given up, and may come.
    """

    def __init__(
        self, truth: Truth, site: Any, plan: Plan, fail: Callable[[str, str], None], now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._truth, self._site, self._plan, self._fail = truth, site, plan, fail
        self._in_flight: dict[tuple[str, int, str], list[tuple[str, str]]] = defaultdict(list)  # verb and path
        self._recent: dict[tuple[int, str], deque[float]] = defaultdict(deque)
        self._in_use: dict[str, frozenset[str]] = {}
        self.pods: dict[str, Json] = {}
        self.removed_by_force: set[str] = set()
        self.torn: set[tuple[str, str]] = set()
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
        if len(recent) > PER_SECOND_MAX and "events" not in what and not what.startswith(("list", "get secrets")):  # of all nodes together
            self._fail("hot-loop", f"{what}: {len(recent)} times in a second")

    def log_line(self, line: str) -> None:
        if SECRET_MARK in line:
            self._fail("secret-shown", f"the log has {line.strip()}")

    # -- calls

    def call_begins(self, machine: Machine, process: int, verb: str, handle: str, path: str, request: Any) -> None:
        self.counts[verb] += 1
        key, what = (machine.name, process, handle), f"{verb} {handle} at {machine.name}"
        if others := [other for other in self._in_flight[key] if (verb, other[0]) != (UNPUBLISH, UNPUBLISH) or other[1] == path]:
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
            self._fail("context-wrong", f"{what} with {dict(request.publish_context)}, it is {self._site.metadata(*pair)}")

    def _publishes(self, machine: Machine, handle: str, path: str, request: csi.NodePublishVolumeRequest, what: str) -> None:
        volume = self._plan.volume_of(handle)
        if volume is None:
            return
        driver = self._driver_of(volume)  # one that is upgraded refuses it itself: who calls may not know yet
        is_able = driver.stages and not driver.habits.is_upgraded
        if is_able and machine.staged.get(handle) != request.staging_target_path:
            staged = machine.short(machine.staged.get(handle))
            self._fail("publish-unstaged", f"{what} from {machine.short(request.staging_target_path)}, it is staged at {staged}")
        others = [target for target, other in machine.published.items() if other == handle and target != path]
        others = [
            target for target in others if not machine.is_in_doubt(target) or self._lives_at(target)
        ]  # a mount without a pod writes nothing
        if volume.mode == RWOP and others:
            self._fail("two-pods", f"{what}, and it is published already: {[machine.short(target) for target in others]}")

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
        if machine.name not in self.bare and unique_name(volume.driver, handle) not in self._in_use.get(machine.name, ()):
            self._fail("not-in-use", f"{verb} {handle} comes about at {machine.name}, which does not report it in use")
        elsewhere = [other.name for other in self._site.machines.values() if other is not machine and self._is_on(other, handle)]
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
        if machine.spoiled and any(path == folder / records.NAME for path in machine.spoiled):
            return  # it says nothing now, and said it once
        found = records.read(folder)
        if SECRET_MARK in str(found):
            self._fail("secret-shown", f"the record of {handle} has {found}")
        if found is None or found["volumeHandle"] != handle:
            self._fail("unrecorded", f"{verb} {handle} at {machine.short(path)}, and the record there is {found}")

    def unlinks(self, machine: Machine, path: Path) -> None:
        """The agent is about to remove a file."""
        if path.name != records.NAME:
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
            self._fail("record-dropped", f"the record {machine.short(path)} is removed, and {handle} is, or may come, at {shown}")

    # -- tokens and words

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

    def _event_changed(self, event: Json) -> None:
        """What is told of a call that gives is not told as one that takes back."""
        text = event.get("note") or event.get("message") or ""
        if "the driver says that it has taken the volume back" in text and any(f"{step} " in text for step in _GIVES):
            self._fail("told-wrong", text)

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

    # -- changes

    def changed(self, resource: Resource, change: Change) -> None:
        """The store has changed. Told of every change, at once."""
        if resource.plural != "secrets" and change.new is not None and SECRET_MARK.encode() in change.new.body:
            self._fail("secret-shown", f"{resource.plural} {change.key} has {change.new.body.decode()}")
        if resource.plural == "pods":
            self._pod_changed(None if change.old is None else change.old.whole(), None if change.new is None else change.new.whole())
        elif resource.plural == "nodes" and change.new is not None:
            self._node_changed(change.new.whole())
        elif resource.plural == "csinodes" and change.new is not None:
            self._csi_node_changed(change.new.whole())
        elif resource.plural == "events" and change.new is not None:
            self._event_changed(change.new.whole())
        else:
            return
        self.on_change()

    def _node_changed(self, node: Json) -> None:
        name = node["metadata"]["name"]
        self._in_use[name] = frozenset(node.get("status", {}).get("volumesInUse") or ())
        missing = self.needs(self._site.machines[name]) - self._in_use[name]
        if missing and name in self.bare and not self._in_use[name]:
            return
        if self._in_use[name]:
            self.bare.discard(name)
        if missing:
            self._fail("not-in-use", f"{name} reports {sorted(self._in_use[name])}, and has {sorted(missing)} too")

    def _csi_node_changed(self, csi_node: Json) -> None:
        for driver in csi_node.get("spec", {}).get("drivers") or ():
            if (driver.get("allocatable") or {}).get("count") == COUNT_ELSEWHERE:
                self._fail("count-astray", f"{csi_node['metadata']['name']} has {driver}")

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if new is None:
            del self.pods[uid]
            assert old is not None
            if uid not in self.removed_by_force:
                self._pod_removed(old)
            return
        self.pods[uid] = new
        self.groups.saw(new)
        if new["status"].get("reason") == FULL and old is not None and old["status"]["phase"] == "Running":
            self._fail("pod-rejected", f"pod {new['metadata']['name']} ran: {new['status']}")
        if new["status"]["phase"] == "Running" and old is not None and old["status"]["phase"] in FINISHED:
            self._fail("ended-runs", f"pod {new['metadata']['name']} had ended: {old['status']}")
        if self.is_late(new["metadata"]["name"]):
            return  # what was true when it was written may not be any more
        if new["status"]["phase"] == "Running" and (old is None or old["status"]["phase"] != "Running"):
            for what in self.missing(new):
                self._fail("running-without", f"pod {new['metadata']['name']} is said to run, and {what}")
            for what in self.groups.missing(self._site.machines[new["spec"]["nodeName"]], new):
                self._fail("group-left-out", f"pod {new['metadata']['name']} is said to run, and {what}")

    def _pod_removed(self, old: Json) -> None:
        name, uid, machine = old["metadata"]["name"], old["metadata"]["uid"], self._site.machines[old["spec"]["nodeName"]]
        if "deletionTimestamp" not in old["metadata"]:
            self._fail("pod-dropped", f"pod {name} is removed, nobody has deleted it")
        handles = (volume.handle for volume in self._plan.volumes)
        coming = [path for handle in (*handles, *inline_handles(old)) for path in self.coming(machine, handle) if uid in path]
        places = [path for path in (*machine.targets_of(uid), *coming) if not machine.is_in_doubt(path)]  # such a volume stays in use
        if left := [machine.short(path) for path in places]:
            self._fail("pod-dropped", f"pod {name} is removed, and this is, or may come, there: {left}")

    def missing(self, pod: Json) -> Iterator[str]:
        """What a pod lacks of its volumes."""
        uid, machine = pod["metadata"]["uid"], self._site.machines[pod["spec"]["nodeName"]]
        layout = machine.layout
        for volume in pod["spec"].get("volumes") or ():
            planned = self._planned(volume)
            if planned is not None and planned.block:
                mapped = str(layout.block_map(planned.name) / uid)
                is_published = str(layout.block_publish(planned.name, uid)) in machine.published
                is_linked = layout.block_link(uid, planned.name).is_symlink()
                if not is_published or not is_linked or mapped not in machine.mounts or mapped not in machine.loops:
                    yield f"the device {planned.name} is not there"
            elif planned is not None or "csi" in volume:
                target = str(layout.target(uid, planned.name if planned is not None else volume["name"]))
                if target not in machine.published or target not in machine.mounts:
                    yield f"the volume {volume['name']} is not there"

    def _planned(self, volume: Json) -> VolumePlan | None:
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        return next((planned for planned in self._plan.volumes if planned.name == name), None)

    # -- the controller

    def detaches(self, volume: VolumePlan, node: str) -> None:
        """The attach/detach controller takes the volume off the node, and not by force."""
        machine = self._site.machines[node]
        if self._is_on(machine, volume.handle) or self.coming(machine, volume.handle):
            self._fail("detached-in-use", f"{volume.name} is detached from {node}, which has it and does not say so")


def is_alive(pod: Json) -> bool:
    """True while its volumes are to stay."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in FINISHED


def is_slow(claim: str) -> bool:
    """Of a claim that is slow to read in lives with such."""
    return claim[-1] in "02468"


def inline_handles(pod: Json) -> list[str]:
    return [inline_volume_id(pod["metadata"]["uid"], volume["name"]) for volume in pod["spec"].get("volumes") or () if "csi" in volume]


def node_in_use(truth: Truth, node: str) -> frozenset[str]:
    """As the API server holds it."""
    found = truth.get(NODES, node)
    return frozenset(found.status.volumes_in_use or ()) if found is not None else frozenset()
