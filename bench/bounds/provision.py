"""A volume's requests: claim, intents, PersistentVolume, two events."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bench.bounds.requests import DRIVER, Chain, Json, Request, event, path_of, post, uid_of
from bench.claims import a_claim, a_volume
from bench.intents import an_intent
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation, encoded, page_body

VOLUMES_PER_INTENT_WRITE = 20
"""With 500 claims at once, as bench/RESULTS.md has it: 0.05 writes per volume."""


def provision(side: str, tag: str, number: int, *, alone: bool) -> Chain:
    """alone: with a write of intents of its own, as a claim has that comes alone; otherwise one write is for twenty
    volumes.
    """
    return tuple(_provision(side == "Go", tag, number, alone=alone))


def _provision(go: bool, tag: str, number: int, *, alone: bool) -> Iterator[Request]:
    name, component = f"{tag}-{number}", f"{DRIVER}_host_{uid_of(tag)}"
    uid = uid_of(name)
    if not go and number == 0:
        yield post("Lease", _page(tag, 0), keeps="page", stage="prepare", serial="page")
    yield post("PersistentVolumeClaim", a_claim(name, DRIVER), stage="load", shows=name)
    if not go and (alone or number % VOLUMES_PER_INTENT_WRITE == 0):
        page, path = _page(tag, 1 if alone else VOLUMES_PER_INTENT_WRITE), path_of("Lease", f"{tag}-intents")
        yield Request("PUT leases", "PUT", path, msgspec.json.encode(page), keeps="page", serial="page")
    yield post("PersistentVolume", _volume(uid, name), go=go, ends=True, shows=f"pvc-{uid}")
    told = "Provisioning", f'External provisioner is provisioning volume for claim "default/{name}"'
    yield event("PersistentVolumeClaim", name, 0, *told, component, go=go)
    told = "ProvisioningSucceeded", f"Successfully provisioned volume pvc-{uid}"
    yield event("PersistentVolumeClaim", name, 1, *told, component, go=go)


def _volume(uid: str, claim: str) -> Json:
    made = a_volume(claim, DRIVER, {"metadata": {"uid": uid, "resourceVersion": "1000"}})
    secret = "volume.kubernetes.io/provisioner-deletion-secret"
    notes = {"pv.kubernetes.io/provisioned-by": DRIVER, f"{secret}-name": "", f"{secret}-namespace": ""}
    finalizers = ["external-provisioner.volume.kubernetes.io/finalizer"]
    attributes = {
        "storage.kubernetes.io/csiProvisionerIdentity": f"1795724571617-6201-{DRIVER}",
        "backend": "array-1",
        "pool": "gold",
    }
    source = {"driver": DRIVER, "volumeHandle": f"vol-pvc-{uid}", "volumeAttributes": attributes}
    spec = {**made["spec"], "csi": source, "volumeMode": "Filesystem"}
    return {"metadata": {"name": f"pvc-{uid}", "annotations": notes, "finalizers": finalizers}, "spec": spec}


def _page(tag: str, count: int) -> Json:
    """A page of the journal with so many open intents; with none: the new page."""
    before: Json = {"metadata": {"name": f"{tag}-intents", "namespace": "default"}}
    if count:
        before["metadata"] |= {"uid": "@page.uid@", "resourceVersion": "@page.rv@"}
    entries = [encoded(an_intent(uid_of(f"{tag}-{number}"), f"{tag}-{number}")) for number in range(count)]
    return page_body(JournalLocation("default", DRIVER), 0, before, "host", entries, 1795724571.0, count=1)
