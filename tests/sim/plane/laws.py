"""The invariants of the attach/detach controller's design, as far as they hold at every step; judged on the truth, never on a cache.

| law    | broken when                                                                                                          |
|--------|----------------------------------------------------------------------------------------------------------------------|
| I1     | the controller makes an attachment of a volume for one node that it has been shown an attachment elsewhere of        |
| I2     | the driver publishes a volume for one node on a second one                                                           |
| I3     | the controller deletes an attachment whose node is known to have the volume in use, and not by force                 |
| I4     | the controller deletes an attachment that its Node still lists as attached                                           |
| I5     | the controller lists a volume as attached whose attachment is known to be missing, not attached, or being deleted    |
| I6     | a kubelet mounts what is not published there, or what it has mounted is unpublished, and not by force                |
| I10    | one process has two writes in flight to one attachment or Node, does one thing too often, or writes the same again   |
| I11    | a detach is forced before its time                                                                                   |
| I12    | an event shows a pod of another namespace, or one pod gets too many events                                           |
| wanted | the controller deletes an attachment that a pod is known to want                                                     |
| others | the controller changes attachments or entries of a report that are not its own, or node health others' taints        |
| pod-gc | node health removes a pod by force whose node is there and ready, or has no out-of-service taint                     |

Laws about what a process has asked for, or was told, stand in `asked.py`, that nobody waits in silence in `silence.py`. I7 to I9 are judged
at rest (`checkers.py`). I13 is all of these with two controllers at once: there I1 and I4 hold for what the controller
has been shown, since nothing but a lease keeps the other one from acting at the same moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from mooring.api.meta import Key
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.volume_names import attachment_name, unique_name
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Change
from mooring.controllers.attachdetach.identity import FORCE_AFTER
from mooring.kube.cluster import Verb
from mooring.kube.errors import ApiError
from tests.sim.backend import PUBLISH
from tests.sim.laws import PER_SECOND_MAX, WRITING
from tests.sim.plan import DRIVER
from tests.sim.plane.asked import BY_FLAG
from tests.sim.plane.claim_laws import HAND
from tests.sim.plane.line import ATTACHDETACH, HEALTH, PlaneWrite
from tests.sim.plane.plan import OTHER, Plan
from tests.sim.plane.silence import Silence
from tests.sim.plane.stands import Attachment, Json, NodeStand, Pair, Stands, Wish, attachment_of

EVENTS_MAX: Final = 30
"""Of one type for one object in five minutes: 25 pass at once, and one more each five minutes."""
EVENTS_S: Final = 300.0
JUDGED: Final = ("pods", "nodes", "volumeattachments", "persistentvolumes", "persistentvolumeclaims", "events", "storageclasses")
"""Kinds that laws look at."""
SLACK_S: Final = 0.001
TWOFOLD: Final = "comes late, and the volume is attached elsewhere"
"""What a story says of a POST of a process that is gone."""


class Laws(Stands):
    """torn: what hands have taken away, so that nobody knows whether it is published there."""

    def __init__(self, plan: Plan, backend: Any, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        super().__init__(plan, now)
        self._backend, self._fail = backend, fail
        self.silence = Silence(self, plan, now, fail)
        self.torn: set[Pair] = set()
        self.excused: set[Pair] = set()  # detached under a mount by right
        self.mounted: set[Pair] = set()
        self.counts: Counter[str] = Counter()
        self.on_change: Callable[[str], None] = lambda node: None
        """Called with the node whose kubelet may see the change, "" for all."""
        self.tell: Callable[[str], None] = lambda what: None
        """Writes into the story."""
        self._in_flight: set[tuple[str, int, str]] = set()
        self._recent: dict[tuple[object, str], deque[float]] = defaultdict(deque)
        self._last: dict[tuple[str, Key], Json] = {}  # the objects as they stand there, by kind
        self._late_reports: set[int] = set()  # versions of Nodes that no process waits for: a kubelet's, too, which lists nothing
        self._ended_at: dict[tuple[int, str], int] = {}  # the version of Nodes that a process of node health knew when it ended the pod
        self._blind: set[Pair] = set()  # published by an attacher that could not know of the attachment's end

    # -- programs

    def done(self, process: int, what: str, at_s: float) -> None:
        most = PER_SECOND_MAX * max(self._plan.controllers, self._plan.attachers)
        if not what.startswith(("list", "create events", "patch events")) and self._often((process, ""), what, 1.0) > most:
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
        key = self._flight(write)
        if key in self._in_flight:
            self._fail("I10", f"{write.who}#{write.process} begins {write.what} while another write to it is in flight")
        if key is not None:
            self._in_flight.add(key)

    def ends(self, write: PlaneWrite) -> None:
        if (key := self._flight(write)) is not None:
            self._in_flight.discard(key)

    def failed(self, write: PlaneWrite, error: ApiError) -> None:
        """The write was refused, or its answer is lost."""
        self.silence.refused(write, error)
        self.asked.failed(write, error, self._now(), self.attachments)

    def answered(self, write: PlaneWrite) -> None:
        """The write has succeeded."""
        self.silence.went(write)
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

    # -- storage and mounts

    def call_begins(self, process: int, verb: str, handle: str, node: str) -> None:
        self.counts["calls"] += 1
        claimed = attachment_name(DRIVER, handle, node) in self.attachments or any(
            self._handle_of_volume(one.volume) == handle and one.node == node for one in self.attachments.values()
        )
        if self._plan.attachers == 1:
            return
        if verb == PUBLISH and not claimed:
            self._blind.add((handle, node))
        elif verb != PUBLISH and claimed and not any(one.deleting for one in self._of_handle(handle) if one.node == node):
            self.excused.add((handle, node))  # one that has not been shown the new attachment under an old name

    def call_ends(self, process: int, verb: str, handle: str, node: str, ok: bool) -> None:
        pass

    def is_published(self, handle: str, node: str) -> None:
        """The driver is about to publish."""
        others = {other for other in self._backend.published[handle] if other != node and (handle, other) not in self.torn | self._blind}
        if self._single.get(handle) and others and (handle, node) not in self._blind:
            self._fail("I2", f"{handle} becomes published on {node}, and is on {sorted(others)}")

    def is_unpublished(self, handle: str, node: str) -> None:
        self._blind.discard((handle, node))
        self.torn.discard((handle, node))
        if (handle, node) in self.mounted and (handle, node) not in self.excused:
            self._fail("I6", f"{handle} is unpublished at {node}, which has it mounted")

    def mounts(self, node: str, handle: str) -> None:
        pair = (handle, node)
        marked_twice = self._plan.attachers > 1  # the older one may mark an attachment that the other has begun to end
        if node not in self._backend.published[handle] and pair not in self.excused and not marked_twice:
            self._fail("I6", f"{node} mounts {handle}, which is not published there")
        self.mounted.add(pair)

    def unmounted(self, node: str, handle: str) -> None:
        self.mounted.discard((handle, node))
        self.excused.discard((handle, node))

    def rebooted(self, node: str) -> None:
        for handle, other in [*self.mounted, *self.excused]:
            if other == node:
                self.unmounted(node, handle)

    def detached_by_hand(self, name: str) -> None:
        """Somebody has deleted the attachment, whatever is mounted."""
        if name in self._pairs:
            self.excused.add(self._pairs[name])

    def tears(self, one: Attachment) -> None:
        """The attachment was torn away; what was attached is detached by hand."""
        handle = self._pairs[one.name][0]
        if one.attached:
            self._backend.take_away(handle, one.node)
        self.torn.add((handle, one.node))

    def clean_up(self) -> None:
        """Who tore an attachment away looks after its volume where no attacher can know of it."""
        for handle, node in sorted(self.torn):
            if not any(one.node == node for one in self._of_handle(handle)):
                self._backend.take_away(handle, node)

    # -- changes

    def changed(self, resource: Resource, change: Change) -> None:
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

    # -- attachments

    def _attachment_changed(self, write: PlaneWrite | None, version: int, old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        before = self.attachments.get(name)
        if new is None:
            self.attachments.pop(name, None)
            self._ended[name] = version
        else:
            maker = "" if write is None else f"{write.who}#{write.process}"
            made = (version, maker) if before is None else (before.made, before.maker)
            self.attachments[name] = attachment_of(new, version, *made)
            if before is None:
                self.asked.is_made(write, name)
                self._comes_late(write, self.attachments[name])
        if write is None and before is not None and (new is None or self.attachments[name].deleting):
            write = self.asked.delete_of(before.uid)
        if write is None or not write.who.startswith(ATTACHDETACH):
            return
        if old is None:
            self._is_made(write, self.attachments[name])
        elif before is not None and not before.deleting:
            self._is_deleted(write, before)

    def _comes_late(self, write: PlaneWrite | None, made: Attachment) -> None:
        """A POST that a killed process has left: nobody could wait for it. That one alone is published and reported are other laws."""
        handle, _ = self._pairs.get(made.name, ("", ""))
        if write is None and not HAND.get() and self._single.get(handle) and any(one.node != made.node for one in self._of_handle(handle)):
            self.tell(f"{made.name} {TWOFOLD}")

    def _is_made(self, write: PlaneWrite, made: Attachment) -> None:
        pair = self._pairs.get(made.name)
        if pair is None or pair[1] != made.node:
            self._fail("others", f"{made.name} is made by a name that no volume on {made.node} has")
            return
        if not self._single.get(pair[0]):
            return
        for other in self._of_handle(pair[0]):
            if other.node != made.node and (other.made <= write.knows("volumeattachments") or other.maker == made.maker):
                self._fail("I1", f"{made.name} is made for {pair[0]} on {made.node}, and {other.name} is there, on {other.node}")
        for name in sorted(self.asked.open_posts(write, self._now())):
            handle, node = self._pairs[name]
            if handle == pair[0] and node != made.node:
                self._fail(
                    "post-open", f"{made.name} is made for {handle} on {made.node}, and a POST of {name}, on {node}, may yet be carried out"
                )

    def _is_deleted(self, write: PlaneWrite, found: Attachment) -> None:
        pair = self._pairs.get(found.name)
        if pair is None:
            self._fail("others", f"{found.name} is deleted, and was made by others")
            return
        if write.is_lost_before and pair not in self.mounted:
            return  # it had no answer, and may be carried out anyway: it is sent again, whoever wants the volume, but under no mount
        node, unique = self.nodes.get(found.node) or NodeStand(is_there=False), unique_name(DRIVER, pair[0])
        if node.is_there and unique in node.listed and not self._is_listed_unseen(write, found.node, unique):
            self._fail("I4", f"{found.name} is deleted while {found.node} lists {pair[0]} as attached")
        wish = self._wishes[pair]
        if wish.unwanted_s is None and wish.wanted_at <= write.knows("pods") and self._is_led_to(write.knows, pair):
            self._fail("wanted", f"{found.name} is deleted while a pod wants {pair[0]} on {found.node}")
        if self._plan.controllers > 1 and node.came.get(unique, 0) > write.knows_node(found.node):
            self.excused.add(pair)
        if unique not in node.in_use or node.in_use[unique] > write.knows_node(found.node):
            return
        if node.is_there or write.firsts.get("nodes", 0) < node.gone_at:
            self._is_forced(write, found, pair, node, wish)
        self.excused.add(pair)

    def _is_listed_unseen(self, write: PlaneWrite, name: str, unique: str) -> bool:
        """Listed since this controller has last seen the Node: by another one, or by a report that was given up and came when the DELETE
        was already on its way. Nobody can take that back; what a kubelet makes of it is for I6 to judge.
        """
        is_late = self.nodes[name].listed[unique] in self._late_reports
        return (self._plan.controllers > 1 or is_late) and self.nodes[name].listed[unique] > write.knows_node(name)

    def _is_forced(self, write: PlaneWrite, found: Attachment, pair: Pair, node: NodeStand, wish: Wish) -> None:
        seen = write.knows_node(found.node)
        if node.tainted or node.untainted_at > seen:
            return
        unhealthy_s = node.unhealthy_s if node.healthy_at <= seen else node.unhealthy_before_s
        unwanted_s = wish.unwanted_s if wish.wanted_at <= write.knows("pods") else wish.unwanted_before_s
        what = f"{found.name} is deleted while {found.node} has {pair[0]} in use"
        wait_s, words = self.asked.forced_wait_s(write, pair[0], self._plan.force_after_s)
        law = "I11" if words == BY_FLAG else "class-word"
        if unhealthy_s is None:
            self._fail("I3", f"{what}, is ready, and has no out-of-service taint")
        elif not self._plan.forces:
            self._fail("I3", f"{what}, and nothing is forced by time")
        elif unwanted_s is None:
            self._fail("I3", f"{what}, and a pod wants it")
        elif write.began_s + SLACK_S < (due_s := max(unhealthy_s, min(unwanted_s, wish.unwanted_but_for_s)) + wait_s):
            self._fail(law, f"{what}, and the time for force is not before {due_s:.3f}: {words}")

    # -- nodes

    def _node_changed(self, write: PlaneWrite | None, version: int, old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        stand = self.nodes.setdefault(name, NodeStand(unhealthy_s=self._now()))
        self._versions[name] = version
        if write is None and not HAND.get():
            self._late_reports.add(version)
        if new is None:
            stand.is_there, stand.gone_at, stand.listed = False, version, {}
            stand.tainted, stand.untainted_at = False, version if stand.tainted else stand.untainted_at
            stand.unhealthy_s = self._now() if stand.unhealthy_s is None else stand.unhealthy_s
            return
        status = new.get("status", {})
        stand.is_there = True
        stand.in_use = {one: stand.in_use.get(one, version) for one in status.get("volumesInUse") or ()}
        self._health_changed(stand, version, new)
        listed = [one["name"] for one in status.get("volumesAttached") or ()]
        before = stand.listed
        stand.listed = {one: before.get(one, version) for one in listed}
        stand.came |= stand.listed
        if write is not None and write.who.startswith(ATTACHDETACH):
            self._report_written(write, name, before, stand)
        elif write is not None and write.who == HEALTH and old is not None:
            lost = {one["key"] for one in old["spec"].get("taints") or ()} - {one["key"] for one in new["spec"].get("taints") or ()}
            if theirs := sorted(key for key in lost if not key.startswith("node.kubernetes.io/") or key == OUT_OF_SERVICE_TAINT):
                self._fail("others", f"node health takes {theirs} off {name}")

    def _report_written(self, write: PlaneWrite, name: str, before: dict[str, int], stand: NodeStand) -> None:
        for unique in sorted(before.keys() - stand.listed.keys()):
            if not unique.startswith("kubernetes.io/csi/") and before[unique] <= write.knows_node(name):
                self._fail("others", f"the report of {name} loses {unique}")
        for unique in sorted(stand.listed.keys() - before.keys()):
            if not unique.startswith("kubernetes.io/csi/"):
                continue
            handle = unique.partition("^")[2]
            found = self.attachments.get(attachment_name(DRIVER, handle, name))
            if found is None:
                ended = self._ended.get(attachment_name(DRIVER, handle, name), 0)
                if ended <= write.knows("volumeattachments"):
                    self._fail("I5", f"{name} comes to list {handle}, which has no attachment")
            elif (found.deleting or not found.attached) and found.version <= write.knows("volumeattachments"):
                self._fail("I5", f"{name} comes to list {handle}, whose attachment is {found}")
            if found is not None:
                self._is_listed(write, found, handle)

    def _is_listed(self, write: PlaneWrite, found: Attachment, handle: str) -> None:
        """The Node of this attachment comes to list it."""
        if self.asked.is_detaching(write, found.uid):
            self._fail(
                "detach-reported", f"{found.node} comes to list {handle}, and {write.who}#{write.process} has asked to delete {found}"
            )
        for other in self._of_handle(handle) if self._single.get(handle) else ():
            stand = self.nodes.get(other.node) or NodeStand(is_there=False)
            listed_at = stand.listed.get(unique_name(DRIVER, handle))
            is_known = (
                listed_at is not None and listed_at <= write.knows_node(other.node) and other.version <= write.knows("volumeattachments")
            )
            if other.node != found.node and other.attached and not other.deleting and is_known:
                self._fail("two-listed", f"{found.node} comes to list {handle}, which {other.node} lists, too: {other}")

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
        if self._often((about.get("uid"), event.get("type")), "events", EVENTS_S) > EVENTS_MAX * 2 * self._plan.controllers:
            self._fail("I12", f"{about.get('kind')} {about.get('name')} has too many events; the last one: {message}")
