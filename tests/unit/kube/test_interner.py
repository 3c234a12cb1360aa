"""Equal parts of cached objects are kept once."""

import json
import pathlib
import subprocess
import sys

import msgspec
import pytest

from mooring.api.core import Node, NodeStatus, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import ObjectMeta
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.api.storage import CSINode, VolumeAttachment
from mooring.kube.cache.interner import Interner

DECODER = msgspec.json.Decoder(PersistentVolume)


def decoded(number: int, **labels: str) -> PersistentVolume:
    body = {
        "metadata": {
            "name": f"pv-{number}",
            "uid": f"uid-{number}",
            "resourceVersion": str(1000 + number),
            "labels": {"app": "database", **labels},
            "annotations": {"pv.kubernetes.io/provisioned-by": "csi.example.com"},
            "finalizers": ["kubernetes.io/pv-protection"],
            "ownerReferences": [{"kind": "Owner", "name": "the-owner"}],
        },
        "spec": {
            "csi": {
                "driver": "csi.example.com",
                "volumeHandle": f"handle-{number}",
                "controllerPublishSecretRef": {"name": "secret", "namespace": "kube-system"},
            },
            "accessModes": ["ReadWriteOnce"],
        },
    }
    return DECODER.decode(json.dumps(body))


def test_equal_parts_become_the_same_objects():
    interner = Interner()
    one, two = interner.shared(decoded(1)), interner.shared(decoded(2))
    assert one.spec.csi.driver is two.spec.csi.driver
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.annotations is two.metadata.annotations
    assert one.metadata.finalizers is two.metadata.finalizers
    assert one.metadata.owner_references is two.metadata.owner_references
    assert one.spec.access_modes is two.spec.access_modes
    assert one.spec.csi.controller_publish_secret_ref is two.spec.csi.controller_publish_secret_ref


def test_different_mappings_share_their_texts():
    interner = Interner()
    one, two = interner.shared(decoded(1, tier="gold")), interner.shared(decoded(2, tier="silver"))
    assert one.metadata.labels != two.metadata.labels
    assert next(iter(one.metadata.labels)) is next(iter(two.metadata.labels))


def test_nobody_can_tell():
    interner = Interner()
    for number in range(3):
        assert decoded(number, n=str(number)) == interner.shared(decoded(number, n=str(number)))


def test_what_is_met_now_and_then_stays_shared_in_a_bounded_table():
    interner = Interner(size_max=50)
    first = interner.shared(decoded(0))
    for number in range(1, 1000):
        interner.shared(decoded(number))
        assert len(interner._young) + len(interner._old) <= 100
    assert interner.shared(decoded(5000)).spec.csi.driver is first.spec.csi.driver


def test_what_is_not_met_again_is_forgotten():
    interner = Interner(size_max=10)
    first = interner.shared(decoded(0, tier="platinum"))
    for number in range(1, 50):
        interner.shared(decoded(number, tier=str(number)))
    assert interner.shared(decoded(0, tier="platinum")).metadata.labels is not first.metadata.labels


def test_numbers_and_truth_values_are_left_alone():
    """1 equals True in Python: sharing the one for the other would change an object."""

    class Mixed(msgspec.Struct, frozen=True):
        metadata: ObjectMeta
        values: tuple[object, ...]
        mapping: dict[str, object]

    interner = Interner()
    interner.shared(Mixed(ObjectMeta(), (1,), {"a": 1}))
    other = interner.shared(Mixed(ObjectMeta(), (True,), {"a": True}))
    assert other.mapping["a"] is True


def test_drivers_of_nodes_share_their_names():
    interner = Interner()
    decoder = msgspec.json.Decoder(CSINode)
    bodies = [
        {"metadata": {"name": f"node{n}"}, "spec": {"drivers": [{"name": "d", "nodeID": f"id{n}"}]}} for n in range(2)
    ]
    nodes = [interner.shared(decoder.decode(json.dumps(body))) for body in bodies]
    assert nodes[0].spec.drivers[0].name is nodes[1].spec.drivers[0].name


def test_an_objects_metadata_is_not_remembered():
    """It has the object's uid: no other is like it."""
    interner = Interner()
    for number in range(100):
        interner.shared(decoded(number))
    assert not [one for one in (*interner._young.values(), *interner._old.values()) if isinstance(one, ObjectMeta)]


def test_what_only_one_object_has_does_not_fill_the_table():
    """Volumes, snapshots and attachments that come and go would hold thousands of handles and references that nobody
    meets again.
    """
    interner = Interner()
    for number in range(100):
        ref = {"namespace": "default", "name": f"claim{number}", "uid": f"uid{number}"}
        spec = {"claimRef": ref, "csi": {"driver": "csi.example.com", "volumeHandle": f"h{number}"}}
        interner.shared(msgspec.convert({"metadata": {"name": f"pv{number}"}, "spec": spec}, PersistentVolume))
        of = {"volumeSnapshotRef": {"name": "s", "uid": f"u{number}"}, "source": {"volumeHandle": f"v{number}"}}
        content = {"metadata": {"name": f"c{number}"}, "spec": of, "status": {"snapshotHandle": f"s{number}"}}
        interner.shared(msgspec.convert(content, VolumeSnapshotContent))
        attachment = {
            "metadata": {"name": f"a{number}"},
            "spec": {"nodeName": "n", "source": {"persistentVolumeName": f"pv{number}"}},
        }
        interner.shared(msgspec.convert(attachment, VolumeAttachment))
    kept = [*interner._young.values(), *interner._old.values()]
    assert {"PersistentVolumeStatus", "VolumeAttachmentStatus"} == {
        type(one).__name__ for one in kept if isinstance(one, msgspec.Struct)
    }


def test_what_a_volume_names_is_one_text_with_what_it_names():
    """Its claim's name and uid, though the reference itself is not remembered."""
    claim = msgspec.convert(
        {"metadata": {"name": "claim-of-one", "uid": "uid-of-one"}, "spec": {}}, PersistentVolumeClaim
    )
    ref = {"name": "claim-of-one!"[:-1], "uid": "uid-of-one!"[:-1]}
    volume = msgspec.convert({"metadata": {"name": "pv"}, "spec": {"claimRef": ref}}, PersistentVolume)
    claim, volume = Interner().shared(claim), Interner().shared(volume)
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.name is claim.metadata.name
    assert volume.spec.claim_ref.uid is claim.metadata.uid


def test_a_nodes_long_lists_do_not_fill_the_table():
    """Its report is new each time, and each has all its volumes."""
    interner = Interner()
    decoder = msgspec.json.Decoder(Node)
    names = [f"kubernetes.io/csi/d^vol-{number}" for number in range(20)]
    for number in range(200):
        status = {
            "volumesInUse": names,
            "volumesAttached": [{"name": name, "devicePath": str(number)} for name in names],
        }
        node = interner.shared(decoder.decode(json.dumps({"metadata": {"name": "n"}, "status": status})))
        assert node.status.volumes_in_use == tuple(names)
    kept = [*interner._young.values(), *interner._old.values()]
    assert not [one for one in kept if isinstance(one, NodeStatus) or (isinstance(one, tuple) and len(one) == 20)]
    first, second = (
        interner.shared(decoder.decode(json.dumps({"metadata": {}, "status": {"volumesInUse": names}})))
        for _ in range(2)
    )
    assert first.status.volumes_in_use[0] is second.status.volumes_in_use[0]


def test_kinds_that_refer_to_each_other_share_names_and_uids():
    """Each cache has an interner of its own."""
    bodies = {
        PersistentVolume: {
            "metadata": {"name": "pv-of-a-claim", "uid": "uid-of-a-volume"},
            "spec": {"claimRef": {"namespace": "shop", "name": "claim-of-a-pod", "uid": "uid-of-a-claim"}},
        },
        PersistentVolumeClaim: {
            "metadata": {"namespace": "shop", "name": "claim-of-a-pod", "uid": "uid-of-a-claim"},
            "spec": {"volumeName": "pv-of-a-claim"},
        },
        VolumeAttachment: {
            "metadata": {"name": "csi-1"},
            "spec": {"source": {"persistentVolumeName": "pv-of-a-claim"}},
        },
    }
    pv, claim, attachment = (
        Interner().shared(msgspec.json.decode(json.dumps(body), type=kind)) for kind, body in bodies.items()
    )
    assert pv.metadata.name is claim.spec.volume_name
    assert pv.metadata.name is attachment.spec.source.persistent_volume_name
    assert (pv.spec.claim_ref.name, pv.spec.claim_ref.uid) == (claim.metadata.name, claim.metadata.uid)
    assert pv.spec.claim_ref.name is claim.metadata.name
    assert pv.spec.claim_ref.uid is claim.metadata.uid


@pytest.mark.slow
def test_a_cached_volume_stays_within_its_budget():
    """20,000 volumes have to fit beside everything else into 100 MiB: 1,600 bytes each at the most."""
    script = pathlib.Path(__file__).parents[3] / "bench" / "cache_memory.py"
    output = subprocess.run(
        [sys.executable, script, "20000", "interned and shared"], check=True, capture_output=True, text=True
    ).stdout
    assert int(output.split()[0]) <= 1600


def test_equal_parts_are_those_of_the_object_that_was_there_before():
    interner = Interner()
    one = interner.shared(decoded(1))
    two = interner.shared(decoded(1, tier="gold"), one)
    assert one.spec is two.spec
    assert one.metadata.annotations is two.metadata.annotations
    assert {"app": "database", "tier": "gold"} == two.metadata.labels
