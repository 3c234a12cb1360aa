"""The laws of attachments, of `laws.py`: I1, I3, I4, I11, wanted, others; and class-word of
`asked.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.volume_names import unique_name
from tests.sim.plan import DRIVER
from tests.sim.plane.asked import BY_FLAG
from tests.sim.plane.claim_laws import HAND
from tests.sim.plane.line import ATTACHDETACH, PlaneWrite
from tests.sim.plane.node_laws import NodeLaws
from tests.sim.plane.plan import Plan
from tests.sim.plane.stands import Attachment, Json, NodeStand, Pair, attachment_of

SLACK_S: Final = 0.001
STAMP_S: Final = 1.0
"""A Node says since when it is silent in whole seconds, rounded down."""
TWOFOLD: Final = "comes late, and the volume is attached elsewhere"
"""What a story says of a POST that nobody waits for."""


class AttachmentLaws(NodeLaws):
    def __init__(self, plan: Plan, backend: Any, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        super().__init__(plan, backend, now, fail)
        self.tell: Callable[[str], None] = lambda what: None
        """Writes into the story."""

    def _attachment_changed(self, write: PlaneWrite | None, version: int, old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        before = self.attachments.get(name)
        if new is None:
            self.attachments.pop(name, None)
            self.late.discard(name)
            self._ended[name] = version
        else:
            maker = "" if write is None else f"{write.who}#{write.process}"
            made = (version, maker) if before is None else (before.made, before.maker)
            self.attachments[name] = attachment_of(new, version, *made)
            if before is None:
                self._comes_late(write, self.attachments[name])
        if write is None and before is not None and (new is None or self.attachments[name].deleting):
            write = self.asked.delete_of(before.uid, before.version)
        if write is None or not write.who.startswith(ATTACHDETACH):
            return
        if old is None:
            self._is_made(write, self.attachments[name])
        elif before is not None and not before.deleting and (new is None or self.attachments[name].deleting):
            self._is_deleted(write, before)

    def _comes_late(self, write: PlaneWrite | None, made: Attachment) -> None:
        """A POST that nobody waits for, since its process was killed or its answer lost; or one whose maker had not
        been shown what another controller made. That one alone is published and reported are other laws.
        """
        handle, _ = self._pairs.get(made.name, ("", ""))
        others = [one for one in self._of_handle(handle) if one.node != made.node]
        if HAND.get() or not self._single.get(handle) or not others:
            return
        if self.asked.comes_late(write):
            self.tell(f"{made.name} {TWOFOLD}")
            self.late.add(made.name)
        elif write is not None and all(one.made > write.knows("volumeattachments") for one in others):
            self.late.add(made.name)

    def _is_made(self, write: PlaneWrite, made: Attachment) -> None:
        pair = self._pairs.get(made.name)
        if pair is None or pair[1] != made.node:
            self._fail("others", f"{made.name} is made by a name that no volume on {made.node} has")
            return
        if not self._single.get(pair[0]) or self.asked.comes_late(write):
            return
        for other in self._of_handle(pair[0]):
            if other.node != made.node and (
                other.made <= write.knows("volumeattachments") or other.maker == made.maker
            ):
                self._fail(
                    "I1",
                    f"{made.name} is made for {pair[0]} on {made.node}, and {other.name} is there, on {other.node}",
                )

    def _is_deleted(self, write: PlaneWrite, found: Attachment) -> None:
        pair = self._pairs.get(found.name)
        if pair is None:
            self._fail("others", f"{found.name} is deleted, and was made by others")
            return
        if write.is_lost_before and pair not in self.mounted:
            self._excuse_force(write, found, pair)
            return  # it had no answer, and is sent again, but under no mount
        node, unique = self.nodes.get(found.node) or NodeStand(is_there=False), unique_name(DRIVER, pair[0])
        is_listed = node.is_there and unique in node.listed
        is_listed_unseen = is_listed and self._is_listed_unseen(write, found.node, unique)
        if (
            write.is_lost_before
            and self._plan.controllers > 1
            and (is_listed_unseen or self.mounted[pair] > write.began_s)
        ):
            self.excused.add(pair)  # the other controller has listed it, or had it mounted, since this one could know
            return
        if is_listed and not is_listed_unseen:
            self._fail("I4", f"{found.name} is deleted while {found.node} lists {pair[0]} as attached")
        wish = self._wishes[pair]
        if wish.unwanted_s is None and wish.wanted_at <= write.knows("pods") and self._is_led_to(write.knows, pair):
            self._fail("wanted", f"{found.name} is deleted while a pod wants {pair[0]} on {found.node}")
        if self._plan.controllers > 1 and node.came.get(unique, 0) > write.knows_node(found.node):
            self.excused.add(pair)
        if unique not in node.in_use or node.in_use[unique] > write.knows_node(found.node):
            self._excuse_force(write, found, pair)
            return
        if node.is_there or write.firsts.get("nodes", 0) < node.gone_at:
            for law, what in self._wrongs_of_force(write, found, pair, write.knows_node(found.node)):
                self._fail(law, what)
        self.excused.add(pair)

    def _excuse_force(self, write: PlaneWrite, found: Attachment, pair: Pair) -> None:
        """It need not have been by force, but may have been, and by right. So it is where the node was shown in the
        moment of the DELETE; where it is back, or made anew, since the volume was last known to be in use; and where
        the DELETE is sent again.
        """
        node, seen = self.nodes.get(found.node), write.may_know_node(found.node)
        is_shown = node is not None and node.is_shown_in_use(unique_name(DRIVER, pair[0]), seen)
        if is_shown and not any(self._wrongs_of_force(write, found, pair, seen)):
            self.excused.add(pair)

    def _is_listed_unseen(self, write: PlaneWrite, name: str, unique: str) -> bool:
        """Listed since this controller has last seen the Node: by another one, or by a report that was given up and
        came when the DELETE was already on its way. Nobody can take that back; what a kubelet makes of it is for I6 to
        judge.
        """
        is_late = self.nodes[name].listed[unique] in self._late_reports
        return (self._plan.controllers > 1 or is_late) and self.nodes[name].listed[unique] > write.knows_node(name)

    def _wrongs_of_force(
        self, write: PlaneWrite, found: Attachment, pair: Pair, seen: int
    ) -> Iterator[tuple[str, str]]:
        """Of a DELETE by who has seen so much of the Node; with the law of each."""
        node, wish = self.nodes[found.node], self._wishes[pair]
        if node.tainted or node.untainted_at > seen:
            return
        unhealthy_s = node.unhealthy_s if node.healthy_at <= seen else node.unhealthy_before_s
        is_missed = wish.unwanted_s is not None and write.has_missed("pods", wish.wanted_at, wish.unwanted_at)
        is_shown = wish.wanted_at <= write.knows("pods") and not is_missed and self._is_led_to(write.knows, pair)
        unwanted_s = wish.unwanted_s if is_shown else wish.unwanted_before_s
        what = f"{found.name} is deleted while {found.node} has {pair[0]} in use"
        wait_s, words = self.asked.forced_wait_s(write, pair[0], self._plan.force_after_s)
        law = "I11" if words == BY_FLAG else "class-word"
        if unhealthy_s is None:
            yield "I3", f"{what}, is ready, and has no out-of-service taint"
        elif not self._plan.forces:
            yield "I3", f"{what}, and nothing is forced by time"
        elif unwanted_s is None:
            yield "I3", f"{what}, and a pod wants it"
        elif write.began_s + SLACK_S < (
            due_s := max(unhealthy_s - STAMP_S, min(unwanted_s, wish.unwanted_but_for_s)) + wait_s
        ):
            yield law, f"{what}, and the time for force is not before {due_s:.3f}: {words}"
