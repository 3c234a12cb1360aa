"""Owners and dependents: what deletions say, and what follows. On both servers, the real one with its garbage
collector.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import a_job, a_lease, a_node, a_secret, a_va
from tests.support.paths import EVENTS, JOBS, LEASES, NAMESPACES, NODES, SECRETS, VAS
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

Json = dict[str, Any]
HOLD = "example.com/hold"
NO_UID = "11111111-2222-3333-4444-555555555555"
WAIT_S = 60.0


def ref(obj: Json, **fields: Any) -> Json:
    """obj: as a POST answers it."""
    meta = obj["metadata"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"], **fields}


def never(api_version: str = "v1", kind: str = "Secret") -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": "never", "uid": NO_UID}


class Family:
    """Secrets of one test, by short names."""

    def __init__(self, api: Rest, name: str) -> None:
        self.api, self._name = api, name

    def path(self, short: str) -> str:
        return f"{SECRETS}/{self._name}-{short}"

    def make(self, short: str, *owners: Json, **metadata: Any) -> Json:
        labels = {"set": self._name}
        body = a_secret(f"{self._name}-{short}", ownerReferences=list(owners), labels=labels, **metadata)
        return self.api.post(SECRETS, body).ok(201)

    def delete(self, short: str, **options: Any) -> Any:
        return self.api.delete(self.path(short), options or None)

    def release(self, *shorts: str) -> None:
        for short in shorts:
            self.api.patch(self.path(short), {"metadata": {"finalizers": None}}).ok()

    def meta(self, short: str) -> Json:
        found: Json = self.api.get(self.path(short)).ok()["metadata"]
        return found

    def left(self) -> set[str]:
        items = self.api.get(SECRETS, labelSelector=f"set={self._name}").ok()["items"]
        return {item["metadata"]["name"].removeprefix(f"{self._name}-") for item in items}

    def comes_to(self, *shorts: str) -> None:
        """Waits until these are left."""
        eventually(lambda: self.left() == set(shorts), WAIT_S, f"of the family are left: {', '.join(shorts) or 'none'}")

    def is_known(self) -> None:
        """Waits until the garbage collector knows all that were made: it frees only the dependents that it has seen,
        and sees in turn.
        """
        others = self.left()
        self.make("sign", never())
        self.comes_to(*others)


@pytest.fixture
def family(api: Rest, name: str) -> Family:
    return Family(api, name)


# what a deletion says

ANSWERS: dict[str, tuple[Json, int, list[str]]] = {
    "plain": ({}, 200, [HOLD]),
    "background": ({"propagationPolicy": "Background"}, 200, [HOLD]),
    "foreground": ({"propagationPolicy": "Foreground"}, 200, [HOLD, "foregroundDeletion"]),
    "orphan": ({"propagationPolicy": "Orphan"}, 200, [HOLD, "orphan"]),
    "old_orphan": ({"orphanDependents": True}, 200, [HOLD, "orphan"]),
    "old_background": ({"orphanDependents": False}, 202, [HOLD]),
    "dry_foreground": ({"propagationPolicy": "Foreground", "dryRun": ["All"]}, 200, [HOLD, "foregroundDeletion"]),
}


@each_row("row", ANSWERS)
def test_a_policy_is_a_finalizer(api: Rest, name: str, row: str) -> None:
    family = Family(api, name)
    options, status, finalizers = ANSWERS[row]
    family.make("it", finalizers=[HOLD])
    answer = family.delete("it", **options).ok(status)
    assert (finalizers, 0) == (answer["metadata"]["finalizers"], answer["metadata"]["deletionGracePeriodSeconds"])
    assert ("dryRun" in options) is ("deletionTimestamp" not in family.meta("it"))


@each_row(
    ("own", "options", "left"),
    [
        ("orphan", {}, ["orphan"]),
        ("foregroundDeletion", {}, ["foregroundDeletion"]),
        ("orphan", {"propagationPolicy": "Background"}, None),
        ("orphan", {"orphanDependents": False}, None),
        ("orphan", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ("foregroundDeletion", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
    ],
)
def test_an_objects_own_finalizer_is_its_default_policy(
    api: Rest, name: str, own: str, options: Json, left: list[str] | None
) -> None:
    family = Family(api, name)
    family.make("it", finalizers=[own])
    answer = family.delete("it", **options).ok()
    assert left == answer["metadata"].get("finalizers")
    assert ("Status" if left is None else "Secret") == answer["kind"]
    family.comes_to()


def test_the_last_deletions_policy_counts(family: Family) -> None:
    family.make("it", finalizers=[HOLD])
    for policy, finalizers in (("Orphan", [HOLD, "orphan"]), ("Background", [HOLD])):
        assert finalizers == family.delete("it", propagationPolicy=policy).ok()["metadata"]["finalizers"]


def test_policies_stand_in_the_query_too(api: Rest, family: Family) -> None:
    family.make("it")
    answer = api.delete(family.path("it"), propagationPolicy="Foreground").ok()
    assert ["foregroundDeletion"] == answer["metadata"]["finalizers"]
    family.comes_to()


def test_events_own_nothing(api: Rest, name: str) -> None:
    api.post(EVENTS, {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}}).ok(201)
    assert "Status" == api.delete(f"{EVENTS}/{name}", {"propagationPolicy": "Foreground"}).ok()["kind"]
    api.get(f"{EVENTS}/{name}").refused(404, "NotFound")


@each_row("where", ["body", "query"])
def test_a_policy_that_is_none_is_refused(api: Rest, name: str, where: str) -> None:
    family = Family(api, name)
    family.make("it")
    wrong = {"propagationPolicy": "Sideways"}
    answer = api.delete(family.path("it"), wrong) if where == "body" else api.delete(family.path("it"), **wrong)
    answer.refused(422, "Invalid", ("FieldValueNotSupported", "propagationPolicy"))
    both = family.delete("it", propagationPolicy="Orphan", orphanDependents=True)
    both.refused(
        422,
        "Invalid",
        ("FieldValueInvalid", "propagationPolicy"),
        says="orphanDependents and deletionPropagation cannot be both set",
    )
    assert {"it"} == family.left()


# what follows


def test_dependents_go_with_their_owner_and_theirs_with_them(api: Rest, family: Family, name: str) -> None:
    owner = family.make("owner")
    lease = a_lease(name)
    lease["metadata"]["ownerReferences"] = [ref(owner)]
    family.make("grandchild", ref(api.post(LEASES, lease).ok(201)))
    family.delete("owner").ok()
    family.comes_to()
    api.get(f"{LEASES}/{name}").refused(404, "NotFound")


def test_owners_are_meant_by_kind_name_and_uid(family: Family) -> None:
    owner = family.make("owner")
    family.make("good", ref(owner))
    family.make("two", ref(owner), never())
    family.make("held", never(), finalizers=[HOLD])
    family.make("never", never())
    family.make("name", ref(owner, name="other"))
    family.make("kind", ref(owner, apiVersion="coordination.k8s.io/v1", kind="Lease"))
    family.make("unknown", never("example.com/v1", "Thing"), never())
    family.make("version", never("v9"))
    family.comes_to("owner", "good", "two", "held", "unknown", "version")
    eventually(
        lambda: family.meta("two")["ownerReferences"] == [ref(owner)], WAIT_S, "the owner that never was is forgotten"
    )
    assert family.meta("held")["deletionTimestamp"]
    family.release("held")
    family.delete("owner").ok()
    family.comes_to("unknown", "version")


def test_an_owner_counts_until_it_is_gone(family: Family) -> None:
    owner = family.make("owner", finalizers=[HOLD])
    family.make("child", ref(owner))
    family.delete("owner").ok()
    family.make("sign", never())
    family.comes_to("owner", "child")
    family.release("owner")
    family.comes_to()


def test_a_namespace_is_no_place_to_own_from_outside(api: Rest, family: Family, name: str) -> None:
    owner = family.make("owner")
    api.post(VAS, a_va(f"{name}-owned", ownerReferences=[ref(owner)])).ok(201)
    api.post(VAS, a_va(f"{name}-never", ownerReferences=[never()])).ok(201)
    api.post(NAMESPACES, {"metadata": {"name": name}}).ok(201)
    other = f"{NAMESPACES}/{name}/secrets"
    api.post(other, a_secret("child", ownerReferences=[ref(owner)])).ok(201)
    eventually(lambda: api.get(f"{other}/child").status == 404, WAIT_S, "the child in another namespace is gone")

    def warned(namespace: str, about: str) -> list[str]:
        found = api.get(f"{NAMESPACES}/{namespace}/events", fieldSelector=f"involvedObject.name={about}").ok()["items"]
        return [
            event["message"]
            for event in found
            if (event["reason"], event["type"]) == ("OwnerRefInvalidNamespace", "Warning")
        ]

    told = eventually(lambda: warned("default", f"{name}-owned"), WAIT_S, "an event about the attachment")
    uid = owner["metadata"]["uid"]
    assert [f'ownerRef [v1/Secret, namespace: , name: {name}-owner, uid: {uid}] does not exist in namespace ""'] == told
    assert eventually(lambda: warned(name, "child"), WAIT_S, "an event about the child")
    assert [200, 200] == [api.get(f"{VAS}/{name}-{which}").status for which in ("owned", "never")]


def test_an_owner_in_the_foreground_goes_last(family: Family) -> None:
    owner = family.make("owner")
    middle = family.make("middle", ref(owner, blockOwnerDeletion=True))
    family.make("last", ref(middle, blockOwnerDeletion=True), finalizers=[HOLD])
    family.make("other", ref(owner), finalizers=[HOLD])
    family.delete("owner", propagationPolicy="Foreground").ok()
    eventually(
        lambda: all("deletionTimestamp" in family.meta(one) for one in ("last", "other")), WAIT_S, "all are marked"
    )
    assert [["foregroundDeletion"]] * 2 == [family.meta(one)["finalizers"] for one in ("owner", "middle")]
    family.release("last")
    family.comes_to("other")
    family.release("other")


def test_a_dependent_with_another_owner_stays(family: Family) -> None:
    one, two = family.make("one"), family.make("two")
    family.make("child", ref(one, blockOwnerDeletion=True), ref(two))
    family.delete("one", propagationPolicy="Foreground").ok()
    family.comes_to("two", "child")
    assert [ref(two)] == family.meta("child")["ownerReferences"]


def test_an_owner_waits_for_what_is_in_no_namespace_no_longer_than_it_is_there(
    api: Rest, family: Family, name: str
) -> None:
    """The reference leads nowhere, and blocks by its uid all the same."""
    owner = family.make("owner")
    api.post(NODES, a_node(name, ownerReferences=[ref(owner, blockOwnerDeletion=True)])).ok(201)
    family.delete("owner", propagationPolicy="Foreground")
    assert ["foregroundDeletion"] == family.meta("owner")["finalizers"]
    api.delete(f"{NODES}/{name}").ok()
    family.comes_to()


def test_the_dependents_of_a_job_stay(api: Rest, family: Family, name: str) -> None:
    made = api.post(JOBS, a_job(name, suspend=True)).ok(201)
    family.make("child", ref(made))
    family.make("other", ref(made), finalizers=[HOLD])
    family.is_known()
    api.delete(f"{JOBS}/{name}").ok()
    eventually(lambda: api.get(f"{JOBS}/{name}").status == 404, WAIT_S, "the job is gone")
    assert [None, None] == [family.meta(short).get("ownerReferences") for short in ("child", "other")]


def test_those_who_wait_for_each_other_go(api: Rest, family: Family) -> None:
    one = family.make("one")
    two = family.make("two", ref(one, blockOwnerDeletion=True))
    api.patch(family.path("one"), {"metadata": {"ownerReferences": [ref(two, blockOwnerDeletion=True)]}}).ok()
    family.delete("one", propagationPolicy="Foreground").ok()
    family.comes_to()


def test_orphans_are_left_without_a_reference(family: Family) -> None:
    one, two = family.make("one"), family.make("two")
    family.make("child", ref(one))
    family.make("half", ref(one), ref(two))
    family.is_known()
    family.delete("one", propagationPolicy="Orphan").ok()
    family.comes_to("two", "child", "half")
    assert (None, [ref(two)]) == (family.meta("child").get("ownerReferences"), family.meta("half")["ownerReferences"])


def test_objects_in_namespaces_may_belong_to_the_cluster(api: Rest, family: Family, name: str) -> None:
    node = api.post(NODES, a_node(name)).ok(201)
    family.make("child", ref(node))
    family.make("sign", never())
    family.comes_to("child")
    api.delete(f"{NODES}/{name}").ok()
    family.comes_to()


# collections


def selected(name: str) -> str:
    return f"set={name}"


def test_a_deleted_collection_is_told_as_it_was(api: Rest, family: Family, name: str) -> None:
    family.make("a")
    family.make("b", finalizers=[HOLD])
    found = api.delete(SECRETS, {"propagationPolicy": "Orphan"}, labelSelector=selected(name)).ok()
    assert "SecretList" == found["kind"]
    assert [None, [HOLD]] == [item["metadata"].get("finalizers") for item in found["items"]]
    assert not any("deletionTimestamp" in item["metadata"] for item in found["items"])
    family.comes_to("b")
    assert family.meta("b")["deletionTimestamp"]
    family.release("b")


def test_of_a_collection_one_page_may_be_deleted(api: Rest, family: Family, name: str) -> None:
    for short in "abc":
        family.make(short)
    found = api.delete(SECRETS, labelSelector=selected(name), limit=2).ok()
    assert [f"{name}-a", f"{name}-b"] == [item["metadata"]["name"] for item in found["items"]]
    assert found["metadata"]["continue"]
    assert {"c"} == family.left()


@each_row("where", ["body", "query"])
def test_a_dry_run_deletes_no_collection(api: Rest, name: str, where: str) -> None:
    family = Family(api, name)
    family.make("a")
    body, query = ({"dryRun": ["All"]}, {}) if where == "body" else (None, {"dryRun": "All"})
    assert 1 == len(api.delete(SECRETS, body, labelSelector=selected(name), **query).ok()["items"])
    assert {"a"} == family.left()


def test_preconditions_hold_for_each_of_a_collection(api: Rest, family: Family, name: str) -> None:
    family.make("a")
    answer = api.delete(SECRETS, {"preconditions": {"uid": NO_UID}}, labelSelector=selected(name))
    answer.refused(409, "Conflict", says=f"the UID in the precondition ({NO_UID}) does not match the UID in record")
    assert {"a"} == family.left()


COLLECTION_REFUSALS: dict[str, tuple[Json | None, Json, int, str]] = {
    "policy": ({"propagationPolicy": "x"}, {}, 422, "Invalid"),
    "labels": (None, {"labelSelector": "a b"}, 400, "BadRequest"),
    "field": (None, {"fieldSelector": "data=x"}, 400, "BadRequest"),
    "limit": (None, {"limit": "x"}, 400, "BadRequest"),
    "match": (None, {"resourceVersionMatch": "Exact"}, 422, "Invalid"),
    "initial_events": (None, {"sendInitialEvents": "true"}, 422, "Invalid"),
}


@each_row("row", COLLECTION_REFUSALS)
def test_a_collection_is_selected_as_a_list_is(api: Rest, name: str, row: str) -> None:
    family = Family(api, name)
    body, query, status, reason = COLLECTION_REFUSALS[row]
    family.make("a")
    api.delete(SECRETS, body, **{"labelSelector": selected(name), **query}).refused(status, reason)
    assert {"a"} == family.left()
