"""Whose the object is that has the name of a volume's PersistentVolume: rows of (the object, the answer)."""

from __future__ import annotations

from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.claims.decide_after import Owner, owner_of
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Save
from tests.support.builders import Json, typed
from tests.support.rows import each_row

ORDER = Order(Intent("u", "ns", "c", "pvc-u", "{}", "{}"), csi.CreateVolumeRequest())
OTHER = 'PersistentVolume "pvc-u" is there already, and is about another volume'
TAKEN = 'PersistentVolume "pvc-u" belongs to claim "ns/d" already'
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def an_object(
    *, uid: str | None = "u", handle: str = "id", driver: str = "csi.test", source: Json | None = None
) -> Json:
    """uid: of the claim that it names, None for no reference."""
    ref = {} if uid is None else {"claimRef": {"namespace": "ns", "name": "c" if uid == "u" else "d", "uid": uid}}
    csi = {"csi": {"driver": driver, "volumeHandle": handle}}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": "pvc-u"},
        "spec": {**(csi if source is None else source), **ref},
    }


ROWS: dict[str, tuple[Json | None, Owner]] = {
    "gone-again": (None, Owner(Save.LATER, "it was there, and is gone again")),
    "its-own": (an_object(), Owner(Save.STORED)),
    "of-no-claim": (an_object(uid=None), Owner(Save.STORED)),
    "of-a-claim-without-uid": (an_object(uid=""), Owner(Save.STORED)),
    "another-claims": (an_object(uid="v"), Owner(Save.TAKEN, TAKEN)),
    "two-volumes-of-one-name": (an_object(handle="other"), Owner(Save.TAKEN, OTHER, second_volume=True)),
    "another-claims-other-volume": (an_object(uid="v", handle="other"), Owner(Save.REFUSED, OTHER)),
    "another-drivers": (an_object(driver="other"), Owner(Save.REFUSED, OTHER)),
    "another-drivers-for-our-claim": (an_object(driver="other", handle="other"), Owner(Save.REFUSED, OTHER)),
    "in-tree-of-another-driver": (an_object(source=EBS), Owner(Save.REFUSED, OTHER)),
}


@each_row(("found", "owner"), ROWS.values(), ids=ROWS)
def test_the_owner_of_an_object_that_is_there(found: Json | None, owner: Owner):
    assert owner == owner_of(None if found is None else typed(found), ORDER, "id", driver_name="csi.test")


def test_an_in_tree_object_is_its_csi_drivers():
    assert Owner(Save.STORED) == owner_of(typed(an_object(source=EBS)), ORDER, "id", driver_name="ebs.csi.aws.com")


def test_a_volume_of_the_same_name_on_another_node_is_no_second_one():
    assert Owner(Save.REFUSED, OTHER) == owner_of(
        typed(an_object(handle="other")), ORDER, "id", driver_name="csi.test", per_node=True
    )


@each_row(
    ("found", "owner"),
    [(None, Owner(Save.REFUSED, "no")), (an_object(), Owner(Save.STORED))],
    ids=["refused", "an-earlier-try-was-taken"],
)
def test_a_refused_object_that_is_there_all_the_same(found: Json | None, owner: Owner):
    assert owner == owner_of(None if found is None else typed(found), ORDER, "id", driver_name="csi.test", refused="no")
