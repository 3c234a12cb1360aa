"""What must hold at every step of a life of nodes, judged on the truth: the server's store, the machines and the
drivers.

| law               | broken when |
| --- | --- |
| not-attached      | a driver is called for a volume that is not attached to the node, and has to be |
| context-wrong     | a driver is given what the attacher noted for another attachment |
| not-in-use        | a volume is, or may become, staged or published on a node that does not report it in use |
| detached-in-use   | the controller detaches a volume that is staged or published, because the node did not report it |
| staged-twice      | a volume for one node is staged on two |
| two-pods          | a volume for one pod is published to two |
| publish-unstaged  | a volume is published that is not staged, though its driver stages, or with another staging path |
| unstage-published | a volume is unstaged that is published to a pod |
| unpublish-wanted  | a volume is taken from a pod that lives |
| unrecorded        | a volume becomes staged or published without its record on the disk |
| record-dropped    | a record is removed while its volume is, or may become, staged or published |
| deleted-in-mount  | something is removed from a mounted volume |
| running-without   | a pod is said to run, and not all of its volumes are there |
| pod-dropped       | a pod is removed that nobody has deleted, or while its volumes are or may come there |
| secret-shown      | a secret's value stands in the log, in an object or in a record |
| token-astray      | a driver is given the token of another pod, or none though it wants one |
| count-astray      | a node is said to hold as many volumes as a driver has told of another node |
| pod-rejected      | a pod that runs is rejected because the node is full |
| ended-runs        | a pod that has ended is said to run |
| told-wrong        | users are told that a driver has taken a volume back, and it was asked for the contrary |
| held-up           | somebody waits for a driver that has nothing to do with him |
| overlap           | one agent has two calls in flight for one volume, that do not both take it from pods |
| untold            | a pod that waits has no event that says why: `told.py` |
| told-astray       | an event says that a driver does not answer, and it was not asked: `told.py` |
| group-…           | what becomes of the groups that pods want: `groups.py` |
| hot-loop          | one thing is done too often |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.core import NODES
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from tests.sim.node.calls import CallLaws
from tests.sim.node.plan import SECRET_MARK, VolumePlan
from tests.sim.node.pod_words import FINISHED, Json, inline_handles
from tests.sim.truth import Truth

FULL: Final = "VolumeAttachmentLimitExceeded"
COUNT_ELSEWHERE: Final = 1000
"""What a driver tells of a node that is not this one."""
_GIVES: Final = ("MountVolume.MountDevice", "MountVolume.SetUp", "MapVolume.SetUpDevice", "MapVolume.MapPodDevice")


class Laws(CallLaws):
    """Beside those of calls, those of what is written. Told of every change of the store."""

    def changed(self, resource: Resource, change: StoredChange) -> None:
        """The store has changed. Told of every change, at once."""
        if resource.plural != "secrets" and change.new is not None and SECRET_MARK.encode() in change.new.body:
            self._fail("secret-shown", f"{resource.plural} {change.key} has {change.new.body.decode()}")
        if resource.plural == "pods":
            self._pod_changed(
                None if change.old is None else change.old.whole(), None if change.new is None else change.new.whole()
            )
        elif resource.plural == "nodes" and change.new is not None:
            self._node_changed(change.new.whole())
        elif resource.plural == "csinodes" and change.new is not None:
            self._csi_node_changed(change.new.whole())
        elif resource.plural == "events" and change.new is not None:
            self._event_changed(change.new.whole())
        else:
            return
        self.on_change()

    def _event_changed(self, event: Json) -> None:
        """What is told of a call that gives is not told as one that takes back."""
        text = event.get("note") or event.get("message") or ""
        if "the driver says that it has taken the volume back" in text and any(f"{step} " in text for step in _GIVES):
            self._fail("told-wrong", text)

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
        name, uid, machine = (
            old["metadata"]["name"],
            old["metadata"]["uid"],
            self._site.machines[old["spec"]["nodeName"]],
        )
        if "deletionTimestamp" not in old["metadata"]:
            self._fail("pod-dropped", f"pod {name} is removed, nobody has deleted it")
        handles = (volume.handle for volume in self._plan.volumes)
        coming = [
            path for handle in (*handles, *inline_handles(old)) for path in self.coming(machine, handle) if uid in path
        ]
        places = [
            path for path in (*machine.targets_of(uid), *coming) if not machine.is_in_doubt(path)
        ]  # such a volume stays in use
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


def node_in_use(truth: Truth, node: str) -> frozenset[str]:
    """As the API server holds it."""
    found = truth.get(NODES, node)
    return frozenset(found.status.volumes_in_use or ()) if found is not None else frozenset()
