"""How a pod goes: in its own time, in less, or at once."""

from __future__ import annotations

import datetime

from tests.support.builders import a_pod
from tests.support.paths import PODS
from tests.support.rest import Rest
from tests.support.rows import each_row

HOLD = "example.com/hold"


def seconds_from_now(text: str) -> float:
    return (datetime.datetime.fromisoformat(text) - datetime.datetime.now(datetime.UTC)).total_seconds()


def test_AO36_a_scheduled_pod_is_given_time(api: Rest, name: str) -> None:
    made = api.post(PODS, a_pod(name, nodeName="n")).ok(201)
    path, version = f"{PODS}/{name}", made["metadata"]["resourceVersion"]
    with api.watch(PODS, resourceVersion=version, fieldSelector=f"metadata.name={name}") as watch:
        meta = api.delete(path).ok()["metadata"]
        assert (30, 2) == (meta["deletionGracePeriodSeconds"], meta["generation"])
        assert 20 < seconds_from_now(meta["deletionTimestamp"]) <= 30
        assert meta == api.delete(path).ok()["metadata"]
        assert meta == api.delete(path, gracePeriodSeconds=40).ok()["metadata"]
        shorter = api.delete(path, gracePeriodSeconds=20).ok()["metadata"]
        assert 20 == shorter["deletionGracePeriodSeconds"]
        assert 9 < seconds_from_now(meta["deletionTimestamp"]) - seconds_from_now(shorter["deletionTimestamp"]) < 11
        assert "Pod" == api.delete(path, gracePeriodSeconds=0).ok()["kind"]
        seen = [
            (event["type"], event["object"]["metadata"].get("deletionGracePeriodSeconds")) for event in watch.take(4)
        ]
    assert [("MODIFIED", 30), ("MODIFIED", 20), ("MODIFIED", 0), ("DELETED", 0)] == seen
    api.get(path).refused(404, "NotFound")


@each_row("how", ["unscheduled", "finished", "forced"])
def test_AO36_a_pod_that_nobody_runs_is_marked_and_goes(api: Rest, name: str, how: str) -> None:
    api.post(PODS, a_pod(name, **({} if how == "unscheduled" else {"nodeName": "n"}))).ok(201)
    if how == "finished":
        api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Failed"}}).ok()
    version = api.get(f"{PODS}/{name}").ok()["metadata"]["resourceVersion"]
    with api.watch(PODS, resourceVersion=version, fieldSelector=f"metadata.name={name}") as watch:
        api.delete(f"{PODS}/{name}", gracePeriodSeconds="0" if how == "forced" else None).ok()
        assert ["MODIFIED", "DELETED"] == [event["type"] for event in watch.take(2)]


def test_a_finalizer_holds_a_pod_whose_time_is_over(api: Rest, name: str) -> None:
    body = a_pod(name, nodeName="n")
    body["metadata"]["finalizers"] = [HOLD]
    api.post(PODS, body).ok(201)
    path = f"{PODS}/{name}"
    assert 5 == api.delete(path, gracePeriodSeconds=5).ok()["metadata"]["deletionGracePeriodSeconds"]
    assert 0 == api.delete(path, gracePeriodSeconds=0).ok()["metadata"]["deletionGracePeriodSeconds"]
    assert [HOLD] == api.delete(path).ok()["metadata"]["finalizers"]
    api.patch(path, {"metadata": {"finalizers": None}}).ok()
    api.get(path).refused(404, "NotFound")


def test_a_pod_in_its_grace_waits_without_its_finalizer_too(api: Rest, name: str) -> None:
    body = a_pod(name, nodeName="n")
    body["metadata"]["finalizers"] = [HOLD]
    api.post(PODS, body).ok(201)
    api.delete(f"{PODS}/{name}").ok()
    api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}}).ok()
    assert 30 == api.get(f"{PODS}/{name}").ok()["metadata"]["deletionGracePeriodSeconds"]
    api.delete(f"{PODS}/{name}", gracePeriodSeconds=0).ok()


def test_the_name_of_a_pod_that_is_going_is_taken(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name, nodeName="n")).ok(201)
    api.post(PODS, a_pod(name)).refused(409, "AlreadyExists", says=f'pods "{name}" already exists')
    api.delete(f"{PODS}/{name}").ok()
    api.post(PODS, a_pod(name)).refused(
        409, "AlreadyExists", says=f'object is being deleted: pods "{name}" already exists'
    )
    api.delete(f"{PODS}/{name}", gracePeriodSeconds=0).ok()


def test_a_deleted_collection_gives_each_pod_its_own_time(api: Rest, name: str) -> None:
    labels = {"test": name}
    for suffix, spec in (("bound", {"nodeName": "n"}), ("free", {})):
        body = a_pod(f"{name}-{suffix}", **spec)
        body["metadata"]["labels"] = labels
        api.post(PODS, body).ok(201)
    api.delete(PODS, labelSelector=f"test={name}").ok()
    left = api.get(PODS, labelSelector=f"test={name}").ok()["items"]
    assert [(f"{name}-bound", 30)] == [
        (item["metadata"]["name"], item["metadata"]["deletionGracePeriodSeconds"]) for item in left
    ]
    api.delete(f"{PODS}/{name}-bound", gracePeriodSeconds=0).ok()


@each_row("grace_s", [2**40, 2**34, 2**62])
def test_a_time_may_be_longer_than_any_calendar(api: Rest, name: str, grace_s: int) -> None:
    """The moment is counted in 64 bits of nanoseconds, the grace is kept as it was said."""
    api.post(PODS, a_pod(name, nodeName="n")).ok(201)
    meta = api.delete(f"{PODS}/{name}", gracePeriodSeconds=str(grace_s)).ok()["metadata"]
    assert grace_s == meta["deletionGracePeriodSeconds"]
    wrapped_s = ((grace_s * 10**9 + 2**63) % 2**64 - 2**63) / 10**9
    assert wrapped_s - 10 < seconds_from_now(meta["deletionTimestamp"]) <= wrapped_s
    shorter = api.delete(f"{PODS}/{name}", gracePeriodSeconds=20).ok()["metadata"]
    assert 10 < seconds_from_now(shorter["deletionTimestamp"]) <= 20
