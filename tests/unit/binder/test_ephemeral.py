"""The claims of pods' ephemeral volumes: B38 to B40."""

from __future__ import annotations

import msgspec

from mooring.cluster.binder import reasons as why
from mooring.cluster.binder.ephemeral.decide import decide_pod
from tests.support.builders import Json, a_claim, a_pod, an_ephemeral_volume, typed
from tests.support.rows import each_row

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-pod", "controller": True}]}
SCRATCH = an_ephemeral_volume()
POD = a_pod("pod", uid="uid-pod", volumes=(SCRATCH,))


def test_B38_a_pod_brings_its_claims() -> None:
    (action,) = decide_pod(typed(POD), lambda _: None).actions
    body = action.body
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "pod",
        "uid": "uid-pod",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert ("pod-scratch", [owner]) == (body["metadata"]["name"], body["metadata"]["ownerReferences"])
    assert ({"l": "1"}, {"a": "2"}) == (body["metadata"]["labels"], body["metadata"]["annotations"])
    assert SCRATCH["ephemeral"]["volumeClaimTemplate"]["spec"] == msgspec.json.decode(msgspec.json.encode(body["spec"]))


def test_B38_a_claim_that_is_there_is_not_made_again() -> None:
    mine = typed(a_claim("pod-scratch", **OWNED))
    assert () == decide_pod(typed(POD), lambda _: mine).actions


@each_row("pod", [{**POD, "metadata": {**POD["metadata"], **DELETED}}, {**POD, "status": {"phase": "Succeeded"}}])
def test_B40_a_pod_that_goes_needs_no_claim(pod: Json) -> None:
    assert () == decide_pod(typed(pod), lambda _: None).actions


def test_B39_a_foreign_claim_of_that_name() -> None:
    wanted = decide_pod(typed(POD), lambda _: typed(a_claim("pod-scratch")))
    text = "ephemeral volume scratch: PVC default/pod-scratch was not created for pod default/pod (pod is not owner)"
    assert why.ForeignClaim(text) == wanted.because == wanted.problem
    assert text == wanted.problem.error
