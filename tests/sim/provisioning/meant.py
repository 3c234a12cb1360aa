"""Laws about what somebody means by a volume, beside the claim that it was made for.

| law           | broken when |
| --- | --- |
| deleted-named | a volume is deleted though an object that is kept, or in use, names it, and was shown |
| orphan-meant  | `mooring orphans` deletes what a PersistentVolume, a claim, an intent or a pod means |
| later-lost    | an intent of a later version is no longer written down |
| source-freed  | the claim that a volume is, or may be, cloned from at this moment is no longer held |
"""

from __future__ import annotations

import contextlib
from typing import Any

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.base.clock import Clock
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.names import CLONE_FINALIZER
from tests.sim.provisioning.laws import InFlight, Laws, readable


class MeantLaws(Laws):
    """later: uids of intents that a later version has written.

    torn: handles of volumes whose object somebody has taken away by force. tearing: while somebody does so with a
    claim. pods_of: names of the PersistentVolumes that a pod uses.
    """

    def __init__(self, clock: Clock, *args: Any) -> None:
        super().__init__(*args)
        self._clock = clock
        self.tearing = False
        self.pods_of: dict[str, set[str]] = {}
        self._born_s: dict[str, float] = {}  # by uid; intents by their volume's name

    def changed(self, resource: Resource, change: StoredChange) -> None:
        super().changed(resource, change)
        if resource.plural == PERSISTENT_VOLUME_CLAIMS.plural and change.old is not None and not self.tearing:
            old, new = change.old.whole()["metadata"], {} if change.new is None else change.new.whole()["metadata"]
            if CLONE_FINALIZER in old.get("finalizers", ()) and CLONE_FINALIZER not in new.get("finalizers", ()):
                self._source_freed(old["name"])
        if change.new is not None and change.old is None:
            self._born_s[change.new.uid] = self._clock.now()
        if resource.plural == LEASES.plural and change.new is not None:
            for intent in readable(change.new.whole()):
                self._born_s.setdefault(intent.volume_name, self._clock.now())
                knew = self.spoilt.pop(intent.volume_name, None)
                if knew is not None and knew != lease_codec.holder_of(
                    change.new.whole()
                ):  # another process has begun it anew
                    self._backend.owed.begun_anew.add(intent.volume_name)

    def _source_freed(self, name: str) -> None:
        """Of an end that is not written down yet the calls have told; whoever can't read an intent knows of no
        source.
        """
        for intent in self.intents():
            source = intent.last.source
            if source is None or not source.is_claim or source.name != name or intent.volume_name in self.spoilt:
                continue
            is_asked = intent.volume_name in self._backend.locks
            if is_asked or (
                self._backend.owed.is_unsure(intent.volume_name) and self._truth.volume(intent.volume_name) is None
            ):
                self._fail(
                    "source-freed", f"{name} is no longer held, {intent.volume_name} may be being cloned from it"
                )

    def delete_begins(self, process: int, name: str, handle: str) -> InFlight:
        call = super().delete_begins(process, name, handle)
        own = self._of(handle)
        for pv in self._truth.all(PERSISTENT_VOLUMES) if own else ():
            is_shown = int(pv.metadata.resource_version) <= self.shown(process, "persistentvolumes")
            is_done_with = pv.status.phase == "Released" and pv.spec.persistent_volume_reclaim_policy == "Delete"
            if is_shown and not is_done_with and pv.spec.csi is not None and pv.spec.csi.volume_handle == handle:
                self._fail(
                    "deleted-named", f"{handle} is deleted, {pv.metadata.name} names it, and is {pv.status.phase}"
                )
        return call

    # -- what others do

    def page_is_spoilt(self, lease: dict[str, Any]) -> None:
        """Nobody can read its intents any more, unless a living provisioner knows them."""
        self.spoilt.update(
            dict.fromkeys((intent.volume_name for intent in readable(lease)), lease_codec.holder_of(lease))
        )
        with contextlib.suppress(lease_codec.UnreadablePage):
            self.later.difference_update(lease_codec.texts_of(lease))

    def lost_later(self) -> set[str]:
        """Uids of intents of a later version that no page has any more."""
        stored: set[str] = set()
        for lease in self._truth.all(LEASES.whole()):
            with contextlib.suppress(lease_codec.UnreadablePage):
                stored.update(lease_codec.texts_of(lease))
        return self.later - stored

    def orphan_goes(self, handle: str, trusted_s: float) -> None:
        """`mooring orphans` is about to delete it, by a look that is so old at the most."""
        name = handle.partition("/")[0]
        meant = [
            f"{pv.metadata.name} names it"
            for pv in self._truth.all(PERSISTENT_VOLUMES)
            if pv.spec.csi is not None
            and pv.spec.csi.volume_handle == handle
            and self._is_old(pv.metadata.uid, trusted_s)
        ]
        for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS):
            means = claim.spec.volume_name == name or (
                not claim.spec.volume_name and name == f"pvc-{claim.metadata.uid}"
            )
            if means and self._is_old(claim.metadata.uid, trusted_s) and self._truth.volume(name) is None:
                meant.append(f"claim {claim.metadata.name} means {name}")
        meant += [
            f"an intent for {name} is open"
            for one in self.intents()
            if one.volume_name == name and self._is_old(name, trusted_s)
        ]
        pods = [pod.metadata.name for pod in self._truth.all(PODS) if name in self.pods_of.get(pod.metadata.name, ())]
        if meant or pods:
            self._fail(
                "orphan-meant", f"{handle} is deleted as an orphan: {'; '.join(meant)}{' of pod '.join(('', *pods))}"
            )
        self.doomed.add(handle)
        self.kept.discard(handle)

    def _is_old(self, uid: str, for_s: float) -> bool:
        return uid in self._born_s and self._clock.now() - self._born_s[uid] > for_s
