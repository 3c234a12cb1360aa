"""Dependents follow their owners: what is decided from the objects alone."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver.controllers.garbage_collector import Collector
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.portions import Portion
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules import CSI_NODES, EVENTS, LEASES, NAMESPACES, NODES, SECRETS, VOLUME_ATTACHMENTS
from mooring.apiserver.store import ObjectStore
from mooring.kube.errors import NotFound
from tests.support.builders import a_csi_node, a_lease, a_node, a_secret, a_va
from tests.unit.apiserver.objects import NOW, a_store, create, patch

Json = dict[str, Any]
HOLD = "example.com/hold"
NEVER = {"apiVersion": "v1", "kind": "Secret", "name": "never", "uid": "11111111-2222-3333-4444-555555555555"}
PORTION = 3


class Cluster:
    """A store that is looked after."""

    def __init__(self, store: ObjectStore | None = None) -> None:
        self.store = store or a_store()
        self.collector = Collector(self.store)

    def settle(self, turns_max: int = 1000) -> int:
        """Lets it do all there is to do. The number of turns that took."""
        turns = 0
        while self.collector.due is not None:
            self.collector.work(NOW + 10, Portion(PORTION))
            turns += 1
            assert turns <= turns_max, "the collector finds no end"
        return turns

    def secret(self, name: str, *owners: Json, namespace: str = "default", **metadata: Any) -> Json:
        return create(self.store, SECRETS, a_secret(name, ownerReferences=list(owners), **metadata), namespace)

    def delete(self, obj: Json, propagation: str = "", resource: Resource = SECRETS) -> None:
        self.store.delete(resource, key_of(obj), NOW + 5, DeleteOptions(propagation=propagation))

    def release(self, obj: Json) -> None:
        patch(self.store, SECRETS, key_of(obj), {"metadata": {"finalizers": None}})

    def deleted(self, obj: Json, propagation: str = "", resource: Resource = SECRETS) -> None:
        self.delete(obj, propagation, resource)
        self.settle()

    def released(self, obj: Json) -> None:
        self.release(obj)
        self.settle()

    def names(self, resource: Resource = SECRETS) -> list[str]:
        return [stored.key.name for stored in self.store.table(resource).items()]

    def meta(self, obj: Json, resource: Resource = SECRETS) -> Json:
        found: Json = self.store.get(resource, key_of(obj)).whole()["metadata"]
        return found


def key_of(obj: Json) -> Key:
    return Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def ref(obj: Json, *, blocking: bool = False) -> Json:
    found = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
    }
    return {**found, "blockOwnerDeletion": True} if blocking else found


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


# in the background


def test_dependents_go_with_their_owner_and_theirs_with_them(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    child = cluster.secret("child", ref(owner))
    cluster.secret("grandchild", ref(child))
    cluster.settle()
    cluster.deleted(owner)
    assert [] == cluster.names()


def test_owners_are_meant_by_uid(cluster: Cluster) -> None:
    first = cluster.secret("owner")
    cluster.delete(first)
    cluster.secret("owner")
    cluster.secret("child", ref(first))
    cluster.settle()
    assert ["owner"] == cluster.names()


@pytest.mark.parametrize(
    "wrong", [{"name": "other"}, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}], ids=["name", "kind"]
)
def test_a_reference_that_fits_in_the_uid_alone_names_nobody(cluster: Cluster, wrong: Json) -> None:
    owner = cluster.secret("owner")
    cluster.secret("child", {**ref(owner), **wrong})
    cluster.settle()
    assert ["owner"] == cluster.names()


def test_of_several_owners_the_living_are_kept(cluster: Cluster) -> None:
    one, two = cluster.secret("one"), cluster.secret("two")
    child = cluster.secret("child", ref(one), NEVER, ref(two))
    cluster.settle()
    assert [ref(one), ref(two)] == cluster.meta(child)["ownerReferences"]
    cluster.deleted(one)
    assert [ref(two)] == cluster.meta(child)["ownerReferences"]
    cluster.deleted(two)
    assert [] == cluster.names()


def test_an_owner_counts_until_it_is_gone(cluster: Cluster) -> None:
    owner = cluster.secret("owner", finalizers=[HOLD])
    child = cluster.secret("child", ref(owner))
    cluster.deleted(owner)
    assert "deletionTimestamp" not in cluster.meta(child)
    cluster.released(owner)
    assert [] == cluster.names()


def test_a_dependents_finalizers_hold_it(cluster: Cluster) -> None:
    child = cluster.secret("child", NEVER, finalizers=[HOLD])
    cluster.settle()
    assert [HOLD] == cluster.meta(child)["finalizers"]
    assert cluster.meta(child)["deletionTimestamp"]


def test_references_may_come_later(cluster: Cluster) -> None:
    child = cluster.secret("child")
    patch(cluster.store, SECRETS, key_of(child), {"metadata": {"ownerReferences": [NEVER]}})
    cluster.settle()
    assert [] == cluster.names()


def test_nodes_take_their_csi_nodes_along(cluster: Cluster) -> None:
    node = create(cluster.store, NODES, a_node("node-1"))
    body = a_csi_node("node-1", [])
    body["metadata"]["ownerReferences"] = [ref(node)]
    create(cluster.store, CSI_NODES, body)
    cluster.settle()
    cluster.deleted(node, resource=NODES)
    assert [] == cluster.names(CSI_NODES)


# what decides nothing


@pytest.mark.parametrize(
    "strange", [{"apiVersion": "example.com/v1", "kind": "Thing"}, {"apiVersion": "v9"}], ids=["kind", "version"]
)
def test_owners_of_kinds_that_are_not_served_keep_everything_as_it_is(cluster: Cluster, strange: Json) -> None:
    child = cluster.secret("child", {**NEVER, **strange}, {**NEVER, "uid": "22222222-2222-3333-4444-555555555555"})
    cluster.settle()
    assert 2 == len(cluster.meta(child)["ownerReferences"])


def test_a_kind_that_comes_makes_its_references_count(cluster: Cluster) -> None:
    cluster.store.withdraw([LEASES])
    cluster.secret("child", {**NEVER, "apiVersion": "coordination.k8s.io/v1", "kind": "Lease"})
    cluster.settle()
    assert ["child"] == cluster.names()
    cluster.store.serve([LEASES])
    cluster.settle()
    assert [] == cluster.names()


def test_an_owner_that_went_with_its_kind_is_gone(cluster: Cluster) -> None:
    owner = create(cluster.store, LEASES, a_lease("owner"), "default")
    cluster.secret("child", ref(owner))
    cluster.settle()
    cluster.delete(owner, resource=LEASES)
    cluster.store.withdraw([LEASES])
    cluster.settle()
    assert [] == cluster.names()


def test_objects_of_the_cluster_cannot_be_owned_by_one_in_a_namespace(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    create(cluster.store, VOLUME_ATTACHMENTS, a_va("child", ownerReferences=[ref(owner)]))
    create(cluster.store, VOLUME_ATTACHMENTS, a_va("orphan", ownerReferences=[NEVER]))
    cluster.settle()
    assert ["child", "orphan"] == cluster.names(VOLUME_ATTACHMENTS)
    (event,) = (stored.whole() for stored in cluster.store.table(EVENTS).items("default"))
    assert ("OwnerRefInvalidNamespace", "child") == (event["reason"], event["involvedObject"]["name"])
    uid = owner["metadata"]["uid"]
    assert (
        f'ownerRef [v1/Secret, namespace: , name: owner, uid: {uid}] does not exist in namespace ""' == event["message"]
    )


def test_owners_in_other_namespaces_are_none(cluster: Cluster) -> None:
    create(cluster.store, NAMESPACES, {"metadata": {"name": "other"}})
    cluster.secret("child", ref(cluster.secret("owner")), namespace="other")
    cluster.settle()
    assert ["owner"] == cluster.names()
    assert ["OwnerRefInvalidNamespace"] == [
        stored.fields["reason"] for stored in cluster.store.table(EVENTS).items("other")
    ]


def test_of_many_owners_in_other_namespaces_the_first_few_are_told(cluster: Cluster) -> None:
    create(cluster.store, NAMESPACES, {"metadata": {"name": "other"}})
    cluster.secret("child", *(ref(cluster.secret(f"owner-{number}")) for number in range(50)), namespace="other")
    cluster.settle()
    told = [stored.whole()["message"] for stored in cluster.store.table(EVENTS).items("other")]
    assert {f"owner-{number}" for number in range(10)} == {text.split("name: ")[1].split(",")[0] for text in told}
    assert "child" not in cluster.names(), "all the same"


@pytest.mark.parametrize(
    ("propagation", "size", "at_once"), [("Background", 10, 30), ("Orphan", 10, 30), ("Background", 50_000, 3)]
)
def test_a_turn_takes_fewer_of_large_objects(cluster: Cluster, propagation: str, size: int, at_once: int) -> None:
    owner = cluster.secret("owner")
    for number in range(100):
        cluster.secret(f"child-{number:03}", ref(owner), annotations={"text": "x" * size})
    cluster.settle()
    cluster.delete(owner, propagation)
    changed: list[str] = []
    cluster.store.on_change(lambda _resource, change: changed.append(change.key.name))
    cluster.collector.work(NOW, Portion())
    assert at_once <= len(changed) < at_once + 10
    cluster.settle()
    assert len(cluster.names()) == (100 if propagation == "Orphan" else 0)


def test_events_do_not_follow_their_owners(cluster: Cluster) -> None:
    body = {"metadata": {"name": "event", "ownerReferences": [NEVER]}, "involvedObject": {"namespace": "default"}}
    create(cluster.store, EVENTS, body, "default")
    cluster.settle()
    assert ["event"] == cluster.names(EVENTS)


# in the foreground


def test_an_owner_waits_for_what_blocks_it(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    blocking = cluster.secret("blocking", ref(owner, blocking=True), finalizers=[HOLD])
    other = cluster.secret("other", ref(owner), finalizers=[HOLD])
    cluster.deleted(owner, "Foreground")
    assert ["foregroundDeletion"] == cluster.meta(owner)["finalizers"]
    assert cluster.meta(blocking)["deletionTimestamp"]
    assert cluster.meta(other)["deletionTimestamp"]
    cluster.released(blocking)
    assert ["other"] == cluster.names(), "it does not block"


def test_a_dependent_that_stops_blocking_lets_its_owner_go(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    child = cluster.secret("child", ref(owner, blocking=True), finalizers=[HOLD])
    cluster.deleted(owner, "Foreground")
    patch(cluster.store, SECRETS, key_of(child), {"metadata": {"ownerReferences": None}})
    cluster.settle()
    assert ["child"] == cluster.names()


def test_a_chain_goes_from_its_end(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    middle = cluster.secret("middle", ref(owner, blocking=True))
    last = cluster.secret("last", ref(middle, blocking=True), finalizers=[HOLD])
    cluster.deleted(owner, "Foreground")
    assert [["foregroundDeletion"], ["foregroundDeletion"]] == [
        cluster.meta(one)["finalizers"] for one in (owner, middle)
    ]
    cluster.released(last)
    assert [] == cluster.names()


def test_those_who_wait_for_each_other_go(cluster: Cluster) -> None:
    one = cluster.secret("one")
    two = cluster.secret("two", ref(one, blocking=True))
    patch(cluster.store, SECRETS, key_of(one), {"metadata": {"ownerReferences": [ref(two, blocking=True)]}})
    cluster.deleted(one, "Foreground")
    assert [] == cluster.names()


def test_a_dependent_with_another_owner_forgets_the_one_that_waits(cluster: Cluster) -> None:
    one, two = cluster.secret("one"), cluster.secret("two")
    child = cluster.secret("child", ref(one, blocking=True), ref(two))
    cluster.deleted(one, "Foreground")
    assert ["child", "two"] == cluster.names()
    assert [ref(two)] == cluster.meta(child)["ownerReferences"]


def test_a_dependent_born_while_its_owner_waits_goes_too(cluster: Cluster) -> None:
    owner = cluster.secret("owner", finalizers=[HOLD])
    cluster.delete(owner, "Foreground")
    cluster.secret("late", ref(owner, blocking=True))
    cluster.settle()
    assert ["owner"] == cluster.names()


def test_a_second_deletion_may_choose_again(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    child = cluster.secret("child", ref(owner, blocking=True), finalizers=[HOLD])
    cluster.deleted(owner, "Foreground")
    cluster.deleted(owner, "Background")
    assert ["child"] == cluster.names()
    assert cluster.meta(child)["deletionTimestamp"]


# orphans


def test_orphans_forget_their_owner_before_it_goes(cluster: Cluster) -> None:
    one, two = cluster.secret("one"), cluster.secret("two")
    children = [cluster.secret(f"child-{number}", ref(one)) for number in range(2 * PORTION + 1)]
    half = cluster.secret("half", ref(one), ref(two))
    cluster.delete(one, "Orphan")
    assert ["orphan"] == cluster.meta(one)["finalizers"]
    cluster.settle()
    assert "one" not in cluster.names()
    assert not any("ownerReferences" in cluster.meta(child) for child in children)
    assert [ref(two)] == cluster.meta(half)["ownerReferences"]


def test_dependents_keep_their_own_policy(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    child = cluster.secret("child", ref(owner), finalizers=["orphan"])
    grandchild = cluster.secret("grandchild", ref(child))
    cluster.deleted(owner)
    assert ["grandchild"] == cluster.names()
    assert "ownerReferences" not in cluster.meta(grandchild)


# from the objects alone


def test_a_new_process_goes_on_where_the_last_one_ended() -> None:
    first = Cluster()
    owner, waiting, orphaning = (first.secret(name) for name in ("owner", "waiting", "orphaning"))
    first.secret("child", ref(owner))
    first.secret("blocking", ref(waiting, blocking=True))
    kept = first.secret("kept", ref(orphaning))
    first.delete(owner)
    first.delete(waiting, "Foreground")
    first.delete(orphaning, "Orphan")
    second = Cluster(first.store)  # (the first one has done nothing yet)
    second.settle()
    assert ["kept"] == second.names()
    assert "ownerReferences" not in second.meta(kept)


def test_work_comes_in_portions(cluster: Cluster) -> None:
    owner = cluster.secret("owner")
    for number in range(10 * PORTION):
        cluster.secret(f"child-{number}", ref(owner, blocking=True))
    cluster.settle()
    cluster.delete(owner, "Foreground")
    assert 10 <= cluster.settle() <= 25
    assert [] == cluster.names()


def test_without_a_collector_a_policy_means_nothing(store: ObjectStore) -> None:
    owner = create(store, SECRETS, a_secret("owner"), "default")
    assert store.delete(SECRETS, key_of(owner), NOW, DeleteOptions(propagation="Foreground")).gone
    with pytest.raises(NotFound):
        store.get(SECRETS, key_of(owner))
