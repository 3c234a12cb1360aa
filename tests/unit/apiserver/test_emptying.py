"""Deleted namespaces empty themselves: rounds, conditions, and when the next round comes."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver.controllers.emptying import ROUND_S, Emptier
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.portions import Portion
from mooring.apiserver.rules import EVENTS, LEASES, NAMESPACES, PODS, SECRETS
from mooring.apiserver.store import ObjectStore
from mooring.kube.errors import Forbidden, NotFound
from tests.support.builders import a_lease, a_secret
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, a_store, create, decoded, patch

Json = dict[str, Any]
HOLD, OTHER = "example.com/hold", "example.com/other"
SPACE = Key("", "space")


class Cluster:
    """A store with a namespace, emptied when it is deleted."""

    def __init__(self, store: ObjectStore | None = None) -> None:
        self.store = store or a_store()
        self.now = NOW
        if store is None:
            create(self.store, NAMESPACES, {"metadata": {"name": "space"}})
        self.store.follows_owners = True
        self.emptier = Emptier(self.store)

    def settle(self, count_max: int = 3) -> int:
        """Works as long as something is due now. The number of turns that took."""
        turns = 0
        while self.emptier.due is not None and self.emptier.due <= self.now:
            self.emptier.work(self.now, Portion(count_max))
            turns += 1
            assert turns < 1000, "the rounds find no end"
        return turns

    def secret(self, name: str, *finalizers: str, namespace: str = "space") -> None:
        create(self.store, SECRETS, a_secret(name, finalizers=list(finalizers)), namespace)

    def release(self, name: str, *kept: str) -> None:
        patch(self.store, SECRETS, Key("space", name), {"metadata": {"finalizers": list(kept)}}, now=self.now)

    def delete(self) -> None:
        self.store.delete(NAMESPACES, SPACE, self.now)

    def deleted(self) -> None:
        self.delete()
        self.settle()

    @property
    def is_there(self) -> bool:
        return self.store.table(NAMESPACES).get(SPACE) is not None

    def conditions(self) -> dict[str, tuple[str, str, str]]:
        status = self.store.get(NAMESPACES, SPACE).whole()["status"]
        return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status.get("conditions", [])}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_namespace_goes_with_all_that_it_holds(cluster: Cluster) -> None:
    for number in range(10):
        cluster.secret(f"s{number}")
    cluster.secret("elsewhere", namespace="default")
    create(cluster.store, LEASES, a_lease("lease"), "space")
    create(cluster.store, EVENTS, {"metadata": {"name": "event"}, "involvedObject": {"namespace": "space"}}, "space")
    cluster.delete()
    assert cluster.is_there
    cluster.settle()
    assert not cluster.is_there
    assert [] == [
        stored.key for kind in (SECRETS, LEASES, EVENTS) for stored in cluster.store.table(kind).items("space")
    ]
    assert 1 == len(list(cluster.store.table(SECRETS).items("default")))


def test_what_finalizers_hold_is_told_and_waited_for(cluster: Cluster) -> None:
    cluster.secret("one", HOLD)
    cluster.secret("two", HOLD, OTHER)
    create(cluster.store, LEASES, {**a_lease("lease"), "metadata": {"name": "lease", "finalizers": [OTHER]}}, "space")
    cluster.deleted()
    text = (
        "Some resources are remaining: leases.coordination.k8s.io has 1 resource instances, secrets. has 2 "
        "resource instances"
    )
    assert ("True", "SomeResourcesRemain", text) == cluster.conditions()["NamespaceContentRemaining"]
    text = "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances, "
    text += "example.com/other in 2 resource instances"
    assert ("True", "SomeFinalizersRemain", text) == cluster.conditions()["NamespaceFinalizersRemaining"]
    assert ["False"] * 3 == [
        cluster.conditions()[f"NamespaceDeletion{what}Failure"][0]
        for what in ("Discovery", "GroupVersionParsing", "Content")
    ]
    patch(cluster.store, LEASES, Key("space", "lease"), {"metadata": {"finalizers": None}})
    cluster.release("one")
    cluster.release("two", HOLD)
    cluster.now += ROUND_S
    cluster.settle()
    text = "Some resources are remaining: secrets. has 1 resource instances"
    assert ("True", "SomeResourcesRemain", text) == cluster.conditions()["NamespaceContentRemaining"]
    cluster.release("two")
    cluster.settle()
    assert not cluster.is_there, "the last one's end is not waited for"


def test_nothing_is_done_while_nothing_changes(cluster: Cluster) -> None:
    cluster.secret("one", HOLD)
    cluster.deleted()
    cluster.now += ROUND_S
    cluster.settle()
    version = cluster.store.version
    cluster.now += 1000
    assert cluster.emptier.due is None
    assert 0 == cluster.settle()
    cluster.secret("elsewhere", namespace="default")
    assert cluster.emptier.due is None
    assert version + 1 == cluster.store.version


def test_a_release_during_a_round_is_not_missed(cluster: Cluster) -> None:
    for number in range(6):
        cluster.secret(f"s{number}", HOLD)
    cluster.delete()
    cluster.emptier.work(cluster.now, Portion(4))
    for number in range(6):
        cluster.release(f"s{number}")
    cluster.settle()
    assert not cluster.is_there


def test_a_namespaces_own_finalizers_hold_it_when_it_is_empty(cluster: Cluster) -> None:
    patch(cluster.store, NAMESPACES, SPACE, {"metadata": {"finalizers": [HOLD]}})
    cluster.secret("one")
    cluster.deleted()
    space = cluster.store.get(NAMESPACES, SPACE).whole()
    assert {} == space["spec"]
    assert ("False", "ContentRemoved", "All content successfully removed") == cluster.conditions()[
        "NamespaceContentRemaining"
    ]
    patch(cluster.store, NAMESPACES, SPACE, {"metadata": {"finalizers": None}})
    assert not cluster.is_there


def test_who_finalizes_by_hand_is_obeyed(cluster: Cluster) -> None:
    cluster.secret("one", HOLD)
    cluster.deleted()
    body = decoded(NAMESPACES, {"metadata": {"name": "space"}})
    assert cluster.store.update(NAMESPACES, SPACE, body, NOW, subresource="finalize").gone
    cluster.settle()
    assert not cluster.is_there
    assert cluster.emptier.due is None


def test_a_propagation_policy_inside_does_not_hold_the_namespace(cluster: Cluster) -> None:
    cluster.secret("one", "foregroundDeletion")
    cluster.deleted()
    assert not cluster.is_there


def test_what_waits_for_its_dependents_already_does_not_hold_it_either(cluster: Cluster) -> None:
    cluster.secret("one")
    cluster.store.delete(SECRETS, Key("space", "one"), NOW, DeleteOptions(propagation="Foreground"))
    cluster.deleted()
    assert not cluster.is_there


def test_pods_go_before_everything_else(cluster: Cluster) -> None:
    cluster.secret("one")
    pod = {"metadata": {"name": "pod"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}}
    create(cluster.store, PODS, pod, "space")
    cluster.deleted()
    text = "Some resources are remaining: pods. has 1 resource instances"
    assert ("True", "SomeResourcesRemain", text) == cluster.conditions()["NamespaceContentRemaining"]
    assert cluster.store.get(PODS, Key("space", "pod")).whole()["metadata"]["deletionTimestamp"], "it has its grace"
    assert "deletionTimestamp" not in cluster.store.get(SECRETS, Key("space", "one")).whole()["metadata"]
    cluster.store.delete(PODS, Key("space", "pod"), NOW, DeleteOptions(grace_s=0))
    cluster.settle()
    assert not cluster.is_there


def test_a_change_during_a_round_is_told_after_the_next(cluster: Cluster) -> None:
    cluster.secret("a", HOLD, OTHER)
    cluster.secret("b", HOLD)
    cluster.deleted()
    cluster.now += ROUND_S
    cluster.settle()
    cluster.release("b", HOLD)  # (nothing new: no round)
    patch(cluster.store, SECRETS, Key("space", "b"), {"metadata": {"labels": {"a": "b"}}})
    cluster.now += ROUND_S
    cluster.emptier.work(cluster.now, Portion(1))
    cluster.release("a", HOLD)
    cluster.settle()
    assert OTHER in cluster.conditions()["NamespaceFinalizersRemaining"][2]
    cluster.now += ROUND_S
    cluster.settle()
    assert OTHER not in cluster.conditions()["NamespaceFinalizersRemaining"][2]


def test_a_condition_that_stays_as_it_is_keeps_its_time(cluster: Cluster) -> None:
    cluster.secret("a", HOLD)
    cluster.secret("b", HOLD)
    cluster.deleted()
    first = cluster.store.get(NAMESPACES, SPACE).whole()["status"]["conditions"]
    cluster.now += 60
    cluster.settle()
    cluster.now += 60
    cluster.release("b")
    cluster.settle()
    second = cluster.store.get(NAMESPACES, SPACE).whole()["status"]["conditions"]
    assert first[3]["message"] != second[3]["message"]
    assert [one["lastTransitionTime"] for one in first] == [one["lastTransitionTime"] for one in second]


def test_a_new_process_goes_on_where_the_last_one_ended() -> None:
    first = Cluster()
    for number in range(5):
        first.secret(f"s{number}")
    first.delete()
    first.emptier.work(first.now, Portion(2))
    second = Cluster(first.store)
    second.settle()
    assert not second.is_there


def test_a_kind_that_goes_while_others_are_deleted_stops_nothing(cluster: Cluster) -> None:
    create(cluster.store, LEASES, a_lease("lease"), "space")
    for number in range(5):
        cluster.secret(f"s{number}")
    cluster.delete()
    cluster.emptier.work(cluster.now, Portion(1))
    cluster.store.withdraw([SECRETS])
    cluster.settle()
    assert not cluster.is_there


def test_a_kind_that_is_forgotten_meanwhile_stops_nothing(cluster: Cluster) -> None:
    for number in range(5):
        create(cluster.store, LEASES, a_lease(f"lease-{number}"), "space")
    cluster.delete()
    cluster.emptier.work(cluster.now, Portion(1))
    cluster.store.withdraw([SECRETS])
    cluster.store.drop_table(SECRETS.storage)
    cluster.settle()
    assert not cluster.is_there


def test_nothing_new_comes_into_a_namespace_that_goes(cluster: Cluster) -> None:
    cluster.secret("one", HOLD)
    cluster.delete()
    with pytest.raises(Forbidden, match="because it is being terminated"):
        cluster.secret("two")
    cluster.release("one")
    cluster.settle()
    with pytest.raises(NotFound, match='namespaces "space" not found'):
        cluster.secret("three")


@each_row(("size", "at_once"), [(10, 30), (50_000, 3)])
def test_many_namespaces_share_a_turn_whose_work_is_bounded(size: int, at_once: int) -> None:
    cluster, names = Cluster(), [f"space-{number:02}" for number in range(40)]
    for name in names:
        create(cluster.store, NAMESPACES, {"metadata": {"name": name}})
        for number in range(3):
            create(cluster.store, SECRETS, a_secret(f"s{number}", annotations={"text": "x" * size}), name)
    for name in names:
        cluster.store.delete(NAMESPACES, Key("", name), cluster.now)
    removed: list[Key] = []
    cluster.store.on_change(lambda _resource, change: removed.append(change.key))
    cluster.emptier.work(cluster.now, Portion())
    assert at_once <= len(removed) < at_once + 10
    assert len(removed) == len({key.namespace for key in removed}), "each has a step in turn"
    cluster.settle()
    assert not set(names) & {stored.key.name for stored in cluster.store.table(NAMESPACES).items()}
