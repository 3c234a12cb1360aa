"""What others do to the journal of intents: a later version writes into it, somebody edits a page by hand, or deletes
it.
"""

from __future__ import annotations

import msgspec

from mooring.api.coordination import LEASES
from mooring.sidecars.provisioner.intents import lease_codec
from tests.sim.provisioning.archive import ArchiveActs
from tests.sim.provisioning.plan import NAMESPACE, PLACE


class JournalActs(ArchiveActs):
    async def write_later_intent(self) -> None:
        """A later version takes the journal over, and is rolled back: its intents are in a form that this one can't
        read.
        """
        name = PLACE.page_name(0)
        lease = self._truth.get(LEASES.whole(), name, NAMESPACE)
        try:
            texts = {} if lease is None else lease_codec.texts_of(lease)
        except lease_codec.UnreadablePage:
            return
        open_uids = {intent.uid for intent in self._world.laws.intents()}
        waiting = [
            claim.metadata.uid
            for claim in self._claims()
            if not claim.spec.volume_name and claim.metadata.uid not in open_uids
        ]
        self._count += 1
        uid = self._one_of(waiting) if waiting and self._randomness.happens(0.3) else f"later-{self._count}"
        if lease is None or uid in texts or len(self._world.laws.later) >= 2:
            return
        texts[uid] = msgspec.json.encode({"uid": uid, "request": {"form": 2}, "volume": []})
        body = lease_codec.page_body(PLACE, 0, lease, "a later version", texts.values(), self._world.clock.wall_s())
        self._world.laws.later.add(uid)
        await self._do(
            f"write an intent of a later version for {uid}", self._cluster.replace(LEASES.whole(), body, NAMESPACE)
        )

    async def spoil_page(self) -> None:
        """Somebody edits a page by hand, and it can't be read any more; or deletes it."""
        pages = [
            lease for lease in self._truth.all(LEASES.whole()) if lease["metadata"]["name"].startswith(PLACE.label)
        ]
        if not pages:
            return
        lease = self._one_of(pages)
        name = lease["metadata"]["name"]
        self._world.laws.page_is_spoilt(lease)
        if self._randomness.happens(0.5):
            await self._delete(LEASES, name, NAMESPACE)
        else:
            notes = {lease_codec.INTENTS: "1:not what it was"}
            await self._merge(LEASES, name, {"metadata": {"annotations": notes}}, NAMESPACE)
