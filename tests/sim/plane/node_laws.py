"""The laws of Nodes and their reports, of `laws.py`: I5 and others; and detach-reported and two-listed of
`asked.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.volume_names import attachment_name, unique_name
from tests.sim.plan import DRIVER
from tests.sim.plane.claim_laws import HAND
from tests.sim.plane.line import ATTACHDETACH, HEALTH, PlaneWrite
from tests.sim.plane.mount_laws import MountLaws
from tests.sim.plane.plan import Plan
from tests.sim.plane.stands import Attachment, Json, NodeStand


class NodeLaws(MountLaws):
    def __init__(self, plan: Plan, backend: Any, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        super().__init__(plan, backend, now, fail)
        self._late_reports: set[int] = (
            set()
        )  # versions of Nodes that no process waits for: a kubelet's, too, which lists nothing

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
        if old is None:
            stand.made_at = version
            stand.had |= {one: (since, None) for one, since in stand.in_use.items()}
        if status.get("volumesInUse"):
            stand.had = {one: (since, until or version) for one, (since, until) in stand.had.items()}
        stand.in_use = {one: stand.in_use.get(one, version) for one in status.get("volumesInUse") or ()}
        self._health_changed(stand, version, new)
        listed = [one["name"] for one in status.get("volumesAttached") or ()]
        before = stand.listed
        stand.listed = {one: before.get(one, version) for one in listed}
        stand.came |= stand.listed
        if write is not None and write.who.startswith(ATTACHDETACH):
            self._report_written(write, name, before, stand)
        elif write is not None and write.who == HEALTH and old is not None:
            lost = {one["key"] for one in old["spec"].get("taints") or ()} - {
                one["key"] for one in new["spec"].get("taints") or ()
            }
            if theirs := sorted(
                key for key in lost if not key.startswith("node.kubernetes.io/") or key == OUT_OF_SERVICE_TAINT
            ):
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
        if self.asked.is_detaching(write, found.uid, found.version):
            self._fail(
                "detach-reported",
                f"{found.node} comes to list {handle}, and {write.who}#{write.process} has asked to delete {found}",
            )
        for other in self._of_handle(handle) if self._single.get(handle) else ():
            stand = self.nodes.get(other.node) or NodeStand(is_there=False)
            listed_at = stand.listed.get(unique_name(DRIVER, handle))
            is_known = (
                listed_at is not None
                and listed_at <= write.knows_node(other.node)
                and other.version <= write.knows("volumeattachments")
            )
            if other.node != found.node and other.attached and not other.deleting and is_known:
                self._fail("two-listed", f"{found.node} comes to list {handle}, which {other.node} lists, too: {other}")
