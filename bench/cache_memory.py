"""What a cached PersistentVolume weighs: `python bench/cache_memory.py [count]`.

Volumes as a CSI provisioner makes them are decoded from pages of 500, as the informer gets them, and put into a Store
with one index. Each variant runs in a process of its own; the figure is the growth of resident memory per volume,
indexes and keys included.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable

import msgspec

from mooring.api.core import PersistentVolume
from mooring.base.randomness import Random
from mooring.kube.cache.interner import Interner
from mooring.kube.cache.store import Store

PAGE = 500


class PageOfVolumes(msgspec.Struct, frozen=True):
    items: tuple[PersistentVolume, ...]


def body_of(randomness: Random, number: int) -> dict[str, object]:
    """A volume of one driver, bound to a claim of one of 40 namespaces, as the API server sends it."""
    uid, claim_uid = randomness.uid(), randomness.uid()
    return {
        "metadata": {
            "name": f"pvc-{claim_uid}",
            "uid": uid,
            "resourceVersion": str(4_000_000 + number),
            "creationTimestamp": f"2026-10-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:00Z",
            "annotations": {
                "pv.kubernetes.io/provisioned-by": "csi.example.com",
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": ["kubernetes.io/pv-protection", "external-attacher/csi-example-com"],
            "managedFields": [
                {
                    "manager": "csi-provisioner",
                    "operation": "Update",
                    "fieldsV1": {"f:spec": {"f:csi": {"f:driver": {}}}},
                }
            ],
        },
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": f"team-{number % 40}",
                "name": f"data-web-{number % 1000}",
                "uid": claim_uid,
                "apiVersion": "v1",
                "resourceVersion": str(3_900_000 + number),
            },
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            "csi": {
                "driver": "csi.example.com",
                "volumeHandle": f"vol-{uuid.UUID(uid).hex}",
                "fsType": "ext4",
                "volumeAttributes": {
                    "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-8081-csi.example.com",
                    "tier": "gold",
                },
            },
        },
        "status": {"phase": "Bound"},
    }


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(count: int, keep: Callable[[PersistentVolume], PersistentVolume]) -> float:
    """Bytes per volume."""
    decoder = msgspec.json.Decoder(PageOfVolumes)
    randomness = Random(1)
    store: Store[PersistentVolume] = Store({"driver": lambda pv: [pv.spec.csi.driver] if pv.spec.csi else []})
    decoder.decode(
        json.dumps({"items": [body_of(Random(2), number) for number in range(PAGE)]})
    )  # what a first page allocates for good
    gc.collect()
    before = resident_bytes()
    for start in range(0, count, PAGE):
        page = json.dumps({"items": [body_of(randomness, number) for number in range(start, start + PAGE)]}).encode()
        for volume in decoder.decode(page).items:
            store.apply(keep(volume))
    gc.collect()
    assert len(store) == count
    return (resident_bytes() - before) / count


VARIANTS: dict[str, Callable[[], Callable[[PersistentVolume], PersistentVolume]]] = {
    "as decoded": lambda: lambda volume: volume,
    "interned and shared": lambda: Interner().shared,
    "the same, without claimRef": lambda: without_claim,
}


def without_claim(volume: PersistentVolume, interner: Interner = Interner()) -> PersistentVolume:  # noqa: B008
    return interner.shared(msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=None)))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    if len(sys.argv) > 2:
        print(f"{measure(count, VARIANTS[sys.argv[2]]()):8.0f} bytes  {sys.argv[2]}")
        return
    print(f"{count} PersistentVolumes, resident memory per volume:", flush=True)
    for variant in VARIANTS:
        subprocess.run([sys.executable, __file__, str(count), variant], check=True)


if __name__ == "__main__":
    main()
