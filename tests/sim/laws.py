"""What must hold at every step, whatever goes wrong. Judged on the truth: the server's store and the backend, never on
a cache.

| law                  | broken when the attacher |
| --- | --- |
| publish-no-finalizer | publishes while no attachment carries finalizer and node id for it: a crash leaks it |
| two-nodes            | publishes a single-node volume while it is published elsewhere |
| overlap              | has two calls in flight for one volume |
| needless-publish     | publishes again what it knows to be attached |
| needless-unpublish   | unpublishes again what it knows to be detached |
| unpublish-wanted     | unpublishes what an attached attachment still needs |
| attached-unpublished | writes attached=true and the backend has it not |
| attached-lost        | writes attached=false while nobody has deleted the attachment |
| mark-astray          | marks an attachment that took the name of the one it was meant for |
| late-astray          | changes, by a write that it gave up long ago, an attachment that took the name since |
| unpublish-mounted    | unpublishes what an attachment said to be attached, long ago, when that is torn away |
| finalizer-dropped    | drops the finalizer while the volume is, or may become, published there |
| volume-dropped       | drops a volume's finalizer that is in use, or not deleted |
| finalizer-twice      | leaves its finalizer twice in a list |
| foreign-touched      | changes what belongs to others |
| empty-write          | writes what changes nothing, and could have known |
| hot-loop             | does one thing too often |
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from mooring.api.meta import annotation
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION, STATUS_OF_ANNOTATION
from tests.sim.backend import PUBLISH, Backend
from tests.sim.knowledge import Knowledge, Pair
from tests.sim.plan import DRIVER, FINALIZER, TWIN
from tests.sim.tears import Tears
from tests.sim.truth import Attachment, Truth

PER_SECOND_MAX: Final = 40
_OUR_ANNOTATIONS: Final = (NODE_ID_ANNOTATION, STATUS_OF_ANNOTATION)


@dataclasses.dataclass(slots=True, eq=False)
class Write:
    """A write of the attacher. excused: a lost answer, or a later object under the same name, keeps it from knowing the
    object.

    change: what it did, None for nothing.
    """

    process: int
    alive: Callable[[], bool]
    what: str
    name: str
    excused: bool
    body: Any = None
    change: StoredChange | None = None


WRITING: Final[ContextVar[Write | None]] = ContextVar("writing", default=None)
"""Whose change the store is being told of: None for everybody but the attacher."""


class Laws:
    """now: the virtual time. fail: called with the law's name and what broke it."""

    def __init__(
        self, truth: Truth, backend: Backend, now: Callable[[], float], fail: Callable[[str, str], None]
    ) -> None:
        self._truth, self._backend, self._fail = truth, backend, fail
        self._in_flight: dict[tuple[int, str], str] = {}
        self._knowledge = Knowledge(backend.removed)
        self._shared = frozenset(backend.shared_handles())
        self.twinned = set(self._shared)  # volumes that had two attachments to one node, each with calls of its own
        self.tears = Tears(truth, backend, now)
        self._born: dict[tuple[str, str], int] = {}
        self._was_set_back = False
        self._unconfirmed: set[str] = (
            set()
        )  # uids of which the attacher can't know whether it has confirmed the attachment
        self._recent: dict[tuple[int, str], deque[float]] = defaultdict(deque)
        self.counts: Counter[str] = Counter()

    def done(self, process: int, what: str, at_s: float) -> None:
        """The attacher does something that must not become a hot loop."""
        recent = self._recent[process, what]
        recent.append(at_s)
        while recent[0] < at_s - 1.0:
            recent.popleft()
        if len(recent) > PER_SECOND_MAX:
            self._fail("hot-loop", f"{what}: {len(recent)} times in a second")

    # -- calls

    def _is_odd(self, handle: str) -> bool:
        """True for volumes of which an attacher can't know what it has done."""
        return handle in self.twinned or handle in self.tears

    def call_begins(self, process: int, verb: str, handle: str, node_id: str) -> None:
        pair = (handle, node_id)
        self.counts[verb] += 1
        other = self._in_flight.get((process, handle))
        if other is not None:
            self._fail("overlap", f"{verb} of {handle} while {other} is in flight")
        self._in_flight[process, handle] = f"{verb} {handle} {node_id}"
        claims = [found for found in self._truth.attachments() if found.pair == pair and found.held]
        if verb == PUBLISH:
            self._publish_begins(process, pair, claims)
        else:
            self._unpublish_begins(process, pair, claims)

    def call_ends(self, process: int, verb: str, handle: str, node_id: str, ok: bool) -> None:
        """The attacher has the answer, or waits for it no more."""
        pair = (handle, node_id)
        self._in_flight.pop((process, handle), None)
        if ok and verb == PUBLISH:
            self._knowledge.published(
                process, pair, [found for found in self._truth.attachments() if found.pair == pair]
            )

    def _publish_begins(self, process: int, pair: Pair, claims: list[Attachment]) -> None:
        handle, node_id = pair
        published = self._backend.published[handle]
        if not claims and not self.tears.excuse(handle):
            self._fail(
                "publish-no-finalizer", f"publish of {handle} at {node_id}, for which no attachment has the finalizer"
            )
        elsewhere = published - {node_id} - {node for volume, node in self.tears.left_to_hands() if volume == handle}
        if handle in self._backend.single_node and elsewhere:
            self._fail("two-nodes", f"publish of {handle} at {node_id} while it is published at {sorted(elsewhere)}")
        unconfirmed = any(
            annotation(found.whole, STATUS_OF_ANNOTATION) or found.uid in self._unconfirmed for found in claims
        )
        if (
            self._knowledge.is_attached(process, pair)
            and node_id in published
            and not unconfirmed
            and not self._is_odd(handle)
        ):
            self._fail("needless-publish", f"publish of {handle} at {node_id}, attached and known to be")
        self._knowledge.publish_begins(process, pair)
        self.tears.publishes(process, pair)

    def _unpublish_begins(self, process: int, pair: Pair, claims: list[Attachment]) -> None:
        handle, node_id = pair
        if not node_id:
            self._fail("unpublish-wanted", f"unpublish of {handle} everywhere")
        is_left = any(
            (found.handle, found.node) == (handle, self._backend.node_of(node_id))
            for found in self._truth.attachments()
        )
        if self.tears.is_settled(process, pair) and not is_left:
            self._fail(
                "unpublish-mounted",
                f"unpublish of {handle} at {node_id}, torn away long after it was shown as attached",
            )
        for found in claims:
            is_old_view = node_id in self._backend.former or self.tears.may_precede_set_back(handle)
            if found.attached and not found.deleting and not is_old_view:
                self._fail("unpublish-wanted", f"unpublish of {handle} at {node_id}, needed by {found.name}")
        unneeded = not claims and node_id not in self._backend.published[handle] and not self._is_odd(handle)
        if unneeded and self._knowledge.is_detached(process, pair):
            self._fail("needless-unpublish", f"unpublish of {handle} at {node_id}, detached and known to be")
        self._knowledge.unpublish_begins(process, pair)

    # -- writes

    def changed(self, resource: Resource, change: StoredChange) -> None:
        """The store has changed. Told of every change, at once."""
        if change.old is None:
            self._born[resource.plural, change.key.name] = change.rv
        if change.old is None and change.new is not None and change.key.name.startswith(TWIN):
            self.twinned.add(self._truth.attachment_of(change.new).handle)
        write = WRITING.get()
        if write is None:
            return None
        write.change = change
        if change.old is None:
            return self._fail("foreign-touched", f"{write.what} created an object")
        self._touches_only_its_own(write, change)
        if resource.plural == "volumeattachments":
            old = self._truth.attachment_of(change.old)
            new = None if change.new is None else self._truth.attachment_of(change.new)
            self._attachment_changed(write, old, new)
        elif resource.plural == "persistentvolumes":
            self._volume_changed(write, change)
        else:
            self._fail("foreign-touched", f"{write.what} is not the attacher's business")
        return None

    def _attachment_changed(self, write: Write, old: Attachment, new: Attachment | None) -> None:
        if old.attacher != DRIVER:
            self._fail("foreign-touched", f"{old.name} belongs to {old.attacher}")
        if new is not None and not old.attached and new.attached:
            handle, node_id = new.pair
            if not new.held and not self.tears.may_precede_set_back(handle):
                self._fail("mark-astray", f"{write.what} marks {new.name}, which is not held")
            excused = node_id in self._backend.dead or self._backend.removed[new.pair] or self.tears.excuse(handle)
            if node_id not in self._backend.published[handle] and not excused:
                self._fail(
                    "attached-unpublished", f"{new.name} becomes attached, but {handle} is not published at {node_id!r}"
                )
        if (
            new is not None
            and old.attached
            and not new.attached
            and not old.deleting
            and not self.tears.may_precede_set_back(old.handle)
        ):
            self._fail("attached-lost", f"{new.name} is marked detached, nobody has deleted it")
        if old.held and (new is None or not new.held):
            self._released(old)

    def _released(self, old: Attachment) -> None:
        handle, node_id = old.pair
        if not old.deleting and not self.tears.may_precede_set_back(handle):
            self._fail("finalizer-dropped", f"{old.name} is released, nobody has deleted it")
        if self.tears.excuse(handle):
            return
        place = (old.handle, old.node)
        if any(
            (found.handle, found.node) == place and found.held and found.name != old.name
            for found in self._truth.attachments()
        ):
            return  # the other one goes on holding it there
        if node_id in self._backend.published[handle]:
            self._fail("finalizer-dropped", f"{old.name} is released while {handle} is published at {node_id}")
        if self._backend.at_work(handle, PUBLISH, node_id) and node_id not in self._backend.dead:
            self._fail("finalizer-dropped", f"{old.name} is released while {handle} may become published at {node_id}")

    def _volume_changed(self, write: Write, change: StoredChange) -> None:
        assert change.old is not None
        before = change.old.whole()["metadata"]
        after = change.new.whole()["metadata"] if change.new is not None else {}
        if FINALIZER not in before.get("finalizers", []) or FINALIZER in after.get("finalizers", []):
            return
        name, handle = before["name"], change.old.whole()["spec"]["csi"]["volumeHandle"]
        if self.tears.may_precede_set_back(handle):
            return
        if "deletionTimestamp" not in before:
            self._fail("volume-dropped", f"{name} is released, nobody has deleted it")
        call = self._in_flight.get((write.process, handle))
        if call and handle not in self._shared:  # else it may be for the other PersistentVolume of that volume
            self._fail("volume-dropped", f"{name} is released under {call}")
        for found in self._truth.attachments():
            if found.held and found.whole.spec.source.persistent_volume_name == name:
                self._fail("volume-dropped", f"{name} is released while {found.name} needs it")

    def _touches_only_its_own(self, write: Write, change: StoredChange) -> None:
        assert change.old is not None
        if change.new is None:
            if others := set(change.old.whole()["metadata"].get("finalizers", [])) - {FINALIZER}:
                self._fail("foreign-touched", f"{write.what} removed an object held by {sorted(others)}")
            return
        before, after = change.old.whole(), change.new.whole()
        is_told_late = (
            write.excused or self._was_set_back
        )  # of its own finalizer there: it adds it without a test of the list
        if after["metadata"].get("finalizers", []).count(FINALIZER) > 1 and not is_told_late:
            self._fail("finalizer-twice", f"{write.what} left {after['metadata']['finalizers']}")
        if _is_first_claim(write.body):
            before["metadata"]["finalizers"] = []
        if _of_others(before) != _of_others(after):
            self._fail("foreign-touched", f"{write.what} made {_of_others(after)} of {_of_others(before)}")

    def failed(self, write: Write) -> None:
        """The write was refused, or its answer is lost."""
        if write.change is not None and write.change.new is not None and _confirms(write.body):
            self._unconfirmed.add(write.change.new.uid)

    def was_set_back(self, version: int) -> None:
        """The server is what it was at that version: what an attacher has learnt since is no knowledge any more."""
        self._born = {place: min(born, version) for place, born in self._born.items()}
        self._was_set_back = True
        self._knowledge.forget()
        self.tears.was_set_back(version)

    def born(self, plural: str, name: str) -> int:
        """The version that made the object which has the name now, or had it last."""
        return self._born.get((plural, name), 0)

    def answered(self, write: Write) -> None:
        """The attacher has the answer to its write."""
        if write.change is None:
            torn = any(
                self.tears.excuse(found.handle) for found in self._truth.attachments() if found.name == write.name
            )
            if not write.excused and not torn:
                self._fail("empty-write", f"{write.what} changed nothing")
            return
        old, new = write.change.old, write.change.new
        assert old is not None
        if "attacher" in old.whole()["spec"]:
            after = None if new is None else self._truth.attachment_of(new)
            self._knowledge.written(write.process, self._truth.attachment_of(old), after)


def _is_first_claim(body: Any) -> bool:
    """Adds the finalizer to an attachment that had none when it was read: a merge patch without a version, as
    external-attacher sends it.

    It undoes a finalizer that somebody has added meanwhile; the law puts up with just this one.
    """
    metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
    return metadata.get("finalizers") == [FINALIZER] and "resourceVersion" not in metadata


def _confirms(body: Any) -> bool:
    """The write which says that the status is about this very object, by taking off the annotation that leaves it
    open.
    """
    metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
    annotations = metadata.get("annotations") or {}
    return STATUS_OF_ANNOTATION in annotations and annotations[STATUS_OF_ANNOTATION] is None


def _of_others(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without what the attacher may write."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in ("resourceVersion", "managedFields")}
    meta["finalizers"] = [finalizer for finalizer in meta.get("finalizers", []) if finalizer != FINALIZER]
    meta["annotations"] = {
        name: value for name, value in (meta.get("annotations") or {}).items() if name not in _OUR_ANNOTATIONS
    }
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": meta}
