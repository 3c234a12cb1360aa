"""What each write changes of a whole object, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.api.binding import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PRE_RESIZE_CAPACITY,
    PROVISIONER,
    PROVISIONER_BETA,
    SELECTED_NODE,
)
from mooring.cluster.binder import edits
from mooring.control.result import Stale
from tests.support.builders import Json, a_bound_claim, a_claim, a_reference, a_volume, typed
from tests.support.rows import each_row

CLAIM = a_claim(uid="uid-claim", resourceVersion="7")


def edited(body: Json, edit: edits.Edit) -> Json:
    changed = copy.deepcopy({**body, "unknown": {"to": "us"}})
    edit(changed)
    assert {"to": "us"} == changed.pop("unknown")
    return changed


def annotations(body: Json) -> dict[str, str]:
    found: dict[str, str] = body["metadata"].get("annotations") or {}
    return found


@each_row(
    ("before", "ours"), [(None, True), ("claim", False), (CLAIM, False), (a_claim("damaged", uid="uid-claim"), False)]
)
def test_B05_B07_a_volume_says_who_chose_it(before: Any, ours: bool) -> None:
    volume = edited(a_volume(claim=before), edits.claim_volume(typed(CLAIM)))
    assert {**a_reference(CLAIM), "resourceVersion": "7"} == volume["spec"]["claimRef"]
    assert ours is (BOUND_BY_CONTROLLER in annotations(volume))


@each_row("before", ["other", a_claim(uid="uid-before")])
def test_B08_a_volume_of_another_claim_is_not_claimed(before: Any) -> None:
    with pytest.raises(Stale, match="belongs to another claim"):
        edited(a_volume(claim=before), edits.claim_volume(typed(CLAIM)))


def test_B14_a_claim_says_who_chose() -> None:
    assert {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"} == annotations(
        edited(a_claim(), edits.name_volume("pv"))
    )
    assert {BIND_COMPLETED: "yes"} == annotations(edited(a_claim(volume="pv"), edits.name_volume("pv")))


def test_B19_the_status_tells_of_the_volume() -> None:
    pv = typed(a_volume(size="3Gi", modes=("ReadWriteOnce", "ReadOnlyMany"), volumeAttributesClassName="gold"))
    status = edited(a_claim(), edits.mark_claim(pv))["status"]
    modes = ["ReadWriteOnce", "ReadOnlyMany"]
    expected = {
        "phase": "Bound",
        "accessModes": modes,
        "capacity": {"storage": "3Gi"},
        "currentVolumeAttributesClassName": "gold",
    }
    assert expected == status


def test_the_size_of_a_bound_claim_is_left_alone() -> None:
    status = edited(a_bound_claim(), edits.mark_claim(typed(a_volume(size="3Gi", modes=("ReadWriteMany",)))))["status"]
    assert (["ReadWriteMany"], {"storage": "1Gi"}) == (status["accessModes"], status["capacity"])


def test_the_size_before_the_file_system_has_grown() -> None:
    pv = typed(a_volume(size="3Gi", annotations={PRE_RESIZE_CAPACITY: "2Gi"}))
    assert {"storage": "2Gi"} == edited(a_claim(), edits.mark_claim(pv))["status"]["capacity"]


def test_B24_a_lost_claim_tells_of_no_volume() -> None:
    assert {"phase": "Lost"} == edited(a_bound_claim(), edits.set_claim_phase("Lost"))["status"]


def test_B29_B31_given_back() -> None:
    ours = a_volume(claim=CLAIM, annotations={BOUND_BY_CONTROLLER: "yes", "a": "b"})
    free = edited(ours, edits.give_back(whole=True))
    assert (False, {"a": "b"}) == ("claimRef" in free["spec"], annotations(free))
    reserved = edited(a_volume(claim=CLAIM), edits.give_back(whole=False))
    assert (True, "claim") == ("uid" not in reserved["spec"]["claimRef"], reserved["spec"]["claimRef"]["name"])


def test_B18_B21_annotations() -> None:
    assert {PROVISIONER: "p", PROVISIONER_BETA: "p"} == annotations(edited(a_claim(), edits.ask("p")))
    assert {SELECTED_NODE: "n1"} == annotations(edited(a_claim(), edits.select_node("n1")))
    assert {} == annotations(edited(a_claim(selected="n1"), edits.unselect_node))
    assert "sc2" == edited(a_claim(sc=None), edits.set_class("sc2"))["spec"]["storageClassName"]


def test_B33_others_finalizers_stay() -> None:
    body = a_claim(finalizers=["a", "b"])
    assert ["a", "b", "c"] == edited(body, edits.add_finalizer("c"))["metadata"]["finalizers"]
    assert ["b"] == edited(body, edits.remove_finalizer("a"))["metadata"]["finalizers"]


def test_a_phase_takes_the_old_message_away() -> None:
    body = {**a_volume(), "status": {"phase": "Failed", "message": "no"}}
    assert {"phase": "Released"} == edited(body, edits.set_volume_phase("Released"))["status"]
