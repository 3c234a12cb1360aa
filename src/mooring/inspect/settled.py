"""Intents that somebody else has fulfilled: the journal says that a volume may be lost, but the volume has its
PersistentVolume.

This happens when the Go provisioner takes over a claim: it makes the volume by the same name, and knows no journal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any

from mooring.api.coordination import LEASES
from mooring.inspect.facts import Inventory, ListedVolume, is_idle
from mooring.inspect.placing import plain
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.errors import ApiError
from mooring.kube.list_all import list_all
from mooring.kube.patch import merge_patch
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.model.intent import ClaimIntents, OwnVolume


def settled(inventory: Inventory, homeless: Iterable[ListedVolume]) -> tuple[ClaimIntents, ...]:
    """The intents of idle journals whose volume is listed, and stored for their claim. Pure.

    homeless: volumes without object. One of them that carries an intent's names may be a surplus one: then it stays
    open. So does one that remembers more than this one request.
    """
    listed = {volume.handle for volume in inventory.volumes}
    ours = [found for found in inventory.objects if found.driver == inventory.driver and found.handle in listed]
    before = {(found.name, found.handle) for found in inventory.objects_before}
    stored = {(found.name, found.claim_uid) for found in ours if (found.name, found.handle) in before}
    texts = [plain("\n".join((volume.handle, *volume.words))) for volume in homeless]
    return tuple(
        intent
        for intent in inventory.intents
        if intent.uid in inventory.idle
        and (intent.volume_name, intent.uid) in stored
        and intent.own in (OwnVolume.NONE, OwnVolume.UNSEEN)
        and not (intent.last.dying_handle or intent.requests[1:])
        and not any(plain(name) in text for name in (intent.volume_name, intent.uid) for text in texts)
    )


async def tidied(
    cluster: Cluster, driver_name: str, uids: Collection[str], wall_s: float
) -> AsyncIterator[tuple[str, str]]:
    """Takes these intents out of their pages; gives each page that had some, with what kept it from that, "" for
    nothing. Raises ApiError.

    Only from pages that are idle still, and only as they were read: a provisioner that begins meanwhile is told so by a
    conflict of ours.
    """
    pages = [page async for page in list_all(cluster, LEASES.whole(), Selection(label_selector=lease_codec.INTENTS))]
    for page in pages:
        if (page["metadata"].get("annotations") or {}).get(lease_codec.DRIVER) == driver_name:
            entries = lease_codec.texts_of(page)
            left = [text for uid, text in entries.items() if uid not in uids]
            if len(left) < len(entries):
                meta = page["metadata"]
                yield f"Lease {meta['namespace']}/{meta['name']}", await _written(cluster, page, left, wall_s)


async def _written(cluster: Cluster, page: Mapping[str, Any], left: Iterable[bytes], wall_s: float) -> str:
    """The reason that it could not be written, "" for none. The time of its last change stays: it says since when
    nobody works here.
    """
    if not is_idle(page, wall_s):
        return "a provisioner has begun to work on it"
    meta = page["metadata"]
    change = {
        "resourceVersion": meta["resourceVersion"],
        "annotations": {lease_codec.INTENTS: lease_codec.packed(left) or None},
    }
    try:
        await cluster.patch(LEASES.whole(), meta["name"], merge_patch({"metadata": change}), meta["namespace"])
    except ApiError as error:
        return str(error)
    return ""
