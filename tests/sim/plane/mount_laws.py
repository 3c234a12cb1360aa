"""The laws of storage and mounts, of `laws.py`: I2 and I6; and what is detached under a mount by right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mooring.api.volume_names import attachment_name
from tests.sim.backend import PUBLISH
from tests.sim.plan import DRIVER
from tests.sim.plane.plan import Plan
from tests.sim.plane.stands import Attachment, Pair, Stands


class MountLaws(Stands):
    """torn: what hands have taken away, so that nobody knows whether it is published there.

    excused: detached under a mount by right. untrue: published nowhere, while an attachment from a backup says so.
    """

    def __init__(self, plan: Plan, backend: Any, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        super().__init__(plan, now)
        self._backend, self._fail = backend, fail
        self.torn: set[Pair] = set()
        self.excused: set[Pair] = set()
        self.untrue: set[Pair] = set()
        self.mounted: dict[Pair, float] = {}  # since when
        self.counts: Counter[str] = Counter()
        self._blind: set[Pair] = set()  # published by an attacher that could not know of the attachment's end
        self.late: set[str] = set()  # attachments that were made beside another one, which their maker could not know

    def call_begins(self, process: int, verb: str, handle: str, node: str) -> None:
        self.counts["calls"] += 1
        claimed = attachment_name(DRIVER, handle, node) in self.attachments or any(
            self.handle_of_volume(one.volume) == handle and one.node == node for one in self.attachments.values()
        )
        if self._plan.attachers == 1:
            return
        if verb == PUBLISH and not claimed:
            self._blind.add((handle, node))
        elif (
            verb != PUBLISH and claimed and not any(one.deleting for one in self._of_handle(handle) if one.node == node)
        ):
            self.excused.add((handle, node))  # one that has not been shown the new attachment under an old name

    def call_ends(self, process: int, verb: str, handle: str, node: str, ok: bool) -> None:
        pass

    def is_published(self, handle: str, node: str) -> None:
        """The driver is about to publish. One attacher never has a volume on two nodes; of two, each may have seen one
        attachment alone.
        """
        self.untrue.discard((handle, node))
        if self._plan.attachers > 1 and any(one.name in self.late for one in self._of_handle(handle)):
            return
        others = {
            other
            for other in self._backend.published[handle]
            if other != node and (handle, other) not in self.torn | self._blind
        }
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
        if node not in self._backend.published[handle] and pair not in self.excused | self.untrue and not marked_twice:
            self._fail("I6", f"{node} mounts {handle}, which is not published there")
        self.mounted.setdefault(pair, self._now())

    def unmounted(self, node: str, handle: str) -> None:
        self.mounted.pop((handle, node), None)
        self.excused.discard((handle, node))

    def rebooted(self, node: str) -> None:
        for handle, other in [*self.mounted, *self.excused]:
            if other == node:
                self.unmounted(node, handle)

    def detached_by_hand(self, name: str) -> None:
        """Somebody has deleted the attachment, whatever is mounted."""
        if name in self._pairs:
            self.excused.add(self._pairs[name])

    def is_restored(self, name: str) -> None:
        """The attachment of this name is as a backup has it: nobody can know that what it says is not so any more."""
        handle, node = self._pairs.get(name, ("", ""))
        if handle and node not in self._backend.published[handle]:
            self.untrue.add((handle, node))

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
