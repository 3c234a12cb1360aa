"""What must hold at every step of a life of claims, judged on the truth.

| law              | broken when                                                                                     |
|------------------|-------------------------------------------------------------------------------------------------|
| create-unwritten | a volume is created, and no stored intent is about this very request: a crash leaks it          |
| made-again       | a volume is created that an earlier process has stored, and deleted with its object, though no |
|                  | intent says that the claim's own volume is deleted, and another call may have made one         |
| two-volumes      | a claim has two PersistentVolumes                                                               |
| deleted-imported | a volume is deleted that somebody has imported by hand, and the provisioner was shown           |
| dying-stored     | a PersistentVolume is made of a volume whose deletion was begun                                 |
| bound-twice      | a bound PersistentVolume, or claim, is bound to another                                         |
| deleted-attached | a volume is deleted while an attachment names it that the provisioner has been shown            |
| deleted-wanted   | a volume is deleted whose claim is there and bound to it                                        |
| deleted-in-use   | a volume is deleted whose PersistentVolume was never released                                   |
| deleted-kept     | a volume is deleted that is to be retained, or whose object was taken away to keep it           |
| overlap          | two calls are in flight for one volume                                                          |
| hot-loop         | one thing is done too often                                                                     |
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.model.intent import ClaimIntents, OwnVolume
from mooring.sidecars.provisioner.model.orders import request_text
from tests.sim.laws import PER_SECOND_MAX
from tests.sim.provisioning.backend import VolumeBackend
from tests.sim.provisioning.plan import CLAIMS_MAX, FOREIGN, IMPORTED, PLACE, RESTORED, is_foreign, is_imported
from tests.sim.provisioning.undone import Undone
from tests.sim.server import LATE
from tests.sim.truth import Truth


@dataclasses.dataclass(frozen=True, slots=True)
class InFlight:
    """A call at work. name: of its volume, "" where nobody can know it. handle: of a deletion, "" for a creation."""

    process: int
    name: str
    handle: str = ""

    def is_about_the_same(self, other: InFlight) -> bool:
        if self.process != other.process:
            return False
        if self.handle and other.handle:
            return self.handle == other.handle
        return self.name != "" and self.name == other.name


class Laws:
    """kept: handles of volumes whose object went while it was to be retained. doomed: those whose deletion was begun,
    rightly.

    over: names of volumes that were deleted for their objects, and by whom. imported: handle -> version of the object
    that was written by hand. spoilt: names of volumes whose intents somebody has spoilt, and who held the journal then.
    damaged: of those whose claimRef is being damaged. freed: names of volumes that a hand took from their claims: a
    claim that waits may get one while its own is being made. taken_over: names that somebody gave to an object of this
    driver: it passes for the claim's own, or may be about the same volume, which is left alone; external-provisioner
    leaves it, too. fail: called with the law's name and what broke it.
    """

    def __init__(self, truth: Truth, backend: VolumeBackend, fail: Callable[[str, str], None]) -> None:
        self._truth, self._backend, self._fail = truth, backend, fail
        self._in_flight: set[InFlight] = set()
        self._recent: dict[tuple[int, str], deque[float]] = defaultdict(deque)
        self.kept: set[str] = set()
        self.doomed: set[str] = set()
        self.over: dict[str, int] = {}
        self.imported: dict[str, int] = {}
        self.spoilt: dict[str, str] = {}
        self.damaged: set[str] = set()
        self.damaged_ever = False
        self.freed: set[str] = set()
        self.taken_over: set[str] = set()
        self.later: set[str] = set()
        self.torn: set[str] = set()
        self.undone = Undone()
        self.shown: Callable[[int, str], int] = lambda process, plural: 0
        """Up to which version of a kind a provisioner had been shown everything before this moment."""
        self.counts: Counter[str] = Counter()
        self._pages: dict[bytes, tuple[int, list[ClaimIntents]]] = {}

    def done(self, process: int, what: str, at_s: float) -> None:
        recent = self._recent[process, what]
        recent.append(at_s)
        while recent[0] < at_s - 1.0:
            recent.popleft()
        users = (
            CLAIMS_MAX if what.startswith("get secrets") else 4 if "leases" in what else 1
        )  # (all claims share a page of the journal)
        if (
            len(recent) > PER_SECOND_MAX * users and "events" not in what and not what.startswith("list")
        ):  # one request a page
            self._fail("hot-loop", f"{what}: {len(recent)} times in a second")

    def intents(self) -> list[ClaimIntents]:
        """As they are stored, on the pages that count."""
        pages = {name: self._page(body) for name, body in self._truth.bodies(LEASES).items()}
        count = (
            pages.get(PLACE.page_name(0), (0, ()))[0] or lease_codec.PAGES_MAX
        )  # without the first page all are read
        names = [PLACE.page_name(number) for number in range(count)]
        return [intent for name in names if name in pages for intent in pages[name][1]]

    def _page(self, body: bytes) -> tuple[int, list[ClaimIntents]]:
        """How many pages there are, if it says so, and what can be read on it; unpacked once for all who ask."""
        if (known := self._pages.get(body)) is None:
            lease = msgspec.json.decode(body)
            known = self._pages[body] = lease_codec.count_of(lease), readable(lease)
        return known

    # -- calls

    def create_begins(self, process: int, request: csi.CreateVolumeRequest) -> InFlight:
        """Gives what is in flight now, for `call_ends`."""
        name = request.name
        call = self._begins(InFlight(process, name))
        written = [intent for intent in self.intents() if intent.volume_name == name]
        if self.over.get(name, process) != process and not any(
            intent.own is OwnVolume.DELETED for intent in written
        ):  # whose cache shows the claim for a while longer, may try; the next one must not
            self._fail("made-again", f"{name} is created, it was stored and deleted by another process before")
        text = _without_secrets(request)
        is_written = any(intent.last.request == text for intent in written)
        if not is_written and name not in self.spoilt and not self.undone.may_call(name):
            self._fail("create-unwritten", f"{name} is created, no intent says so: {text}")
        return call

    def delete_begins(self, process: int, name: str, handle: str) -> InFlight:
        """Gives what is in flight now, for `call_ends`.

        Two deletions overlap where they are about one handle: of one name there may be a volume in each account. That a
        creation of its name is about the same volume, the driver alone knows where it has answered with it for another
        name.
        """
        objects = {pv.metadata.name for pv in self._of(handle)}
        is_passed_off = (
            handle in self._backend.passed_off and not objects
        )  # and so it is taken for what the driver says it is
        is_known = name in objects if objects else not is_passed_off
        call = self._begins(InFlight(process, name if is_known else "", handle))
        self.doomed.add(handle)
        if self._is_import_shown(process, handle) and not self._of(handle):
            self._fail("deleted-imported", f"{handle} is deleted, it was imported by hand")
        if handle in self.kept and not is_passed_off:
            self._fail("deleted-kept", f"{handle} is deleted, its object was taken away to keep it")
        is_unaware = self.undone.at_all and self.shown(process, "persistentvolumes") <= 0
        for pv in () if is_unaware else self._of(handle):
            pv_name, ref = pv.metadata.name, pv.spec.claim_ref
            if (
                pv_name == name
            ):  # of another claim's object, which has got somebody's volume, nothing follows for the claim of this name
                self.over[name] = process
            known = int(pv.metadata.resource_version) <= self.shown(process, "persistentvolumes")
            if pv.status.phase != "Released":
                self._fail("deleted-in-use", f"{handle} is deleted, {pv_name} is {pv.status.phase}")
            if known and pv.spec.persistent_volume_reclaim_policy != "Delete":
                self._fail(
                    "deleted-kept", f"{handle} is deleted, {pv_name} says {pv.spec.persistent_volume_reclaim_policy}"
                )
            for attachment in self._truth.all(VOLUME_ATTACHMENTS):
                known = int(attachment.metadata.resource_version) <= self.shown(process, "volumeattachments")
                if known and attachment.spec.source.persistent_volume_name == pv_name:
                    self._fail("deleted-attached", f"{handle} is deleted, {attachment.metadata.name} names {pv_name}")
            for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS):
                if ref is not None and claim.metadata.uid == ref.uid and claim.spec.volume_name == pv_name:
                    self._fail("deleted-wanted", f"{handle} is deleted, {claim.metadata.name} is bound to it")
        return call

    def _is_import_shown(self, process: int, handle: str) -> bool:
        return handle in self.imported and self.imported[handle] <= self.shown(process, "persistentvolumes")

    def call_ends(self, call: InFlight) -> None:
        self._in_flight.discard(call)

    def _begins(self, call: InFlight) -> InFlight:
        self.counts["calls"] += 1
        if any(call.is_about_the_same(other) for other in self._in_flight):
            self._fail("overlap", f"two calls for {call.name or call.handle} are in flight")
        self._in_flight.add(call)
        return call

    def _of(self, handle: str) -> list[PersistentVolume]:
        return [pv for pv in self.volumes() if pv.spec.csi is not None and pv.spec.csi.volume_handle == handle]

    def lost_later(self) -> set[str]:
        """Uids of intents of a later version that no page has any more."""
        return set()

    def handles(self) -> set[str]:
        """Those that any PersistentVolume names."""
        return {pv.spec.csi.volume_handle for pv in self._truth.all(PERSISTENT_VOLUMES) if pv.spec.csi is not None}

    def volumes(self) -> list[PersistentVolume]:
        """Ours."""
        return [pv for pv in self._truth.all(PERSISTENT_VOLUMES) if not is_foreign(pv) and not is_imported(pv)]

    def were_undone(self, names: set[str], asked: set[str]) -> None:
        """The API server was set back. names: of volumes of which it may say nothing any more. asked: those whose
        intents are gone.
        """
        self.undone.happened(names, asked, (self.handles() - set(self._backend.volumes)) | self.doomed)
        self.doomed.clear()
        self.over.clear()
        self.kept -= self.handles()

    # -- changes

    def changed(self, resource: Resource, change: StoredChange) -> None:
        """The store has changed. Told of every change, at once."""
        old = None if change.old is None else change.old.whole()
        new = None if change.new is None else change.new.whole()
        if resource.plural == "persistentvolumes":
            labels = (old or new or {})["metadata"].get("labels") or {}
            if IMPORTED in labels and new is not None:
                self.imported.setdefault(new["spec"]["csi"]["volumeHandle"], int(new["metadata"]["resourceVersion"]))
            elif FOREIGN not in labels:
                self._volume_changed(old, new, by_hand=RESTORED in labels)
        elif resource.plural == LEASES.plural and new is not None:
            before = set() if old is None else {intent.volume_name for intent in readable(old)}
            for intent in readable(new):
                if (
                    intent.volume_name not in before
                ):  # begun anew, by one whose cache still shows the claim: whoever finds that ends it
                    self.over.pop(intent.volume_name, None)
        elif resource.plural == "persistentvolumeclaims" and old and new:
            before, after = (obj["spec"].get("volumeName", "") for obj in (old, new))
            if before and before != after:
                self._fail("bound-twice", f"claim {new['metadata']['name']} was bound to {before}, now to {after!r}")

    def _volume_changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None, *, by_hand: bool) -> None:
        if old is None and new is not None:
            if by_hand:
                self.kept.discard(new["spec"]["csi"]["volumeHandle"])
            else:
                self._volume_made(new)
        elif old is not None and new is None:
            if old["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
                # what was written by hand while the creation was open may never have been shown to a provisioner
                (self.torn if by_hand else self.kept).add(old["spec"]["csi"]["volumeHandle"])
        elif old is not None and new is not None:
            before, after = ((obj["spec"].get("claimRef") or {}).get("uid", "") for obj in (old, new))
            is_undone = not after and any(  # its claim has got one that a hand had taken from another
                claim.metadata.uid == before and claim.spec.volume_name in self.freed
                for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS)
            )
            if before and before != after and new["metadata"]["name"] not in self.damaged and not is_undone:
                self._fail("bound-twice", f"{new['metadata']['name']} was of claim {before}, now of {after!r}")

    def _volume_made(self, new: dict[str, Any]) -> None:
        name, uid, handle = new["metadata"]["name"], new["spec"]["claimRef"]["uid"], new["spec"]["csi"]["volumeHandle"]
        self.kept.discard(handle)  # it has an object again
        if LATE.get():
            return  # nobody writes it any more, and its deletion comes with its release
        if (
            handle in self.doomed and name not in self._backend.owed.begun_anew
        ):  # else the page was spoilt that told of its deletion
            self._fail("dying-stored", f"{name} is made of {handle}, whose deletion was begun")
        for pv in self.volumes():
            if pv.metadata.name == name or pv.spec.csi is None or pv.spec.claim_ref is None:
                continue
            if pv.spec.claim_ref.uid == uid and pv.metadata.name not in self.freed:
                self._fail("two-volumes", f"{name} and {pv.metadata.name} are both of claim {uid}")


def readable(lease: dict[str, Any]) -> list[ClaimIntents]:
    """The intents of a page that this version can read."""
    found = []
    with contextlib.suppress(lease_codec.UnreadablePage):
        for text in lease_codec.texts_of(lease).values():
            with contextlib.suppress(lease_codec.UnreadablePage):
                found.append(lease_codec.decoded(text))
    return found


def _without_secrets(request: csi.CreateVolumeRequest) -> str:
    whole = csi.CreateVolumeRequest()
    whole.CopyFrom(request)
    whole.secrets.clear()
    return request_text(whole)
