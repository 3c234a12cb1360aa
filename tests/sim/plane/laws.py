"""The invariants of the attach/detach controller's design, as far as they hold at every step; judged on the truth,
never on a cache.

| law    | broken when |
| --- | --- |
| I1     | a single-node volume is attached though the controller was shown an attachment elsewhere |
| I2     | the driver publishes a volume for one node on a second one |
| I3     | the controller deletes an attachment whose node is known to have the volume in use, and not by force |
| I4     | the controller deletes an attachment that its Node still lists as attached |
| I5     | a volume is listed as attached whose attachment is known to be missing or to go |
| I6     | a kubelet mounts what is not published there, or what it has mounted is unpublished, and not by force |
| I10    | a process has two writes in flight to one object, does a thing too often, or writes it again |
| I11    | a detach is forced before its time |
| I12    | an event shows a pod of another namespace, or one pod gets too many events |
| wanted | the controller deletes an attachment that a pod is known to want |
| others | attachments, entries of a report, or taints are changed that are somebody else's |
| pod-gc | node health removes a pod by force whose node is there and ready, or has no out-of-service taint |

The laws of attachments stand in `attachment_laws.py`, of Nodes in `node_laws.py`, of storage and mounts in
`mount_laws.py`; those about what a process has asked for, or was told, stand in `asked.py`, that nobody waits in
silence in `silence.py`. I7 to I9 are judged at rest (`checkers.py`). I13 is all of these with two controllers at once:
there I1 and I4 hold for what the controller
has been shown, since nothing but a lease keeps the other one from acting at the same moment.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from mooring.api.meta import Key
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.cluster.attachdetach.identity import FORCE_AFTER
from mooring.kube.cluster import Verb
from mooring.kube.errors import ApiError
from tests.sim.laws import PER_SECOND_MAX, WRITING
from tests.sim.plane.attachment_laws import AttachmentLaws
from tests.sim.plane.line import ATTACHDETACH, HEALTH, PlaneWrite
from tests.sim.plane.plan import OTHER, Plan
from tests.sim.plane.silence import Silence
from tests.sim.plane.stands import Json

EVENTS_MAX: Final = 30
"""Of one type for one object in five minutes: 25 pass at once, and one more each five minutes."""
EVENTS_S: Final = 300.0
JUDGED: Final = (
    "pods",
    "nodes",
    "volumeattachments",
    "persistentvolumes",
    "persistentvolumeclaims",
    "events",
    "storageclasses",
)
"""Kinds that laws look at."""


class Laws(AttachmentLaws):
    def __init__(self, plan: Plan, backend: Any, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        super().__init__(plan, backend, now, fail)
        self.silence = Silence(self, plan, now, fail)
        self.on_change: Callable[[str], None] = lambda node: None
        """Called with the node whose kubelet may see the change, "" for all."""
        self._in_flight: dict[tuple[str, int, str], PlaneWrite] = {}
        self._recent: dict[tuple[object, str], deque[float]] = defaultdict(deque)
        self._tellers: dict[
            str, int
        ] = {}  # of events, by name, the process; a provisioner's are told by their component, too
        self._last: dict[tuple[str, Key], Json] = {}  # the objects as they stand there, by kind
        self.on_begin: Callable[[PlaneWrite], None] = lambda write: None
        """Called with each write that a program sends."""
        self.on_answer: Callable[[PlaneWrite], None] = lambda write: None
        """Called with each that has succeeded, as its program knows."""
        self._ended_at: dict[
            tuple[int, str], int
        ] = {}  # the version of Nodes that a process of node health knew when it ended the pod

    # -- programs

    def done(self, process: int, what: str, at_s: float) -> None:
        most = PER_SECOND_MAX * max(self._plan.controllers, self._plan.attachers)
        if (
            not what.startswith(("list", "create events", "patch events"))
            and self._often((process, ""), what, 1.0) > most
        ):
            self._fail("I10", f"{what}: more than {most} times in a second")

    def _often(self, who: object, what: str, within_s: float) -> int:
        recent = self._recent[who, what]
        recent.append(self._now())
        while recent[0] < self._now() - within_s:
            recent.popleft()
        return len(recent)

    def begins(self, write: PlaneWrite) -> None:
        self.counts["writes"] += 1
        self.asked.begins(write)
        self.on_begin(write)
        if write.request is not None and write.request.kind.plural == "events":
            self._tellers[write.name or write.request.body["metadata"]["name"]] = write.process
        if (key := self._flight(write)) is None:
            return
        if (before := self._in_flight.get(key)) is not None and not self._may_go_beside(before, write):
            self._fail("I10", f"{write.who}#{write.process} begins {write.what} while another write to it is in flight")
        self._in_flight[key] = write

    def ends(self, write: PlaneWrite) -> None:
        key = self._flight(write)
        if key is not None and self._in_flight.get(key) is write:
            del self._in_flight[key]

    @staticmethod
    def _may_go_beside(before: PlaneWrite, write: PlaneWrite) -> bool:
        """A change or a DELETE of an attachment names the version that it is meant for, so of two at once one is
        refused; nor can it harm one that is made meanwhile.
        """
        assert before.request is not None
        assert write.request is not None
        of_attachments = write.request.kind.plural == "volumeattachments"
        return of_attachments and not before.request.verb is write.request.verb is Verb.CREATE

    def failed(self, write: PlaneWrite, error: ApiError) -> None:
        """The write was refused, or its answer is lost."""
        self.silence.refused(write, error)
        self.asked.failed(write, error)

    def answered(self, write: PlaneWrite) -> None:
        """The write has succeeded."""
        self.silence.went(write)
        self.on_answer(write)
        assert write.request is not None
        is_report = write.request.kind.plural == "nodes" and write.who.startswith(ATTACHDETACH)
        knows_all = write.knows_node(write.name) >= self._versions.get(write.name, 0)
        if is_report and knows_all and write.change is None and not write.excused:
            self._fail("I10", f"{write.what} writes again what stands there")

    @staticmethod
    def _flight(write: PlaneWrite) -> tuple[str, int, str] | None:
        assert write.request is not None
        kind = write.request.kind.plural
        if not write.who.startswith(ATTACHDETACH) or kind not in ("volumeattachments", "nodes"):
            return None
        name = write.name or write.request.body["metadata"]["name"]
        return write.who, write.process, f"{kind} {name}"

    # -- changes

    def changed(self, resource: Resource, change: StoredChange) -> None:
        """The store has changed. Told of every change, at once."""
        write = WRITING.get()
        write = write if isinstance(write, PlaneWrite) else None
        if write is not None:
            write.change = change
        if resource.plural not in JUDGED:
            return None
        new = None if change.new is None else change.new.whole()
        old = self._last.pop((resource.plural, change.key), None)
        if new is not None:
            self._last[resource.plural, change.key] = new
        node, whole = "", new or old or {}
        match resource.plural:
            case "pods":
                node = whole["spec"].get("nodeName", "")
                self._pod_changed(write, change.rv, old, new)
            case "nodes":
                node = change.key.name
                self._node_changed(write, change.rv, old, new)
            case "volumeattachments":
                node = whole["spec"]["nodeName"]
                self._attachment_changed(write, change.rv, old, new)
            case "persistentvolumes":
                self._volume_changed(change.rv, old, new)
            case "persistentvolumeclaims":
                self._put(self.claims, (change.key.namespace, change.key.name), new)
                self._refresh_wishes(change.rv)
            case "storageclasses":
                noted = whole["metadata"].get("annotations") or {}
                self.asked.class_said(change.key.name, None if new is None else noted.get(FORCE_AFTER, ""), self._now())
                return None
            case "events":
                return self._event_written(new)
        return self.on_change(node)

    # -- pods, claims and volumes

    def _pod_changed(self, write: PlaneWrite | None, version: int, old: Json | None, new: Json | None) -> None:
        pod = new or old
        assert pod is not None
        self._put(self.pods, pod["metadata"]["uid"], new)
        self._refresh_wishes(version)
        assert write is None or write.request is not None
        if write is None or write.who != HEALTH:
            return
        ending = (write.process, pod["metadata"]["uid"])
        if old is not None and new is not None and old["status"]["phase"] != new["status"]["phase"]:
            self._ended_at[ending] = write.knows("nodes")
        known = self._ended_at.get(ending, write.knows("nodes"))
        if write.request.verb is Verb.DELETE and write.request.grace_period_s == 0:
            node = self.nodes.get(pod["spec"].get("nodeName", ""))
            if node is None or not node.is_there or node.healthy_at > known or node.untainted_at > known:
                return
            if write.missing.get(pod["spec"]["nodeName"], node.made_at) < node.made_at and node.made_at > known:
                return  # made since it was told that it is not there, and not shown yet
            if node.unhealthy_s is None or not node.tainted:
                self._fail("pod-gc", f"pod {pod['metadata']['name']} is removed by force: {node}")

    # -- events

    def _event_written(self, event: Json | None) -> None:
        if event is None:
            return
        about, message = event["involvedObject"], event.get("message", "")
        self.silence.event_about(about.get("uid", ""))
        if about.get("namespace") != OTHER and OTHER in message:
            self._fail("I12", f"the event of {about.get('name')} shows what is elsewhere: {message}")
        teller = (
            event["source"].get("component"),
            self._tellers.get(event["metadata"]["name"]),
        )  # (a new process counts anew)
        whose = about.get("uid"), event.get("type"), teller
        if self._often(whose, "events", EVENTS_S) > EVENTS_MAX * 2:
            self._fail("I12", f"{about.get('kind')} {about.get('name')} has too many events; the last one: {message}")
