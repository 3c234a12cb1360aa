"""The server's own controllers, run: by the store's changes, in small portions, on the loop's own time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import NAMESPACES, SECRETS
from mooring.api.meta import Key
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.controllers.emptying import ROUND_S
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.rules import LEASES as LEASE_RULES
from mooring.apiserver.rules import SECRETS as SECRET_RULES
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.errors import Invalid, NotFound
from mooring.kube.patch import merge_patch
from tests.support.builders import a_lease, a_secret
from tests.support.virtual_loop import in_virtual_time, run_virtual

pytestmark = in_virtual_time
HOLD = "example.com/hold"
EPOCH_S = 1_780_000_000.0


@contextlib.contextmanager
def a_cluster() -> Iterator[LocalCluster]:
    clock = LoopClock(EPOCH_S)
    store = new_store(Random(1), EPOCH_S)
    housekeeping = Housekeeping(store, clock=clock)
    housekeeping.start()
    try:
        yield LocalCluster(store, clock=clock, randomness=Random(2))
    finally:
        housekeeping.close()


async def exists(cluster: LocalCluster, name: str, namespace: str = "default") -> bool:
    try:
        await cluster.get(SECRETS, name, namespace)
    except NotFound:
        return False
    return True


def ref(obj: Any, kind: str = "Secret") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": obj.metadata.name,
        "uid": obj.metadata.uid,
        "blockOwnerDeletion": True,
    }


async def test_a_change_is_followed_at_once() -> None:
    with a_cluster() as cluster:
        owner = await cluster.create(SECRETS, a_secret("owner"), "default")
        await cluster.create(SECRETS, a_secret("child", ownerReferences=[ref(owner)]), "default")
        await cluster.delete(SECRETS, "owner", "default")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not await exists(cluster, "child")
        assert asyncio.get_running_loop().time() == 0.0


async def test_requests_come_in_between() -> None:
    with a_cluster() as cluster:
        owner = await cluster.create(SECRETS, a_secret("owner"), "default")
        for number in range(500):
            await cluster.create(SECRETS, a_secret(f"child-{number}", ownerReferences=[ref(owner)]), "default")
        await cluster.delete(SECRETS, "owner", "default")
        seen = [len((await cluster.list(SECRETS)).items)]
        while seen[-1]:
            seen.append(len((await cluster.list(SECRETS)).items))
        assert len(seen) > 10, f"a client sees how it goes: {seen}"


async def test_policies_go_through_the_port() -> None:
    with a_cluster() as cluster:
        owner = await cluster.create(SECRETS, a_secret("owner"), "default")
        await cluster.create(SECRETS, a_secret("child", ownerReferences=[ref(owner)], finalizers=[HOLD]), "default")
        await cluster.delete(SECRETS, "owner", "default", propagation="Foreground")
        await asyncio.sleep(1)
        assert (await cluster.get(SECRETS, "child", "default")).metadata.deletion_timestamp
        assert await exists(cluster, "owner")
        with pytest.raises(Invalid, match="propagationPolicy"):
            await cluster.delete(SECRETS, "owner", "default", propagation="Sideways")
        await cluster.delete(SECRETS, "owner", "default", propagation="Background")
        await asyncio.sleep(1)
        assert not await exists(cluster, "owner")


async def test_a_namespace_that_is_held_is_looked_at_again_after_a_change() -> None:
    with a_cluster() as cluster:
        await cluster.create(NAMESPACES, {"metadata": {"name": "space"}})
        await cluster.create(SECRETS, a_secret("held", finalizers=[HOLD, "example.com/other"]), "space")
        await cluster.create(LEASES, a_lease("lease"), "space")
        await cluster.delete(NAMESPACES, "space")
        await cluster.patch(SECRETS, "held", merge_patch({"metadata": {"finalizers": [HOLD]}}), "space")
        await asyncio.sleep(ROUND_S + 0.1)
        space = await cluster.get(NAMESPACES.whole(), "space")
        told = {one["type"]: one["message"] for one in space["status"]["conditions"]}
        assert told["NamespaceFinalizersRemaining"].endswith("remaining: example.com/hold in 1 resource instances")
        await cluster.patch(SECRETS, "held", merge_patch({"metadata": {"finalizers": None}}), "space")
        await asyncio.sleep(0.1)
        with pytest.raises(NotFound):
            await cluster.get(NAMESPACES, "space")


async def test_a_kind_that_comes_is_followed_too() -> None:
    with a_cluster() as cluster:
        cluster.store.withdraw([LEASE_RULES])
        never = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "never", "uid": "x"}
        await cluster.create(SECRETS, a_secret("child", ownerReferences=[never]), "default")
        await asyncio.sleep(1)
        assert await exists(cluster, "child")
        cluster.store.serve([LEASE_RULES])
        await asyncio.sleep(1)
        assert not await exists(cluster, "child")


async def test_a_closed_one_does_nothing() -> None:
    with a_cluster() as cluster:
        owner = await cluster.create(SECRETS, a_secret("owner"), "default")
        await cluster.create(SECRETS, a_secret("child", ownerReferences=[ref(owner)]), "default")
        cluster.store.delete(SECRET_RULES, Key("default", "owner"), EPOCH_S)
    await asyncio.sleep(5)
    assert await exists(cluster, "child")


def test_the_same_seed_lives_the_same_life() -> None:
    async def life() -> list[str]:
        story: list[str] = []
        with a_cluster() as cluster:
            cluster.store.on_change(
                lambda resource, change: story.append(
                    f"{change.rv} {resource.plural} {change.key} {change.new is None}"
                )
            )
            owner = await cluster.create(SECRETS, a_secret("owner"), "default")
            async with asyncio.TaskGroup() as group:
                for number in range(40):
                    body = a_secret(f"child-{number}", ownerReferences=[ref(owner)])
                    group.create_task(cluster.create(SECRETS, body, "default"), name=f"create/{number}")
                group.create_task(cluster.delete(SECRETS, "owner", "default", propagation="Orphan"), name="delete")
            await asyncio.sleep(5)
        return story

    assert run_virtual(life(), seed=7) == run_virtual(life(), seed=7)
    assert run_virtual(life(), seed=7) != run_virtual(life(), seed=8)
