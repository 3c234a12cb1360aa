"""Whose the object is that has the name of a volume's PersistentVolume: rows of (the object, the answer)."""

from __future__ import annotations

from mooring.sidecars.provisioner.claims.decide_after import owner_of
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.outcomes import Save
from tests.support.builders import Json, typed
from tests.support.rows import each_row

INTENT = Intent("u", "ns", "c", "pvc-u", "{}", "{}")
STORED = (Save.STORED, "")
OTHER = (Save.REFUSED, 'PersistentVolume "pvc-u" is there already, and is about another volume')
TAKEN = (Save.TAKEN, 'PersistentVolume "pvc-u" belongs to claim "ns/d" already')
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def an_object(*, uid: str | None = "u", driver: str = "csi.test", source: Json | None = None) -> Json:
    """uid: of the claim that it names, None for no reference."""
    ref = {} if uid is None else {"claimRef": {"namespace": "ns", "name": "c" if uid == "u" else "d", "uid": uid}}
    csi = {"csi": {"driver": driver, "volumeHandle": "id"}}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": "pvc-u"},
        "spec": {**(csi if source is None else source), **ref},
    }


ROWS: dict[str, tuple[Json | None, tuple[Save, str]]] = {
    "gone-again": (None, (Save.LATER, "it was there, and is gone again")),
    "its-own": (an_object(), STORED),
    "of-no-claim": (an_object(uid=None), STORED),
    "of-a-claim-without-uid": (an_object(uid=""), STORED),
    "another-claims": (an_object(uid="v"), TAKEN),
    "another-drivers": (an_object(driver="other"), OTHER),
    "another-drivers-for-another-claim": (an_object(driver="other", uid="v"), OTHER),
    "in-tree-of-another-driver": (an_object(source=EBS), OTHER),
}


@each_row(("found", "owner"), ROWS.values(), ids=ROWS)
def test_the_owner_of_an_object_that_is_there(found: Json | None, owner: tuple[Save, str]):
    assert owner == owner_of(None if found is None else typed(found), INTENT, driver_name="csi.test")


def test_an_in_tree_object_is_its_csi_drivers():
    assert STORED == owner_of(typed(an_object(source=EBS)), INTENT, driver_name="ebs.csi.aws.com")


def test_an_object_that_this_node_can_not_reach_is_about_another_nodes_volume():
    assert OTHER == owner_of(typed(an_object()), INTENT, driver_name="csi.test", is_here=False)


@each_row(
    ("found", "owner"),
    [(None, (Save.REFUSED, "no")), (an_object(), STORED)],
    ids=["refused", "an-earlier-try-was-taken"],
)
def test_a_refused_object_that_is_there_all_the_same(found: Json | None, owner: tuple[Save, str]):
    assert owner == owner_of(None if found is None else typed(found), INTENT, driver_name="csi.test", refused="no")
